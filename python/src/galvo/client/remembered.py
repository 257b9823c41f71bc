"""The registrations of this process, so that it can query their servers without a configuration."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple


class Registration(NamedTuple):
    """The server, the token and the account that a cluster reports with."""

    server: str
    token: str
    account: str | None


class Memory:
    """The last registration of this process, and that of each client that still exists."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Registration | None = None
        # Keyed weakly by the object, so that neither a client nor its token outlives its use.
        self._registration_by_object: weakref.WeakKeyDictionary[Any, Registration] = (
            weakref.WeakKeyDictionary()
        )

    def remember(self, client: Any, settings: Mapping[str, Any]) -> None:
        """Stores the settings of a client's registration, also for its cluster object."""
        registration = Registration(settings["server"], settings["token"], settings["account"])
        with self._lock:
            self._last = registration
            for candidate in (client, getattr(client, "cluster", None)):
                if candidate is not None:
                    self._registration_by_object[candidate] = registration

    def find(self, dask_object: Any) -> Registration | None:
        """Returns the registration of a client or of a cluster object; None if there is none.

        A client is also found by its cluster object.
        """
        for candidate in (dask_object, getattr(dask_object, "cluster", None)):
            try:
                with self._lock:
                    registration = self._registration_by_object.get(candidate)
            except TypeError:  # not hashable or not weakly referable
                continue
            if registration is not None:
                return registration
        return None

    def last(self) -> Registration | None:
        """Returns the latest registration of any client; None if there is none."""
        with self._lock:
            return self._last

    def forget(self) -> None:
        """Removes all registrations."""
        with self._lock:
            self._last = None
            self._registration_by_object.clear()


MEMORY = Memory()


def remember(client: Any, settings: Mapping[str, Any]) -> None:
    """Stores the ``server``, ``token`` and ``account`` of a successful registration."""
    MEMORY.remember(client, settings)


def complete_settings(settings: dict[str, Any], about: Any) -> dict[str, Any]:
    """Returns the settings for a request about a client or a cluster object, or None for any other.

    A request about a registered client goes to the server it was registered with. For all others,
    Dask's configuration applies. The last registration fills in if the configuration has no server
    or, for the same server, no token: a token is never sent to a server that it was not given for.
    """
    registration = None if about is None else MEMORY.find(about)
    if registration is not None:
        return {
            **settings,
            **registration._asdict(),
            "spare_token": _spare_token(settings, registration),
        }
    registration = MEMORY.last()
    if registration is None or (settings["server"] not in (None, registration.server)):
        return settings
    if settings["server"] is not None and settings["token"] is not None:
        return settings
    return {**settings, **registration._asdict()}


def _spare_token(settings: Mapping[str, Any], registration: Registration) -> str | None:
    """Returns the configured token if it is for the same server.

    It may permit reading where the registered one does not.
    """
    is_spare = settings["server"] == registration.server and settings["token"] != registration.token
    return settings["token"] if is_spare else None
