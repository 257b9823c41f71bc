"""Derives the usage of a cluster by hour from known times."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest
from typing import Any

from galvo.plugin.usage import FUNCTIONS, GIB
from galvo.plugin.values import count

HOUR = 3600
DURATIONS = (
    "thread_seconds", "worker_seconds", "memory_gib_seconds", "compute_seconds", "transfer_seconds"
)  # fmt: skip
NUMBERS = ("tasks", "tasks_erred", "retries", "errors", "bytes", "spilled_bytes", "workers")


class Hours:
    """Sums by hour, in UTC."""

    def __init__(self) -> None:
        self._sums: dict[int, dict[str, Any]] = {}
        self._functions: dict[int, dict[str, list[Any]]] = {}
        # The increase in workers, threads and bytes from an hour on, for the whole of it.
        self._changes: dict[int, list[int]] = {}

    def worker(self, start: float, stop: float, threads: int, memory: int | None) -> None:
        """Adds a worker that existed from one time to another."""
        self.offer(start, stop, 1, threads, memory or 0)

    def offer(self, start: float, stop: float, workers: int, threads: int, memory: int) -> None:
        """Adds workers of which only the number is known."""
        there = (workers, threads, memory)
        first, last = int(start // HOUR), int(stop // HOUR)
        self._hour(first)["workers"] += workers
        if first == last:
            self._add(first, stop - start, there)
            return
        self._add(first, (first + 1) * HOUR - start, there)
        self._add(last, stop - last * HOUR, there)
        # The hours between are summed once for all workers, because there may be many of both.
        for hour, sign in ((first + 1, 1), (last, -1)):
            change = self._changes.setdefault(hour, [0, 0, 0])
            for i, number in enumerate(there):
                change[i] += sign * number

    def tasks(
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
        """Adds tasks of a function that were done by a time."""
        hour = int(at // HOUR)
        sums = self._hour(hour)
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

    def error(self, at: float) -> None:
        self._hour(int(at // HOUR))["errors"] += 1

    def describe(self, with_functions: bool) -> list[dict[str, Any]]:
        """Returns the items of a report, ordered by time."""
        self._add_whole_hours()
        described = []
        for hour, sums in sorted(self._sums.items()):
            item: dict[str, Any] = {"hour": hour, **{name: sums[name] for name in DURATIONS}}
            item.update((name, count(sums[name])) for name in NUMBERS)
            if with_functions:
                functions = nlargest(
                    FUNCTIONS, self._functions.get(hour, {}).items(), key=lambda one: one[1][0]
                )
                item["functions"] = [
                    {
                        "prefix": prefix,
                        "compute_seconds": function[0],
                        "transfer_seconds": function[1],
                        "tasks": count(function[2]),
                        "tasks_erred": count(function[3]),
                        "bytes": count(function[4]),
                    }
                    for prefix, function in functions
                ]
            described.append(item)
        return described

    def _hour(self, hour: int) -> dict[str, Any]:
        sums = self._sums.get(hour)
        if sums is None:
            sums = self._sums[hour] = dict.fromkeys(DURATIONS, 0.0)
            sums.update(dict.fromkeys(NUMBERS, 0))
        return sums

    def _add(self, hour: int, seconds: float, there: Sequence[int]) -> None:
        if seconds <= 0.0:
            return
        sums = self._hour(hour)
        workers, threads, memory = there
        sums["worker_seconds"] += workers * seconds
        sums["thread_seconds"] += threads * seconds
        sums["memory_gib_seconds"] += memory / GIB * seconds

    def _add_whole_hours(self) -> None:
        there = [0, 0, 0]
        changes = sorted(self._changes.items())
        for (hour, change), (following, _) in zip(changes, changes[1:]):
            there = [number + more for number, more in zip(there, change)]
            if any(there):
                for within in range(hour, following):
                    self._add(within, HOUR, there)
        self._changes.clear()
