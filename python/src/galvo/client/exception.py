"""Exceptions of tasks that erred."""

from __future__ import annotations

from galvo.client import html
from galvo.client.cluster import LIMIT, ClusterLike
from galvo.client.computation import cluster_of
from galvo.client.listing import Listing, list_rows, single_cluster
from galvo.client.moments import Since, format_time
from galvo.client.records import Column, Kind, Records
from galvo.client.server import Row

# The longest part of a message that a notebook shows, in characters.
SHOWN = 300


def _message(row: Row) -> html.Html:
    text = row["message"]
    if text is None:
        return html.element("span", "cannot be decrypted", "note")
    return html.element("pre", text if len(text) <= SHOWN else text[:SHOWN] + "…")


EXCEPTIONS = Listing(
    field="errors",
    selection="""
      id at cluster { id number name } computation { id } taskGroup { id name } group { id }
      key type message traceback worker workerId origin retries
    """,
    during="at",
    kind=Kind(
        name="exceptions",
        times=(("at",),),
        columns=(
            Column("cluster", cluster_of),
            Column("at", lambda row: format_time(row["at"]), html.LINE),
            Column("type", lambda row: row["type"] or ""),
            Column("message", _message),
            Column("task", lambda row: row["key"]),
            Column("worker", lambda row: row["worker"] or ""),
        ),
    ),
)


def list_exceptions(
    account: str | None = None,
    since: Since | None = "7 days",
    user: str | None = None,
    cluster_id: ClusterLike | None = None,
    scheduler_id: ClusterLike | None = None,
    *,
    limit: int | None = LIMIT,
) -> Records:
    """Lists the tasks that erred, the newest first. Each appears once, after its last retry.

    Parameters
    ----------
    account:
        The account. By default the configured account, then the token's own.
    since:
        Only errors within this time before now, as ``"7 days"``, a number of seconds or a
        ``timedelta``, or at or after this ``datetime``. None for no limit.
    user:
        Only errors on clusters of the user with this name.
    cluster_id:
        Only errors on this cluster: its ``id``, ``number`` or name, its scheduler's identifier, or
        a Dask client of it. None for all clusters of the account.
    scheduler_id:
        An alternative to ``cluster_id``: Galvo has one identifier for a cluster and its scheduler.
    limit:
        The largest number of errors to return, at least 1. A warning is issued if there are more.
        None for no limit.

    Returns
    -------
    Records
        A list of dictionaries with the keys ``id``, ``at``, ``cluster`` (``id``, ``number``,
        ``name``), ``computation`` (``id``), ``taskGroup`` (``id``, ``name``), ``group`` (``id`` of
        the group of similar errors), ``key``, ``type``, ``message`` (None if it cannot be
        decrypted), ``traceback``, ``worker``, ``workerId``, ``origin`` (``"USER"``, ``"DASK"``,
        ``"UNKNOWN"``) and ``retries``.

    Examples
    --------
    >>> import galvo
    >>> galvo.list_exceptions(since="30 days", user="alice")  # doctest: +SKIP
    """
    cluster = single_cluster(cluster_id, scheduler_id)
    return list_rows(EXCEPTIONS, account, cluster, since, user, limit)
