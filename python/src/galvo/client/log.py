"""Log lines: a list of them, the last lines, and new lines as they arrive."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from galvo.client import html
from galvo.client.cluster import LIMIT, ClusterKey, ClusterLike
from galvo.client.computation import cluster_of
from galvo.client.conditions import describe_unknown_value
from galvo.client.errors import GalvoError, NotFound
from galvo.client.listing import Listing, as_list, list_rows
from galvo.client.moments import Since, format_time, parse_time
from galvo.client.pace import Pace
from galvo.client.records import Column, Kind, Records
from galvo.client.server import PAGE_SIZE, UNREADABLE_CODES, Row, Server

# Lines of different processes may arrive in another order than that of their times. The last
# seconds are therefore read again to find late lines.
LATE_SECONDS = 60.0
# The largest number of pages that a search for the last lines reads.
SEARCHED_PAGES = 100

SOURCES = ("SCHEDULER", "WORKER", "NANNY")
# Python's levels, ordered by severity.
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

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
            Column("cluster", cluster_of),
            Column("at", lambda row: format_time(row["at"]), html.LINE),
            Column("source", lambda row: row["source"].lower(), html.LINE),
            Column("worker", lambda row: row["worker"] or ""),
            Column("level", lambda row: row["level"], html.LINE),
            Column("message", lambda row: html.element("pre", row["message"] or "")),
        ),
    ),
)


class LogFilter(NamedTuple):
    """Conditions on log lines. A condition that is None accepts all lines."""

    match: str | None = None
    levels: str | Sequence[str] | None = None
    sources: str | Sequence[str] | None = None

    def variables(self) -> dict[str, Any]:
        return {
            "match": self.match or None,
            "levels": _levels(self.levels),
            "sources": _sources(self.sources),
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
    """Lists log lines of schedulers, workers and nannies in the order in which they were written.

    Parameters
    ----------
    cluster_id:
        The cluster's ``id``, ``number`` or name, its scheduler's identifier, or a Dask client of
        it. None for all clusters of the account.
    account:
        The account. By default the configured account, then the token's own.
    match:
        Only lines that contain this text, ignoring case.
    levels:
        Only lines of this level or of one of these, as ``"ERROR"`` or ``["WARNING", "ERROR"]``,
        ignoring case. Custom levels are known after ``logging.addLevelName`` has named them.
    sources:
        Only lines of this kind of process or of one of these: ``"scheduler"``, ``"worker"``,
        ``"nanny"``.
    since:
        Only lines written within this time before now, as ``"1 hour"``, a number of seconds or a
        ``timedelta``, or at or after this ``datetime``. None for no limit.
    user:
        Only lines of clusters of the user with this name.
    limit:
        The largest number of lines to return, at least 1. A warning is issued if there are more.
        None for no limit.

    Returns
    -------
    Records
        A list of dictionaries with the keys ``at``, ``cluster`` (``id``, ``number``, ``name``),
        ``source``, ``worker``, ``workerId``, ``level``, ``logger``, ``message`` and ``repeated``,
        the number of consecutive repetitions of the line.

    Raises
    ------
    ValueError
        If a level or a source is unknown.
    """
    values = LogFilter(match, levels, sources).variables()
    further = {
        "match": ("String", values["match"]),
        "levels": ("[String!]", values["levels"]),
        "sources": ("[LogSource!]", values["sources"]),
    }
    return list_rows(LOGS, account, cluster_id, since, user, limit, further)


def tail(
    server: Server, cluster: ClusterKey, log_filter: LogFilter, count: int, pace: Pace | None = None
) -> Iterator[list[Row]]:
    """Yields the last lines that match. With a pace, then yields new lines until the cluster
    closes.

    Each line is yielded once, a late line when it arrives. The pace determines the time between
    requests. A temporary failure of the server is retried.
    """
    if pace is None:
        yield [_line(edge) for edge in _last_lines(server, cluster, log_filter, count)]
        return
    # Take a start cursor before searching for the last lines. Lines that arrive during the search
    # follow that cursor and are yielded later.
    newest = _page(server, cluster, LogFilter(), {"last": PAGE_SIZE})["logs"]["pageInfo"]
    # Cursors with the times at which they were reached. New lines are searched for after the oldest
    # one.
    cursors = deque([(pace.now(), newest["startCursor"])])
    edges, _, _ = _lines_after(server, cluster, log_filter, newest["startCursor"])
    last = _last_lines(server, cluster, log_filter, count)
    seen = {edge["cursor"] for edge in [*edges, *last]}
    yield [_line(edge) for edge in last]
    polls_since_end = 0
    new: list[Row] = []
    while pace.wait_for_next(bool(new)):
        while len(cursors) > 1 and pace.now() - cursors[1][0] >= LATE_SECONDS:
            cursors.popleft()
        new = []
        try:
            edges, end, state = _lines_after(server, cluster, log_filter, cursors[0][1])
        except GalvoError as error:
            if not error.passes:
                raise
            continue
        new = [edge for edge in edges if edge["cursor"] not in seen]
        seen = {edge["cursor"] for edge in edges}
        if end != cursors[-1][1]:
            cursors.append((pace.now(), end))
        if new:
            yield [_line(edge) for edge in new]
        polls_since_end = polls_since_end + 1 if state == "CLOSED" and not new else 0
        if polls_since_end == 2:
            return


def _levels(names: str | Sequence[str] | None) -> list[str] | None:
    """Returns the levels' names as log lines have them.

    ``warn`` is Python's alias of ``WARNING``.
    """
    requested = as_list(names)
    return None if requested is None else [_level(name) for name in requested]


def _level(name: str) -> str:
    for spelling in (name, name.upper()):
        number = logging.getLevelName(spelling)
        # For an unknown name, getLevelName returns a string. It also names numbers without a name
        # "Level n".
        if isinstance(number, int):
            return str(logging.getLevelName(number))
        if re.fullmatch(r"Level [0-9]+", spelling):
            return spelling
    raise ValueError(describe_unknown_value(name, LEVELS, "levels"))


def _sources(names: str | Sequence[str] | None) -> list[str] | None:
    requested = as_list(names)
    if requested is None:
        return None
    sources = [name.upper() for name in requested]
    problem = describe_unknown_value(sources, SOURCES, "sources")
    if problem is not None:
        raise ValueError(problem)
    return sources


def _last_lines(
    server: Server, cluster: ClusterKey, log_filter: LogFilter, count: int
) -> list[Row]:
    """Returns the last matching lines in order. A search reads at most ``SEARCHED_PAGES`` pages."""
    edges: list[Row] = []
    before = None
    for _ in range(SEARCHED_PAGES):
        if len(edges) >= count:
            break
        variables = {"last": min(PAGE_SIZE, count - len(edges)), "before": before}
        page = _page(server, cluster, log_filter, variables)["logs"]
        edges = page["edges"] + edges
        before = page["pageInfo"]["startCursor"]
        if not page["pageInfo"]["hasPreviousPage"]:
            break
    return edges


def _lines_after(
    server: Server, cluster: ClusterKey, log_filter: LogFilter, after: str | None
) -> tuple[list[Row], str | None, str]:
    """Returns all matching lines after a cursor, the last cursor, and the state of the cluster."""
    edges: list[Row] = []
    while True:
        cluster_page = _page(server, cluster, log_filter, {"first": PAGE_SIZE, "after": after})
        edges += cluster_page["logs"]["edges"]
        page_info = cluster_page["logs"]["pageInfo"]
        after = page_info["endCursor"] or after
        if not page_info["hasNextPage"]:
            return edges, after, cluster_page["state"]


def _page(server: Server, cluster: ClusterKey, log_filter: LogFilter, paging: Row) -> Row:
    variables = {"id": cluster.id, **log_filter.variables(), **paging}
    cluster_page: Row | None = server.graphql(PAGE_OF_LINES, variables, UNREADABLE_CODES)["cluster"]
    if cluster_page is None:
        raise NotFound(f"cluster {cluster.number} is no longer there", ["NOT_FOUND"])
    return cluster_page


def _line(edge: Row) -> Row:
    line: Row = edge["node"]
    return {**line, "at": parse_time(line["at"])}
