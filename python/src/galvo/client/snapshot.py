"""The state of a cluster at one time, and the stream of its changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from galvo.client import html, quantities
from galvo.client.cluster import ClusterKey, state_of
from galvo.client.errors import GalvoError, NotFound
from galvo.client.moments import format_duration, format_time, parse_time
from galvo.client.pace import Pace
from galvo.client.server import UNREADABLE_CODES, Row, Server

SNAPSHOT = """
query ($id: ID!) { cluster(id: $id) {
  number name schedulerId state desiredState startedAt endedAt durationSeconds closeReason
  lastSeenAt idleSince
  now { at workers threads memoryUsed memoryLimit }
  totals { tasks tasksSucceeded tasksErred errors peakWorkers computeSeconds threadSeconds }
  usage { utilization costs { amount currency basis } }
  computations(first: 3) { nodes {
    daskId state startedAt wallSeconds
    taskGroups(first: 50) { nodes { prefix tasks tasksSucceeded tasksErred tasksBlamed } }
  } }
  errors(first: 3) { nodes { at type message key } }
} }
"""
# The fields of a task group that count its finished tasks.
FINISHED_COUNTS = ("tasksSucceeded", "tasksErred", "tasksBlamed")


class Snapshot:
    """A cluster at one time, as the server knows it.

    Attributes
    ----------
    data:
        The server's response: ``state``, ``now``, ``totals``, ``computations``, ``errors`` and
        more, with the names and units of the GraphQL schema.
    problem:
        The reason why the data may be out of date, as text. None if the server responded.
    """

    def __init__(self, data: Row, problem: str | None = None):
        self.data = data
        self.problem = problem

    @property
    def closed(self) -> bool:
        """True if the cluster is closed and will not change any more."""
        return bool(self.data["state"] == "CLOSED")

    def progress(self) -> list[tuple[Row, int, int]]:
        """Returns the newest computations, each with its numbers of finished and of all tasks."""
        computations = []
        for computation in self.data["computations"]["nodes"]:
            groups = computation["taskGroups"]["nodes"]
            tasks = sum(group["tasks"] for group in groups)
            # A recomputed task is counted again in the totals, but is one task.
            finished = sum(
                min(group["tasks"], sum(group[name] for name in FINISHED_COUNTS))
                for group in groups
            )
            computations.append((computation, finished, tasks))
        return computations

    def __str__(self) -> str:
        return " · ".join(self.words())

    def words(self) -> list[str]:
        """Returns the parts of the one-line description."""
        data, now, totals = self.data, self.data["now"], self.data["totals"]
        name = f" {data['name']}" if data["name"] else ""
        duration = format_duration(data["durationSeconds"])
        parts = [f"cluster {data['number']}{name}"]
        if self.closed:
            reason = f" ({data['closeReason']})" if data["closeReason"] else ""
            parts.append(f"closed after {duration}{reason}")
        else:
            state = state_of(data)
            parts.append(
                f"running for {duration}" if state == "running" else f"{state}, up for {duration}"
            )
        if now is not None:
            limit = now["memoryLimit"]
            memory = quantities.size(now["memoryUsed"])
            memory += f" of {quantities.size(limit)}" if limit is not None else ""
            workers = quantities.count(now["workers"], "workers")
            parts += [f"{workers}, {quantities.count(now['threads'], 'threads')}", memory]
        parts.append(quantities.count(totals["tasksSucceeded"], "tasks") + " done")
        running = [
            f"{finished:,} of {tasks:,}" for c, finished, tasks in self.progress() if _is_running(c)
        ]
        if running:
            parts.append("under way: " + ", ".join(running))
        if totals["errors"]:
            parts.append(quantities.count(totals["errors"], "errors"))
        cost = quantities.costs(data["usage"]["costs"])
        parts += [cost] if cost else []
        if data["idleSince"] is not None and not self.closed:
            parts.append("idle since " + format_time(parse_time(data["idleSince"])))
        if self.problem is not None:
            parts.append(self.problem)
        return parts

    def _repr_html_(self) -> str:
        first, *others = self.words()
        parts = [html.element("strong", first), html.element("div", " · ".join(others))]
        parts.append(html.table((), (self._row(*computation) for computation in self.progress())))
        errors = self.data["errors"]["nodes"]
        rows = (
            (format_time(parse_time(e["at"])), e["type"] or "", e["message"] or "") for e in errors
        )
        if errors:
            parts += [html.element("div", "The newest errors:", "bad"), html.table((), rows)]
        return html.block(*parts)

    def _row(self, computation: Row, finished: int, tasks: int) -> list[object]:
        duration = computation["wallSeconds"]
        bar = html.Html(f'<progress value="{finished}" max="{max(tasks, 1)}"></progress>')
        groups = computation["taskGroups"]["nodes"]
        names = ", ".join(dict.fromkeys(group["prefix"] for group in groups))
        state = computation["state"].lower() + (
            "" if duration is None else f" in {format_duration(duration)}"
        )
        return [bar, f"{finished:,} of {tasks:,}", state, names]


def _is_running(computation: Row) -> bool:
    return bool(computation["state"] == "RUNNING")


def snapshots(server: Server, cluster: ClusterKey, pace: Pace) -> Iterator[Snapshot]:
    """Yields the cluster's state now and after each change, until the cluster is closed.

    A temporary failure of the server is yielded as a snapshot with a problem, and retried.
    """
    previous: Snapshot | None = None
    while True:
        try:
            data: Any = server.graphql(SNAPSHOT, {"id": cluster.id}, UNREADABLE_CODES)["cluster"]
            if data is None:
                raise NotFound(f"cluster {cluster.number} is no longer there", ["NOT_FOUND"])
            latest = Snapshot(data)
        except GalvoError as error:
            if previous is None or not error.passes:
                raise
            latest = Snapshot(previous.data, str(error))
        changed = previous is None or (latest.data, latest.problem) != (
            previous.data,
            previous.problem,
        )
        previous = latest
        if changed:
            yield latest
        if latest.closed or not pace.wait_for_next(changed):
            return
