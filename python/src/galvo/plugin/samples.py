"""Samples of the resources and the activity of workers, the scheduler and the whole cluster."""

import math
from statistics import median
from typing import Any, Dict, Iterable, List, Optional, Tuple

from distributed.comm import get_address_host
from tornado.ioloop import PeriodicCallback

from .collector import Collector, Context
from .sections import Record

# Reports follow each other quickly when there is much to send. Samples must not.
SHORTEST_SECONDS = 0.4
# Workers are sampled less often the more there are: this many per second on average.
WORKERS_PER_SECOND = 50
# A worker's last metrics are no current sample if it has been silent for longer.
SILENT_SECONDS = 60.0
SAMPLE_CHARACTERS = 700
# The cluster's sample has the sums of these metrics of its workers. The names are part of the
# report format.
SUMMED = (
    "memory_process_bytes", "memory_managed_bytes", "memory_unmanaged_bytes",
    "memory_spilled_bytes", "cpu_cores",
)  # fmt: skip
# Workers on one host see the same traffic, so each host is counted once.
HOST_WIDE = (
    "network_read_bytes_per_second", "network_write_bytes_per_second",
    "disk_read_bytes_per_second", "disk_write_bytes_per_second",
)  # fmt: skip
SPREAD = ("gil_contention", "event_loop_seconds")

Metrics = Dict[str, float]


class Samples(Collector):
    """Samples the cluster for every report, and its workers for most reports.

    While no report is made because the server is unavailable, sampling continues, so that the time
    series has no gap.
    """

    is_separate = True  # each sample has its own time

    def __init__(self, context: Context):
        super().__init__(context)
        self._scheduler = context.scheduler
        self._seconds = float(context.settings.get("interval_seconds") or 15.0)
        self._sampled_at = self._workers_sampled_at = -math.inf
        self._hosts: Dict[str, str] = {}  # by worker address
        self._timer: Any = None

    async def start(self) -> None:
        self._timer = PeriodicCallback(self._sample_if_due, self._seconds * 1000)
        self._timer.start()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def worker_removed(self, address: str, stimulus_id: Optional[str] = None) -> None:
        self._hosts.pop(address, None)

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        if _passed(self._sampled_at, now, SHORTEST_SECONDS):
            self._sample(now)

    def _sample_if_due(self) -> None:
        now = self.context.now()
        if _passed(self._sampled_at, now, 0.9 * self._seconds):
            self._sample(now)

    def _sample(self, now: float) -> None:
        workers, outbox = self._scheduler.workers, self.context.outboxes["samples"]
        self._sampled_at = now
        responsive_states = [
            state
            for state in workers.values()
            if state.metrics and now - state.last_seen < SILENT_SECONDS
        ]
        measured = list(map(self._measure_worker, responsive_states))
        bodies: List[Dict[str, Any]] = [
            {"at": now, "metrics": self._measure_cluster(responsive_states, measured)}
        ]
        if _passed(self._workers_sampled_at, now, len(workers) / WORKERS_PER_SECOND):
            self._workers_sampled_at = now
            ids = self.context.workers
            bodies += [
                {"at": now, "metrics": metrics, "worker_id": ids[state.address]}
                for state, metrics in zip(responsive_states, measured)
                if state.address in ids and metrics
            ]
        for body in bodies:
            record = Record("", body, settled=True)
            record.characters = SAMPLE_CHARACTERS
            outbox.add(record)
        outbox.enforce_bounds()

    def _measure_worker(self, state: Any) -> Metrics:
        try:
            return measure_worker(state)
        except Exception:  # users may replace Dask's own metrics by anything
            self.context.outboxes["samples"].dropped += 1
            return {}

    def _measure_cluster(
        self, responsive_states: List[Any], worker_metrics: List[Metrics]
    ) -> Metrics:
        scheduler = self._scheduler
        states = scheduler.workers.values()
        metrics: Metrics = {"workers": len(states), "threads": sum(ws.nthreads for ws in states)}
        limits = [ws.memory_limit for ws in states]
        if limits and all(limits):
            metrics["memory_limit_bytes"] = sum(limits)
        for name in SUMMED:
            values = _values(worker_metrics, name)
            if values:
                metrics[name] = sum(values)
        latest: Dict[str, Tuple[float, Metrics]] = {}
        for state, own_metrics in zip(responsive_states, worker_metrics):
            host = self._hosts.get(state.address) or self._host(state.address)
            if host not in latest or latest[host][0] < state.last_seen:
                latest[host] = state.last_seen, own_metrics
        host_metrics = [own_metrics for _, own_metrics in latest.values()]
        for name in HOST_WIDE:
            values = _values(host_metrics, name)
            if values:
                metrics[name] = sum(values)
        disks = [own_metrics for own_metrics in worker_metrics if "disk_free_bytes" in own_metrics]
        if disks:
            fullest = min(disks, key=_free_share)
            for name in ("disk_free_bytes", "disk_total_bytes"):
                if name in fullest:
                    metrics[name] = fullest[name]
        for name in SPREAD:
            values = _values(worker_metrics, name)
            if values:
                metrics[name + "_min"], metrics[name + "_max"] = min(values), max(values)
                metrics[name] = median(values)
        self._measure_scheduler(metrics)
        count_tasks(scheduler, metrics)
        return metrics

    def _measure_scheduler(self, metrics: Metrics) -> None:
        try:
            recent = self._scheduler.monitor.recent()
        except (AttributeError, IndexError):  # it has not measured anything yet
            recent = {}
        cpu, memory = _number(recent.get("cpu")), _number(recent.get("memory"))
        if cpu is not None:
            metrics["scheduler_cpu_cores"] = cpu / 100
        if memory is not None:
            metrics["scheduler_memory_bytes"] = memory
        delay = _number(getattr(self._scheduler, "_tick_interval_observed", None))
        if delay is not None:
            metrics["scheduler_event_loop_seconds"] = delay

    def _host(self, address: str) -> str:
        host = self._hosts[address] = get_address_host(address)
        return host


def measure_worker(state: Any) -> Metrics:
    """Returns the metrics of a worker's last heartbeat, under the names of a report.

    Dask has renamed some of them. Older releases group them differently.
    """
    reported = state.metrics
    get = reported.get
    counts = get("task_counts")
    if counts is None:
        counts, network, disk = _read_older_metrics(reported)
    else:
        network, disk = get("host_net_io"), get("host_disk_io")
    spilled, own_metrics = get("spilled_bytes") or get("spilled_nbytes") or {}, get("galvo")
    own_metrics = own_metrics if isinstance(own_metrics, dict) else None
    count = counts.get  # states without tasks are left out
    metrics = {
        "memory_process_bytes": get("memory"),
        "memory_spilled_bytes": spilled.get("disk"),
        "cpu_cores": get("cpu"),
        "event_loop_seconds": get("event_loop_interval"),
        "tasks_memory": count("memory", 0),
        "tasks_executing": count("executing", 0),
        "tasks_ready": count("ready", 0),
        "tasks_in_flight": count("flight", 0),
    }
    if state.memory_limit:
        metrics["memory_limit_bytes"] = state.memory_limit
    if "gil_contention" in reported:
        metrics["gil_contention"] = reported["gil_contention"]
    if network is not None:
        metrics["network_read_bytes_per_second"] = network.get("read_bps")
        metrics["network_write_bytes_per_second"] = network.get("write_bps")
    if disk is not None:
        metrics["disk_read_bytes_per_second"] = disk.get("read_bps")
        metrics["disk_write_bytes_per_second"] = disk.get("write_bps")
    if own_metrics is not None:
        metrics["disk_free_bytes"] = own_metrics.get("disk_free_bytes")
        metrics["disk_total_bytes"] = own_metrics.get("disk_total_bytes")
    # Values are almost always finite numbers, and one sum checks them quickly.
    try:
        are_finite = math.isfinite(sum(metrics.values()))
    except TypeError:
        are_finite = False
    if not are_finite:
        metrics = {name: value for name, value in metrics.items() if _number(value) is not None}
    if "cpu_cores" in metrics:
        metrics["cpu_cores"] /= 100
    process = metrics.get("memory_process_bytes")
    in_memory = _number(spilled.get("memory"))
    if process is not None and in_memory is not None:
        # The scheduler knows of results sooner than of memory, hence the same bounds as Dask's.
        managed = min(max(0, state.nbytes - in_memory), process)
        metrics["memory_managed_bytes"] = managed
        metrics["memory_unmanaged_bytes"] = process - managed
    return metrics


def _read_older_metrics(reported: Dict[str, Any]) -> Tuple[Dict[str, Any], ...]:
    """Returns task counts, network and disk of a worker, under the names of newer releases."""
    get = reported.get
    counts = {
        "memory": get("in_memory"),
        "executing": get("executing"),
        "ready": get("ready"),
        "flight": get("in_flight"),
    }
    network = {"read_bps": get("read_bytes"), "write_bps": get("write_bytes")}
    disk = {"read_bps": get("read_bytes_disk"), "write_bps": get("write_bytes_disk")}
    return counts, network, disk


def count_tasks(scheduler: Any, metrics: Metrics) -> None:
    """Counts the tasks in each state without iterating over tasks."""
    metrics["tasks_processing"] = sum([len(ws.processing) for ws in scheduler.workers.values()])
    metrics["tasks_no_worker"] = len(scheduler.unrunnable)
    if hasattr(scheduler, "queued"):  # the oldest releases lack this state
        metrics["tasks_queued"] = len(scheduler.queued)
    collections: Iterable[Any] = scheduler.task_prefixes.values()
    # Older releases compute a prefix's counts from its groups on each access.
    for prefix in collections:
        if isinstance(getattr(type(prefix), "states", None), property):
            collections = scheduler.task_groups.values()
        break
    waiting = memory = erred = released = 0
    for collection in collections:
        states = collection.states
        waiting += states["waiting"]
        memory += states["memory"]
        erred += states["erred"]
        released += states["released"]
    metrics["tasks_waiting"], metrics["tasks_memory"] = waiting, memory
    metrics["tasks_erred"], metrics["tasks_released"] = erred, released


def _passed(since: float, now: float, seconds: float) -> bool:
    """True if the interval has passed. A clock set back must not stop the samples."""
    return not 0.0 <= now - since < seconds


def _values(measured: List[Metrics], name: str) -> List[float]:
    try:  # usually all have it
        return [own_metrics[name] for own_metrics in measured]
    except KeyError:
        return [own_metrics[name] for own_metrics in measured if name in own_metrics]


def _number(value: Any) -> Optional[float]:
    is_finite_number = value.__class__ is int or (value.__class__ is float and math.isfinite(value))
    return value if is_finite_number else None


def _free_share(metrics: Metrics) -> float:
    return metrics["disk_free_bytes"] / max(metrics.get("disk_total_bytes", 0), 1)
