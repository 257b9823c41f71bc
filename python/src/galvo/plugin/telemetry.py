"""The plugin that Dask calls."""

import asyncio
import logging
import math
import re
import sys
from inspect import signature
from itertools import chain
from typing import Any, Dict, List, Mapping, Optional, Tuple

from distributed import Client
from distributed.comm import get_address_host
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time
from distributed.utils import format_dashboard_link
from tornado.ioloop import PeriodicCallback

from .bundle import by_source
from .code import Snippets
from .collector import Collectors, Context
from .courier import LONGEST_FAREWELL, LONGEST_PAUSE, Courier
from .events import Events
from .idleness import Idleness
from .inheritance import announce, claim, destination, leave, renounce
from .ledger import Ledger
from .logs import Logs
from .profiles import Profiles
from .samples import Samples
from .sections import Receipt
from .settings import VERSION, read_settings, what_is_missing
from .spans import Spans
from .usage import Usage
from .values import ADDRESS_LENGTH, NAME_LENGTH, count, cut
from .workers import Workers
from .workforce import Workforce

logger = logging.getLogger("distributed.galvo")

# In the order of their calls: what one of them tells may build on what those before have read.
COLLECTORS = (Workers, Samples, Snippets, Spans, Profiles, Events, Logs, Usage)
TICK_MILLISECONDS = 250
# A plugin must not hold up the scheduler that starts it. Collectors go on in the background.
START_SECONDS = 0.5
# The settings that keep something from being sent.
PRIVATE = ("send_code", "send_errors", "send_profiles", "send_logs", "events_allow")
STOP_REASON = "requested through Galvo"
IDLE_REASON = "idle-timeout-exceeded"  # in the words of newer releases of Dask


class CoiledTelemetry(SchedulerPlugin):
    """Reports what a scheduler, its workers and its tasks do to a Galvo server.

    Without arguments it is configured by Dask's configuration in the process that makes it, see
    ``read_settings``. Pickled copies keep those settings.
    """

    name = "galvo"
    idempotent = True

    def __init__(self, settings: Optional[Mapping[str, Any]] = None):
        self._settings = dict(read_settings() if settings is None else settings)
        self._scheduler: Any = None
        self._ledger: Optional[Ledger] = None  # while there is something to report to
        self._courier: Any = None
        self._workforce: Any = None
        self._collectors = Collectors()
        self._is_starting = self._was_registered = False
        self._starting: Optional["asyncio.Future[None]"] = None
        self._timer: Any = None
        self._delivery: Optional["asyncio.Future[None]"] = None
        self._stopping: Optional["asyncio.Future[None]"] = None
        self._due = 0.0  # on the event loop's clock
        # The first event since the latest delivery began, on the same clock.
        self._event_at: Optional[float] = None
        self._stop_reason = STOP_REASON
        self._idleness: Any = None
        self._cluster_name: Optional[str] = None
        self._mishaps = 0
        _repair_coiled_register()

    def __repr__(self) -> str:
        # Neither the token nor what else may stand in an address is shown.
        return "<CoiledTelemetry of Galvo %s>" % VERSION

    def __reduce__(self) -> Tuple[Any, ...]:
        return by_source("__init__", "CoiledTelemetry", dict(self._settings))

    # Dask's hooks. Whatever goes wrong in one of them must not reach the scheduler.

    async def start(self, scheduler: Any) -> None:
        # Dask starts plugins that a preload module has added, and started, once more.
        if self._scheduler is not None:
            return
        self._scheduler, self._is_starting = scheduler, True
        try:
            self._start()
            if self._ledger is not None:
                self._starting = asyncio.ensure_future(self._collectors.start())
                await asyncio.wait([self._starting], timeout=START_SECONDS)
        except Exception:
            self._ledger = None
            logger.warning("Galvo reports nothing: it could not start", exc_info=True)
        finally:
            self._is_starting = False
            # Dask adds it when it has started, unless another one was faster.
            asyncio.get_running_loop().call_soon(self._is_registered)

    async def before_close(self) -> None:
        await self._finish()

    async def close(self) -> None:
        await self._finish()

    def update_graph(self, scheduler: Any, *args: Any, **kwargs: Any) -> None:
        if self._ledger is None:
            return
        try:
            tasks = map(scheduler.tasks.get, kwargs.get("tasks", ()))
            # What is there already, result or error, takes no part in what is to be computed.
            over = ("memory", "erred")
            groups = {ts.group: None for ts in tasks if ts is not None and ts.state not in over}
            self._ledger.graph(scheduler.computations[-1], groups)
        except Exception:
            self._mishap()
        self._collectors.call("graph", kwargs.get("tasks", ()))

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        # Called several times per task: it only counts, and marks the group to be read later.
        ledger = self._ledger
        if ledger is None:
            return
        try:
            ts = self._scheduler.tasks[key]
            group = ts.group
            record = ledger.groups.get(group)
            if record is None:
                record = ledger.group(group)
                # Its states include this transition, which is counted below.
                record.succeeded += (start == "memory") - (finish == "memory")
            if finish == "memory":
                record.succeeded += 1
                if ledger.retried:
                    ledger.retried.pop(key, None)
            elif finish == "processing":
                if ts.retries and "stimulus_id" not in kwargs:
                    ledger.processing(key, ts.retries)
            elif finish == "released":
                if start != "memory" and start != "erred":
                    ledger.let_go(record, key)
                    if start == "processing":
                        ledger.released(record, key, ts, kwargs.get("stimulus_id"))
            elif finish == "forgotten":
                if ledger.undone:
                    ledger.forgotten(key, ts)
            elif finish == "erred":
                ledger.error(record, key, kwargs)
            ledger.touched[record] = None
        except Exception:
            self._mishap()

    def add_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        if self._ledger is not None:
            self._workforce.update(arrived=1)
            self._collectors.call("worker_added", worker)

    def remove_worker(
        self, scheduler: Any, worker: str, *, stimulus_id: Optional[str] = None, **kwargs: Any
    ) -> None:
        if self._ledger is not None:
            self._workforce.update()
            self._collectors.call("worker_removed", worker, stimulus_id)

    def add_client(self, scheduler: Any, client: str, **kwargs: Any) -> None:
        if self._ledger is not None:
            self._collectors.call("client_added", client)

    def remove_client(self, scheduler: Any, client: str, **kwargs: Any) -> None:
        if self._ledger is not None:
            self._collectors.call("client_removed", client)

    def log_event(self, topic: Any, msg: Any, **kwargs: Any) -> None:
        if self._ledger is None:
            return
        self._collectors.call("event", topic, msg, self._ledger.now())
        if self._event_at is None and self._timer is not None:
            allowed = self._settings.get("events_allow") or ()
            if "*" in allowed or topic in allowed:
                self._event_at = asyncio.get_event_loop().time()

    def restart(self, scheduler: Any, **kwargs: Any) -> None:
        if self._ledger is not None:
            self._collectors.call("restarted")

    # Behind the hooks.

    def _start(self) -> None:
        if self._settings["disabled"]:
            logger.info("Galvo is disabled and reports nothing")
            return
        problem = what_is_missing(self._settings)
        if problem is not None:
            logger.warning("Galvo reports nothing: %s", problem)
            return
        told = claim(self._scheduler, self._settings)
        idle_timeout = self._settings.get("idle_timeout_seconds")
        self._idleness = Idleness(self._scheduler, idle_timeout, time)
        try:
            ledger = self._set_up(told)
        except Exception:
            if told is None:
                raise
            logger.warning("Galvo could not go on from what was told before", exc_info=True)
            ledger = self._set_up(None)
        self._courier = Courier(
            self._settings, ledger, self._scheduler, self._describe_cluster, self._collectors
        )
        self._ledger = ledger
        self._timer = PeriodicCallback(self._tick, TICK_MILLISECONDS)
        self._timer.start()
        announce(self._scheduler, self._relieve)
        logger.info("Galvo reports to %s", self._settings["server"])

    def _set_up(self, told: Optional[Mapping[str, Any]]) -> Ledger:
        """Makes what keeps and watches, going on from what a plugin before has told, if any."""
        ledger = Ledger(int(time() * 1000), receipt=Receipt(self._settings))
        context = Context(self._scheduler, self._settings, ledger)
        self._collectors = Collectors.made(COLLECTORS, context)
        self._workforce = Workforce(self._scheduler)
        if told is not None:
            ledger.inherit(told["ledger"], told["private"] == self._private())
            self._collectors.inherit(told["collectors"])
            self._workforce.inherit(told["workforce"])
            self._idleness.inherit(told["idleness"])
            self._cluster_name = told["cluster_name"]
        self._tell_client(context)
        ledger.adopt(self._scheduler)
        return ledger

    def _private(self) -> List[Any]:
        """What these settings keep here."""
        return [self._settings.get(name) for name in PRIVATE]

    def _relieve(self, by: str) -> None:
        """Another plugin begins to report there; it may be about to take this one's place."""
        if self._is_starting:
            return  # Dask may add either of them, and the one that it does not add finds that out
        if not self._is_registered() or by == destination(self._settings):
            self._hand_over()

    def _hand_over(self) -> None:
        """Ends, and leaves on the scheduler what a plugin that comes later needs to go on."""
        told = None
        try:
            if self._was_registered:  # otherwise it has never reported
                told = self._bequeath()
            self._idleness.close()
        except Exception:
            logger.warning("Galvo could not tell what it knows", exc_info=True)
        self._leave()
        if told is not None:
            leave(self._scheduler, self._settings, told)

    def _bequeath(self) -> Dict[str, Any]:
        scheduler, ledger, collectors = self._scheduler, self._ledger, self._collectors
        assert ledger is not None
        ledger.read(scheduler.task_groups)
        collectors.call("read", ledger.now(), None)
        of_collectors = collectors.bequeath()
        records = chain.from_iterable(collector.records() for collector in collectors)
        return {
            "private": self._private(),
            "collectors": of_collectors,
            "ledger": ledger.bequeath(scheduler, records),
            "workforce": self._workforce.bequeath(),
            "idleness": self._idleness.bequeath(),
            "cluster_name": self._cluster_name,
        }

    def _is_registered(self) -> bool:
        found = any(plugin is self for plugin in self._scheduler.plugins.values())
        self._was_registered = self._was_registered or found
        return found

    def _tell_client(self, context: Context) -> None:
        """Puts the environment of the client that made this plugin among the others."""
        client = self._settings.get("client")
        if client:
            try:
                context.environment(client.get("versions"), client.get("executable"))
            except Exception:
                self._mishap()

    def _tick(self) -> None:
        # A plugin that a client brings is added only after it has started.
        if self._is_starting:
            return
        # Dask tells nothing to a plugin that was removed or replaced.
        if not self._is_registered():
            self._hand_over()
            return
        self._obey()
        if self._ledger is not None and self._ledger.crowded():
            self._ledger.read(self._scheduler.task_groups)
        now = asyncio.get_running_loop().time()
        if self._delivery is None and now >= min(self._due, self._due_for_events()):
            self._event_at = None
            self._delivery = asyncio.ensure_future(self._courier.deliver())
            self._delivery.add_done_callback(self._delivered)

    def _delivered(self, delivery: "asyncio.Future[None]") -> None:
        self._delivery = None
        if not delivery.cancelled() and delivery.exception() is not None:
            logger.warning("Galvo could not make a report", exc_info=delivery.exception())
            self._courier.pause = LONGEST_PAUSE
        self._due = delivery.get_loop().time() + self._courier.pause

    def _due_for_events(self) -> float:
        """When events that have happened should be sent at the latest."""
        interval = self._settings.get("interval_seconds", math.inf)
        # A server that wants fewer reports, or accepts none, gets no more for the sake of events.
        waits = self._courier.pause > interval or self._courier.failing
        if self._event_at is None or waits:
            return math.inf
        return self._event_at + self._settings.get("events_interval_seconds", interval)

    def _obey(self) -> None:
        """Closes the scheduler if the server wants that, or if it has been idle for too long."""
        idleness, courier = self._idleness, self._courier
        if courier.keep_alive is not None:
            seconds, courier.keep_alive = courier.keep_alive, None
            idleness.keep(seconds)
        if idleness.look():
            self._stop(IDLE_REASON)
        if not courier.stop_requested:
            return
        if courier.stop_only_if_idle and idleness.since is None:
            # Work has come since the report that was answered. The next one tells of it.
            courier.stop_requested = False
            return
        self._stop(courier.stop_reason or STOP_REASON)

    def _stop(self, reason: str) -> None:
        if self._stopping is None:
            self._stop_reason = reason
            self._stopping = asyncio.ensure_future(self._stop_scheduler(reason))

    async def _stop_scheduler(self, reason_text: str) -> None:
        logger.info("Galvo closes the scheduler: %s", reason_text)
        close = self._scheduler.close
        reason = {"reason": reason_text} if "reason" in signature(close).parameters else {}
        try:
            await close(**reason)
        except Exception:
            logger.warning("Galvo could not close the scheduler", exc_info=True)

    async def _finish(self) -> None:
        """Sends the final message, at the first of Dask's two closing hooks."""
        if self._timer is None:
            return
        self._timer.stop()
        self._timer = None
        try:
            if self._delivery is not None:
                self._delivery.cancel()
                await asyncio.wait([self._delivery], timeout=0.1)
            final = self._courier.deliver_final(self._close_reason())
            await asyncio.wait_for(final, LONGEST_FAREWELL + 0.1)
        except asyncio.TimeoutError:
            pass
        except Exception:
            logger.warning("Galvo could not make the final report", exc_info=True)
        self._leave()

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        for task in (self._delivery, self._starting):
            if task is not None:
                task.cancel()
        renounce(self._scheduler, self._relieve)
        self._timer = self._ledger = self._workforce = None
        self._collectors.call("close")
        self._courier.close()

    def preview(self, scheduler: Any) -> str:
        """The JSON of what would be reported first, of a plugin that is not started."""
        self._scheduler, self._idleness = scheduler, Idleness(scheduler, None, time)
        try:
            self._ledger = ledger = self._set_up(None)
            courier = Courier(
                self._settings, ledger, scheduler, self._describe_cluster, self._collectors
            )
            try:
                return courier.preview()
            finally:
                courier.close()
        finally:
            self._ledger = None
            self._collectors.call("close")

    def _describe_cluster(
        self, closed_at: Optional[float] = None, close_reason: Optional[str] = None
    ) -> Dict[str, Any]:
        scheduler, workforce, ledger = self._scheduler, self._workforce, self._ledger
        idleness = self._idleness
        workers = list(scheduler.workers.values())
        workforce.update()
        # The name comes with Dask's metadata, which a restart clears.
        name = (scheduler.task_metadata.get("cluster-manager-info") or {}).get("name")
        self._cluster_name = self._cluster_name if name is None else cut(name, NAME_LENGTH)
        limits = [ws.memory_limit or 0 for ws in workers]
        totals = ledger.totals() if ledger is not None else {}
        totals.update(
            thread_seconds=workforce.thread_seconds,
            workers=workforce.seen,
            peak_workers=workforce.peak_workers,
            peak_threads=workforce.peak_threads,
        )
        return {
            "name": self._cluster_name,
            "address": cut(scheduler.address, ADDRESS_LENGTH),
            "dashboard_url": _dashboard_url(scheduler),
            "started_at": scheduler.time_started,
            "closed_at": closed_at,
            "close_reason": close_reason,
            "idle_since": None if idleness is None else idleness.since,
            "idle_timeout_seconds": None if idleness is None else idleness.timeout,
            "graph_updates": None if idleness is None else idleness.graph_updates(),
            "workers": len(workers),
            "threads": sum(ws.nthreads for ws in workers),
            "memory_limit_bytes": count(sum(limits)) if limits and all(limits) else None,
            "memory_used_bytes": count(sum(ws.metrics.get("memory", 0) for ws in workers)),
            "environment_id": getattr(self._collectors.find(Workers), "environment_id", None),
            "totals": totals,
        }

    def _close_reason(self) -> Optional[str]:
        if self._stopping is not None:
            return self._stop_reason
        # Dask tells the reason to its log only; newer releases do so before they call plugins.
        try:
            for entry in self._scheduler.get_logs(n=5):
                found = re.search(r"Closing scheduler\. Reason: (.+)", entry[-1])
                if found and found.group(1) != "unknown":
                    return cut(found.group(1), ADDRESS_LENGTH)
        except Exception:
            self._mishap()
        return None

    def _mishap(self) -> None:
        self._mishaps += 1
        if self._mishaps == 1:
            logger.warning("Galvo could not record something; this is said once", exc_info=True)


class Preview:
    """Called on a scheduler, tells what would be reported of it, and changes nothing there."""

    def __init__(self, settings: Mapping[str, Any]):
        self._settings = dict(settings)

    def __reduce__(self) -> Tuple[Any, ...]:
        return by_source("__init__", "Preview", self._settings)

    def __call__(self, dask_scheduler: Any) -> str:
        return CoiledTelemetry(self._settings).preview(dask_scheduler)


async def dask_setup(scheduler: Any) -> None:
    """Lets the module or a server's address be given to ``dask scheduler --preload``."""
    if CoiledTelemetry.name not in scheduler.plugins:
        plugin = CoiledTelemetry()
        scheduler.add_plugin(plugin, name=plugin.name)
        await plugin.start(scheduler)


def _dashboard_url(scheduler: Any) -> Optional[str]:
    server = scheduler.services.get("dashboard")
    if server is None:
        return None
    try:
        link = format_dashboard_link(get_address_host(scheduler.address), server.port)
        return cut(link, ADDRESS_LENGTH)
    except KeyError:  # the configured link refers to something the environment does not have
        return None


def _repair_coiled_register() -> None:
    """Lets ``coiled.analytics.register()`` work with releases of Dask newer than itself.

    It passes an argument that ``Client.register_plugin`` no longer takes, just after having made
    this plugin in the same process.
    """
    module = sys.modules.get("coiled.analytics")
    current = getattr(Client, "register_plugin", None)
    if not hasattr(module, "register_plugin") or current is None:
        return
    parameters = signature(current).parameters
    if "idempotent" in parameters or "kwargs" in parameters:
        return

    def register_plugin(client: Any, plugin: Any, **kwargs: Any) -> Any:
        kwargs.pop("idempotent", None)
        return client.register_plugin(plugin, **kwargs)

    module.register_plugin = register_plugin  # type: ignore[union-attr]
