"""Converts a performance report to the history of a cluster."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dask.utils import parse_timedelta

from galvo.client import quantities
from galvo.client.errors import NotImportable
from galvo.importing.history import History, Item, class_of
from galvo.importing.log_lines import Line, Zone, presentable
from galvo.importing.performance import PerformanceReport
from galvo.importing.values import MOST_THREADS, function_of, group_of, host_of, is_finite, key_of
from galvo.plugin.logs import LEVEL_LENGTH, LOGGER_LENGTH
from galvo.plugin.profiles import Profile
from galvo.plugin.values import (
    ADDRESS_LENGTH,
    MESSAGE_LENGTH,
    NAME_LENGTH,
    cut,
    time_or_none,
    to_duration,
)

KIND = "performance report"
# The default number of task runs that Dask keeps for its task stream.
STREAM_LENGTH = 100_000
# The names of the task stream's rectangles that are not the task itself, but belong to it.
ACTIONS = ("transfer", "disk-read", "disk-write", "deserialize", "serialize")
FAILED = "black"
# The duration that the profiler's plots assume for a sample, in seconds.
SAMPLE_SECONDS = 0.010
DEEPEST = 200
# Larger numbers measure nothing.
LARGEST = 2**53


def fill_history(report: PerformanceReport, history: History) -> None:
    """Adds the content of the report to the history."""
    try:
        _ReportConverter(report, history).convert()
    except NotImportable as error:
        raise NotImportable(report.explain(str(error))) from None


class _Rectangle:
    """An action of a task in the task stream."""

    __slots__ = ("action", "erred", "group", "key", "seconds", "start", "stop", "thread", "worker")

    def __init__(self, row: int, columns: dict[str, list[Any]]):
        middle, milliseconds = columns["start"][row], columns["duration"][row]
        if not (is_finite(middle) and is_finite(milliseconds)):
            raise NotImportable(f"the task stream has no time in row {row}")
        # Rectangles are placed by their middle, in milliseconds.
        self.seconds = to_duration(milliseconds / 1000)
        self.start = middle / 1000 - self.seconds / 2
        self.stop = self.start + self.seconds
        if time_or_none(self.start) is None or time_or_none(self.stop) is None:
            raise NotImportable(f"the task stream has an impossible time in row {row}")
        key = key_of(columns["key"][row])
        self.key, self.group = cut(str(key), NAME_LENGTH), group_of(key)
        name = columns["name"][row]
        name = name if isinstance(name, str) else ""
        # "transfer-add" is the transfer of a task's inputs, unless its function has that name.
        function = function_of(key)
        matching_actions = [action for action in ACTIONS if name == f"{action}-{function}"]
        self.action = matching_actions[0] if matching_actions and name != function else "compute"
        self.erred = self.action == "compute" and columns["color"][row] == FAILED
        worker, thread = columns["worker"][row], columns["worker_thread"][row]
        self.worker = worker if isinstance(worker, str) else ""
        self.thread = thread if isinstance(thread, str) else ""


class _Run:
    """The rectangles of one run of a task, of which the last one is the task itself.

    A task runs again if its result was lost, or if a client requested it.
    """

    __slots__ = ("rectangles",)

    def __init__(self, first: _Rectangle):
        self.rectangles = [first]

    @property
    def last(self) -> _Rectangle:
        return self.rectangles[-1]

    @property
    def has_ended(self) -> bool:
        """True if the task itself is drawn."""
        return self.last.action == "compute"

    @property
    def has_succeeded(self) -> bool:
        return self.has_ended and not self.last.erred

    def continues_with(self, rectangle: _Rectangle) -> bool:
        """True if the next rectangle belongs to the same run."""
        last = self.last
        is_same = last.key == rectangle.key and last.thread == rectangle.thread
        return is_same and not self.has_ended

    @staticmethod
    def group_stream(stream: list[_Rectangle]) -> list[_Run]:
        """Returns the runs ordered by their end, which is the order of the stream."""
        runs: list[_Run] = []
        for rectangle in stream:
            if runs and runs[-1].continues_with(rectangle):
                runs[-1].rectangles.append(rectangle)
            else:
                runs.append(_Run(rectangle))
        return runs


class _ReportConverter:
    def __init__(self, report: PerformanceReport, history: History):
        self._report = report
        self._history = history
        rows = range(len(report.tasks["start"]))
        self._stream = [_Rectangle(row, report.tasks) for row in rows]
        self._runs = _Run.group_stream(self._stream)
        times = [at / 1000 for at in report.system["time"] if is_finite(at)]
        starts = [rectangle.start for rectangle in self._stream] + times[:1]
        if not starts:
            raise NotImportable("it has neither tasks nor measurements, so it has no time")
        started_at, total_seconds = min(starts), report.seconds("duration")
        stops = [rectangle.stop for rectangle in self._stream]
        history.set_period(started_at, max([started_at + (total_seconds or 0.0), *stops]))
        self._workers: dict[str, Item] = {}

    def convert(self) -> None:
        history, report = self._history, self._report
        self._add_workers()
        groups = self._add_tasks()
        self._add_computation(groups)
        self._add_samples()
        self._add_profile()
        self._add_logs()
        self._add_cluster()
        history.notes.append(
            "a performance report does not contain the sizes of results, dependencies, why tasks"
            " failed, nor which tasks never ran; its block of code becomes one computation"
        )
        if report.is_old:
            history.notes.append(
                f"Bokeh {report.drawn_by} drew it, which is older than 2.4: it has what newer ones"
                " have as far as both have it in the same place"
            )
        self._count_runs()

    def _count_runs(self) -> None:
        """Adds notes about tasks that ran several times, and about work missing in the report."""
        history, runs = self._history, len(self._runs)
        times = Counter(run.last.key for run in self._runs if run.has_ended)
        repeated_tasks = sum(number > 1 for number in times.values())
        if repeated_tasks:
            tasks, all_runs = quantities.count(len(times), "tasks"), sum(times.values())
            history.notes.append(
                f"{repeated_tasks:,} of {tasks} ran more than once, as tasks do whose results are"
                f" lost: each of {all_runs:,} runs is counted as it ended"
            )
        history.add_gap("a performance report does not contain the tasks that never ran")
        count_in_summary = self._report.number("number of tasks")
        if count_in_summary is not None and count_in_summary > runs:
            history.add_gap(
                f"its summary counts {count_in_summary:,} runs of tasks, of which {runs:,} are"
                " drawn"
            )
        if runs == STREAM_LENGTH:
            history.add_gap(
                f"it has {STREAM_LENGTH:,} runs of tasks, which is what Dask keeps unless it is"
                " configured otherwise: earlier ones may be missing"
            )
        if not times:
            history.notes.append("no task ran in its block of code, so there is no computation")

    def _add_workers(self) -> None:
        history = self._history
        threads: dict[str, set[str]] = {}
        for rectangle in self._stream:
            threads.setdefault(rectangle.worker, set()).add(rectangle.thread)
        threads.pop("", None)
        for address, worker_threads in threads.items():
            worker = {
                "id": history.ids.of("worker", address),
                "name": cut(address, ADDRESS_LENGTH),
                "address": cut(address, ADDRESS_LENGTH),
                "host": host_of(address),
                "threads": len(worker_threads),
                "started_at": history.started_at,
            }
            if history.add("workers", worker):
                self._workers[address] = worker
        count_in_summary = self._report.number("workers")
        if count_in_summary is not None and count_in_summary != len(threads):
            workers = quantities.count(count_in_summary, "workers")
            history.notes.append(
                f"there were {workers} at its end, and {len(threads):,} ran tasks: only those are"
                " imported"
            )

    def _add_tasks(self) -> dict[str, Item]:
        """Returns the task groups by name."""
        history = self._history
        groups: dict[str, Item] = {}
        keys: dict[str, set[str]] = {}
        for run in self._runs:
            for rectangle in run.rectangles:
                group = groups.get(rectangle.group)
                if group is None:
                    group = groups[rectangle.group] = self._group(rectangle)
                    keys[rectangle.group] = set()
                keys[rectangle.group].add(rectangle.key)
                group["first_seen_at"] = min(group["first_seen_at"], rectangle.start)
                # As in Dask, a failed task took no time.
                has_succeeded, is_task = run.has_succeeded, rectangle.action == "compute"
                if has_succeeded:
                    group["durations"][rectangle.action] = (
                        group["durations"].get(rectangle.action, 0.0) + rectangle.seconds
                    )
                if has_succeeded and is_task:
                    start, stop = group["started_at"], group["stopped_at"]
                    group["started_at"] = (
                        rectangle.start if start is None else min(start, rectangle.start)
                    )
                    group["stopped_at"] = (
                        rectangle.stop if stop is None else max(stop, rectangle.stop)
                    )
                group["tasks_succeeded"] += has_succeeded and is_task
                group["tasks_erred"] += rectangle.erred
                history.hours.add_tasks(
                    history.clamp_time(rectangle.stop),
                    group["prefix"],
                    compute=rectangle.seconds if has_succeeded and is_task else 0.0,
                    transfer=rectangle.seconds
                    if has_succeeded and rectangle.action == "transfer"
                    else 0.0,
                    tasks=int(has_succeeded and is_task),
                    erred=int(rectangle.erred),
                )
        for name, group in groups.items():
            group["tasks"] = len(keys[name])
        for group in groups.values():
            history.count_tasks(group)
            if history.sends("task_groups"):
                history.add("task_groups", group)
            else:
                history.receipt.withhold("tasks")
        self._add_errors(groups)
        return groups

    def _group(self, rectangle: _Rectangle) -> Item:
        return {
            "id": self._history.ids.of("group", rectangle.group),
            "name": cut(rectangle.group, NAME_LENGTH),
            "prefix": cut(function_of(rectangle.group), NAME_LENGTH),
            "first_seen_at": rectangle.start,
            "started_at": None,
            "stopped_at": None,
            "tasks": 0,
            "tasks_succeeded": 0,
            "tasks_erred": 0,
            "tasks_blamed": 0,
            "durations": {},
            "bytes": 0,
        }

    def _add_errors(self, groups: dict[str, Item]) -> None:
        history = self._history
        for rectangle in (rectangle for rectangle in self._stream if rectangle.erred):
            history.totals["errors"] += 1
            at = history.clamp_time(rectangle.stop)
            history.hours.add_error(at)
            worker = self._workers.get(rectangle.worker)
            item = {
                "id": history.ids.at(at, "error", rectangle.key),
                "at": at,
                "key": rectangle.key,
                "task_group_id": groups[rectangle.group]["id"],
                "computation_id": self._computation_id(),
                # A failure is drawn in black. The reason is unknown, so it has no origin.
                "message": "",
                "traceback": "",
                "worker": cut(rectangle.worker, ADDRESS_LENGTH) or None,
                "worker_id": None if worker is None else worker["id"],
            }
            if history.sends("errors", item):
                history.add("errors", item)
            else:
                history.receipt.withhold(class_of("errors", item))

    def _computation_id(self) -> str:
        return self._history.ids.of("computation")

    def _add_computation(self, groups: dict[str, Item]) -> None:
        history = self._history
        if not history.sends("computations"):
            history.receipt.withhold("tasks")
            return
        if not any(run.has_ended for run in self._runs):
            return  # Nothing shows that anything finished.
        erred = any(group["tasks_erred"] for group in groups.values())
        code = self._report.code
        history.add(
            "computations",
            {
                "id": self._computation_id(),
                "started_at": history.started_at,
                "stopped_at": history.ended_at,
                "state": "erred" if erred else "finished",
                "task_group_ids": [group["id"] for group in groups.values()][:5000],
                "code": history.code(code) if code and code != "<Code not available>" else [],
            },
        )

    def _add_samples(self) -> None:
        history, system = self._history, self._report.system
        for at, cpu, memory in zip(system["time"], system["cpu"], system["memory"]):
            metrics = {}
            if is_finite(cpu) and abs(cpu) < LARGEST:
                metrics["scheduler_cpu_cores"] = cpu / 100
            if is_finite(memory) and abs(memory) < LARGEST:
                metrics["scheduler_memory_bytes"] = memory
            if metrics and is_finite(at) and time_or_none(at / 1000) is not None:
                history.add("samples", {"at": at / 1000, "metrics": metrics})

    def _add_profile(self) -> None:
        history, report = self._history, self._report
        tree = None if report.flames is None else _tree(report.flames)
        if tree is None:
            return
        if not history.sends("profiles"):
            history.receipt.withhold("profiles")
            return
        profile = Profile()
        profile.add(tree)
        described = profile.describe(history.receipt.sends("code"))
        if described["samples"]:
            item = {
                "id": history.ids.at(history.started_at, "profile"),
                "started_at": history.started_at,
                "stopped_at": history.ended_at,
                "workers": report.number("workers") or len(self._workers),
                **described,
            }
            history.add("profiles", item)

    def _add_logs(self) -> None:
        history, receipt = self._history, self._history.receipt
        entries: list[Line] = []
        for text in self._report.logs:
            line = Line.read(text)
            if line is not None:
                entries.append(line)
            elif entries:
                # Each of its lines is a paragraph.
                message = cut(f"{entries[-1].message}\n{text}", 2 * MESSAGE_LENGTH)
                entries[-1] = entries[-1]._replace(message=message)
        zone = Zone.of(entries, history.started_at, history.ended_at)
        for number, line in enumerate(sorted(entries, key=lambda line: line.clock)):
            if not history.sends("logs"):
                receipt.withhold("logs")
                continue
            at = time_or_none(line.clock - zone.seconds) or history.started_at
            history.add(
                "logs",
                {
                    "id": history.ids.at(at, "log", number),
                    "at": at,
                    "source": "scheduler",
                    "level": cut(line.level, LEVEL_LENGTH),
                    "logger": cut(line.logger, LOGGER_LENGTH),
                    "message": presentable(line.message, receipt.sends("code"), receipt.types_only),
                    "repeated": 1,
                },
            )
        if not zone.certain:
            history.notes.append(
                "its log does not contain the time zone: it is taken to be that of this machine, or"
                " else the one closest to UTC in which it fits"
            )

    def _add_cluster(self) -> None:
        history, report = self._history, self._report
        workers = report.number("workers")
        workers = len(self._workers) if workers is None else workers
        threads, limit = report.number("threads"), report.size("memory")
        threads = sum(w["threads"] for w in self._workers.values()) if threads is None else threads
        threads = min(threads, MOST_THREADS)
        versions = {"dask": "dask version", "distributed": "dask.distributed version"}
        packages = {name: report.text_of_line(line) for name, line in versions.items()}
        known_packages = {name: version for name, version in packages.items() if version}
        history.cluster = {
            "address": cut(report.text_of_line("address") or "", ADDRESS_LENGTH) or None,
            "environment_id": history.environment(
                {"packages": known_packages} if known_packages else None
            ),
            "workers": workers,
            "threads": threads,
            "memory_limit_bytes": limit,
            "memory_used_bytes": 0,
        }
        seconds = history.ended_at - history.started_at
        history.totals.update(
            thread_seconds=threads * seconds,
            workers=workers,
            peak_workers=workers,
            peak_threads=threads,
        )
        history.add("thread_history", {"at": history.started_at, "threads": threads})
        history.hours.add_workers(
            history.started_at, history.ended_at, workers, threads, limit or 0
        )


def _tree(flames: dict[str, list[Any]]) -> dict[str, Any] | None:
    """Rebuilds Dask's profile from rows in the order in which a plot of it is drawn.

    A plot has fractions of the whole, and the duration of the whole. The innermost functions are
    not drawn.
    """
    path: list[dict[str, Any]] = []
    total_samples = 0
    for row, (bottom, width, duration_text) in enumerate(
        zip(flames["bottom"], flames["width"], flames["time"])
    ):
        if is_finite(bottom) and bottom > DEEPEST:
            continue
        if not (is_finite(bottom) and is_finite(width)) or not 0 <= bottom <= len(path):
            raise NotImportable(f"the profile is no tree in row {row}")
        if not path:
            try:
                total_samples = round(float(parse_timedelta(str(duration_text))) / SAMPLE_SECONDS)
            except (ValueError, KeyError, OverflowError, IndexError):
                total_samples = 0
            if not 0 < total_samples < 2**53:
                return None
        elif bottom == 0:
            raise NotImportable(f"the profile has a second root in row {row}")
        line = flames["line_number"][row]
        node = {
            "count": max(round(min(width, 1) * total_samples), 1),
            "children": {},
            "description": {
                "filename": str(flames["filename"][row])[:ADDRESS_LENGTH],
                "name": str(flames["name"][row])[:NAME_LENGTH],
                "line_number": line if isinstance(line, int) else 0,
                "line": str(flames["line"][row])[:NAME_LENGTH],
            },
        }
        del path[int(bottom) :]
        if path:
            path[-1]["children"][str(row)] = node
        path.append(node)
        if not bottom:
            root = node
    return root if path else None
