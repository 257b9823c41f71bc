"""Functions that clients run on a scheduler to manage its plugin.

Dask records functions that clients run on a scheduler in events that others can read. So none of
them carries a token or anything else confidential.
"""

import asyncio
import hashlib
from typing import Any, Dict, Mapping, Tuple

from .bundle import reduce_to_source
from .identity import identity

NAME = "galvo"
ABSENT, SAME, DISPLACED = "absent", "same", "displaced"
POLL_SECONDS = 0.02
EXCLUDED_SETTINGS = ("client", "token", "exchanged_for")


def digest(settings: Mapping[str, Any]) -> str:
    """Returns a hash that identifies settings, excluding the client's environment.

    Tokens that were exchanged for the same token count as equal.
    """
    described_settings = sorted(
        (name, repr(value)) for name, value in settings.items() if name not in EXCLUDED_SETTINGS
    )
    described_settings.append(("token", repr(identity(settings))))
    return hashlib.sha256(repr(described_settings).encode("utf-8", "replace")).hexdigest()


class MakeRoom:
    """Removes a plugin with other settings from a scheduler. An identical one stays and retries.

    The removed plugin hands over to its successor, see ``inheritance``.
    """

    def __init__(self, digest_of_settings: str):
        self._digest = digest_of_settings

    def __reduce__(self) -> Tuple[Any, ...]:
        return reduce_to_source("registry", "MakeRoom", self._digest)

    def __call__(self, dask_scheduler: Any) -> str:
        plugin = dask_scheduler.plugins.get(NAME)
        if plugin is None:
            return ABSENT
        if digest(getattr(plugin, "_settings", {})) == self._digest:
            try_again = getattr(plugin, "try_again", None)
            if try_again is not None:
                try_again()
            return SAME
        dask_scheduler.remove_plugin(name=NAME)
        return DISPLACED


class FirstAnswer:
    """Returns the response to the last report, or waits for the first; empty if there is none."""

    # Dask awaits functions that it takes for coroutine functions, and continues with other work
    # meanwhile.
    __tornado_coroutine__ = True

    def __init__(self, seconds: float):
        self._seconds = seconds

    def __reduce__(self) -> Tuple[Any, ...]:
        return reduce_to_source("registry", "FirstAnswer", self._seconds)

    async def __call__(self, dask_scheduler: Any) -> Dict[str, Any]:
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._seconds
        while True:
            plugin = dask_scheduler.plugins.get(NAME)
            verdict = getattr(plugin, "verdict", None)
            if verdict is not None or clock() > deadline:
                return dict(verdict or {})
            await asyncio.sleep(POLL_SECONDS)
