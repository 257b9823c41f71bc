"""Threads by function over time: the compute time of succeeded tasks, by 15 seconds of the clock.

A task reports when it ran only when it ends, so a long one adds to minutes that are long over. A
minute is sent again whenever that changes it. Its values never fall.
"""

from heapq import nlargest
from math import inf
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from .collector import Collector, Context
from .sections import Record
from .values import NAME_LENGTH, cut

INTERVAL = 15  # seconds
PER_MINUTE = 60 // INTERVAL
PERIOD = 10  # minutes in which the same functions are named; the server stores them as one row
# Functions named in a period: first those with the most time in the period before, then those that
# come first. The last places are for functions that occupy a part of all threads, since a function
# that comes late may be the one that matters.
NAMED, FROM_BEFORE, FIRST_COME = 20, 8, 14
LARGE = 0.005  # of the thread time of a period
# Minutes that can still change. Of a task that ran for longer, only its last part counts.
CHANGEABLE_MINUTES = 24 * 60
MOST_FUNCTIONS = 5000  # distinguished in a period
# Functions whose whole intervals a read distinguishes, since each may take thousands of steps.
# Those of all other functions count as others.
MOST_LONG = 20

# Of the tasks of a function that ended: seconds by interval, and the changes of the number of
# threads that were occupied for whole intervals.
EndedTasks = Tuple[Dict[int, float], Dict[int, int]]


class MinuteRecord(Record):
    """The compute seconds of functions in the intervals of a minute, in UTC."""

    __slots__ = ("functions", "minute", "others")

    def __init__(self, minute: int):
        super().__init__(str(minute))
        self.minute = minute
        self.functions: Dict[str, List[float]] = {}
        self.others: Optional[List[float]] = None

    def describe(self) -> Dict[str, Any]:
        body: Dict[str, Any] = {
            "minute": self.minute,
            "functions": [
                {"prefix": cut(prefix, NAME_LENGTH), "compute_seconds": _rounded(seconds)}
                for prefix, seconds in self.functions.items()
            ],
        }
        if self.others is not None:
            body["other_compute_seconds"] = _rounded(self.others)
        return body


class FunctionActivity(Collector):
    """Sums the compute time of succeeded tasks by function and interval."""

    is_separate = True  # each minute is complete in itself

    def __init__(self, context: Context):
        super().__init__(context)
        self._minutes: Dict[int, MinuteRecord] = {}
        self._ended_tasks: Dict[str, EndedTasks] = {}  # since the latest read, by function
        self._named_functions: Dict[int, Dict[str, None]] = {}  # by period
        # The time of all functions in the present period, and in the one before.
        self._period = 0
        self._current_totals: Dict[str, float] = {}
        self._previous_totals: Dict[str, float] = {}
        self._threads = 0  # at most, in the present period
        context.ledger.on_run.append(self.record_run)

    def record_run(self, prefix: Optional[str], startstops: Iterable[Mapping[str, Any]]) -> None:
        """Records the compute times of an ended task; without a prefix if it failed."""
        if prefix is None:
            return
        ended = self._ended_tasks.get(prefix)
        if ended is None:
            ended = self._ended_tasks[prefix] = ({}, {})
        seconds, changes = ended
        for startstop in startstops:
            if startstop["action"] != "compute":
                continue
            start, stop = startstop["start"], startstop["stop"]
            if not 0.0 < stop - start < inf:
                continue
            start = max(start, stop - CHANGEABLE_MINUTES * 60)
            first, last = int(start // INTERVAL), int(stop // INTERVAL)
            if first == last:
                seconds[first] = seconds.get(first, 0.0) + (stop - start)
                continue
            seconds[first] = seconds.get(first, 0.0) + ((first + 1) * INTERVAL - start)
            if stop > last * INTERVAL:
                seconds[last] = seconds.get(last, 0.0) + (stop - last * INTERVAL)
            if last - first > 1:
                changes[first + 1] = changes.get(first + 1, 0) + 1
                changes[last] = changes.get(last, 0) - 1

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        ended, self._ended_tasks = self._ended_tasks, {}
        present = int(now // 60)
        self._start_period(present // PERIOD)
        self._threads = max(self._threads, getattr(self.context.scheduler, "total_nthreads", 0))
        # A worker's clock may be ahead, but not by this much.
        period = range(
            (present - CHANGEABLE_MINUTES + 1) * PER_MINUTE,
            (present + CHANGEABLE_MINUTES) * PER_MINUTE,
        )
        changed: Dict[MinuteRecord, None] = {}
        # Those with the most time first, since they are to be named.
        for prefix, (seconds, changes) in sorted(
            _bounded(ended), key=_compute_seconds, reverse=True
        ):
            _fill(seconds, changes, period)
            self._add(prefix, seconds, period, changed)
        for record in changed:
            self._queue(record)
        self._settle(present)
        self.context.outboxes["function_activity"].enforce_bounds()

    def _add(
        self,
        prefix: Optional[str],
        seconds: Mapping[int, float],
        period: range,
        changed: Dict[MinuteRecord, None],
    ) -> None:
        """Adds the seconds by interval to the minutes in the period. None stands for others."""
        if prefix is not None and (
            prefix in self._current_totals or len(self._current_totals) < MOST_FUNCTIONS
        ):
            total = sum(amount for interval, amount in seconds.items() if interval in period)
            self._current_totals[prefix] = self._current_totals.get(prefix, 0.0) + total
        record: Optional[MinuteRecord] = None
        row: List[float] = []
        for interval, amount in seconds.items():
            if interval not in period:
                continue
            minute, position = divmod(interval, PER_MINUTE)
            if record is None or record.minute != minute:
                record = self._minutes.get(minute)
                if record is None:
                    record = self._minutes[minute] = MinuteRecord(minute)
                row = self._row(record, prefix)
                changed[record] = None
            row[position] += amount

    def _queue(self, record: MinuteRecord) -> None:
        record.body = record.describe()
        size = 100 + sum(len(prefix) + 60 for prefix in record.functions)
        outbox = self.context.outboxes["function_activity"]
        outbox.resize(record, size)
        outbox.add(record)

    def resend(self) -> None:
        for record in self._minutes.values():
            self.context.outboxes["function_activity"].add(record)

    def records(self) -> Iterable[Record]:
        return self._minutes.values()

    def export_state(self) -> Dict[str, Any]:
        return {
            "minutes": [(r.minute, r.functions, r.others) for r in self._minutes.values()],
            "named": {period: list(named) for period, named in self._named_functions.items()},
            "totals": (self._period, self._current_totals, self._previous_totals),
        }

    def import_state(self, inherited: Mapping[str, Any]) -> None:
        for minute, functions, others in inherited["minutes"]:
            record = self._minutes[minute] = MinuteRecord(minute)
            record.functions = {prefix: list(seconds) for prefix, seconds in functions.items()}
            record.others = others and list(others)
            # The server may lack any of these minutes. It keeps the larger value of each interval.
            self._queue(record)
        self._named_functions = {
            period: dict.fromkeys(named) for period, named in inherited["named"].items()
        }
        self._period, now, before = inherited["totals"]
        self._current_totals, self._previous_totals = dict(now), dict(before)

    def _start_period(self, period: int) -> None:
        if period > self._period:
            self._previous_totals = self._current_totals if period == self._period + 1 else {}
            self._period, self._current_totals, self._threads = period, {}, 0

    def _row(self, record: MinuteRecord, prefix: Optional[str]) -> List[float]:
        if prefix is not None:
            row = record.functions.get(prefix)
            if row is not None:
                return row
            if self._is_named(prefix, record.minute // PERIOD):
                row = record.functions[prefix] = [0.0] * PER_MINUTE
                return row
        if record.others is None:
            record.others = [0.0] * PER_MINUTE
        return record.others

    def _is_named(self, prefix: str, period: int) -> bool:
        named = self._named_functions.get(period)
        if named is None:
            first = nlargest(
                FROM_BEFORE, self._previous_totals, key=self._previous_totals.__getitem__
            )
            named = self._named_functions[period] = dict.fromkeys(first)
        if prefix in named:
            return True
        is_large = self._current_totals.get(prefix, 0.0) >= LARGE * self._threads * PERIOD * 60
        if len(named) >= (NAMED if is_large else FIRST_COME):
            return False
        named[prefix] = None
        return True

    def _settle(self, present: int) -> None:
        for minute in [
            minute for minute in self._minutes if minute <= present - CHANGEABLE_MINUTES
        ]:
            self._minutes.pop(minute).settled = True
        for period in [
            period
            for period in self._named_functions
            if period < (present - CHANGEABLE_MINUTES) // PERIOD
        ]:
            del self._named_functions[period]


def _bounded(ended: Mapping[str, EndedTasks]) -> List[Tuple[Optional[str], EndedTasks]]:
    """Returns what ended by function. The whole intervals of all but a few belong to None."""
    long = {prefix: _threads_by_intervals(changes) for prefix, (_, changes) in ended.items()}
    long = {prefix: whole for prefix, whole in long.items() if whole}
    if len(long) <= MOST_LONG:
        return list(ended.items())
    longest = frozenset(nlargest(MOST_LONG, long, key=long.__getitem__))
    others: Dict[int, int] = {}
    bounded: List[Tuple[Optional[str], EndedTasks]] = []
    for prefix, (seconds, changes) in ended.items():
        if prefix not in longest:
            for interval, change in changes.items():
                others[interval] = others.get(interval, 0) + change
            changes = {}
        bounded.append((prefix, (seconds, changes)))
    bounded.append((None, ({}, others)))
    return bounded


def _compute_seconds(item: Tuple[Optional[str], EndedTasks]) -> float:
    _, (seconds, changes) = item
    return sum(seconds.values()) + INTERVAL * _threads_by_intervals(changes)


def _threads_by_intervals(changes: Mapping[int, int]) -> int:
    """Returns the number of whole intervals, each times the threads that were occupied."""
    return -sum(interval * change for interval, change in changes.items())


def _fill(seconds: Dict[int, float], changes: Mapping[int, int], period: range) -> None:
    """Adds the seconds of whole intervals in the period to the seconds by interval."""
    threads, since = 0, 0
    for interval in sorted(changes):
        if threads:
            for whole in range(max(since, period.start), min(interval, period.stop)):
                seconds[whole] = seconds.get(whole, 0.0) + threads * INTERVAL
        threads, since = threads + changes[interval], interval


def _rounded(seconds: Iterable[float]) -> List[float]:
    return [round(value, 3) for value in seconds]
