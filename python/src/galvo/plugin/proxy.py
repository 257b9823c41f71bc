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

LARGEST_ANSWER = 1_000_000  # bytes


class Answer(NamedTuple):
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
        place = urlsplit(proxy)
        self._problem = None if place.scheme == "http" and place.hostname else place.scheme
        self._host, self._port = place.hostname or "", place.port or 80
        self._headers: Dict[str, str] = {}
        if place.username is not None:
            pair = unquote(place.username) + ":" + unquote(place.password or "")
            encoded = base64.b64encode(pair.encode("utf-8")).decode("ascii")
            self._headers["Proxy-Authorization"] = "Basic " + encoded
        self._context: Optional[ssl.SSLContext] = None
        self._tasks: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._thread: Optional[Thread] = None
        self._socket: Optional[socket.socket] = None  # of the request in flight

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], connect: float, timeout: float
    ) -> Answer:
        """Sends a request and returns the response. Cancellation closes the connection."""
        if self._problem is not None:
            raise OSError("proxies of the kind %s are not supported" % self._problem)
        if not self._tasks.empty():  # a DNS lookup cannot be interrupted
            raise OSError("earlier requests still wait for the proxy")
        if self._thread is None:
            thread = Thread(target=self._work, daemon=True, name="galvo-proxy")
            thread.start()
            self._thread = thread
        loop = asyncio.get_running_loop()
        answer: "asyncio.Future[Answer]" = loop.create_future()
        self._tasks.put((loop, answer, (url, body, dict(headers), connect, timeout)))
        try:
            return await answer
        finally:
            if not answer.done() or answer.cancelled():
                self._interrupt()

    def close(self) -> None:
        self._tasks.put(None)
        self._interrupt()

    def _interrupt(self) -> None:
        under_way = self._socket
        if under_way is not None:
            with suppress(OSError):
                under_way.shutdown(socket.SHUT_RDWR)

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                return
            loop, answer, arguments = task
            if not answer.done():
                try:
                    found: Any = self._send(*arguments)
                except Exception as error:
                    found = error
                with suppress(RuntimeError):  # the event loop has ended
                    loop.call_soon_threadsafe(_settle, answer, found)
            task = answer = arguments = found = None  # keep no references while idle

    def _send(
        self, url: str, body: bytes, headers: Dict[str, str], connect: float, timeout: float
    ) -> Answer:
        deadline = time.monotonic() + timeout
        parts = urlsplit(url)
        if parts.scheme == "https":
            if self._context is None:
                self._context = ssl.create_default_context()
            connection: Any = http.client.HTTPSConnection(
                self._host, self._port, timeout=connect, context=self._context
            )
            # TLS ends at the server: the proxy sees the host and port, not the request.
            connection.set_tunnel(parts.hostname, parts.port or 443, self._headers)
            path = url[len(parts.scheme) + 3 + len(parts.netloc) :]
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
            text = response.read(LARGEST_ANSWER)
            return Answer(response.status, response.reason, response.headers, text)
        finally:
            self._socket = None
            connection.close()


def _settle(answer: "asyncio.Future[Answer]", found: Any) -> None:
    if answer.done():  # it took too long
        return
    if isinstance(found, Exception):
        answer.set_exception(found)
    else:
        answer.set_result(found)
