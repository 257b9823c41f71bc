"""The plugin that Dask calls."""

import asyncio
import logging
import math
import os
import re
import sys
from contextlib import suppress
from inspect import signature
from itertools import chain
from typing import Any, Dict, List, Mapping, Optional, Tuple

from distributed import Client
from distributed.comm import get_address_host
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time
from distributed.utils import format_dashboard_link
from tornado.ioloop import PeriodicCallback

from .bundle import reduce_to_source
from .code import Snippets
from .collector import Collectors, Context
from .error_sources import ErrorSources
from .events import Events
from .exchange import forget_other_tokens
from .function_activity import FunctionActivity
from .idleness import Idleness
from .inheritance import (
    destination,
    register_reporter,
    store_state,
    take_over_state,
    unregister_reporter,
)
from .last_metrics import LastMetrics
from .ledger import Ledger
from .logs import Logs
from .profiles import Profiles
from .report_sender import LONGEST_FINAL_DELIVERY, LONGEST_PAUSE, ReportSender
from .samples import Samples
from .sections import Receipt
from .settings import VERSION, find_configuration_problem, read_settings
from .spans import Spans
from .spool import Unusable, directory_of, list_files, read_file, set_aside
from .usage import Usage
from .values import ADDRESS_LENGTH, NAME_LENGTH, cut, make_sendable, to_count
from .workers import Workers
from .workforce import Workforce

logger = logging.getLogger("distributed.galvo")

# In the order of their calls: a collector may build on what earlier ones have read.
COLLECTORS = (
    LastMetrics, Workers, Samples, Snippets, Spans, Profiles, Events, ErrorSources, Logs, Usage,
    FunctionActivity,
)  # fmt: skip
TICK_MILLISECONDS = 250
# A plugin must not delay the scheduler that starts it. Collectors continue to start in the
# background.
START_SECONDS = 0.5
# The settings that withhold data.
PRIVACY_SETTINGS = ("send_code", "send_errors", "send_profiles", "send_logs", "events_allow")
STOP_REASON = "requested through Galvo"
IDLE_REASON = "idle-timeout-exceeded"  # the text of newer releases of Dask


class CoiledTelemetry(SchedulerPlugin):
    """Reports the activity of a scheduler, its workers and its tasks to a Galvo server.

    Without arguments it is configured by Dask's configuration in the creating process, see
    ``read_settings``. Pickled copies keep those settings.
    """

    name = "galvo"
    idempotent = True

    def __init__(self, settings: Optional[Mapping[str, Any]] = None):
        self._settings = dict(read_settings() if settings is None else settings)
        self._scheduler: Any = None
        self._ledger: Optional[Ledger] = None  # None if there is nowhere to report to
        self._sender: Any = None
        self._workforce: Any = None
        self._collectors = Collectors()
        self._is_starting = self._was_registered = False
        self._starting: Optional["asyncio.Future[None]"] = None
        self._timer: Any = None
        self._delivery: Optional["asyncio.Future[None]"] = None
        self._stopping: Optional["asyncio.Future[None]"] = None
        self._spool_delivery: Optional["asyncio.Future[None]"] = None
        self._delivery_due_at = 0.0  # on the event loop's clock
        # The first event since the latest delivery began, on the same clock.
        self._event_at: Optional[float] = None
        self._stop_reason = STOP_REASON
        self._idleness: Any = None
        self._cluster_name: Optional[str] = None
        self._error_count = 0
        _repair_coiled_register()

    def __repr__(self) -> str:
        # An address may contain secrets, so it is not shown, and neither is the token.
        return "<CoiledTelemetry of Galvo %s>" % VERSION

    def __reduce__(self) -> Tuple[Any, ...]:
        return reduce_to_source("__init__", "CoiledTelemetry", make_sendable(self._settings))

    # Dask's hooks. An error in any of them must not reach the scheduler.

    async def start(self, scheduler: Any) -> None:
        # Dask starts plugins that a preload module has added and started once more.
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
            # Dask adds the plugin after it has started, unless another one was faster.
            asyncio.get_running_loop().call_soon(self._is_registered)

    async def before_close(self) -> None:
        await self._finish()

    async def close(self) -> None:
        await self._finish()

    def update_graph(self, scheduler: Any, *args: Any, **kwargs: Any) -> None:
        if self._ledger is None:
            return
        try:
            # Existing results and errors take no part in the new computation.
            ended_states = ("memory", "erred")
            candidates = map(scheduler.tasks.get, kwargs.get("tasks", ()))
            tasks = [ts for ts in candidates if ts is not None and ts.state not in ended_states]
            groups = {ts.group: None for ts in tasks}
            self._ledger.graph(scheduler.computations[-1], groups, tasks)
        except Exception:
            self._log_error_once()
        self._collectors.call("graph", kwargs.get("tasks", ()))

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        # Called several times per task: it only counts, and marks the group for a later reading.
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
                    ledger.note_processing(key, ts.retries)
            elif finish == "released":
                if start != "memory" and start != "erred":
                    ledger.note_unfinished_release(record, key)
                    if start == "processing":
                        ledger.note_release(record, key, ts, kwargs.get("stimulus_id"))
            elif finish == "forgotten":
                if ledger.released_tasks:
                    ledger.note_forgotten(key, ts)
            elif finish == "erred":
                ledger.error(record, key, kwargs)
            if start == "processing" and ledger.on_run and kwargs.get("startstops"):
                prefix = record.prefix if finish == "memory" else None
                for on_run in ledger.on_run:
                    on_run(prefix, kwargs["startstops"])
            if share_by_key := ledger.shares.share_by_key:
                share = share_by_key.get(key)
                if share is not None:
                    ledger.shares.transition(share, key, start, finish, kwargs)
            ledger.groups_to_read[record] = None
        except Exception:
            self._log_error_once()

    def add_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        if self._ledger is not None:
            self._workforce.update(new_workers=1)
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

    # Requests of clients, see `registry`.

    @property
    def verdict(self) -> Optional[Dict[str, Any]]:
        """The outcome of the last report; None if there is none."""
        if self._ledger is None:
            return {"status": None, "message": "it could not start, see the scheduler's log"}
        return self._sender.verdict

    def try_again(self) -> None:
        """Sends a report immediately if the last one was not accepted."""
        if self._ledger is not None and self._sender.is_failing:
            self._sender.verdict, self._delivery_due_at = None, 0.0

    # Implementation of the hooks.

    def _start(self) -> None:
        if self._settings["disabled"]:
            logger.info("Galvo is disabled and reports nothing")
            return
        problem = find_configuration_problem(self._settings)
        if problem is not None:
            logger.warning("Galvo reports nothing: %s", problem)
            return
        try:
            forget_other_tokens(self._settings)
        except Exception:
            logger.warning(
                "Galvo could not remove a token from the scheduler's configuration", exc_info=True
            )
        inherited = take_over_state(self._scheduler, self._settings)
        idle_timeout = self._settings.get("idle_timeout_seconds")
        self._idleness = Idleness(self._scheduler, idle_timeout, time)
        try:
            ledger = self._set_up(inherited)
        except Exception:
            if inherited is None:
                raise
            logger.warning("Galvo could not take over the state of its predecessor", exc_info=True)
            ledger = self._set_up(None)
        self._sender = ReportSender(
            self._settings, ledger, self._scheduler, self._describe_cluster, self._collectors
        )
        self._ledger = ledger
        self._timer = PeriodicCallback(self._tick, TICK_MILLISECONDS)
        self._timer.start()
        register_reporter(self._scheduler, self._stop_reporting)
        logger.info("Galvo reports to %s", self._settings["server"])

    def _set_up(self, inherited: Optional[Mapping[str, Any]]) -> Ledger:
        """Creates the ledger and the collectors, from the state of an earlier plugin, if any."""
        ledger = Ledger(int(time() * 1000), receipt=Receipt(self._settings))
        context = Context(self._scheduler, self._settings, ledger)
        self._collectors = Collectors.create(COLLECTORS, context)
        self._workforce = Workforce(self._scheduler)
        if inherited is not None:
            ledger.import_state(
                inherited["ledger"], inherited["private"] == self._privacy_settings()
            )
            self._collectors.import_state(inherited["collectors"])
            self._workforce.import_state(inherited["workforce"])
            self._idleness.import_state(inherited["idleness"])
            self._cluster_name = inherited["cluster_name"]
        self._add_client_environment(context)
        ledger.adopt(self._scheduler)
        return ledger

    def _privacy_settings(self) -> List[Any]:
        """Returns the settings that withhold data."""
        return [self._settings.get(name) for name in PRIVACY_SETTINGS]

    def _stop_reporting(self, new_destination: str) -> None:
        """Called when another plugin starts to report, possibly as this one's successor."""
        if self._is_starting:
            return  # Dask may add either of them, and the other one detects that it was not added
        if not self._is_registered() or new_destination == destination(self._settings):
            self._hand_over()

    def _hand_over(self) -> None:
        """Stops, and stores the state for a successor on the scheduler."""
        state = None
        try:
            if self._was_registered:  # otherwise it has never reported
                state = self._bequeath()
        except Exception:
            logger.warning("Galvo could not collect its data", exc_info=True)
        self._shut_down()
        if state is not None:
            store_state(self._scheduler, self._settings, state)

    def _bequeath(self) -> Dict[str, Any]:
        scheduler, ledger, collectors = self._scheduler, self._ledger, self._collectors
        assert ledger is not None
        ledger.read(scheduler.task_groups)
        collectors.call("read", ledger.now(), None)
        collector_states = collectors.export_state()
        records = chain.from_iterable(collector.records() for collector in collectors)
        return {
            "private": self._privacy_settings(),
            "collectors": collector_states,
            "ledger": ledger.export_state(scheduler, records),
            "workforce": self._workforce.export_state(),
            "idleness": self._idleness.export_state(),
            "cluster_name": self._cluster_name,
        }

    def _is_registered(self) -> bool:
        is_registered = any(plugin is self for plugin in self._scheduler.plugins.values())
        self._was_registered = self._was_registered or is_registered
        return is_registered

    def _add_client_environment(self, context: Context) -> None:
        """Adds the environment of the client that created this plugin."""
        client = self._settings.get("client")
        if client:
            try:
                context.environment(client.get("versions"), client.get("executable"))
            except Exception:
                self._log_error_once()

    def _tick(self) -> None:
        # A plugin from a client is added only after it has started.
        if self._is_starting:
            return
        # Dask does not notify a plugin that was removed or replaced.
        if not self._is_registered():
            self._hand_over()
            return
        self._close_if_requested()
        if self._ledger is not None and self._ledger.has_many_new_groups():
            self._ledger.read(self._scheduler.task_groups)
        now = asyncio.get_running_loop().time()
        if self._delivery is None and now >= min(self._delivery_due_at, self._due_for_events()):
            self._event_at = None
            self._delivery = asyncio.ensure_future(self._sender.deliver())
            self._delivery.add_done_callback(self._on_delivered)

    def _on_delivered(self, delivery: "asyncio.Future[None]") -> None:
        self._delivery = None
        if not delivery.cancelled() and delivery.exception() is not None:
            logger.warning("Galvo could not make a report", exc_info=delivery.exception())
            self._sender.pause = LONGEST_PAUSE
        self._delivery_due_at = delivery.get_loop().time() + self._sender.pause
        if self._spool_delivery is None and (self._sender.verdict or {}).get("status") == 200:
            self._spool_delivery = asyncio.ensure_future(self._send_spooled())

    def _due_for_events(self) -> float:
        """Returns the latest time at which to send pending events."""
        interval = self._settings.get("interval_seconds", math.inf)
        # If the server wants fewer reports, or accepts none, events must not cause more.
        is_slowed = self._sender.pause > interval or self._sender.is_failing
        if self._event_at is None or is_slowed:
            return math.inf
        return self._event_at + self._settings.get("events_interval_seconds", interval)

    def _close_if_requested(self) -> None:
        """Closes the scheduler at the server's request, or if it has been idle for too long."""
        idleness, sender = self._idleness, self._sender
        if sender.keep_alive is not None:
            seconds, sender.keep_alive = sender.keep_alive, None
            idleness.keep_alive_for(seconds)
        if idleness.check():
            self._stop(IDLE_REASON)
        if not sender.stop_requested:
            return
        is_idle = idleness.since is not None and idleness.since == sender.reported_idle_since
        if sender.stop_only_if_idle and not is_idle:
            # Work has arrived since the acknowledged report, and may be done already. The next
            # response decides.
            sender.stop_requested = False
            return
        self._stop(sender.stop_reason or STOP_REASON)

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
        """Sends the final message, in the first of Dask's two closing hooks."""
        if self._timer is None:
            return
        self._timer.stop()
        self._timer = None
        try:
            if self._delivery is not None:
                self._delivery.cancel()
                await asyncio.wait([self._delivery], timeout=0.1)
            await self._collectors.finish()
            reason, has_arrived = self._close_reason(), False
            final = self._sender.deliver_final(reason)
            with suppress(asyncio.TimeoutError):
                has_arrived = await asyncio.wait_for(final, LONGEST_FINAL_DELIVERY + 0.1)
            if not has_arrived:
                self._keep_unsent(reason)
        except Exception:
            logger.warning("Galvo could not make the final report", exc_info=True)
        self._shut_down()

    def _keep_unsent(self, reason: Optional[str]) -> None:
        directory = directory_of(self._settings)
        if directory is not None:
            path = self._sender.keep_unsent(directory, reason)
            logger.warning("Galvo keeps what it could not send in %s", path)

    async def _send_spooled(self) -> None:
        """Sends unsent reports of earlier schedulers for the same server and account."""
        loop, directory = asyncio.get_running_loop(), directory_of(self._settings)
        if directory is None:
            return
        try:
            for path in await loop.run_in_executor(None, list_files, directory):
                try:
                    spooled = await loop.run_in_executor(None, read_file, path)
                except Unusable as problem:
                    logger.warning("Galvo sets %s aside: %s", set_aside(path), problem)
                    continue
                if spooled.head.get("destination") != destination(self._settings):
                    continue
                try:
                    send_problem = await self._sender.forward_reports(
                        spooled.reports, spooled.head.get("token")
                    )
                except PermissionError as refusal:
                    logger.warning(
                        "Galvo leaves %s where it is, for `galvo spool send`: %s", path, refusal
                    )
                    continue
                if send_problem is None:
                    os.remove(path)
                    logger.info("Galvo has sent what was kept in %s", path)
                else:
                    logger.warning("Galvo sets %s aside: %s", set_aside(path), send_problem)
        except Exception:
            logger.warning("Galvo could not send what was kept", exc_info=True)

    def _shut_down(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        for task in (self._delivery, self._starting, self._spool_delivery):
            if task is not None:
                task.cancel()
        unregister_reporter(self._scheduler, self._stop_reporting)
        self._timer = self._ledger = self._workforce = None
        self._collectors.call("close")
        self._sender.close()

    def preview(self, scheduler: Any) -> str:
        """Returns the first report as JSON, for a plugin that is not started."""
        self._scheduler, self._idleness = scheduler, Idleness(scheduler, None, time)
        try:
            self._ledger = ledger = self._set_up(None)
            sender = ReportSender(
                self._settings, ledger, scheduler, self._describe_cluster, self._collectors
            )
            try:
                return sender.preview()
            finally:
                sender.close()
        finally:
            self._ledger = None
            self._collectors.call("close")

    def _describe_cluster(
        self, closed_at: Optional[float] = None, close_reason: Optional[str] = None
    ) -> Dict[str, Any]:
        scheduler, workforce, ledger = self._scheduler, self._workforce, self._ledger
        idleness = self._idleness
        workers = list(scheduler.workers.values())
        # The hours of usage end there as well, however long the last reports take.
        workforce.update(closed_at=closed_at)
        # The name is part of Dask's metadata, which a restart clears.
        manager = scheduler.task_metadata.get("cluster-manager-info")
        name = manager.get("name") if isinstance(manager, dict) else None
        self._cluster_name = self._cluster_name if name is None else cut(name, NAME_LENGTH)
        limits = [ws.memory_limit or 0 for ws in workers]
        totals = ledger.totals() if ledger is not None else {}
        totals.update(
            thread_seconds=workforce.thread_seconds,
            workers=workforce.total_workers,
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
            "memory_limit_bytes": to_count(sum(limits)) if limits and all(limits) else None,
            "memory_used_bytes": sum(to_count(ws.metrics.get("memory", 0)) for ws in workers),
            "environment_id": getattr(self._collectors.find(Workers), "environment_id", None),
            "totals": totals,
        }

    def _close_reason(self) -> Optional[str]:
        if self._stopping is not None:
            return self._stop_reason
        # Dask only logs the reason; newer releases do so before they call plugins.
        try:
            for entry in self._scheduler.get_logs(n=5):
                match = re.search(r"Closing scheduler\. Reason: (.+)", entry[-1])
                if match and match.group(1) != "unknown":
                    return cut(match.group(1), ADDRESS_LENGTH)
        except Exception:
            self._log_error_once()
        return None

    def _log_error_once(self) -> None:
        self._error_count += 1
        if self._error_count == 1:
            logger.warning("Galvo could not record something; logged once", exc_info=True)


class Preview:
    """Returns a scheduler's first report when called there, and changes nothing."""

    def __init__(self, settings: Mapping[str, Any]):
        self._settings = dict(settings)

    def __reduce__(self) -> Tuple[Any, ...]:
        return reduce_to_source("__init__", "Preview", make_sendable(self._settings))

    def __call__(self, dask_scheduler: Any) -> str:
        return CoiledTelemetry(self._settings).preview(dask_scheduler)


async def dask_setup(scheduler: Any) -> None:
    """Entry point of ``dask scheduler --preload`` for this module or a server's address."""
    try:
        if CoiledTelemetry.name not in scheduler.plugins:
            plugin = CoiledTelemetry()
            scheduler.add_plugin(plugin, name=plugin.name)
            await plugin.start(scheduler)
    except Exception:  # an exception would prevent Dask from starting
        logger.warning("Galvo reports nothing: it could not start", exc_info=True)


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
    """Makes ``coiled.analytics.register()`` work with releases of Dask newer than itself.

    It passes an argument that ``Client.register_plugin`` no longer accepts, right after it has
    created this plugin in the same process.
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
