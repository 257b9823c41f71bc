"""Hands the state of a plugin that leaves a scheduler over to its successor.

The state is stored on the scheduler as plain values and objects of Dask: the successor may be of
another version, with other classes. Each part of the plugin exports its state with
``export_state``, and imports it with ``import_state``.
"""

import asyncio
import hashlib
import logging
import weakref
from typing import Any, Callable, Dict, Mapping, Optional

from .identity import identity
from .ledger import remove_forgotten as remove_forgotten_work

logger = logging.getLogger("distributed.galvo")

# All versions share this attribute, a dict. "reporters" are functions to call with the destination
# of a starting plugin. "left" holds states by destination. "owners" holds the token with which a
# server last accepted reports, by server. "numbers" holds the last numbers of objects by
# destination. Only the format of a state may change; it carries a version number.
ATTRIBUTE, FORMAT = "_galvo_inheritance", 1
MOST_STATES = 4  # destinations
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
    shared, own_destination = _shared_state(scheduler), destination(settings)
    for stop_reporting in list(shared["reporters"]):
        try:
            stop_reporting(own_destination)
        except Exception:
            logger.warning("Galvo could not stop the previous plugin", exc_info=True)
    state = shared["left"].pop(own_destination, None)
    return state if _is_known(state) else None


def register_reporter(scheduler: Any, stop_reporting: StopReporting) -> None:
    """Registers a function to be called when another plugin starts to report."""
    _shared_state(scheduler)["reporters"].append(stop_reporting)


def unregister_reporter(scheduler: Any, stop_reporting: StopReporting) -> None:
    reporters = _shared_state(scheduler)["reporters"]
    if stop_reporting in reporters:
        reporters.remove(stop_reporting)


def store_state(scheduler: Any, settings: Mapping[str, Any], state: Dict[str, Any]) -> None:
    """Stores the state for a plugin that reports to the same destination."""
    shared = _shared_state(scheduler)
    states, own_destination = shared["left"], destination(settings)
    states.pop(own_destination, None)
    states[own_destination] = {**state, "format": FORMAT}
    while len(states) > MOST_STATES:
        del states[next(iter(states))]
    if not shared.get("is_thinned"):
        shared["is_thinned"] = True
        _schedule_removal(weakref.ref(scheduler))


def remove_forgotten(scheduler: Any, state: Dict[str, Any]) -> None:
    """Removes objects that Dask has forgotten, and data that has waited too long to be sent."""
    remove_forgotten_work(state["ledger"], scheduler)
    state["thinnings"] = state.get("thinnings", 0) + 1
    if state["thinnings"] >= UNSENT_THINNINGS:
        state["ledger"]["unsent"] = {}
        # Its minutes of a day are large, too.
        state.get("collectors", {}).pop("FunctionActivity", None)


def store_owner_token(scheduler: Any, server: str, token: str) -> None:
    """Stores the token with which the server accepts this cluster's reports."""
    shared = _shared_state(scheduler)
    if not isinstance(shared.get("owners"), dict):
        shared["owners"] = {}
    shared["owners"][server] = token


def owner_token(scheduler: Any, server: str) -> Optional[str]:
    """Returns the token with which the server last accepted this cluster's reports; None if
    unknown.
    """
    owners = _shared_state(scheduler).get("owners")
    token = owners.get(server) if isinstance(owners, dict) else None
    return token if isinstance(token, str) else None


def last_numbers(scheduler: Any, settings: Mapping[str, Any]) -> Dict[str, int]:
    """Returns the last numbers of workers and errors for this destination, by their kind.

    They stay on the scheduler, so that a plugin counts on from the one before it.
    """
    shared = _shared_state(scheduler)
    if not isinstance(shared.get("numbers"), dict):
        shared["numbers"] = {}
    numbers, own_destination = shared["numbers"], destination(settings)
    if not isinstance(numbers.get(own_destination), dict):
        numbers[own_destination] = {}
    return numbers[own_destination]


def _is_known(state: Any) -> bool:
    return isinstance(state, dict) and state.get("format") == FORMAT


def _shared_state(scheduler: Any) -> Dict[str, Any]:
    shared = getattr(scheduler, ATTRIBUTE, None)
    if (
        not isinstance(shared, dict)
        or not isinstance(shared.get("reporters"), list)
        or not isinstance(shared.get("left"), dict)
    ):
        shared = {"reporters": [], "left": {}}
        setattr(scheduler, ATTRIBUTE, shared)
    return shared


def _schedule_removal(reference: "weakref.ref[Any]") -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(THINNING_SECONDS, _remove_from_all_states, reference)


def _remove_from_all_states(reference: "weakref.ref[Any]") -> None:
    scheduler = reference()
    if scheduler is None:
        return
    shared = _shared_state(scheduler)
    status = getattr(scheduler.status, "name", None)
    if not shared["left"] or status in ("closing", "closed"):
        shared["left"].clear()
        shared["is_thinned"] = False
        return
    for own_destination, state in list(shared["left"].items()):
        try:
            if _is_known(state):
                remove_forgotten(scheduler, state)
        except Exception:
            del shared["left"][own_destination]
    _schedule_removal(reference)
