"""Clusters: which there are, which one is meant, and closing one."""

from __future__ import annotations

import operator
import time
from collections.abc import Mapping
from numbers import Integral
from typing import Any, NamedTuple, Union

from distributed import get_client

from galvo.client import html, quantities
from galvo.client.errors import NotFound
from galvo.client.export import Export
from galvo.client.moments import Since, beginning, in_words, on_the_clock
from galvo.client.records import Kind, Records, collect
from galvo.client.server import Row, Server

# The most rows that a list reads unless it is told otherwise.
LIMIT = 100_000
# How long a scheduler that runs may take to report for the first time: it may have been registered
# a moment ago, and those that never are must not keep anybody waiting for long.
FIRST_REPORT_SECONDS = 5.0

# A number, a global identifier, a scheduler's identifier, a client, or a cluster object of Dask.
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
        computeSeconds transferSeconds clusterSeconds
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

MYSELF = "{ viewer { user { id name } } }"

BY_ID = "query ($id: ID!) { cluster(id: $id) { id number schedulerId } }"

BY_SCHEDULER = """
query ($scheduler: String!) { viewer { account {
  clusters(filter: { search: $scheduler }, first: 10) { nodes { id number schedulerId } }
} } }
"""

NEWEST = """
{ viewer { account { clusters(first: 1) { nodes { id number schedulerId } } } } }
"""

CLOSE = """
mutation ($id: ID!) {
  setDesiredState(cluster: $id, state: STOPPED) { cluster { state desiredState } }
}
"""


def state_of(row: Row) -> str:
    """The state of a cluster in words: as the server has it, or that it is to stop."""
    stopping = row["state"] == "RUNNING" and row["desiredState"] == "STOPPED"
    return "stopping" if stopping else str(row["state"]).lower()


def _state(row: Row) -> html.Html:
    word = state_of(row)
    return html.element("span", word, "good" if word == "running" else "note")


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
        ("number", lambda row: row["number"]),
        ("name", lambda row: row["name"] or row["schedulerId"]),
        ("user", lambda row: row["user"]["name"] if row["user"] else ""),
        ("state", _state),
        ("started", lambda row: on_the_clock(row["startedAt"])),
        ("for", lambda row: in_words(row["durationSeconds"])),
        ("workers", _workers),
        ("tasks", lambda row: quantities.count(row["totals"]["tasks"])),
        ("errors", _errors),
        ("busy", lambda row: quantities.share(row["usage"]["utilization"])),
        ("cost", lambda row: quantities.costs(row["usage"]["costs"])),
    ),
)


class ClusterKey(NamedTuple):
    """What a cluster is called."""

    id: str  # the global identifier
    number: int  # for people and for REST routes
    scheduler_id: str  # Dask's own


def list_clusters(
    account: str | None = None,
    since: Since | None = "7 days",
    user: str | None = None,
    *,
    filter: Mapping[str, Any] | None = None,
    limit: int | None = LIMIT,
) -> Records:
    """The clusters that reported to an account, those that started last first.

    Parameters
    ----------
    account:
        The account; by default ``galvo.account`` of Dask's configuration, and then the token's own.
    since:
        Only clusters that started at most so long ago, as ``"7 days"``, seconds or a ``timedelta``,
        or at this moment or later. None for all there ever were.
    user:
        Only the clusters of the user of this name.
    filter:
        Further conditions, as the ``ClusterFilter`` of the GraphQL schema has them:
        ``{"states": ["RUNNING"], "hasErrors": True}``. Its ``startedIn`` counts instead of
        ``since``.
    limit:
        Read at most so many clusters, and warn if there are more; None for all.

    Returns
    -------
    Records
        A list of dictionaries with the keys ``id``, ``number`` (either of them names the cluster
        elsewhere), ``schedulerId``, ``name``, ``user`` (``id``, ``name``), ``state``
        (as ``"RUNNING"`` and ``"CLOSED"``), ``desiredState``, ``startedAt``, ``endedAt``,
        ``durationSeconds``, ``lastSeenAt``, ``idleSince``, ``closeReason``, ``tags``, ``now``
        (``workers``, ``threads``, ``memoryUsed`` and ``memoryLimit`` in bytes; None once it
        closed), ``totals`` (``tasks``, ``errors``, ``clusterSeconds`` and more), ``usage``
        (``utilization`` from 0 to 1, ``costs`` with ``amount`` and ``currency``) and
        ``environment``. ``to_pandas()`` has more columns.

    Examples
    --------
    >>> import galvo
    >>> galvo.list_clusters(since="30 days", user="alice").to_pandas()  # doctest: +SKIP
    """
    with Server.configured(account) as server:
        return clusters_of(server, since, user, filter, limit)


def close(cluster_id: ClusterLike, account: str | None = None) -> None:
    """Close a cluster: its scheduler, which takes its workers along.

    The scheduler learns it with the answer to its next report, and closes itself; what is running
    is lost. The token needs the scope "admin".

    Parameters
    ----------
    cluster_id:
        The cluster's ``id`` or ``number``, its scheduler's identifier, or a Dask client of it.
    account:
        The account; by default the configured one, and then the token's own.

    Raises
    ------
    NotFound
        If there is no such cluster in the account.
    GraphQLError
        With the code ``"FORBIDDEN"`` if the token is not for this.
    """
    with Server.configured(account) as server:
        close_cluster(server, key_of(server, cluster_id))


def clusters_of(
    server: Server,
    since: Since | None,
    user: str | None,
    further: Mapping[str, Any] | None,
    limit: int | None,
) -> Records:
    """The clusters of a server that pass, see ``list_clusters``."""
    conditions = dict(further or {})
    begun = beginning(since)
    if begun is not None:
        conditions.setdefault("startedIn", {"from": begun})
    if user is not None:
        conditions["users"] = users_named(server, user, conditions)
    pages = server.pages(CLUSTERS, {"filter": conditions}, ("viewer", "account"), limit)
    return collect(pages, KIND, Export(server, "clusters", {"filter": conditions}), limit)


def close_cluster(server: Server, cluster: ClusterKey) -> None:
    """Says that the cluster is to close, see ``close``."""
    server.graphql(CLOSE, {"id": cluster.id})


def newest_cluster(server: Server) -> ClusterKey:
    """The cluster that started last."""
    nodes = server.graphql(NEWEST)["viewer"]["account"]["clusters"]["nodes"]
    if not nodes:
        raise NotFound("no cluster has reported to this account yet", ["NOT_FOUND"])
    return _key(nodes[0])


def key_of(server: Server, cluster: ClusterLike | None, patience: float = 0.0) -> ClusterKey:
    """What the cluster is called that is meant; None means that of the current client of Dask.

    So many seconds are waited for a scheduler that has not reported yet, and a few in any case for
    that of a client or a cluster object, if it runs.
    """
    if isinstance(cluster, str) and cluster.startswith("Scheduler-"):
        return _reported(server, cluster, patience)
    if isinstance(cluster, str):
        return _named(server, cluster)
    if isinstance(cluster, Integral) and not isinstance(cluster, bool):
        return _named(server, str(operator.index(cluster)))
    dask_object = get_client() if cluster is None else cluster
    scheduler = _scheduler_of(dask_object)
    # In an asynchronous client's own loop, waiting would hold up what is waited for.
    waits = _runs(dask_object) and not getattr(dask_object, "asynchronous", False)
    return _reported(server, scheduler, max(patience, FIRST_REPORT_SECONDS if waits else 0.0))


def users_named(server: Server, name: str, conditions: Mapping[str, Any]) -> list[str]:
    """The identifier of the user of this name, as a filter takes it; empty if there is none.

    Who has which name is told to admins alone, but whose a cluster is to everybody: so one of the
    user's clusters is looked for among those that pass the other conditions.
    """
    myself: dict[str, str] = server.graphql(MYSELF)["viewer"]["user"]
    if myself["name"] == name:
        return [myself["id"]]
    pages = server.pages(USERS, {"filter": dict(conditions)}, ("viewer", "account"))
    for page in pages:
        for row in page:
            if row["user"] is not None and row["user"]["name"] == name:
                return [row["user"]["id"]]
    return []


def _named(server: Server, name: str) -> ClusterKey:
    """The cluster of this number or global identifier."""
    found = server.graphql(BY_ID, {"id": name})["cluster"]
    if found is None:
        raise NotFound(f"there is no cluster {name} in this account", ["NOT_FOUND"])
    return _key(found)


def _reported(server: Server, scheduler: str, patience: float) -> ClusterKey:
    """The cluster of this scheduler, which may take so many seconds to report."""
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
    """Dask's identifier of the scheduler of a client or a cluster object.

    A client that is closed has forgotten it. Its cluster object, if it has one, still knows it.
    """
    if not hasattr(dask_object, "scheduler_info"):
        raise TypeError(f"a cluster's number, identifier or client is needed, not {dask_object!r}")
    for one in (dask_object, getattr(dask_object, "cluster", None)):
        told = _identity(one)
        if isinstance(told, Mapping) and told.get("id"):
            return str(told["id"])
    raise ValueError(
        f"{dask_object!r} is not connected to a scheduler, or not any more: give the cluster's"
        " number or identifier, which galvo.list_clusters() tells"
    )


def _identity(dask_object: Any) -> Any:
    """What a client or a cluster object was told of its scheduler."""
    told = getattr(dask_object, "scheduler_info", None)
    if not callable(told):
        return told
    # A client asks, and without a scheduler it would wait for one or fail: it may remember.
    return told() if _runs(dask_object) else getattr(dask_object, "_scheduler_identity", None)


def _runs(dask_object: Any) -> bool:
    """Whether it is connected, in the words of clients or the states of cluster objects."""
    status = getattr(dask_object, "status", "running")
    return bool(getattr(status, "name", status) == "running")


def _key(found: Mapping[str, Any]) -> ClusterKey:
    return ClusterKey(found["id"], int(found["number"]), found["schedulerId"])
