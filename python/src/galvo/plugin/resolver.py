"""Resolves the server's address, also in a process that is exiting."""

import asyncio
import socket
from contextlib import suppress
from threading import Thread
from typing import Any, Dict, List, Tuple

from tornado.netutil import Resolver

Addresses = List[Tuple[int, Any]]


class LastingResolver(Resolver):
    """Resolves names in the event loop's executor, as tornado does, and caches the results.

    An exiting interpreter shuts down its executors before Dask closes the clusters in it. After
    that not even a numeric address could be resolved, so the cached result is used.
    """

    def initialize(self) -> None:
        self._known: Dict[Tuple[str, int, int], Addresses] = {}

    async def resolve(self, host: str, port: int, family: Any = socket.AF_UNSPEC) -> Addresses:
        loop, asked = asyncio.get_running_loop(), (host, port, int(family))
        try:
            found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        except RuntimeError:  # the executor is shut down; a failed lookup is an OSError
            if asked in self._known:
                return self._known[asked]
            # Nothing was ever sent, so this happens once.
            found = await _beside(loop, host, port, family, socket.SOCK_STREAM)
        self._known[asked] = [(kind, address) for kind, _, _, _, address in found]
        return self._known[asked]


async def _beside(loop: asyncio.AbstractEventLoop, *asked: Any) -> List[Any]:
    """Resolves in a daemon thread, because unresponsive name servers take half a minute to time
    out.
    """
    answer: "asyncio.Future[List[Any]]" = loop.create_future()

    def tell(found: Any) -> None:
        if answer.done():  # it took too long
            return
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def ask() -> None:
        try:
            found: Any = socket.getaddrinfo(*asked)
        except Exception as error:
            found = error
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(tell, found)

    try:
        Thread(target=ask, daemon=True, name="galvo-resolver").start()
    except RuntimeError as late:  # no new threads either
        raise OSError(f"{asked[0]} cannot be resolved in a process that ends") from late
    return await answer
