"""HTTP: connections, timeouts and retries."""

from __future__ import annotations

import logging
import random
import threading
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

# Python writes warnings to stderr if logging is not configured.
logger = logging.getLogger("galvo.client")

CONNECT_SECONDS = 5.0
# The server's query timeout is 30 seconds by default.
RESPONSE_SECONDS = 90.0
# Between its pages, an export waits while other queries use up the token's cost quota.
EXPORT_SECONDS = 300.0
# The number of attempts to connect, and the time for which a request that the server cannot answer
# yet is retried.
CONNECTION_ATTEMPTS = 4
RETRY_SECONDS = 60.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 15.0
# A response that takes longer is announced to the user.
NOTICE_SECONDS = 3.0
TOO_MANY_REQUESTS, BAD_GATEWAY, SERVICE_UNAVAILABLE = 429, 502, 503


class Transport:
    """Connections to one server, through the proxy that the environment names.

    It honors ``HTTP_PROXY``, ``HTTPS_PROXY`` and ``NO_PROXY``. It verifies certificates with those
    of the machine, or with those that ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name.
    """

    def __init__(self, address: str):
        self._address = address
        self._pool = _create_pool(address)

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
        """Sends a request, and returns the response with any status.

        A request that did not reach the server, or that the server rate-limited, is sent again. A
        request with an unknown outcome is sent again only if it is repeatable, that is, harmless if
        it was executed already. The body of a streamed response is left unread. Raises
        ServerUnreachable if there is no response.
        """
        # The notice comes from its own thread, because an unresponsive server blocks this one.
        notice = threading.Timer(NOTICE_SECONDS, self._announce_wait)
        notice.daemon = True
        notice.start()
        try:
            return self._send_with_retries(method, path, headers, body, repeatable, streamed)
        finally:
            notice.cancel()

    def _announce_wait(self) -> None:
        logger.warning("waiting for the server %s …", self._address)

    def _send_with_retries(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        repeatable: bool,
        streamed: bool,
    ) -> Any:
        deadline = time.monotonic() + RETRY_SECONDS
        attempts = 0
        while True:
            attempts += 1
            try:
                response = self._send_attempt(method, path, headers, body, streamed)
            except HTTPError as error:
                is_retryable = _was_not_sent(error) or (repeatable and _was_interrupted(error))
                if not is_retryable or attempts >= CONNECTION_ATTEMPTS:
                    raise ServerUnreachable(self._describe_failure(error)) from None
                pause = _retry_delay(attempts)
            else:
                is_retryable = response.status == TOO_MANY_REQUESTS or (
                    repeatable and response.status in (BAD_GATEWAY, SERVICE_UNAVAILABLE)
                )
                retry_after = _parse_retry_after(response.headers.get("Retry-After"))
                pause = _retry_delay(attempts) if retry_after is None else retry_after
                if not is_retryable or time.monotonic() + pause > deadline:
                    return response
                response.drain_conn()
                response.release_conn()
            time.sleep(pause)

    def send_once(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, seconds: float
    ) -> Any:
        """Sends a request once with a timeout, and returns the response with any status.

        Raises ServerUnreachable if there is none.
        """
        try:
            return self._request(method, path, headers, body, urllib3.Timeout(total=seconds))
        except HTTPError as error:
            raise ServerUnreachable(self._describe_failure(error)) from None

    def close(self) -> None:
        """Closes the connections. The next request opens a new one."""
        self._pool.clear()

    def _send_attempt(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        streamed: bool,
    ) -> Any:
        read_timeout = EXPORT_SECONDS if streamed else RESPONSE_SECONDS
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=read_timeout)
        return self._request(method, path, headers, body, timeout, streamed)

    def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: urllib3.Timeout,
        streamed: bool = False,
    ) -> Any:
        return self._pool.request(
            method,
            self._address + path,
            headers={**headers, "User-Agent": "galvo-python/" + VERSION},
            body=body,
            timeout=timeout,
            preload_content=not streamed,
            retries=False,
            # A redirect would send the token to a host that nobody configured.
            redirect=False,
        )

    def _describe_failure(self, error: Exception) -> str:
        if isinstance(error, SSLError):
            return f"the certificate of {self._address} cannot be verified: {error}"
        if isinstance(error, ProxyError):
            return f"the proxy on the way to {self._address} does not work: {error}"
        if isinstance(error, (NewConnectionError, ConnectTimeoutError)):
            return f"there is no connection to {self._address}: is a Galvo server running there?"
        return f"{self._address} does not answer: {error}"


def _create_pool(address: str) -> Any:
    parts = urlsplit(address)
    options: dict[str, Any] = {"maxsize": 2, "block": False}
    if parts.scheme == "https":
        # urllib3's own context is used: with one of Python's, older releases reject IP addresses.
        options["cert_reqs"] = "CERT_REQUIRED"
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc):
        return urllib3.PoolManager(**options)
    if "://" not in proxy:
        proxy = "http://" + proxy
    proxy_url = urlsplit(proxy)
    if proxy_url.scheme not in ("http", "https"):
        raise NotConfigured(f"proxies of the kind {proxy_url.scheme} are not supported")
    if proxy_url.username is not None:
        credentials = f"{proxy_url.username}:{proxy_url.password or ''}"
        options["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=credentials)
        proxy = proxy_url._replace(netloc=proxy_url.netloc.rpartition("@")[2]).geturl()
    return urllib3.ProxyManager(proxy, **options)


def _was_not_sent(error: HTTPError) -> bool:
    return isinstance(error, (NewConnectionError, ConnectTimeoutError))


def _was_interrupted(error: HTTPError) -> bool:
    # A response that timed out would time out again.
    return isinstance(error, urllib3.exceptions.ProtocolError)


def _retry_delay(attempts: int) -> float:
    """Returns the retry delay in seconds: exponential, with jitter so that clients spread out."""
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempts - 1))
    return random.uniform(longest / 2, longest)


def _parse_retry_after(text: str | None) -> float | None:
    """Returns the seconds of a Retry-After header. Galvo never sends a date there."""
    if text is None or not text.isdigit():
        return None
    return float(text) + random.uniform(0.0, 0.5)
