"""The state of a cluster at one time, and the stream of its changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from galvo.client import html, quantities
from galvo.client.cluster import ClusterKey, state_of
from galvo.client.errors import GalvoError, NotFound
from galvo.client.moments import in_words, moment, on_the_clock
from galvo.client.pace import Pace
from galvo.client.server import UNREADABLE, Row, Server

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
        found = []
        for computation in self.data["computations"]["nodes"]:
            groups = computation["taskGroups"]["nodes"]
            tasks = sum(group["tasks"] for group in groups)
            # A recomputed task is counted again in the totals, but is one task.
            done = sum(min(group["tasks"], sum(group[name] for name in DONE)) for group in groups)
            found.append((computation, done, tasks))
        return found

    def __str__(self) -> str:
        return " · ".join(self.words())

    def words(self) -> list[str]:
        """Returns the parts of the one-line description."""
        data, now, totals = self.data, self.data["now"], self.data["totals"]
        name = f" {data['name']}" if data["name"] else ""
        lasted = in_words(data["durationSeconds"])
        words = [f"cluster {data['number']}{name}"]
        if self.closed:
            reason = f" ({data['closeReason']})" if data["closeReason"] else ""
            words.append(f"closed after {lasted}{reason}")
        else:
            state = state_of(data)
            words.append(
                f"running for {lasted}" if state == "running" else f"{state}, up for {lasted}"
            )
        if now is not None:
            limit = now["memoryLimit"]
            memory = quantities.size(now["memoryUsed"])
            memory += f" of {quantities.size(limit)}" if limit is not None else ""
            workers = quantities.count(now["workers"], "workers")
            words += [f"{workers}, {quantities.count(now['threads'], 'threads')}", memory]
        words.append(quantities.count(totals["tasksSucceeded"], "tasks") + " done")
        running = [f"{done:,} of {tasks:,}" for c, done, tasks in self.progress() if _runs(c)]
        if running:
            words.append("under way: " + ", ".join(running))
        if totals["errors"]:
            words.append(quantities.count(totals["errors"], "errors"))
        cost = quantities.costs(data["usage"]["costs"])
        words += [cost] if cost else []
        if data["idleSince"] is not None and not self.closed:
            words.append("idle since " + on_the_clock(moment(data["idleSince"])))
        if self.problem is not None:
            words.append(self.problem)
        return words

    def _repr_html_(self) -> str:
        first, *others = self.words()
        parts = [html.element("strong", first), html.element("div", " · ".join(others))]
        parts.append(html.table((), (self._row(*one) for one in self.progress())))
        errors = self.data["errors"]["nodes"]
        rows = (
            (on_the_clock(moment(e["at"])), e["type"] or "", e["message"] or "") for e in errors
        )
        if errors:
            parts += [html.element("div", "The newest errors:", "bad"), html.table((), rows)]
        return html.block(*parts)

    def _row(self, computation: Row, done: int, tasks: int) -> list[object]:
        took = computation["wallSeconds"]
        bar = html.Html(f'<progress value="{done}" max="{max(tasks, 1)}"></progress>')
        groups = computation["taskGroups"]["nodes"]
        names = ", ".join(dict.fromkeys(group["prefix"] for group in groups))
        state = computation["state"].lower() + ("" if took is None else f" in {in_words(took)}")
        return [bar, f"{done:,} of {tasks:,}", state, names]


DONE = ("tasksSucceeded", "tasksErred", "tasksBlamed")


def _runs(computation: Row) -> bool:
    return bool(computation["state"] == "RUNNING")


def snapshots(server: Server, cluster: ClusterKey, pace: Pace) -> Iterator[Snapshot]:
    """Yields the cluster's state now and after each change, until the cluster is closed.

    A temporary failure of the server is yielded as a snapshot with a problem, and retried.
    """
    known: Snapshot | None = None
    while True:
        try:
            found: Any = server.graphql(SNAPSHOT, {"id": cluster.id}, UNREADABLE)["cluster"]
            if found is None:
                raise NotFound(f"cluster {cluster.number} is no longer there", ["NOT_FOUND"])
            latest = Snapshot(found)
        except GalvoError as error:
            if known is None or not error.passes:
                raise
            latest = Snapshot(known.data, str(error))
        changed = known is None or (latest.data, latest.problem) != (known.data, known.problem)
        known = latest
        if changed:
            yield latest
        if latest.closed or not pace.rest(changed):
            return
