"""What a cluster has used in each hour of the clock.

An hour's values are sums over that hour. Times of threads, workers and memory are exact: they are
split where an hour ends. What tasks did is only known as totals, so what they have grown by since
the last look counts for the hour of this look.
"""

import math
from collections import deque
from heapq import nlargest
from typing import Any, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from .collector import Collector, Context
from .sections import Record
from .values import count

HOUR = 3600
GIB = 2**30
FUNCTIONS = 1000  # in one hour
MOST_FUNCTIONS = 5000  # that are told apart in one hour, of which those that took longest are sent
# What is kept to be sent again to a server that lost its store, and how far back a plugin looks
# that comes to a scheduler which has been there for long.
KEPT_HOURS, EARLIER_HOURS = 48, 500

# What workers say about the time of their threads that computes, or should.
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
    """What was used in one hour of the clock, in UTC."""

    __slots__ = ("functions", "hour", "sums", "watched_seconds")

    def __init__(self, hour: int):
        super().__init__(str(hour))
        self.hour = hour
        self.sums: Dict[str, Any] = dict.fromkeys(DURATIONS, 0.0)
        self.sums.update(dict.fromkeys(NUMBERS, 0))
        # Of the threads, while what they did was watched.
        self.watched_seconds = 0.0
        self.functions: Dict[str, List[Any]] = {}

    def bequeath(self) -> Dict[str, Any]:
        return {
            "hour": self.hour,
            "sums": dict(self.sums),
            "watched_seconds": self.watched_seconds,
            "functions": {prefix: list(sums) for prefix, sums in self.functions.items()},
        }

    def inherit(self, told: Mapping[str, Any]) -> None:
        self.sums.update((name, told["sums"][name]) for name in self.sums if name in told["sums"])
        self.watched_seconds = told["watched_seconds"]
        self.functions = {prefix: list(sums) for prefix, sums in told["functions"].items()}

    def describe(self, with_functions: bool, with_execute: bool, with_idle: bool) -> Dict[str, Any]:
        body: Dict[str, Any] = {"hour": self.hour}
        body.update((name, self.sums[name]) for name in DURATIONS)
        body.update((name, count(self.sums[name])) for name in NUMBERS)
        if not with_execute:
            # What Dask does not measure is not known to be nothing.
            for name in EXECUTE:
                del body[name]
        if with_idle:
            busy = sum(self.sums[name] for name in EXECUTE)
            body["idle_seconds"] = max(0.0, self.watched_seconds - busy)
        if with_functions:
            functions: Any = self.functions.items()
            if len(self.functions) > FUNCTIONS:
                functions = nlargest(FUNCTIONS, functions, key=lambda function: function[1][0])
            body["functions"] = [
                {
                    "prefix": prefix,
                    "compute_seconds": sums[0],
                    "transfer_seconds": sums[1],
                    "tasks": count(sums[2]),
                    "tasks_erred": count(sums[3]),
                    "bytes": count(sums[4]),
                }
                for prefix, sums in functions
            ]
        return body


class Usage(Collector):
    """Adds up what a scheduler's workers offer and what its tasks take of it, hour by hour."""

    def __init__(self, context: Context):
        super().__init__(context)
        now = context.now()
        scheduler = context.scheduler
        self._started_at = now
        self._hours: Dict[int, HourRecord] = {}  # those that may still change
        self._past: Deque[HourRecord] = deque(maxlen=KEPT_HOURS)
        self._first_open = 0  # hours before this one are settled
        # Workers by address with their threads and the limit of their memory.
        self._workers: Dict[str, Tuple[int, int]] = {}
        self._workers_since = now
        for address in list(scheduler.workers):
            self._add(address, now)
        # Newer releases of Dask remember when the number of threads changed; this says how far
        # that has been read, and what it was then.
        self._history: Any = getattr(scheduler, "total_nthreads_history", None)
        self._history_read, self._threads = 0, 0
        self._threads_since = now
        if self._history:
            self._threads_since = min(now, self._history[0][0])
        earliest = (int(now // HOUR) - EARLIER_HOURS) * HOUR
        self._threads_since = max(self._threads_since, earliest)
        # What workers have measured before is of hours that nobody knows.
        self._metrics: Any = getattr(scheduler, "cumulative_worker_metrics", None)
        self._measured: Dict[Any, Any] = {}
        for _ in self._growth_of_metrics():
            pass
        context.ledger.on_growth = self._grow
        self._errors = 0

    def worker_added(self, address: str) -> None:
        now = self.context.now()
        self._advance_workers(now)
        self._add(address, now)

    def worker_removed(self, address: str, stimulus_id: Optional[str] = None) -> None:
        self._advance_workers(self.context.now())
        self._workers.pop(address, None)

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        if closed_at is not None:
            # Workers that leave while the scheduler closes have been used up to now.
            now = closed_at
        self._advance_workers(now)
        self._advance_threads(now)
        current = self._hour(now)
        for name, grown in self._growth_of_metrics():
            current.sums[name] += grown
        ledger = self.context.ledger
        errors = ledger.error_count - ledger.adopted_error_count
        current.sums["errors"] += errors - self._errors
        self._errors = errors
        self._first_open = current.hour
        outbox = self.context.outboxes["usage"]
        with_functions = self.context.sends("tasks")
        for hour, record in list(self._hours.items()):
            body = record.describe(
                with_functions, self._metrics is not None, self._knows_idle(record)
            )
            if hour < current.hour:
                record.settled = True
                self._past.append(self._hours.pop(hour))
                record.functions = {}
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

    def bequeath(self) -> Dict[str, Any]:
        unsent = self.context.outboxes["usage"].records
        return {
            "started_at": self._started_at,
            "hours": [record.bequeath() for record in self._hours.values()],
            "past": [record.body for record in self._past if record not in unsent],
            "first_open": self._first_open,
            "workers": dict(self._workers),
            "workers_since": self._workers_since,
            "history": (self._history_read, self._threads, self._threads_since),
            "measured": {key: known for key, (_, known) in self._measured.items()},
            "errors": self._errors,
        }

    def inherit(self, told: Mapping[str, Any]) -> None:
        self._started_at, self._errors = told["started_at"], told["errors"]
        self._hours = {}
        for own in told["hours"]:
            record = self._hours[own["hour"]] = HourRecord(own["hour"])
            record.inherit(own)
        for body in told["past"]:
            record = HourRecord(body["hour"])
            record.body, record.settled = dict(body), True
            self._past.append(record)
        self._first_open = told["first_open"]
        self._history_read, self._threads, self._threads_since = told["history"]
        self._measured = {key: [_sum_of(key), known] for key, known in told["measured"].items()}
        # Who came and went while nobody listened did so just now, for all that is known.
        now, workers = self.context.now(), self.context.scheduler.workers
        self._workers, self._workers_since = dict(told["workers"]), told["workers_since"]
        self._advance_workers(now)
        self._workers = {a: worker for a, worker in self._workers.items() if a in workers}
        for address in list(workers):
            self._add(address, now)

    def _knows_idle(self, record: HourRecord) -> bool:
        return self._metrics is not None and (record.hour + 1) * HOUR > self._started_at

    def _hour(self, at: float) -> HourRecord:
        # A clock that is set back must not begin an hour that is settled once more.
        hour = max(int(at // HOUR), self._first_open)
        record = self._hours.get(hour)
        if record is None:
            record = self._hours[hour] = HourRecord(hour)
        return record

    def _spread(self, start: float, stop: float) -> Iterator[Tuple[HourRecord, float]]:
        """The hours from one moment to another, and how many seconds of each lie between."""
        while start < stop:
            record = self._hour(start)
            end = min(stop, (record.hour + 1) * HOUR)
            yield record, end - start
            start = end

    # What the cluster offers.

    def _add(self, address: str, now: float) -> None:
        state = self.context.scheduler.workers.get(address)
        if state is not None and address not in self._workers:
            self._workers[address] = (state.nthreads, state.memory_limit or 0)
            self._hour(now).sums["workers"] += 1

    def _advance_workers(self, now: float) -> None:
        if now <= self._workers_since:
            return
        workers = len(self._workers)
        gib = sum(limit for _, limit in self._workers.values()) / GIB
        threads = sum(threads for threads, _ in self._workers.values())
        for record, seconds in self._spread(self._workers_since, now):
            record.sums["worker_seconds"] += workers * seconds
            record.sums["memory_gib_seconds"] += gib * seconds
            if self._history is None:
                record.sums["thread_seconds"] += threads * seconds
                record.watched_seconds += threads * seconds
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
        for record, seconds in self._spread(self._threads_since, until):
            record.sums["thread_seconds"] += self._threads * seconds
        for record, seconds in self._spread(max(self._threads_since, self._started_at), until):
            record.watched_seconds += self._threads * seconds
        self._threads_since = max(self._threads_since, until)

    # What tasks take.

    def _grow(self, prefix: str, grown: Tuple[Any, ...]) -> None:
        """Tasks of this prefix have done so much since it was last called."""
        _, succeeded, erred, compute, transfer, nbytes, retries = grown
        if not any(grown[1:]):  # there only are more tasks
            return
        record = self._hour(self.context.now())
        sums = record.sums
        sums["tasks"] += succeeded
        sums["tasks_erred"] += erred
        sums["compute_seconds"] += compute
        sums["transfer_seconds"] += transfer
        sums["bytes"] += nbytes
        sums["retries"] += retries
        function = record.functions.get(prefix)
        if function is None:
            if len(record.functions) >= MOST_FUNCTIONS:
                return
            function = record.functions[prefix] = [0.0, 0.0, 0, 0, 0]
        for i, value in enumerate((compute, transfer, succeeded, erred, nbytes)):
            function[i] += value

    def _growth_of_metrics(self) -> Iterator[Tuple[str, Any]]:
        """What workers have measured since this was last asked, with the names of the sums."""
        for key, value in (self._metrics or {}).items():
            before = self._measured.get(key)
            if before is None:
                before = self._measured[key] = [_sum_of(key), 0]
            name, known = before
            if name is None or value == known or not _is_finite(value):
                continue
            before[1] = value
            if value > known:
                yield name, value - known


def _sum_of(key: Any) -> Optional[str]:
    """The sum that a fine performance metric goes into, if any."""
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
    except TypeError:  # users may measure what they like
        return "overhead_seconds"


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
