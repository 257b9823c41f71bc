"""Lines of logs: a list of them, the last ones, and those that come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from galvo.client import html
from galvo.client.cluster import LIMIT, ClusterKey, ClusterLike
from galvo.client.computation import cluster_of
from galvo.client.errors import GalvoError, NotFound
from galvo.client.listing import Listing, listed, several
from galvo.client.moments import Since, moment, on_the_clock
from galvo.client.pace import Pace
from galvo.client.records import Kind, Records
from galvo.client.server import PAGE, UNREADABLE, Row, Server

# Lines of different processes may arrive in another order than that of their times. What came in
# the last seconds is therefore read again, in search of what belongs in between.
LATE_SECONDS = 60.0
# Pages that a search for the last lines reads at most: a thousand lines each.
SEARCHED_PAGES = 100

LINE = "at cluster { id number name } source worker workerId level logger message repeated"

PAGE_OF_LINES = (
    f"""
fragment line on LogLine {{ {LINE} }}
"""
    + """
query ($id: ID!, $match: String, $levels: [String!], $sources: [LogSource!],
       $first: Int, $after: String, $last: Int, $before: String) {
  cluster(id: $id) {
    state
    logs(match: $match, levels: $levels, sources: $sources,
         first: $first, after: $after, last: $last, before: $before) {
      pageInfo { hasNextPage endCursor hasPreviousPage startCursor }
      edges { cursor node { ...line } }
    }
  }
}
"""
)

LOGS = Listing(
    field="logs",
    selection=LINE,
    during="at",
    kind=Kind(
        name="lines",
        times=(("at",),),
        columns=(
            ("cluster", cluster_of),
            ("at", lambda row: on_the_clock(row["at"])),
            ("source", lambda row: row["source"].lower()),
            ("worker", lambda row: row["worker"] or ""),
            ("level", lambda row: row["level"]),
            ("message", lambda row: html.element("pre", row["message"] or "")),
        ),
    ),
)


class LogFilter(NamedTuple):
    """Which lines; nothing said means all."""

    match: str | None = None
    levels: str | Sequence[str] | None = None
    sources: str | Sequence[str] | None = None

    def variables(self) -> dict[str, Any]:
        return {
            "match": self.match or None,
            "levels": _in_capitals(self.levels),
            "sources": _in_capitals(self.sources),
        }


def list_logs(
    cluster_id: ClusterLike | None = None,
    account: str | None = None,
    *,
    match: str | None = None,
    levels: str | Sequence[str] | None = None,
    sources: str | Sequence[str] | None = None,
    since: Since | None = None,
    user: str | None = None,
    limit: int | None = LIMIT,
) -> Records:
    """Lines of the logs of schedulers, workers and nannies, in the order they were written.

    Parameters
    ----------
    cluster_id:
        The cluster's ``id`` or ``number``, its scheduler's identifier, or a Dask client of it; all
        clusters of the account if none is named.
    account:
        The account; by default the configured one, and then the token's own.
    match:
        Only lines that contain this text, in upper or lower case.
    levels:
        Only lines of this level or of these, as ``"ERROR"`` or ``["WARNING", "ERROR"]``.
    sources:
        Only lines of this kind of process or of these: ``"scheduler"``, ``"worker"``, ``"nanny"``.
    since:
        Only what was written at most so long ago, as ``"1 hour"``, seconds or a ``timedelta``, or
        at this moment or later.
    user:
        Only of clusters of the user of this name.
    limit:
        Read at most so many, and warn if there are more; None for all.

    Returns
    -------
    Records
        A list of dictionaries with the keys ``at``, ``cluster`` (``id``, ``number``, ``name``),
        ``source``, ``worker``, ``workerId``, ``level``, ``logger``, ``message`` and ``repeated``:
        how often the line came in a row.
    """
    values = LogFilter(match, levels, sources).variables()
    further = {
        "match": ("String", values["match"]),
        "levels": ("[String!]", values["levels"]),
        "sources": ("[LogSource!]", values["sources"]),
    }
    return listed(LOGS, account, cluster_id, since, user, limit, further)


def tail(
    server: Server, cluster: ClusterKey, wanted: LogFilter, count: int, pace: Pace | None = None
) -> Iterator[list[Row]]:
    """The last lines that pass; then, with a pace, those that come until the cluster is closed.

    Each line comes once, late ones when they arrive. Between looks the pace rests. A server that
    is away for a while is asked again.
    """
    if pace is None:
        yield [_line(edge) for edge in _last_lines(server, cluster, wanted, count)]
        return
    # Known are the lines from here on, before the last ones are looked for: what is new to both
    # comes later.
    newest = _page(server, cluster, LogFilter(), {"last": PAGE})["logs"]["pageInfo"]
    # Cursors that were reached, and when; what comes is looked for behind the oldest one.
    reached = deque([(pace.now(), newest["startCursor"])])
    edges, _, _ = _lines_after(server, cluster, wanted, newest["startCursor"])
    last = _last_lines(server, cluster, wanted, count)
    seen = {edge["cursor"] for edge in [*edges, *last]}
    yield [_line(edge) for edge in last]
    looks_since_end = 0
    new: list[Row] = []
    while pace.rest(bool(new)):
        while len(reached) > 1 and pace.now() - reached[1][0] >= LATE_SECONDS:
            reached.popleft()
        new = []
        try:
            edges, end, state = _lines_after(server, cluster, wanted, reached[0][1])
        except GalvoError as error:
            if not error.passes:
                raise
            continue
        new = [edge for edge in edges if edge["cursor"] not in seen]
        seen = {edge["cursor"] for edge in edges}
        if end != reached[-1][1]:
            reached.append((pace.now(), end))
        if new:
            yield [_line(edge) for edge in new]
        looks_since_end = looks_since_end + 1 if state == "CLOSED" and not new else 0
        if looks_since_end == 2:
            return


def _in_capitals(names: str | Sequence[str] | None) -> list[str] | None:
    found = several(names)
    return None if found is None else [name.upper() for name in found]


def _last_lines(server: Server, cluster: ClusterKey, wanted: LogFilter, count: int) -> list[Row]:
    """The last lines that pass, in order; searching for words, of the last 100,000 at most."""
    found: list[Row] = []
    before = None
    for _ in range(SEARCHED_PAGES):
        if len(found) >= count:
            break
        asked = {"last": min(PAGE, count - len(found)), "before": before}
        page = _page(server, cluster, wanted, asked)["logs"]
        found = page["edges"] + found
        before = page["pageInfo"]["startCursor"]
        if not page["pageInfo"]["hasPreviousPage"]:
            break
    return found


def _lines_after(
    server: Server, cluster: ClusterKey, wanted: LogFilter, after: str | None
) -> tuple[list[Row], str | None, str]:
    """All lines after a cursor, the last cursor, and the state of the cluster."""
    edges: list[Row] = []
    while True:
        found = _page(server, cluster, wanted, {"first": PAGE, "after": after})
        edges += found["logs"]["edges"]
        turn = found["logs"]["pageInfo"]
        after = turn["endCursor"] or after
        if not turn["hasNextPage"]:
            return edges, after, found["state"]


def _page(server: Server, cluster: ClusterKey, wanted: LogFilter, which: Row) -> Row:
    variables = {"id": cluster.id, **wanted.variables(), **which}
    found: Row | None = server.graphql(PAGE_OF_LINES, variables, UNREADABLE)["cluster"]
    if found is None:
        raise NotFound(f"cluster {cluster.number} is no longer there", ["NOT_FOUND"])
    return found


def _line(edge: Row) -> Row:
    line: Row = edge["node"]
    return {**line, "at": moment(line["at"])}
