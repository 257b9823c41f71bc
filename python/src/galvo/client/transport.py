"""HTTP: connections, time-outs, and what is tried again."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProxyError,
    SSLError,
)

from galvo.client.errors import NotConfigured, ServerUnreachable
from galvo.plugin import VERSION

CONNECT_SECONDS = 5.0
# The server gives a query 30 seconds unless its operator says otherwise.
ANSWER_SECONDS = 90.0
# An export waits between its pages when other queries need what the token may cost.
EXPORT_SECONDS = 300.0
# How often a connection is tried that cannot be made, and for how long what the server puts off.
CONNECTION_ATTEMPTS = 4
PATIENCE_SECONDS = 60.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 15.0
TOO_MANY, BAD_GATEWAY, UNAVAILABLE = 429, 502, 503


class Transport:
    """Connections to one server, by way of the proxy that the environment names.

    ``HTTP_PROXY``, ``HTTPS_PROXY`` and ``NO_PROXY`` are obeyed, and certificates are verified with
    those of the machine, or those that ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name.
    """

    def __init__(self, address: str):
        self._address = address
        self._pool = _pool(address)

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        repeatable: bool,
        streamed: bool = False,
    ) -> Any:
        """The answer, of whatever status.

        A request that never left, or that the server put off without doing anything, is sent again
        in any case; one of which that is not known only if it is repeatable, so that it does no
        harm when it was done already. Of a streamed answer the body is left to be read.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        attempts = 0
        while True:
            attempts += 1
            try:
                response = self._once(method, path, headers, body, streamed)
            except HTTPError as error:
                again = _never_left(error) or (repeatable and _broke_off(error))
                if not again or attempts >= CONNECTION_ATTEMPTS:
                    raise ServerUnreachable(self._complaint(error)) from None
                pause = _pause(attempts)
            else:
                again = response.status == TOO_MANY or (
                    repeatable and response.status in (BAD_GATEWAY, UNAVAILABLE)
                )
                wanted = _retry_after(response.headers.get("Retry-After"))
                pause = _pause(attempts) if wanted is None else wanted
                if not again or time.monotonic() + pause > deadline:
                    return response
                response.drain_conn()
                response.release_conn()
            time.sleep(pause)

    def close(self) -> None:
        """Closes the connections. The next request makes a new one."""
        self._pool.clear()

    def _once(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        streamed: bool,
    ) -> Any:
        patience = EXPORT_SECONDS if streamed else ANSWER_SECONDS
        return self._pool.request(
            method,
            self._address + path,
            headers={**headers, "User-Agent": "galvo-python/" + VERSION},
            body=body,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=patience),
            preload_content=not streamed,
            retries=False,
            # A redirect would carry the token to a place that nobody configured.
            redirect=False,
        )

    def _complaint(self, error: Exception) -> str:
        if isinstance(error, SSLError):
            return f"the certificate of {self._address} cannot be verified: {error}"
        if isinstance(error, ProxyError):
            return f"the proxy on the way to {self._address} does not work: {error}"
        if isinstance(error, (NewConnectionError, ConnectTimeoutError)):
            return f"there is no connection to {self._address}: is a Galvo server running there?"
        return f"{self._address} does not answer: {error}"


def _pool(address: str) -> Any:
    parts = urlsplit(address)
    options: dict[str, Any] = {"maxsize": 2, "block": False}
    if parts.scheme == "https":
        # Its own context, not one of Python's: with these, older releases take no addresses of IP.
        options["cert_reqs"] = "CERT_REQUIRED"
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc):
        return urllib3.PoolManager(**options)
    if "://" not in proxy:
        proxy = "http://" + proxy
    place = urlsplit(proxy)
    if place.scheme not in ("http", "https"):
        raise NotConfigured(f"proxies of the kind {place.scheme} are not supported")
    if place.username is not None:
        credentials = f"{place.username}:{place.password or ''}"
        options["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=credentials)
        proxy = place._replace(netloc=place.netloc.rpartition("@")[2]).geturl()
    return urllib3.ProxyManager(proxy, **options)


def _never_left(error: HTTPError) -> bool:
    return isinstance(error, (NewConnectionError, ConnectTimeoutError))


def _broke_off(error: HTTPError) -> bool:
    # An answer that took too long would take as long again.
    return isinstance(error, urllib3.exceptions.ProtocolError)


def _pause(attempts: int) -> float:
    """Seconds, twice as long each time and never the same for all clients."""
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempts - 1))
    return random.uniform(longest / 2, longest)


def _retry_after(text: str | None) -> float | None:
    """The seconds that a Retry-After header asks for. Galvo never writes it as a date."""
    if text is None or not text.isdigit():
        return None
    return float(text) + random.uniform(0.0, 0.5)
