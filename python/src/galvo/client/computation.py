"""Computations: the graphs submitted to clusters."""

from __future__ import annotations

from galvo.client import html
from galvo.client.cluster import LIMIT, ClusterLike
from galvo.client.listing import Listing, list_rows, single_cluster
from galvo.client.moments import Since, format_duration, format_time
from galvo.client.records import Column, Kind, Records
from galvo.client.server import Row

# The style of each state.
STATE_STYLES = {"ERRED": "bad", "CANCELLED": "notice", "FINISHED": "good"}


def _state(row: Row) -> html.Html:
    return html.element("span", row["state"].lower(), STATE_STYLES.get(row["state"], ""))


def _took(row: Row) -> str:
    return "" if row["wallSeconds"] is None else format_duration(row["wallSeconds"])


def cluster_of(row: Row) -> str:
    """Returns the number and the name of the cluster that a row belongs to."""
    cluster = row["cluster"]
    name = f" {cluster['name']}" if cluster["name"] else ""
    return f"{cluster['number']}{name}"


COMPUTATIONS = Listing(
    field="computations",
    selection="""
      id daskId cluster { id number name } state startedAt endedAt wallSeconds spans { id }
    """,
    during="startedIn",
    kind=Kind(
        name="computations",
        times=(("startedAt",), ("endedAt",)),
        columns=(
            Column("cluster", cluster_of),
            Column("computation", lambda row: row["daskId"], html.LINE),
            Column("state", _state, html.LINE),
            Column("started", lambda row: format_time(row["startedAt"]), html.LINE),
            Column("took", _took, html.NUMBER),
        ),
    ),
)


def list_computations(
    cluster_id: ClusterLike | None = None,
    scheduler_id: ClusterLike | None = None,
    account: str | None = None,
    *,
    since: Since | None = None,
    user: str | None = None,
    limit: int | None = LIMIT,
) -> Records:
    """Lists the computations submitted to one cluster, or to all of an account, the newest first.

    Parameters
    ----------
    cluster_id:
        The cluster's ``id``, ``number`` or name, its scheduler's identifier, or a Dask client of
        it. None for all clusters of the account.
    scheduler_id:
        An alternative to ``cluster_id``: Galvo has one identifier for a cluster and its scheduler.
    account:
        The account. By default the configured account, then the token's own.
    since:
        Only computations that started within this time before now, as ``"7 days"``, a number of
        seconds or a ``timedelta``, or at or after this ``datetime``. None for no limit.
    user:
        Only computations on clusters of the user with this name.
    limit:
        The largest number of computations to return, at least 1. A warning is issued if there are
        more. None for no limit.

    Returns
    -------
    Records
        A list of dictionaries with the keys ``id``, ``daskId``, ``cluster`` (``id``, ``number``,
        ``name``), ``state`` (``"RUNNING"``, ``"FINISHED"``, ``"ERRED"``, ``"CANCELLED"``),
        ``startedAt``, ``endedAt``, ``wallSeconds`` and ``spans``.

    Raises
    ------
    NotFound
        If the account has no such cluster.
    ValueError
        If ``cluster_id`` and ``scheduler_id`` name two clusters.

    Examples
    --------
    >>> import galvo
    >>> clusters = galvo.list_clusters()  # doctest: +SKIP
    >>> galvo.list_computations(clusters[0]["id"])  # doctest: +SKIP
    """
    cluster = single_cluster(cluster_id, scheduler_id)
    return list_rows(COMPUTATIONS, account, cluster, since, user, limit)
