"""Exchanges a token for a scheduler's token: no token with more rights leaves this process."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from galvo.client.errors import RequestRefused
from galvo.client.transport import Transport
from galvo.plugin.exchange import (
    PATH,
    UNKNOWN_STATUS,
    issued_token,
    needs_no_exchange,
    parse_response,
    request_body,
    request_headers,
)
from galvo.plugin.identity import fingerprint, identity

EXCHANGE_SECONDS = 5.0
REFUSALS = {
    401: "galvo.token (DASK_GALVO__TOKEN) is no token of this server",
    "ACCOUNT_MISMATCH": "galvo.account (DASK_GALVO__ACCOUNT), or else coiled.workspace, names"
    " another account than that of galvo.token",
    "MISSING_SCOPE": "galvo.token (DASK_GALVO__TOKEN) needs the scope `ingest`",
    "CONFLICT": "use another token, or wait for a day after tokens of schedulers have ended",
}
SCOPES = json.dumps({"query": "{ viewer { scopes } }"}).encode()


def exchange(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings with a token that the server issued for a scheduler.

    If the server is too old to issue one, the token is used unchanged, provided that it permits
    reports only. Raises only GalvoErrors; the message states why there is no token.
    """
    server, token = settings["server"], settings["token"]
    transport = Transport(server)
    headers = {**request_headers(settings), "Authorization": "Bearer " + token}
    try:
        response = transport.send_once("POST", PATH, headers, request_body(), EXCHANGE_SECONDS)
        status, answer = response.status, parse_response(response.data)
        new_token = issued_token(status, answer)
        if new_token is not None:
            return {**settings, "token": new_token, "exchanged_for": fingerprint(token)}
        if needs_no_exchange(status, answer):
            return {**settings, "exchanged_for": fingerprint(token)}
        if status in UNKNOWN_STATUS:
            response = transport.send_once("POST", "/graphql", headers, SCOPES, EXCHANGE_SECONDS)
            return _use_unchanged_token(settings, response.status, parse_response(response.data))
    finally:
        transport.close()
    raise _refusal(settings, status, answer)


def _use_unchanged_token(
    settings: Mapping[str, Any], status: int, answer: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the settings unchanged if an older server does not let the token read."""
    errors = answer.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else {}
    extensions = first.get("extensions") if isinstance(first, dict) else None
    code = extensions.get("code") if isinstance(extensions, dict) else None
    code = code or answer.get("code")
    if code == "MISSING_SCOPE":
        return {**settings, "exchanged_for": fingerprint(settings["token"])}
    if status == 401 or status >= 500 or status == 429:
        raise _refusal(settings, status, answer)
    message = (
        f"galvo.register: {settings['server']} is too old to exchange the token for one that a"
        " scheduler may have, and this one is good for more than reports: whoever runs code on the"
        " scheduler could use it. Take one with the scope `ingest` alone, or ship this one by name,"
        " with ship_token=True or galvo.ship_token"
    )
    raise RequestRefused(message, ["BROAD_TOKEN"], 403)


def _refusal(settings: Mapping[str, Any], status: int, answer: Mapping[str, Any]) -> RequestRefused:
    code = answer.get("code")
    if not isinstance(code, str):
        code = "UNAUTHENTICATED" if status == 401 else ""
    advice = REFUSALS.get(status) or REFUSALS.get(code) or "galvo.token may not report there"
    reason = f"{status} {answer.get('message')}".replace(settings["token"], "[token]")
    server = settings["server"]
    message = f"galvo.register: {server} gives the scheduler no token ({reason[:300]}): {advice}"
    return RequestRefused(message, [code] if code else [], status)


class Exchanged:
    """The exchanged tokens, by the client whose scheduler received them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Keyed weakly by the client object, so that neither a client nor its token outlives its
        # use.
        self._token_by_client: weakref.WeakKeyDictionary[Any, tuple[Any, str]] = (
            weakref.WeakKeyDictionary()
        )

    def store(self, client: Any, settings: Mapping[str, Any], new_token: Mapping[str, Any]) -> None:
        """Stores the token that the server issued for these settings and this scheduler."""
        with self._lock:
            self._token_by_client[client] = _key(settings), new_token["token"]

    def settings_for(self, client: Any, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the settings with the token stored for these settings; None without one."""
        with self._lock:
            key, token = self._token_by_client.get(client, (None, ""))
        if key != _key(settings):
            return None
        return {**settings, "token": token, "exchanged_for": fingerprint(settings["token"])}

    def forget(self, client: Any) -> None:
        """Removes the token of a client's scheduler."""
        with self._lock:
            self._token_by_client.pop(client, None)


def _key(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    return settings["server"], settings["account"], identity(settings)


EXCHANGED = Exchanged()
