"""Reports the activity of a Dask scheduler to a Galvo server. ``galvo preload`` writes this file.

Pass it to ``dask scheduler --preload galvo_preload.py``, or name it in
``distributed.scheduler.preload`` of Dask's configuration. Only Dask has to be installed: the plugin
comes from the server. It is fetched in the background and retried until it succeeds, so that Dask
starts immediately whatever the server does. Dask's own mechanism, ``--preload <address>``, waits
for the server instead, and ends the scheduler if the server is unavailable.

Server, token and all other settings are read from Dask's configuration (``galvo.server``,
``galvo.token``), as usual.
"""

import asyncio
import contextlib
import http.client
import ipaddress
import logging
import random
import threading
import time
import urllib.request
from types import ModuleType
from typing import Any, Dict, Optional
from urllib.parse import urlsplit

import dask.config

# The server if Dask's configuration names none.
SERVER: Optional[str] = None

PATH = "/api/v2/analytics/preload"
SILENT_SECONDS, WHOLE_SECONDS, LARGEST_BYTES = 5.0, 30.0, 16_000_000
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# Suffixes of names that no public server has: of local networks and of Kubernetes.
PRIVATE_NAMES = (".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc", ".test")

# Dask shows messages of loggers below "distributed" by default.
logger = logging.getLogger("distributed.galvo")
# By id(scheduler): the event that ends the attempts to fetch its plugin.
_end_events: Dict[int, threading.Event] = {}


async def dask_setup(scheduler: Any) -> None:
    """Starts fetching the plugin. No error reaches Dask."""
    try:
        if _is_disabled():
            return
        server = dask.config.get("galvo.server", None) or SERVER
        if not server:
            logger.warning("Galvo reports nothing: set galvo.server to the address of the server")
            return
        address = str(server).strip().partition("?")[0].partition("#")[0].rstrip("/")
        if "://" not in address:
            address = ("http://" if _is_private(address) else "https://") + address
        end_event = _end_events[id(scheduler)] = threading.Event()
        arguments = (scheduler, address + PATH, end_event, asyncio.get_running_loop())
        # A daemon thread does not delay the end of the process.
        threading.Thread(
            target=_fetch_until_found, args=arguments, daemon=True, name="galvo-preload"
        ).start()
    except Exception:
        logger.warning("Galvo reports nothing: it could not start", exc_info=True)


def _is_private(address: str) -> bool:
    """True if an address without a scheme is on this machine or a private network.

    Code is downloaded from there. From any other place it is downloaded over TLS, unless the user
    wrote ``http://``.
    """
    try:
        host = urlsplit("//" + address).hostname or ""
    except ValueError:
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(PRIVATE_NAMES)


async def dask_teardown(scheduler: Any) -> None:
    end_event = _end_events.pop(id(scheduler), None)
    if end_event is not None:
        end_event.set()


def _is_disabled() -> bool:
    names = ("galvo.disabled", "coiled.analytics.disabled")
    values = [
        value for value in (dask.config.get(name, None) for name in names) if value is not None
    ]
    return bool(values) and str(values[0]).strip().lower() in ("true", "1", "yes", "on")


def _fetch_until_found(
    scheduler: Any, address: str, end_event: threading.Event, loop: asyncio.AbstractEventLoop
) -> None:
    pause, module = SHORTEST_PAUSE, None
    while module is None:
        try:
            module = _load(_fetch(address), address)
        except Exception as problem:
            if pause == SHORTEST_PAUSE:  # logged once
                logger.warning(
                    "Galvo's plugin cannot be fetched from %s (%s: %.200s). Dask goes on without"
                    " it; it is tried again until it is there",
                    address,
                    type(problem).__name__,
                    problem,
                )
            if end_event.wait(pause * random.uniform(0.5, 1.0)):
                return
            pause = min(LONGEST_PAUSE, pause * 2)
    with contextlib.suppress(RuntimeError):  # the event loop has ended
        loop.call_soon_threadsafe(_start_plugin, scheduler, module, end_event)


def _start_plugin(scheduler: Any, module: ModuleType, end_event: threading.Event) -> None:
    async def start() -> None:
        try:
            await module.dask_setup(scheduler)
        except Exception:
            logger.warning("Galvo reports nothing: it could not start", exc_info=True)

    if not end_event.is_set():
        task = asyncio.ensure_future(start())
        _starting_tasks.add(task)
        task.add_done_callback(_starting_tasks.discard)


_starting_tasks: Any = set()  # the event loop holds only weak references to tasks


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Rejects redirects: code must come from the configured address only."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _fetch(address: str) -> str:
    """Returns the plugin's source, within bounds of time and size."""
    deadline = time.monotonic() + WHOLE_SECONDS
    opener = urllib.request.build_opener(_NoRedirect)
    chunks, size = [], 0
    with opener.open(address, timeout=SILENT_SECONDS) as answer:
        expected_size = answer.headers.get("Content-Length")
        while True:
            chunk = answer.read1(65_536)
            if not chunk:
                break
            chunks.append(chunk)
            size += len(chunk)
            if size > LARGEST_BYTES or time.monotonic() > deadline:
                raise TimeoutError("the answer is too slow or too large")
    if expected_size is not None and size != int(expected_size):
        raise http.client.IncompleteRead(b"", int(expected_size) - size)
    return b"".join(chunks).decode("utf-8")


def _load(text: str, address: str) -> ModuleType:
    """Returns the plugin. The module's name contains the server that it came from."""
    module = ModuleType(address)
    exec(compile(text, address, "exec"), module.__dict__)
    if not hasattr(module, "dask_setup"):
        raise ValueError("there is no Galvo server at this address")
    return module
