"""Derives the usage of a cluster by hour from known times."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest
from typing import Any

from galvo.plugin.usage import FUNCTIONS, GIB
from galvo.plugin.values import to_count

HOUR = 3600
DURATIONS = (
    "thread_seconds", "worker_seconds", "memory_gib_seconds", "compute_seconds", "transfer_seconds"
)  # fmt: skip
COUNTS = ("tasks", "tasks_erred", "retries", "errors", "bytes", "spilled_bytes", "workers")


class Hours:
    """Sums by hour, in UTC."""

    def __init__(self) -> None:
        self._sums: dict[int, dict[str, Any]] = {}
        self._functions: dict[int, dict[str, list[Any]]] = {}
        # The increase of workers, threads and bytes at the start of an hour. It counts for whole
        # hours.
        self._changes: dict[int, list[int]] = {}

    def add_worker(self, start: float, stop: float, threads: int, memory: int | None) -> None:
        """Adds a worker that existed from one time to another."""
        self.add_workers(start, stop, 1, threads, memory or 0)

    def add_workers(
        self, start: float, stop: float, workers: int, threads: int, memory: int
    ) -> None:
        """Adds a number of workers that existed from one time to another."""
        capacity = (workers, threads, memory)
        first, last = int(start // HOUR), int(stop // HOUR)
        self._sums_of(first)["workers"] += workers
        if first == last:
            self._add_capacity(first, stop - start, capacity)
            return
        self._add_capacity(first, (first + 1) * HOUR - start, capacity)
        self._add_capacity(last, stop - last * HOUR, capacity)
        # The whole hours in between are summed once for all workers: there may be many hours and
        # many workers.
        for hour, sign in ((first + 1, 1), (last, -1)):
            change = self._changes.setdefault(hour, [0, 0, 0])
            for i, number in enumerate(capacity):
                change[i] += sign * number

    def add_tasks(
        self,
        at: float,
        prefix: str,
        *,
        compute: float = 0.0,
        transfer: float = 0.0,
        tasks: int = 0,
        erred: int = 0,
        retries: int = 0,
        nbytes: int = 0,
    ) -> None:
        """Adds tasks of a function that ended at this time."""
        hour = int(at // HOUR)
        sums = self._sums_of(hour)
        sums["compute_seconds"] += compute
        sums["transfer_seconds"] += transfer
        sums["tasks"] += tasks
        sums["tasks_erred"] += erred
        sums["retries"] += retries
        sums["bytes"] += nbytes
        functions = self._functions.setdefault(hour, {})
        function = functions.setdefault(prefix, [0.0, 0.0, 0, 0, 0])
        for i, value in enumerate((compute, transfer, tasks, erred, nbytes)):
            function[i] += value

    def add_error(self, at: float) -> None:
        self._sums_of(int(at // HOUR))["errors"] += 1

    def describe(self, with_functions: bool) -> list[dict[str, Any]]:
        """Returns the items of a report, ordered by time."""
        self._add_whole_hours()
        described = []
        for hour, sums in sorted(self._sums.items()):
            item: dict[str, Any] = {"hour": hour, **{name: sums[name] for name in DURATIONS}}
            item.update((name, to_count(sums[name])) for name in COUNTS)
            if with_functions:
                functions = nlargest(
                    FUNCTIONS,
                    self._functions.get(hour, {}).items(),
                    key=lambda entry: entry[1][0],
                )
                item["functions"] = [
                    {
                        "prefix": prefix,
                        "compute_seconds": function[0],
                        "transfer_seconds": function[1],
                        "tasks": to_count(function[2]),
                        "tasks_erred": to_count(function[3]),
                        "bytes": to_count(function[4]),
                    }
                    for prefix, function in functions
                ]
            described.append(item)
        return described

    def _sums_of(self, hour: int) -> dict[str, Any]:
        sums = self._sums.get(hour)
        if sums is None:
            sums = self._sums[hour] = dict.fromkeys(DURATIONS, 0.0)
            sums.update(dict.fromkeys(COUNTS, 0))
        return sums

    def _add_capacity(self, hour: int, seconds: float, capacity: Sequence[int]) -> None:
        if seconds <= 0.0:
            return
        sums = self._sums_of(hour)
        workers, threads, memory = capacity
        sums["worker_seconds"] += workers * seconds
        sums["thread_seconds"] += threads * seconds
        sums["memory_gib_seconds"] += memory / GIB * seconds

    def _add_whole_hours(self) -> None:
        capacity = [0, 0, 0]
        changes = sorted(self._changes.items())
        for (hour, change), (next_hour, _) in zip(changes, changes[1:]):
            capacity = [number + increase for number, increase in zip(capacity, change)]
            if any(capacity):
                for whole_hour in range(hour, next_hour):
                    self._add_capacity(whole_hour, HOUR, capacity)
        self._changes.clear()
