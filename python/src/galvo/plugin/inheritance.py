"""What a plugin that leaves a scheduler tells the one that comes after it.

It lies on the scheduler, as plain values and objects of Dask's own: the plugin that follows may be
of another version, with other classes. Each part of the plugin knows by itself what to tell
(``bequeath``) and how to go on from there (``inherit``).
"""

import asyncio
import hashlib
import logging
import weakref
from typing import Any, Callable, Dict, Mapping, Optional

from .ledger import thin_out as thin_out_ledger

logger = logging.getLogger("distributed.galvo")

# All versions share this attribute, a dict of "reporters", which are called with the destination of
# a plugin that starts, and "left": what was told, by destination. Only what was told may change its
# form, and says which one it has.
ATTRIBUTE, FORMAT = "_galvo_inheritance", 1
MOST_LEFT = 4  # destinations
# How often Dask is asked what it has forgotten, and how long what is unsent waits.
THINNING_SECONDS, UNSENT_THINNINGS = 60.0, 10

Relieve = Callable[[str], None]


def destination(settings: Mapping[str, Any]) -> str:
    """Tells where these settings report to apart from elsewhere, and nothing else of them."""
    server, account = settings["server"], settings.get("account")
    # Without a name of it, only the same token is known to mean the same account.
    told = (server, account, None if account else settings["token"])
    return hashlib.sha256(repr(told).encode("utf-8", "replace")).hexdigest()


def claim(scheduler: Any, settings: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """Relieves plugins that are to report no more, and takes what was told for this destination."""
    place, mine = _place(scheduler), destination(settings)
    for relieve in list(place["reporters"]):
        try:
            relieve(mine)
        except Exception:
            logger.warning("Galvo could not relieve the plugin before", exc_info=True)
    told = place["left"].pop(mine, None)
    return told if _is_known(told) else None


def announce(scheduler: Any, relieve: Relieve) -> None:
    """Wants to be called when another plugin starts to report."""
    _place(scheduler)["reporters"].append(relieve)


def renounce(scheduler: Any, relieve: Relieve) -> None:
    reporters = _place(scheduler)["reporters"]
    if relieve in reporters:
        reporters.remove(relieve)


def leave(scheduler: Any, settings: Mapping[str, Any], told: Dict[str, Any]) -> None:
    """Leaves this for a plugin that reports to the same destination."""
    place = _place(scheduler)
    left, mine = place["left"], destination(settings)
    left.pop(mine, None)
    left[mine] = {**told, "format": FORMAT}
    while len(left) > MOST_LEFT:
        del left[next(iter(left))]
    if not place.get("is_thinned"):
        place["is_thinned"] = True
        _thin_out_later(weakref.ref(scheduler))


def thin_out(scheduler: Any, told: Dict[str, Any]) -> None:
    """Lets go what Dask itself has forgotten, and what has waited for too long to be sent."""
    thin_out_ledger(told["ledger"], scheduler)
    told["thinnings"] = told.get("thinnings", 0) + 1
    if told["thinnings"] >= UNSENT_THINNINGS:
        told["ledger"]["unsent"] = {}


def _is_known(told: Any) -> bool:
    return isinstance(told, dict) and told.get("format") == FORMAT


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
    for mine, told in list(place["left"].items()):
        try:
            if _is_known(told):
                thin_out(scheduler, told)
        except Exception:
            del place["left"][mine]
    _thin_out_later(reference)
