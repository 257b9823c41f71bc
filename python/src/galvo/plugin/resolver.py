"""Finds the server's address, also in a process that is about to end."""

import asyncio
import socket
from contextlib import suppress
from threading import Thread
from typing import Any, Dict, List, Tuple

from tornado.netutil import Resolver

Addresses = List[Tuple[int, Any]]


class LastingResolver(Resolver):
    """Resolves names in the event loop's executor, as tornado does, and remembers the answers.

    An interpreter that ends shuts its executors down before Dask closes the clusters in it. From
    then on even the text of an address could not be resolved, and what is remembered has to do.
    """

    def initialize(self) -> None:
        self._known: Dict[Tuple[str, int, int], Addresses] = {}

    async def resolve(self, host: str, port: int, family: Any = socket.AF_UNSPEC) -> Addresses:
        loop, asked = asyncio.get_running_loop(), (host, port, int(family))
        try:
            found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        except RuntimeError:  # the executor takes no more work; what cannot be found is an OSError
            if asked in self._known:
                return self._known[asked]
            # Nothing was ever sent, so this is asked once.
            found = await _beside(loop, host, port, family, socket.SOCK_STREAM)
        self._known[asked] = [(kind, address) for kind, _, _, _, address in found]
        return self._known[asked]


async def _beside(loop: asyncio.AbstractEventLoop, *asked: Any) -> List[Any]:
    """Asks in a thread that nobody waits for: silent name servers take half a minute to give up."""
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
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, found)

    try:
        Thread(target=ask, daemon=True, name="galvo-resolver").start()
    except RuntimeError as late:  # nor are there new threads
        raise OSError(f"{asked[0]} cannot be resolved in a process that ends") from late
    return await answer
