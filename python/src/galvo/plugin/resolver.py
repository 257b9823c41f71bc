"""Resolves the server's address, also in a process that is exiting."""

import asyncio
import socket
from contextlib import suppress
from threading import Thread
from typing import Any, Dict, List, Tuple

from tornado.netutil import Resolver

Addresses = List[Tuple[int, Any]]


class CachingResolver(Resolver):
    """Resolves names in the event loop's executor, as tornado does, and caches the results.

    An exiting interpreter shuts down its executors before Dask closes the clusters in it. After
    that not even a numeric address could be resolved, so the cached result is used.
    """

    def initialize(self) -> None:
        self._cache: Dict[Tuple[str, int, int], Addresses] = {}

    async def resolve(self, host: str, port: int, family: Any = socket.AF_UNSPEC) -> Addresses:
        loop, query = asyncio.get_running_loop(), (host, port, int(family))
        try:
            addresses = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        except RuntimeError:  # the executor is shut down; a failed lookup is an OSError
            if query in self._cache:
                return self._cache[query]
            # The cache is empty only if no request was sent before.
            addresses = await _resolve_in_thread(loop, host, port, family, socket.SOCK_STREAM)
        self._cache[query] = [
            (address_family, address) for address_family, _, _, _, address in addresses
        ]
        return self._cache[query]


async def _resolve_in_thread(loop: asyncio.AbstractEventLoop, *query: Any) -> List[Any]:
    """Resolves in a daemon thread, because unresponsive name servers take half a minute to time
    out.
    """
    result: "asyncio.Future[List[Any]]" = loop.create_future()

    def settle(outcome: Any) -> None:
        if result.done():  # the caller no longer waits
            return
        if isinstance(outcome, Exception):
            result.set_exception(outcome)
        else:
            result.set_result(outcome)

    def resolve_name() -> None:
        try:
            outcome: Any = socket.getaddrinfo(*query)
        except Exception as error:
            outcome = error
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(settle, outcome)

    try:
        Thread(target=resolve_name, daemon=True, name="galvo-resolver").start()
    except RuntimeError as thread_error:  # no new threads either
        raise OSError(f"{query[0]} cannot be resolved in a process that ends") from thread_error
    return await result
