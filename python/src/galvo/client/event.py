"""Events: what Dask or a user logged with ``log_event``."""

from __future__ import annotations

import json
from collections.abc import Sequence

from galvo.client import html
from galvo.client.cluster import LIMIT, ClusterLike
from galvo.client.computation import cluster_of
from galvo.client.listing import Listing, listed, several
from galvo.client.moments import Since, on_the_clock
from galvo.client.records import Kind, Records
from galvo.client.server import Row

# Characters of an event's data that are shown.
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
            ("cluster", cluster_of),
            ("at", lambda row: on_the_clock(row["at"])),
            ("topic", lambda row: row["topic"]),
            ("data", _data),
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
    """What Dask or a user logged with ``log_event``, in the order in which it happened.

    Parameters
    ----------
    cluster_id:
        The cluster's ``id`` or ``number``, its scheduler's identifier, or a Dask client of it.
        Without one, of all clusters that were there at that time, which may be 500: give ``since``.
    account:
        The account; by default the configured one, and then the token's own.
    topics:
        Only what was logged under this topic or one of these, at most 100.
    since:
        Only what happened at most so long ago, as ``"1 hour"``, seconds or a ``timedelta``, or at
        this moment or later.
    user:
        Only of clusters of the user of this name.
    limit:
        Read at most so many, and warn if there are more; None for all.

    Returns
    -------
    Records
        A list of dictionaries with the keys ``at``, ``topic``, ``cluster`` (``id``, ``number``,
        ``name``), ``workerId`` and ``data``, which is what was logged.

    Examples
    --------
    >>> import galvo
    >>> galvo.list_events(12, topics="scores").to_pandas()  # doctest: +SKIP
    """
    further = {"topics": ("[String!]", several(topics))}
    return listed(EVENTS, account, cluster_id, since, user, limit, further)
