"""Hands the state of a plugin that leaves a scheduler over to its successor.

The state is stored on the scheduler as plain values and objects of Dask: the successor may be of
another version, with other classes. Each part of the plugin exports its state (``bequeath``) and
imports it (``inherit``).
"""

import asyncio
import hashlib
import logging
import weakref
from typing import Any, Callable, Dict, Mapping, Optional

from .identity import identity
from .ledger import thin_out as thin_out_ledger

logger = logging.getLogger("distributed.galvo")

# All versions share this attribute, a dict. "reporters" are functions to call with the destination
# of a starting plugin. "left" holds states by destination. "owners" holds the token with which a
# server last accepted reports, by server. "numbers" holds the last numbers of objects by
# destination. Only the format of a state may change; it carries a version number.
ATTRIBUTE, FORMAT = "_galvo_inheritance", 1
MOST_LEFT = 4  # destinations
# The interval at which Dask is checked for forgotten objects, and the number of intervals that
# unsent data is kept.
THINNING_SECONDS, UNSENT_THINNINGS = 60.0, 10

StopReporting = Callable[[str], None]


def destination(settings: Mapping[str, Any]) -> str:
    """Returns a hash that identifies the destination of these settings, and nothing else."""
    server, account = settings.get("server"), settings.get("account")
    # Without an account name, only the same token is known to belong to the same account.
    scope = (server, account, None if account else identity(settings))
    return hashlib.sha256(repr(scope).encode("utf-8", "replace")).hexdigest()


def take_over_state(scheduler: Any, settings: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """Stops the plugins that must report no more, and takes the state for this destination."""
    place, mine = _place(scheduler), destination(settings)
    for stop_reporting in list(place["reporters"]):
        try:
            stop_reporting(mine)
        except Exception:
            logger.warning("Galvo could not stop the previous plugin", exc_info=True)
    state = place["left"].pop(mine, None)
    return state if _is_known(state) else None


def register_reporter(scheduler: Any, stop_reporting: StopReporting) -> None:
    """Registers a function to be called when another plugin starts to report."""
    _place(scheduler)["reporters"].append(stop_reporting)


def unregister_reporter(scheduler: Any, stop_reporting: StopReporting) -> None:
    reporters = _place(scheduler)["reporters"]
    if stop_reporting in reporters:
        reporters.remove(stop_reporting)


def store_state(scheduler: Any, settings: Mapping[str, Any], state: Dict[str, Any]) -> None:
    """Stores the state for a plugin that reports to the same destination."""
    place = _place(scheduler)
    left, mine = place["left"], destination(settings)
    left.pop(mine, None)
    left[mine] = {**state, "format": FORMAT}
    while len(left) > MOST_LEFT:
        del left[next(iter(left))]
    if not place.get("is_thinned"):
        place["is_thinned"] = True
        _thin_out_later(weakref.ref(scheduler))


def thin_out(scheduler: Any, state: Dict[str, Any]) -> None:
    """Removes objects that Dask has forgotten, and data that has waited too long to be sent."""
    thin_out_ledger(state["ledger"], scheduler)
    state["thinnings"] = state.get("thinnings", 0) + 1
    if state["thinnings"] >= UNSENT_THINNINGS:
        state["ledger"]["unsent"] = {}
        # Its minutes of a day are large, too.
        state.get("collectors", {}).pop("FunctionActivity", None)


def note_owner(scheduler: Any, server: str, token: str) -> None:
    """Stores the token with which the server accepts this cluster's reports."""
    place = _place(scheduler)
    if not isinstance(place.get("owners"), dict):
        place["owners"] = {}
    place["owners"][server] = token


def owner(scheduler: Any, server: str) -> Optional[str]:
    """Returns the token with which the server last accepted this cluster's reports; None if
    unknown.
    """
    owners = _place(scheduler).get("owners")
    token = owners.get(server) if isinstance(owners, dict) else None
    return token if isinstance(token, str) else None


def last_numbers(scheduler: Any, settings: Mapping[str, Any]) -> Dict[str, int]:
    """Returns the last numbers of workers and errors for this destination, by their kind.

    They stay on the scheduler, so that a plugin counts on from the one before it.
    """
    place = _place(scheduler)
    if not isinstance(place.get("numbers"), dict):
        place["numbers"] = {}
    known, mine = place["numbers"], destination(settings)
    if not isinstance(known.get(mine), dict):
        known[mine] = {}
    return known[mine]


def _is_known(state: Any) -> bool:
    return isinstance(state, dict) and state.get("format") == FORMAT


def _place(scheduler: Any) -> Dict[str, Any]:
    place = getattr(scheduler, ATTRIBUTE, None)
    if (
        not isinstance(place, dict)
        or not isinstance(place.get("reporters"), list)
        or not isinstance(place.get("left"), dict)
    ):
        place = {"reporters": [], "left": {}}
        setattr(scheduler, ATTRIBUTE, place)
    return place


def _thin_out_later(reference: "weakref.ref[Any]") -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(THINNING_SECONDS, _thin_out_all, reference)


def _thin_out_all(reference: "weakref.ref[Any]") -> None:
    scheduler = reference()
    if scheduler is None:
        return
    place = _place(scheduler)
    status = getattr(scheduler.status, "name", None)
    if not place["left"] or status in ("closing", "closed"):
        place["left"].clear()
        place["is_thinned"] = False
        return
    for mine, state in list(place["left"].items()):
        try:
            if _is_known(state):
                thin_out(scheduler, state)
        except Exception:
            del place["left"][mine]
    _thin_out_later(reference)
