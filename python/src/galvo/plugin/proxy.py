"""Sends reports through a proxy, which tornado's client does not support.

The environment configures it: ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, in
lower or upper case. Only the standard library is used, because a scheduler need not have anything
else.
"""

import asyncio
import base64
import http.client
import queue
import socket
import ssl
import time
from contextlib import suppress
from threading import Thread
from typing import Any, Dict, Mapping, NamedTuple, Optional
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment

LARGEST_RESPONSE = 1_000_000  # bytes


class ProxyResponse(NamedTuple):
    """The parts of tornado's response that are used."""

    code: int
    reason: str
    headers: Any
    body: bytes


def proxy_for(server: Optional[str]) -> Optional[str]:
    """Returns the address of the proxy for a server; None if there is none."""
    if not server:
        return None
    parts = urlsplit(server)
    proxies = getproxies_environment()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass_environment(parts.netloc, proxies):
        return None
    return proxy if "://" in proxy else "http://" + proxy


class ProxyClient:
    """Sends one request at a time, in a daemon thread.

    The thread starts with the first request and persists, because an exiting interpreter starts
    none.
    """

    def __init__(self, proxy: str):
        proxy_url = urlsplit(proxy)
        self._problem = (
            None if proxy_url.scheme == "http" and proxy_url.hostname else proxy_url.scheme
        )
        self._host, self._port = proxy_url.hostname or "", proxy_url.port or 80
        self._headers: Dict[str, str] = {}
        if proxy_url.username is not None:
            credentials = unquote(proxy_url.username) + ":" + unquote(proxy_url.password or "")
            encoded = base64.b64encode(credentials.encode("utf-8")).decode("ascii")
            self._headers["Proxy-Authorization"] = "Basic " + encoded
        self._context: Optional[ssl.SSLContext] = None
        self._requests: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._thread: Optional[Thread] = None
        self._socket: Optional[socket.socket] = None  # of the request in flight

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], connect: float, timeout: float
    ) -> ProxyResponse:
        """Sends a request and returns the response. Cancellation closes the connection."""
        if self._problem is not None:
            raise OSError("proxies of the kind %s are not supported" % self._problem)
        if not self._requests.empty():  # a DNS lookup cannot be interrupted
            raise OSError("earlier requests still wait for the proxy")
        if self._thread is None:
            thread = Thread(target=self._process_requests, daemon=True, name="galvo-proxy")
            thread.start()
            self._thread = thread
        loop = asyncio.get_running_loop()
        response: "asyncio.Future[ProxyResponse]" = loop.create_future()
        self._requests.put((loop, response, (url, body, dict(headers), connect, timeout)))
        try:
            return await response
        finally:
            if not response.done() or response.cancelled():
                self._interrupt()

    def close(self) -> None:
        self._requests.put(None)
        self._interrupt()

    def _interrupt(self) -> None:
        active_socket = self._socket
        if active_socket is not None:
            with suppress(OSError):
                active_socket.shutdown(socket.SHUT_RDWR)

    def _process_requests(self) -> None:
        while True:
            request = self._requests.get()
            if request is None:
                return
            loop, response, arguments = request
            if not response.done():
                try:
                    outcome: Any = self._send(*arguments)
                except Exception as error:
                    outcome = error
                with suppress(RuntimeError):  # the event loop has ended
                    loop.call_soon_threadsafe(_resolve, response, outcome)
            request = response = arguments = outcome = None  # keep no references while idle

    def _send(
        self, url: str, body: bytes, headers: Dict[str, str], connect: float, timeout: float
    ) -> ProxyResponse:
        deadline = time.monotonic() + timeout
        url_parts = urlsplit(url)
        if url_parts.scheme == "https":
            if self._context is None:
                self._context = ssl.create_default_context()
            connection: Any = http.client.HTTPSConnection(
                self._host, self._port, timeout=connect, context=self._context
            )
            # TLS ends at the server: the proxy sees the host and port, not the request.
            connection.set_tunnel(url_parts.hostname, url_parts.port or 443, self._headers)
            path = url[len(url_parts.scheme) + 3 + len(url_parts.netloc) :]
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=connect)
            path, headers = url, {**headers, **self._headers}
        try:
            connection.connect()
            self._socket = connection.sock
            connection.sock.settimeout(max(0.1, deadline - time.monotonic()))
            connection.request("POST", path, body, headers)
            connection.sock.settimeout(max(0.1, deadline - time.monotonic()))
            response = connection.getresponse()
            content = response.read(LARGEST_RESPONSE)
            return ProxyResponse(response.status, response.reason, response.headers, content)
        finally:
            self._socket = None
            connection.close()


def _resolve(response: "asyncio.Future[ProxyResponse]", outcome: Any) -> None:
    if response.done():  # it took too long
        return
    if isinstance(outcome, Exception):
        response.set_exception(outcome)
    else:
        response.set_result(outcome)
