"""The usage of a cluster by hour.

An hour's values are sums over that hour. The times of threads, workers and memory are exact: they
are split at the end of an hour. Task activity is only known as totals. Their growth is distributed
over the hours in which tasks ran, which each task reports when it ends.

Thread time is busy, idle or neither. It is neither if nobody observed it, before the plugin
started, and if it is unknown for now or for good: the time of running tasks, and that of workers
that ended before they sent their measurements. Idle is only the remainder.
"""

import math
from collections import deque
from heapq import nlargest
from typing import Any, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from .collector import Collector, Context
from .sections import Record
from .values import to_count

HOUR = 3600
GIB = 2**30
FUNCTIONS = 1000  # in one hour
MOST_FUNCTIONS = 5000  # distinguished in one hour, of which the slowest are sent
# The number of hours kept for sending them again to a server that lost its store, and the number of
# past hours examined by a plugin that starts on an old scheduler.
KEPT_HOURS, EARLIER_HOURS = 48, 500
# Measurements of an hour may arrive this much later.
SETTLING_SECONDS = 120.0
# Ended workers whose last metrics may still arrive.
MOST_ENDED = 5000

# The workers' metrics for the time in which their threads compute, or should.
ACTIVITIES = {
    "thread-cpu": "cpu_seconds",
    "thread-noncpu": "noncpu_seconds",
    "serialize": "serialize_seconds",
    "deserialize": "serialize_seconds",
    "disk-read": "spill_seconds",
    "disk-write": "spill_seconds",
    "compress": "spill_seconds",
    "decompress": "spill_seconds",
    "memory-read": "spill_seconds",
    "failed": "failed_seconds",
    "cancelled": "failed_seconds",
}
EXECUTE = (
    "cpu_seconds", "noncpu_seconds", "serialize_seconds", "spill_seconds", "overhead_seconds",
    "failed_seconds",
)  # fmt: skip
DURATIONS = ("thread_seconds", "worker_seconds", "memory_gib_seconds", "compute_seconds",
             "transfer_seconds", *EXECUTE)  # fmt: skip
NUMBERS = (
    "tasks", "tasks_erred", "retries", "errors", "bytes", "spilled_bytes", "workers",
)  # fmt: skip


class HourRecord(Record):
    """The usage in one hour, in UTC."""

    __slots__ = (
        "functions",
        "hour",
        "observed_seconds",
        "pending_seconds",
        "sums",
        "unknown_seconds",
    )  # fmt: skip

    def __init__(self, hour: int):
        super().__init__(str(hour))
        self.hour = hour
        self.sums: Dict[str, Any] = dict.fromkeys(DURATIONS, 0.0)
        self.sums.update(dict.fromkeys(NUMBERS, 0))
        # Of the threads, while their activity was observed.
        self.observed_seconds = 0.0
        # Of these, the part that is unknown for good: of workers that ended without sending
        # metrics.
        self.unknown_seconds = 0.0
        # And the part that is unknown for now: of running tasks, and since the latest heartbeats.
        self.pending_seconds = 0.0
        self.functions: Dict[str, List[Any]] = {}

    def export_state(self) -> Dict[str, Any]:
        return {
            "hour": self.hour,
            "sums": dict(self.sums),
            "watched_seconds": self.observed_seconds,
            "unknown_seconds": self.unknown_seconds,
            "functions": {prefix: list(sums) for prefix, sums in self.functions.items()},
        }

    def import_state(self, inherited: Mapping[str, Any]) -> None:
        self.sums.update(
            (name, inherited["sums"][name]) for name in self.sums if name in inherited["sums"]
        )
        self.observed_seconds = inherited["watched_seconds"]
        self.unknown_seconds = inherited.get("unknown_seconds", 0.0)
        self.functions = {prefix: list(sums) for prefix, sums in inherited["functions"].items()}

    def free_seconds(self) -> float:
        """Returns the observed thread time that is not busy."""
        return max(0.0, self.observed_seconds - sum(self.sums[name] for name in EXECUTE))

    def describe(self, with_functions: bool, with_execute: bool, with_idle: bool) -> Dict[str, Any]:
        body: Dict[str, Any] = {"hour": self.hour}
        body.update((name, self.sums[name]) for name in DURATIONS)
        if self.observed_seconds < self.sums["thread_seconds"] - 1e-6:
            body["observed_seconds"] = self.observed_seconds
        body.update((name, to_count(self.sums[name])) for name in NUMBERS)
        if not with_execute:
            # Time that Dask does not measure is unknown, not zero.
            for name in EXECUTE:
                del body[name]
        if with_idle:
            busy = max(sum(self.sums[name] for name in EXECUTE), self.sums["compute_seconds"])
            known_seconds = self.observed_seconds - self.unknown_seconds - self.pending_seconds
            body["idle_seconds"] = max(0.0, known_seconds - busy)
        if with_functions:
            functions: Any = self.functions.items()
            if len(self.functions) > FUNCTIONS:
                functions = nlargest(FUNCTIONS, functions, key=lambda function: function[1][0])
            body["functions"] = [
                {
                    "prefix": prefix,
                    "compute_seconds": sums[0],
                    "transfer_seconds": sums[1],
                    "tasks": to_count(sums[2]),
                    "tasks_erred": to_count(sums[3]),
                    "bytes": to_count(sums[4]),
                }
                for prefix, sums in functions
            ]
        return body


class Usage(Collector):
    """Sums the capacity of a scheduler's workers and the use by its tasks, hour by hour."""

    def __init__(self, context: Context):
        super().__init__(context)
        now = context.now()
        scheduler = context.scheduler
        self._started_at = now
        self._hours: Dict[int, HourRecord] = {}  # those that may still change
        self._past: Deque[HourRecord] = deque(maxlen=KEPT_HOURS)
        self._first_open = 0  # hours before this one are settled
        # Workers by address with their threads, their memory limit, and Dask's state.
        self._workers: Dict[str, Tuple[int, int, Any]] = {}
        self._workers_since = now
        # Thread time that is unknown since a worker ended, by address and hour, until its last
        # metrics arrive. Also the addresses of workers whose metrics arrived before they ended.
        self._ended: Dict[str, Dict[int, float]] = {}
        self._early_metrics: Dict[str, None] = {}
        # Compute time of tasks that ended since the latest read, by prefix and hour. Also by hour,
        # until the same amount has arrived in metrics. None stands for the time before the plugin
        # started.
        self._compute_times: Dict[str, Dict[Optional[int], float]] = {}
        self._unmeasured_seconds: Dict[Optional[int], float] = {}
        for address in list(scheduler.workers):
            self._add(address, now)
        # Newer releases of Dask record changes in the number of threads. This is the position up to
        # which that history was read, and the number at that point.
        self._history: Any = getattr(scheduler, "total_nthreads_history", None)
        self._history_read, self._threads = 0, 0
        self._threads_since = now
        if self._history:
            self._threads_since = min(now, self._history[0][0])
        earliest = (int(now // HOUR) - EARLIER_HOURS) * HOUR
        self._threads_since = max(self._threads_since, earliest)
        # Earlier measurements of workers belong to unknown hours.
        self._metrics: Any = getattr(scheduler, "cumulative_worker_metrics", None)
        self._measured: Dict[Any, Any] = {}
        for _ in self._growth_of_metrics():
            pass
        context.ledger.on_growth = self._add_growth
        context.ledger.on_run.append(self.record_run)
        context.on_last_metrics = self._metrics_arrived
        self._errors = 0

    def worker_added(self, address: str) -> None:
        now = self.context.now()
        self._advance_workers(now)
        self._add(address, now)

    def worker_removed(self, address: str, stimulus_id: Optional[str] = None) -> None:
        now = self.context.now()
        self._advance_workers(now)
        known_worker = self._workers.pop(address, None)
        if known_worker is None or self._metrics is None:
            return
        if address in self._early_metrics:
            del self._early_metrics[address]  # another worker may have this address later
            return
        unknown: Dict[int, float] = {}
        for hour, seconds in self._pending_of(
            known_worker[2], known_worker[0], now, has_ended=True
        ):
            unknown[hour] = unknown.get(hour, 0.0) + seconds
        for hour, seconds in unknown.items():
            self._hour(hour * HOUR).unknown_seconds += seconds
        self._ended[address] = unknown
        if len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]

    def _metrics_arrived(self, address: str) -> None:
        """Records that a worker that ends or has ended has sent all its measurements."""
        if address in self._workers:
            self._early_metrics[address] = None
            return
        for hour, seconds in self._ended.pop(address, {}).items():
            record = self._hours.get(hour)
            if record is not None:
                record.unknown_seconds = max(0.0, record.unknown_seconds - seconds)

    def record_run(self, prefix: Optional[str], startstops: Iterable[Mapping[str, Any]]) -> None:
        """Records the compute times of an ended task; without a prefix if it failed."""
        by_hour, unmeasured = None, self._unmeasured_seconds
        if prefix is not None:
            by_hour = self._compute_times.get(prefix)
            if by_hour is None:
                by_hour = self._compute_times[prefix] = {}
        for startstop in startstops:
            if startstop["action"] != "compute":
                continue
            for hour, seconds in self._split_observed_by_hour(
                startstop["start"], startstop["stop"]
            ):
                unmeasured[hour] = unmeasured.get(hour, 0.0) + seconds
                if by_hour is not None:
                    by_hour[hour] = by_hour.get(hour, 0.0) + seconds

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        if closed_at is not None:
            # Workers that leave while the scheduler closes have been used up to now.
            now = closed_at
        self._advance_workers(now)
        self._advance_threads(now)
        current = self._hour(now)
        self._add_growth_of_metrics(current)
        self._find_pending_time(now)
        ledger = self.context.ledger
        errors = ledger.error_count - ledger.adopted_error_count
        current.sums["errors"] += errors - self._errors
        self._errors = errors
        outbox = self.context.outboxes["usage"]
        with_functions = self.context.sends("tasks")
        for hour, record in list(self._hours.items()):
            body = record.describe(
                with_functions, self._metrics is not None, self._knows_idle(record)
            )
            settles_at = (hour + 1) * HOUR + SETTLING_SECONDS
            if now >= settles_at and not record.pending_seconds:
                record.settled = True
                self._past.append(self._hours.pop(hour))
                record.functions = {}
                self._first_open = max(self._first_open, hour + 1)
            if body != record.body:
                record.body = body
                outbox.add(record)
        outbox.enforce_bounds()

    def resend(self) -> None:
        for record in [*self._past, *self._hours.values()]:
            if record.body is not None:
                self.context.outboxes["usage"].add(record)

    def records(self) -> Iterable[Record]:
        return self._hours.values()

    def export_state(self) -> Dict[str, Any]:
        unsent = self.context.outboxes["usage"].records
        return {
            "started_at": self._started_at,
            "hours": [record.export_state() for record in self._hours.values()],
            "past": [record.body for record in self._past if record not in unsent],
            "first_open": self._first_open,
            "workers": {
                address: known_values[:2] for address, known_values in self._workers.items()
            },
            "workers_since": self._workers_since,
            "history": (self._history_read, self._threads, self._threads_since),
            "measured": {key: known_values for key, (_, known_values) in self._measured.items()},
            "errors": self._errors,
            "ended": self._ended,
            "handed_over": list(self._early_metrics),
            "unmeasured": self._unmeasured_seconds,
        }

    def import_state(self, inherited: Mapping[str, Any]) -> None:
        self._started_at, self._errors = inherited["started_at"], inherited["errors"]
        self._hours = {}
        for own in inherited["hours"]:
            record = self._hours[own["hour"]] = HourRecord(own["hour"])
            record.import_state(own)
        for body in inherited["past"]:
            record = HourRecord(body["hour"])
            record.body, record.settled = dict(body), True
            self._past.append(record)
        self._first_open = inherited["first_open"]
        self._ended = {address: dict(own) for address, own in inherited.get("ended", {}).items()}
        self._early_metrics = dict.fromkeys(inherited.get("handed_over", ()))
        self._unmeasured_seconds = dict(inherited.get("unmeasured", {}))
        self._history_read, self._threads, self._threads_since = inherited["history"]
        self._measured = {
            key: [_sum_of(key), known_values] for key, known_values in inherited["measured"].items()
        }
        # Workers that joined or left unobserved are treated as if they did so just now.
        now, workers = self.context.now(), self.context.scheduler.workers
        self._workers = {
            a: (*known_values[:2], None) for a, known_values in inherited["workers"].items()
        }
        self._workers_since = inherited["workers_since"]
        self._advance_workers(now)
        self._workers = {
            a: (*known_values[:2], workers[a])
            for a, known_values in self._workers.items()
            if a in workers
        }
        for address in list(workers):
            self._add(address, now)

    def _knows_idle(self, record: HourRecord) -> bool:
        return self._metrics is not None and (record.hour + 1) * HOUR > self._started_at

    def _hour(self, at: float) -> HourRecord:
        # A clock set back must not reopen a settled hour.
        hour = max(int(at // HOUR), self._first_open)
        record = self._hours.get(hour)
        if record is None:
            record = self._hours[hour] = HourRecord(hour)
        return record

    def _split_by_hour(self, start: float, stop: float) -> Iterator[Tuple[HourRecord, float]]:
        """Yields the hours between two times, with the number of seconds in each."""
        while start < stop:
            record = self._hour(start)
            end = min(stop, (record.hour + 1) * HOUR)
            yield record, end - start
            start = end

    # The capacity of the cluster.

    def _add(self, address: str, now: float) -> None:
        state = self.context.scheduler.workers.get(address)
        if state is not None and address not in self._workers:
            self._workers[address] = (state.nthreads, state.memory_limit or 0, state)
            self._ended.pop(address, None)
            self._hour(now).sums["workers"] += 1

    def _advance_workers(self, now: float) -> None:
        if now <= self._workers_since:
            return
        workers = len(self._workers)
        gib = sum(limit for _, limit, _ in self._workers.values()) / GIB
        threads = sum(threads for threads, _, _ in self._workers.values())
        for record, seconds in self._split_by_hour(self._workers_since, now):
            record.sums["worker_seconds"] += workers * seconds
            record.sums["memory_gib_seconds"] += gib * seconds
            if self._history is None:
                record.sums["thread_seconds"] += threads * seconds
                record.observed_seconds += threads * seconds
        self._workers_since = now

    def _advance_threads(self, now: float) -> None:
        if self._history is None:
            return
        while self._history_read < len(self._history):
            at, threads = self._history[self._history_read]
            self._history_read += 1
            self._use_threads(min(at, now))
            self._threads = threads
        self._use_threads(now)

    def _use_threads(self, until: float) -> None:
        for record, seconds in self._split_by_hour(self._threads_since, until):
            record.sums["thread_seconds"] += self._threads * seconds
        for record, seconds in self._split_by_hour(
            max(self._threads_since, self._started_at), until
        ):
            record.observed_seconds += self._threads * seconds
        self._threads_since = max(self._threads_since, until)

    # The use by tasks.

    def _add_growth(self, prefix: str, growth: Tuple[Any, ...]) -> None:
        """Adds the growth of a prefix's sums since the last call."""
        _, succeeded, erred, compute, transfer, nbytes, retries = growth
        if not any(growth[1:]):  # only the number of tasks has grown
            return
        record = self._hour(self.context.now())
        sums = record.sums
        sums["tasks"] += succeeded
        sums["tasks_erred"] += erred
        sums["transfer_seconds"] += transfer
        sums["bytes"] += nbytes
        sums["retries"] += retries
        compute_times = self._compute_times.pop(prefix, None)
        for hour, seconds in _in_proportion(compute, compute_times, record.hour):
            # Compute time from before the plugin started belongs to no hour, like its thread time.
            if hour is not None:
                self._add_compute(self._hour(hour * HOUR), prefix, seconds)
        function = _function(record, prefix)
        if function is not None:
            for i, value in enumerate((transfer, succeeded, erred, nbytes), 1):
                function[i] += value

    def _add_compute(self, record: HourRecord, prefix: str, seconds: float) -> None:
        record.sums["compute_seconds"] += seconds
        function = _function(record, prefix)
        if function is not None:
            function[0] += seconds

    def _add_growth_of_metrics(self, current: HourRecord) -> None:
        """Distributes the workers' measurements over the hours in which their tasks ran."""
        growth = list(self._growth_of_metrics())
        busy = sum(grown for name, grown in growth if name in EXECUTE)
        hours = self._distribute_busy(busy, current)
        for name, grown in growth:
            if name not in EXECUTE:
                current.sums[name] += grown
                continue
            for hour, seconds in _in_proportion(grown, hours, current.hour):
                if hour is not None:
                    self._hour(hour * HOUR).sums[name] += seconds
        compute_times = sum(self._unmeasured_seconds.values())
        remaining_share = 1.0 - busy / compute_times if compute_times > busy else 0.0
        self._unmeasured_seconds = {
            hour: seconds * remaining_share
            for hour, seconds in self._unmeasured_seconds.items()
            # Times that have not arrived by now were lost with their worker.
            if remaining_share and (hour is None or hour in self._hours)
        }

    def _distribute_busy(self, busy: float, current: HourRecord) -> Dict[Optional[int], float]:
        """Distributes busy time over hours as tasks ran, with at most the thread time of each.

        Metrics arrive worker by worker, but tasks are only known in total, so their proportion is
        that of another time.
        """
        seconds_by_hour: Dict[Optional[int], float] = {}
        for hour, seconds in _in_proportion(busy, self._unmeasured_seconds, current.hour):
            if hour is not None:
                hour = self._hour(hour * HOUR).hour  # the first one that may change
            seconds_by_hour[hour] = seconds_by_hour.get(hour, 0.0) + seconds
        excess = 0.0
        for hour in [hour for hour in seconds_by_hour if hour is not None]:
            record = self._hour(hour * HOUR)
            overflow = seconds_by_hour[hour] - record.free_seconds()
            if overflow > 0.0:
                seconds_by_hour[hour] -= overflow
                excess += overflow
        for record in sorted(self._hours.values(), key=lambda record: -record.hour):
            if excess <= 0.0:
                break
            free = record.free_seconds() - seconds_by_hour.get(record.hour, 0.0)
            if free > 0.0:
                more = min(free, excess)
                seconds_by_hour[record.hour] = seconds_by_hour.get(record.hour, 0.0) + more
                excess -= more
        # The excess over all threads was measured before the plugin started.
        seconds_by_hour[None] = seconds_by_hour.get(None, 0.0) + excess
        return seconds_by_hour

    def _find_pending_time(self, now: float) -> None:
        """Finds the thread time whose use workers have not reported yet."""
        for record in self._hours.values():
            record.pending_seconds = 0.0
        if self._metrics is None:
            return
        # Ended tasks whose metrics have not arrived.
        for hour, seconds in self._unmeasured_seconds.items():
            if hour in self._hours:
                self._hours[hour].pending_seconds += seconds
        for threads, _, state in self._workers.values():
            for hour, seconds in self._pending_of(state, threads, now):
                record = self._hours.get(hour)
                if record is not None:
                    record.pending_seconds += seconds

    def _pending_of(
        self, state: Any, threads: int, now: float, has_ended: bool = False
    ) -> Iterator[Tuple[int, float]]:
        """Yields the thread time of a worker that is in none of its heartbeats, by hour.

        Metrics of a task arrive with the heartbeat after its end, and a heartbeat lists running
        tasks. Since the latest one, threads may have worked on the tasks that the worker has, and
        on no others.
        """
        last_seen = min(getattr(state, "last_seen", None) or now, now)
        executing = getattr(state, "executing", None) or {}
        processing = getattr(state, "processing", None)
        if processing is None or has_ended:  # Dask removes the tasks from a worker that is gone
            compute_times, busy = list(executing.values()), threads
        else:
            # Tasks that have ended since are among those whose metrics have not arrived.
            compute_times = [seconds for task, seconds in executing.items() if task in processing]
            busy = min(threads, len(processing))
        for seconds in nlargest(threads, compute_times):
            yield from self._skip_unobserved(last_seen - seconds, last_seen)
        for hour, seconds in self._skip_unobserved(last_seen, now):
            yield hour, seconds * busy

    def _skip_unobserved(self, start: float, stop: float) -> Iterator[Tuple[int, float]]:
        for hour, seconds in self._split_observed_by_hour(start, stop):
            if hour is not None:
                yield hour, seconds

    def _split_observed_by_hour(
        self, start: float, stop: float
    ) -> Iterator[Tuple[Optional[int], float]]:
        """Yields the hours between two times with their seconds; None before the plugin started."""
        if start < self._started_at:
            yield None, max(0.0, min(stop, self._started_at) - start)
            start = self._started_at
        while start < stop:
            hour = int(start // HOUR)
            end = min(stop, float((hour + 1) * HOUR))
            yield hour, end - start
            start = end

    def _growth_of_metrics(self) -> Iterator[Tuple[str, Any]]:
        """Yields the growth of the workers' measurements since the last call, by sum."""
        if self._metrics is None:
            return
        last_metrics = self.context.last_metrics
        if last_metrics:
            metrics: Mapping[Any, Any] = {**last_metrics, **self._metrics}
        else:
            metrics = self._metrics
        for key, value in metrics.items():
            if key in last_metrics and key in self._metrics:
                value += last_metrics[key]
            entry = self._measured.get(key)
            if entry is None:
                entry = self._measured[key] = [_sum_of(key), 0]
            name, known_value = entry
            if name is None or value == known_value or not _is_finite(value):
                continue
            entry[1] = value
            if value > known_value:
                yield name, value - known_value


def _function(record: HourRecord, prefix: str) -> Optional[List[Any]]:
    """Returns the sums of a function in an hour; None if there are too many functions."""
    function = record.functions.get(prefix)
    if function is None and len(record.functions) < MOST_FUNCTIONS:
        function = record.functions[prefix] = [0.0, 0.0, 0, 0, 0]
    return function


def _in_proportion(
    total: float, parts: Optional[Mapping[Optional[int], float]], default_hour: int
) -> Iterable[Tuple[Optional[int], float]]:
    """Splits a sum in proportion to these parts; without parts it all goes to one hour."""
    total_weight = sum(parts.values()) if parts else 0.0
    if not parts or total_weight <= 0.0:
        return [(default_hour, total)]
    if len(parts) == 1:
        return [(hour, total) for hour in parts]
    return [(hour, total * (part / total_weight)) for hour, part in parts.items()]


def _sum_of(key: Any) -> Optional[str]:
    """Returns the sum that a fine performance metric adds to; None if there is none."""
    if not isinstance(key, tuple) or len(key) < 3:
        return None
    context, activity, unit = key[0], key[-2], key[-1]
    if activity == "disk-write" and unit == "bytes" and context != "p2p":
        return "spilled_bytes"
    if context != "execute" or len(key) != 4 or unit != "seconds":
        return None
    if isinstance(activity, str) and activity.startswith("p2p-"):
        if activity.endswith("-noncpu"):
            return "noncpu_seconds"
        return "cpu_seconds" if activity.endswith("-cpu") else "overhead_seconds"
    try:
        return ACTIVITIES.get(activity, "overhead_seconds")
    except TypeError:  # users may record any metric
        return "overhead_seconds"


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
