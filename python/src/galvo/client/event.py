"""Events that Dask or a user logged with ``log_event``."""

from __future__ import annotations

import json
from collections.abc import Sequence

from galvo.client import html
from galvo.client.cluster import LIMIT, ClusterLike
from galvo.client.computation import cluster_of
from galvo.client.listing import Listing, as_list, list_rows
from galvo.client.moments import Since, format_time
from galvo.client.records import Column, Kind, Records
from galvo.client.server import Row

# The longest part of an event's data that a notebook shows, in characters.
SHOWN = 300


def _data(row: Row) -> html.Html:
    text = json.dumps(row["data"], ensure_ascii=False)
    return html.element("pre", text if len(text) <= SHOWN else text[:SHOWN] + "…")


EVENTS = Listing(
    field="events",
    selection="at topic cluster { id number name } workerId data",
    during="at",
    kind=Kind(
        name="events",
        times=(("at",),),
        columns=(
            Column("cluster", cluster_of),
            Column("at", lambda row: format_time(row["at"]), html.LINE),
            Column("topic", lambda row: row["topic"]),
            Column("data", _data),
        ),
    ),
)


def list_events(
    cluster_id: ClusterLike | None = None,
    account: str | None = None,
    *,
    topics: str | Sequence[str] | None = None,
    since: Since | None = None,
    user: str | None = None,
    limit: int | None = LIMIT,
) -> Records:
    """Lists the events that Dask or a user logged with ``log_event``, the oldest first.

    Parameters
    ----------
    cluster_id:
        The cluster's ``id``, ``number`` or name, its scheduler's identifier, or a Dask client of
        it. None for all clusters that existed in the given time, at most 500: give ``since``.
    account:
        The account. By default the configured account, then the token's own.
    topics:
        Only events of this topic or of one of these, at most 100.
    since:
        Only events within this time before now, as ``"1 hour"``, a number of seconds or a
        ``timedelta``, or at or after this ``datetime``. None for no limit.
    user:
        Only events of clusters of the user with this name.
    limit:
        The largest number of events to return, at least 1. A warning is issued if there are more.
        None for no limit.

    Returns
    -------
    Records
        A list of dictionaries with the keys ``at``, ``topic``, ``cluster`` (``id``, ``number``,
        ``name``), ``workerId`` and ``data``, the logged value.

    Examples
    --------
    >>> import galvo
    >>> galvo.list_events(12, topics="scores").to_pandas()  # doctest: +SKIP
    """
    further = {"topics": ("[String!]", as_list(topics))}
    return list_rows(EVENTS, account, cluster_id, since, user, limit, further)
