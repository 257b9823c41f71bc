"""Clusters: listing them, resolving one, and closing one."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any, NamedTuple, Union

from distributed import get_client

from galvo.client import html, quantities
from galvo.client.conditions import problem_of
from galvo.client.errors import GraphQLError, NotFound
from galvo.client.export import Export
from galvo.client.moments import Since, format_duration, format_time, range_start
from galvo.client.records import Column, Kind, Records, collect
from galvo.client.server import PAGE_SIZE, Row, Server

# The argument that names the cluster that started last.
NEWEST = "-1"
# The default of the largest number of rows that a list reads.
LIMIT = 100_000
# The longest time to wait for the first report of a running scheduler. It may have been registered
# a moment ago, and a scheduler that is never registered must not block the caller for long.
FIRST_REPORT_SECONDS = 5.0
# The longest search text that the server accepts, in characters.
LONGEST_SEARCH = 200

# A number, a name, a global identifier, a scheduler's identifier, a client, or a cluster object of
# Dask. Negative numbers count back from the newest cluster, which is -1.
ClusterLike = Union[int, str, Any]

CLUSTERS = """
query ($filter: ClusterFilter, $first: Int!, $after: String) { viewer { account {
  list: clusters(filter: $filter, first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes {
      id number schedulerId name address dashboardUrl user { id name } state desiredState
      startedAt endedAt durationSeconds closeReason lastSeenAt idleSince tags { key value }
      now { at workers threads memoryUsed memoryLimit }
      totals {
        tasks tasksSucceeded tasksErred errors bytes workers peakWorkers peakThreads
        computeSeconds transferSeconds threadSeconds
      }
      usage { utilization costs { amount currency basis } }
      environment { python os osRelease machine }
    }
  }
} } }
"""

USERS = """
query ($filter: ClusterFilter, $first: Int!, $after: String) { viewer { account {
  list: clusters(filter: $filter, first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { user { id name } }
  }
} } }
"""

OWN_USER = "{ viewer { user { id name } } }"

BY_ID = "query ($id: ID!) { cluster(id: $id) { id number schedulerId } }"

BY_SCHEDULER = """
query ($scheduler: String!) { viewer { account {
  clusters(filter: { search: $scheduler }, first: 10) { nodes { id number schedulerId } }
} } }
"""

BY_NAME = """
query ($name: String!, $first: Int!, $after: String) { viewer { account {
  list: clusters(filter: { search: $name }, first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { id number schedulerId name state }
  }
} } }
"""

STARTED_LAST = """
query ($first: Int!) { viewer { account {
  clusters(first: $first) { nodes { id number schedulerId } }
} } }
"""

CLOSE = """
mutation ($id: ID!) {
  setDesiredState(cluster: $id, state: STOPPED) {
    cluster { state desiredState }
    userErrors { code message }
  }
}
"""


def state_of(row: Row) -> str:
    """Returns the cluster's state in lower case; "stopping" if it runs but is requested to stop."""
    stopping = row["state"] == "RUNNING" and row["desiredState"] == "STOPPED"
    return "stopping" if stopping else str(row["state"]).lower()


def _state(row: Row) -> html.Html:
    state = state_of(row)
    return html.element("span", state, "good" if state == "running" else "note")


def _workers(row: Row) -> str:
    now, totals = row["now"], row["totals"]
    if now is None:
        return f"{quantities.count(totals['peakWorkers'])} at most"
    return quantities.count(now["workers"])


def _errors(row: Row) -> html.Html:
    errors: int = row["totals"]["errors"]
    return html.element("span", quantities.count(errors), "bad" if errors else "")


KIND = Kind(
    name="clusters",
    times=(("startedAt",), ("endedAt",), ("lastSeenAt",), ("idleSince",), ("now", "at")),
    columns=(
        Column("number", lambda row: row["number"], html.NUMBER),
        Column("name", lambda row: row["name"] or row["schedulerId"]),
        Column("user", lambda row: row["user"]["name"] if row["user"] else ""),
        Column("state", _state, html.LINE),
        Column("started", lambda row: format_time(row["startedAt"]), html.LINE),
        Column("for", lambda row: format_duration(row["durationSeconds"]), html.NUMBER),
        Column("workers", _workers, html.NUMBER),
        Column("tasks", lambda row: quantities.count(row["totals"]["tasks"]), html.NUMBER),
        Column("errors", _errors, html.NUMBER),
        Column("busy", lambda row: quantities.share(row["usage"]["utilization"]), html.NUMBER),
        Column("cost", lambda row: quantities.costs(row["usage"]["costs"]), html.NUMBER),
    ),
)


class ClusterKey(NamedTuple):
    """The identifiers of a cluster."""

    id: str  # the global identifier
    number: int  # shown to people and used in REST routes
    scheduler_id: str  # Dask's identifier


def list_clusters(
    account: str | None = None,
    since: Since | None = "7 days",
    user: str | None = None,
    *,
    filter: Mapping[str, Any] | None = None,
    limit: int | None = LIMIT,
) -> Records:
    """Lists the clusters that reported to an account, the most recently started first.

    Parameters
    ----------
    account:
        The account. By default ``galvo.account`` from Dask's configuration, then the token's own
        account.
    since:
        Only clusters that started within this time before now, as ``"7 days"``, a number of seconds
        or a ``timedelta``, or at or after this ``datetime``. A ``datetime`` without a time zone is
        in the local time zone. None for all clusters.
    user:
        Only the clusters of the user with this name.
    filter:
        Further conditions, as in the ``ClusterFilter`` of the GraphQL schema: ``{"states":
        ["RUNNING"], "hasErrors": True}``. Its ``startedIn`` replaces ``since``.
    limit:
        The largest number of clusters to return, at least 1. A warning is issued if there are more.
        None for no limit.

    Returns
    -------
    Records
        A list of dictionaries with the keys ``id``, ``number`` (both identify the cluster in other
        calls), ``schedulerId``, ``name``, ``user`` (``id``, ``name``), ``state`` (such as
        ``"RUNNING"`` and ``"CLOSED"``), ``desiredState``, ``startedAt``, ``endedAt``,
        ``durationSeconds``, ``lastSeenAt``, ``idleSince``, ``closeReason``, ``tags``, ``now``
        (``workers``, ``threads``, ``memoryUsed`` and ``memoryLimit`` in bytes; None for a closed
        cluster), ``totals`` (``tasks``, ``errors``, ``threadSeconds`` and more), ``usage``
        (``utilization`` from 0 to 1, ``costs`` with ``amount`` and ``currency``) and
        ``environment``. ``to_pandas()`` has more columns.

    Raises
    ------
    ValueError
        If ``filter`` has an unknown key or value, if ``since`` is no duration or time, or if
        ``limit`` is less than 1.
    GalvoError
        If the server is not configured, does not respond, or refuses the request.

    Examples
    --------
    >>> import galvo
    >>> galvo.list_clusters(since="30 days", user="alice").to_pandas()  # doctest: +SKIP
    """
    with Server.configured(account) as server:
        return clusters_of(server, since, user, filter, limit)


def close(cluster_id: ClusterLike, account: str | None = None) -> None:
    """Closes a cluster: its scheduler, which closes its workers.

    The server sends the request with the response to the scheduler's next report, and the scheduler
    then closes itself. Running tasks are lost. The token needs the scope "admin"; for a member's
    own cluster, "ingest" and "read".

    Parameters
    ----------
    cluster_id:
        The cluster's ``id``, ``number`` or name, its scheduler's identifier, or a Dask client of
        it. A name is accepted only if at most one cluster with this name is not closed yet.
    account:
        The account. By default the configured account, then the token's own.

    Raises
    ------
    NotFound
        If the account has no such cluster.
    ValueError
        If several clusters with this name are not closed.
    GraphQLError
        With the code ``"FORBIDDEN"`` if the token does not permit this.
    """
    with Server.configured(account, about=cluster_id) as server:
        close_cluster(server, key_to_close(server, cluster_id))


def clusters_of(
    server: Server,
    since: Since | None,
    user: str | None,
    extra_conditions: Mapping[str, Any] | None,
    limit: int | None,
) -> Records:
    """Returns the clusters of a server that meet the conditions of ``list_clusters``."""
    conditions = dict(extra_conditions or {})
    start_time = range_start(since)
    if start_time is not None:
        conditions.setdefault("startedIn", {"from": start_time})
    try:
        if user is not None:
            conditions["users"] = find_user_ids(server, user, conditions)
        pages = server.pages(CLUSTERS, {"filter": conditions}, ("viewer", "account"), limit)
        return collect(pages, KIND, Export(server, "clusters", {"filter": conditions}), limit)
    except GraphQLError as error:
        if not extra_conditions or error.code != "BAD_USER_INPUT":
            raise
        problem = problem_of(server, "ClusterFilter", extra_conditions, "filter")
        raise ValueError(problem or f"filter: {error}") from None


def close_cluster(server: Server, cluster: ClusterKey) -> None:
    """Requests that the cluster be closed, see ``close``."""
    problems = server.graphql(CLOSE, {"id": cluster.id})["setDesiredState"]["userErrors"]
    if problems:
        raise GraphQLError(
            [
                {"message": problem["message"], "extensions": {"code": problem["code"]}}
                for problem in problems
            ]
        )


def newest_cluster(server: Server, position: int = 1) -> ClusterKey:
    """Returns the cluster that started last; with ``position=2``, the one before it.

    Raises NotFound if the account has fewer clusters, and ValueError if ``position`` exceeds
    a page.
    """
    if position > PAGE_SIZE:
        raise ValueError(f"-{position} is too far back: give the cluster's number")
    nodes = server.graphql(STARTED_LAST, {"first": position})["viewer"]["account"]["clusters"][
        "nodes"
    ]
    if not nodes:
        raise NotFound("no cluster has reported to this account yet", ["NOT_FOUND"])
    if len(nodes) < position:
        problem = f"there is no cluster -{position} in this account, which has {len(nodes)}"
        raise NotFound(problem, ["NOT_FOUND"])
    return _key(nodes[position - 1])


def key_of(server: Server, cluster: ClusterLike | None, patience: float = 0.0) -> ClusterKey:
    """Identifies a cluster. None stands for the cluster of Dask's current client, or the newest
    one.

    ``patience`` is the time in seconds to wait for a scheduler that has not reported yet. For a
    running client or cluster object it is at least ``FIRST_REPORT_SECONDS``.
    """
    if isinstance(cluster, str) and cluster.startswith("Scheduler-"):
        return _find_reported(server, cluster, patience)
    if isinstance(cluster, Integral) and not isinstance(cluster, bool):
        cluster = str(operator.index(cluster))
    if isinstance(cluster, str) and re.fullmatch(r"-[0-9]+", cluster):
        return newest_cluster(server, max(1, -int(cluster)))
    if isinstance(cluster, str):
        return _find_named(server, cluster)
    dask_object = current_client() if cluster is None else cluster
    if dask_object is None:
        return newest_cluster(server)
    scheduler = _scheduler_of(dask_object)
    # An asynchronous client's event loop would be blocked by waiting, and nothing could be
    # reported.
    may_wait = _runs(dask_object) and not getattr(dask_object, "asynchronous", False)
    return _find_reported(
        server, scheduler, max(patience, FIRST_REPORT_SECONDS if may_wait else 0.0)
    )


def key_to_close(server: Server, cluster: ClusterLike) -> ClusterKey:
    """Identifies a cluster to close.

    Never picks the newest of several open clusters with one name.
    """
    if cluster is None:
        raise TypeError("say which cluster to close: its number, its name, or a client of it")
    key = key_of(server, cluster)
    if isinstance(cluster, str) and not re.fullmatch(r"-?[0-9]+|Scheduler-.*", cluster):
        running = [row for row in _find_all_named(server, cluster) if row["state"] != "CLOSED"]
        if len(running) > 1:
            numbers = ", ".join(str(row["number"]) for row in running)
            raise ValueError(f"several clusters are called {cluster}: give one of {numbers}")
        if running:
            return _key(running[0])
    return key


def current_client() -> Any:
    """Returns Dask's current client; None if there is none."""
    try:
        return get_client()
    except ValueError:
        return None


def find_user_ids(server: Server, name: str, conditions: Mapping[str, Any]) -> list[str]:
    """Returns the identifier of the user with this name, as a filter takes it; empty if not found.

    Only admins may list users, but everyone may read the user of a cluster. So this searches for a
    cluster of that user among those that meet the other conditions.
    """
    own_user: dict[str, str] = server.graphql(OWN_USER)["viewer"]["user"]
    if own_user["name"] == name:
        return [own_user["id"]]
    pages = server.pages(USERS, {"filter": dict(conditions)}, ("viewer", "account"))
    for page in pages:
        for row in page:
            if row["user"] is not None and row["user"]["name"] == name:
                return [row["user"]["id"]]
    return []


def _find_named(server: Server, name: str) -> ClusterKey:
    """Returns the cluster with this number or global identifier, else the newest with this name."""
    node = server.graphql(BY_ID, {"id": name})["cluster"]
    if node is not None:
        return _key(node)
    if re.fullmatch(r"[0-9]+", name):
        raise NotFound(f"there is no cluster {name} in this account", ["NOT_FOUND"])
    for row in _find_all_named(server, name):
        return _key(row)
    raise NotFound(
        f"{name!r} was taken for a cluster, and this account has none of this number, name or"
        " identifier (an account is given as account=…)",
        ["NOT_FOUND"],
    )


def _find_all_named(server: Server, name: str) -> Iterator[Row]:
    """Yields the clusters with this name, the newest first."""
    if 1 <= len(name) <= LONGEST_SEARCH:
        for page in server.pages(BY_NAME, {"name": name}, ("viewer", "account")):
            yield from (row for row in page if row["name"] == name)


def _find_reported(server: Server, scheduler: str, patience: float) -> ClusterKey:
    """Returns the cluster of this scheduler.

    Waits up to ``patience`` seconds for its first report.
    """
    deadline = time.monotonic() + patience
    while True:
        account = server.graphql(BY_SCHEDULER, {"scheduler": scheduler})["viewer"]["account"]
        for node in account["clusters"]["nodes"]:
            if node["schedulerId"] == scheduler:
                return _key(node)
        if time.monotonic() >= deadline:
            problem = f"the scheduler {scheduler} has not reported to this account"
            raise NotFound(problem + ": was galvo.register() called?", ["NOT_FOUND"])
        time.sleep(0.2)


def _scheduler_of(dask_object: Any) -> str:
    """Returns Dask's identifier of the scheduler of a client or a cluster object.

    A closed client has discarded it; its cluster object, if it has one, still holds it.
    """
    if not hasattr(dask_object, "scheduler_info"):
        raise TypeError(f"a cluster's number, identifier or client is needed, not {dask_object!r}")
    for candidate in (dask_object, getattr(dask_object, "cluster", None)):
        info = _identity(candidate)
        if isinstance(info, Mapping) and info.get("id"):
            return str(info["id"])
    raise ValueError(
        f"{dask_object!r} is not connected to a scheduler, or not any more: give the cluster's"
        " number or identifier, which galvo.list_clusters() returns"
    )


def _identity(dask_object: Any) -> Any:
    """Returns the scheduler's identity as a client or a cluster object holds it."""
    info = getattr(dask_object, "scheduler_info", None)
    if not callable(info):
        return info
    # A client queries the scheduler, and would wait or fail without one. It may hold a copy
    # instead.
    return info() if _runs(dask_object) else getattr(dask_object, "_scheduler_identity", None)


def _runs(dask_object: Any) -> bool:
    """True if it is connected, by the status of a client or the state of a cluster object."""
    status = getattr(dask_object, "status", "running")
    return bool(getattr(status, "name", status) == "running")


def _key(node: Mapping[str, Any]) -> ClusterKey:
    return ClusterKey(node["id"], int(node["number"]), node["schedulerId"])
