"""Exceptions: tasks that erred."""

from __future__ import annotations

from galvo.client import html
from galvo.client.cluster import LIMIT, ClusterLike
from galvo.client.computation import cluster_of
from galvo.client.listing import Listing, listed, one_of
from galvo.client.moments import Since, on_the_clock
from galvo.client.records import Kind, Records
from galvo.client.server import Row

# Characters of a message that are shown.
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
            ("cluster", cluster_of),
            ("at", lambda row: on_the_clock(row["at"])),
            ("type", lambda row: row["type"] or ""),
            ("message", _message),
            ("task", lambda row: row["key"]),
            ("worker", lambda row: row["worker"] or ""),
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
    """The tasks that erred, the newest first. Each is there once, after its last retry.

    Parameters
    ----------
    account:
        The account; by default the configured one, and then the token's own.
    since:
        Only what happened at most so long ago, as ``"7 days"``, seconds or a ``timedelta``, or at
        this moment or later. None for all there ever were.
    user:
        Only of clusters of the user of this name.
    cluster_id:
        Only of this cluster: its ``id`` or ``number``, its scheduler's identifier, or a Dask client
        of it.
    scheduler_id:
        The same: Galvo has one identifier for a cluster and its scheduler.
    limit:
        Read at most so many, and warn if there are more; None for all.

    Returns
    -------
    Records
        A list of dictionaries with the keys ``id``, ``at``, ``cluster`` (``id``, ``number``,
        ``name``), ``computation`` (``id``), ``taskGroup`` (``id``, ``name``), ``group`` (``id``: of
        those that look alike), ``key``, ``type``, ``message``, ``traceback``, ``worker``,
        ``workerId``, ``origin`` (``"USER"``, ``"DASK"``) and ``retries``.

    Examples
    --------
    >>> import galvo
    >>> galvo.list_exceptions(since="30 days", user="alice")  # doctest: +SKIP
    """
    cluster = one_of(cluster_id, scheduler_id)
    return listed(EXCEPTIONS, account, cluster, since, user, limit)
