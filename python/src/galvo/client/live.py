"""The clusters of an account that run now: what they use and what they cost per hour."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, TextIO

from galvo.client import quantities
from galvo.client.cluster import find_user_ids, state_of
from galvo.client.errors import GalvoError
from galvo.client.moments import format_duration
from galvo.client.pace import Pace
from galvo.client.server import PAGE_SIZE, UNREADABLE_CODES, Row, Server
from galvo.client.terminal import printable, table

STATES = ["STARTING", "RUNNING", "IDLE", "CLOSING"]
LIVE = """
query ($filter: ClusterFilter!, $first: Int!) { viewer { account { slug
  clusters(filter: $filter, first: $first, orderBy: { field: LAST_SEEN_AT }) {
    totalCount
    nodes {
      number schedulerId name user { name } state desiredState durationSeconds idleSeconds
      now { workers threads memoryUsed memoryLimit }
      totals { tasks tasksSucceeded errors }
      costPerHour { amount currency basis }
    }
  }
} } }
"""
TITLES = [
    "NUMBER", "NAME", "USER", "STATE", "FOR", "WORKERS", "THREADS", "MEMORY", "DONE", "TASKS",
    "ERRORS", "COST/H",
]  # fmt: skip


class Live:
    """The live clusters of an account at one time.

    Attributes
    ----------
    clusters:
        The clusters, the most expensive ones first, with the names and units of the GraphQL
        schema.
    total:
        The number of live clusters, including those that are not in ``clusters``.
    """

    def __init__(self, account: str, clusters: list[Row], total: int, at: datetime):
        self.account, self.total, self.at = account, total, at
        self.clusters = sorted(clusters, key=_expense, reverse=True)

    def headline(self) -> str:
        """Returns the sums of the clusters in one line."""
        parts = [f"{self.account}: {quantities.count(self.total, 'clusters')} live"]
        idle = sum(row["state"] == "IDLE" for row in self.clusters)
        parts += [f"{idle} idle"] if idle else []
        parts += [
            quantities.count(sum(now[things] for now in self._sizes()), things)
            for things in ("workers", "threads")
        ]
        parts += self._money()
        return " · ".join(parts)

    def lines(self) -> list[str]:
        """Returns the headline and the table as lines for a terminal."""
        lines = [printable(self.headline())]
        if self.clusters:
            lines += ["", *table(TITLES, [_cells(row) for row in self.clusters]).splitlines()]
        hidden = self.total - len(self.clusters)
        if hidden > 0:
            lines += ["", f"{hidden:,} more, which reported less recently, are not shown."]
        return lines

    def _sizes(self) -> list[Row]:
        return [row["now"] for row in self.clusters if row["now"] is not None]

    def _money(self) -> list[str]:
        """Returns the sums of the costs per hour by currency, and the number without a cost."""
        sums: dict[str, Row] = {}
        for row in self.clusters:
            cost = row["costPerHour"]
            if cost is None:
                continue
            total = sums.setdefault(cost["currency"], {**cost, "amount": 0.0})
            total["amount"] += cost["amount"]
            if cost["basis"] == "ESTIMATED":
                total["basis"] = "ESTIMATED"
        unknown = sum(row["costPerHour"] is None for row in self.clusters)
        money = [f"{quantities.costs(sums.values())} per hour"] if sums else []
        return [*money, *([f"{unknown} of unknown cost"] if unknown else [])]


def live_clusters(server: Server, user: str | None) -> Live:
    """Returns the live clusters of the account, or those of one user.

    A page of the clusters that reported last is read.
    """
    filter: dict[str, Any] = {"states": STATES}
    if user is not None:
        filter["users"] = find_user_ids(server, user, filter)
    response = server.graphql(LIVE, {"filter": filter, "first": PAGE_SIZE}, UNREADABLE_CODES)
    account = response["viewer"]["account"]
    connection = account["clusters"]
    return Live(
        account["slug"], connection["nodes"], connection["totalCount"], datetime.now(timezone.utc)
    )


def follow(server: Server, user: str | None, pace: Pace) -> Iterator[list[str]]:
    """Yields lines for a terminal, again and again.

    A temporary failure of the server is shown below the latest known clusters, and retried.
    """
    latest: Live | None = None
    while True:
        try:
            latest, status = live_clusters(server, user), "Ctrl-C ends"
        except GalvoError as error:
            if latest is None or not error.passes:
                raise
            status = str(error)
        status_line = f"{latest.at.astimezone():%H:%M:%S} · {status}"
        yield [*latest.lines(), "", printable(status_line)]
        if not pace.wait_for_next(True):
            return


class Screen:
    """The whole screen of a terminal, drawn again for each state."""

    def __init__(self, stream: TextIO | None = None):
        self._stream = sys.stdout if stream is None else stream

    def __enter__(self) -> Screen:
        # The alternate screen keeps what the terminal showed before.
        self._stream.write("\x1b[?1049h\x1b[?25l")
        return self

    def __exit__(self, *ending: object) -> None:
        self._stream.write("\x1b[?25h\x1b[?1049l")
        self._stream.flush()

    def show(self, lines: list[str]) -> None:
        width, height = shutil.get_terminal_size()
        if len(lines) > height:
            # The last line says how current the state is.
            lines = [*lines[: height - 2], "…", lines[-1]]
        output = "".join(f"{line[:width]}\x1b[K\r\n" for line in lines[:-1]) + lines[-1][:width]
        self._stream.write("\x1b[H" + output + "\x1b[K\x1b[J")
        self._stream.flush()


def _expense(row: Row) -> tuple[float, int]:
    cost, now = row["costPerHour"], row["now"]
    return (0.0 if cost is None else cost["amount"], 0 if now is None else now["threads"])


def _cells(row: Row) -> list[str]:
    now, totals, cost = row["now"], row["totals"], row["costPerHour"]
    idle = row["idleSeconds"]
    memory = ""
    if now is not None:
        memory = quantities.size(now["memoryUsed"])
        limit = now["memoryLimit"]
        memory += f" ({quantities.share(now['memoryUsed'] / limit)})" if limit else ""
    state = state_of(row)
    return [
        str(row["number"]),
        row["name"] or row["schedulerId"],
        row["user"]["name"] if row["user"] else "",
        state if idle is None or state != "idle" else f"idle for {format_duration(idle)}",
        format_duration(row["durationSeconds"]),
        "" if now is None else quantities.count(now["workers"]),
        "" if now is None else quantities.count(now["threads"]),
        memory,
        quantities.count(totals["tasksSucceeded"]),
        quantities.count(totals["tasks"]),
        quantities.count(totals["errors"]),
        "unknown" if cost is None else quantities.costs([cost]),
    ]
