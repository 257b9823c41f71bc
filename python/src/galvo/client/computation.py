"""Computations: what was submitted to clusters."""

from __future__ import annotations

from galvo.client import html
from galvo.client.cluster import LIMIT, ClusterLike
from galvo.client.listing import Listing, listed, one_of
from galvo.client.moments import Since, in_words, on_the_clock
from galvo.client.records import Kind, Records
from galvo.client.server import Row

# How the states are shown.
LOOKS = {"ERRED": "bad", "CANCELLED": "notice", "FINISHED": "good"}


def _state(row: Row) -> html.Html:
    return html.element("span", row["state"].lower(), LOOKS.get(row["state"], ""))


def cluster_of(row: Row) -> str:
    """What the cluster is called that something happened on."""
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
            ("cluster", cluster_of),
            ("computation", lambda row: row["daskId"]),
            ("state", _state),
            ("started", lambda row: on_the_clock(row["startedAt"])),
            ("took", lambda r: "" if r["wallSeconds"] is None else in_words(r["wallSeconds"])),
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
    """What was submitted to a cluster, or to all of them, the newest first.

    Parameters
    ----------
    cluster_id:
        The cluster's ``id`` or ``number``, its scheduler's identifier, or a Dask client of it; all
        clusters of the account if none is named.
    scheduler_id:
        The same: Galvo has one identifier for a cluster and its scheduler.
    account:
        The account; by default the configured one, and then the token's own.
    since:
        Only what was submitted at most so long ago, as ``"7 days"``, seconds or a ``timedelta``, or
        at this moment or later.
    user:
        Only of clusters of the user of this name.
    limit:
        Read at most so many, and warn if there are more; None for all.

    Returns
    -------
    Records
        A list of dictionaries with the keys ``id``, ``daskId``, ``cluster`` (``id``, ``number``,
        ``name``), ``state`` (``"RUNNING"``, ``"FINISHED"``, ``"ERRED"``, ``"CANCELLED"``),
        ``startedAt``, ``endedAt``, ``wallSeconds`` and ``spans``.

    Examples
    --------
    >>> import galvo
    >>> clusters = galvo.list_clusters()  # doctest: +SKIP
    >>> galvo.list_computations(clusters[0]["id"])  # doctest: +SKIP
    """
    cluster = one_of(cluster_id, scheduler_id)
    return listed(COMPUTATIONS, account, cluster, since, user, limit)
