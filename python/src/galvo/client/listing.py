"""Lists that exist for one cluster, and for all clusters of an account."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from galvo.client.cluster import ClusterLike, find_user_ids, key_of
from galvo.client.export import Export
from galvo.client.moments import Since, range_start
from galvo.client.records import Kind, Records, collect
from galvo.client.server import Server

OF_CLUSTER = """
query (%(variables)s) { cluster(id: $id) {
  list: %(field)s(%(arguments)s) { pageInfo { hasNextPage endCursor } nodes { %(selection)s } }
} }
"""

OF_ACCOUNT = """
query (%(variables)s) { viewer { account {
  list: %(field)s(%(arguments)s) { pageInfo { hasNextPage endCursor } nodes { %(selection)s } }
} } }
"""

PAGING = {"first": "Int!", "after": "String"}


class Listing(NamedTuple):
    """A GraphQL field that both clusters and accounts have."""

    field: str  # the field's name, also the name of its exports
    selection: str  # the fields of each item
    during: str  # the argument that limits the account's list in time
    kind: Kind


def list_rows(
    listing: Listing,
    account: str | None,
    cluster: ClusterLike | None,
    since: Since | None,
    user: str | None,
    limit: int | None,
    extra_arguments: Mapping[str, tuple[str, Any]] | None = None,
) -> Records:
    """Returns the rows of one cluster, or of all matching clusters.

    ``further`` maps further arguments to their GraphQL type and value. A cluster's own list uses an
    index but has no filter by time or user. If these are given, the account's list is searched for
    the cluster instead.
    """
    types = {name: type_ for name, (type_, _) in (extra_arguments or {}).items()}
    values = {name: value for name, (_, value) in (extra_arguments or {}).items()}
    with Server.configured(account, about=cluster) as server:
        key = None if cluster is None else key_of(server, cluster)
        if key is not None and since is None and user is None:
            query = _document(OF_CLUSTER, listing, types, {"id": "ID!"})
            pages = server.pages(query, {**values, "id": key.id}, ("cluster",), limit)
            export = Export(server, f"clusters/{key.number}/{listing.field}", values)
            return collect(pages, listing.kind, export, limit)
        conditions: dict[str, Any] = {}
        if key is not None:
            conditions["search"] = key.scheduler_id
        if user is not None:
            conditions["users"] = find_user_ids(server, user, conditions)
        values["clusters"] = conditions or None
        start_time = range_start(since)
        values[listing.during] = None if start_time is None else {"from": start_time}
        types = {**types, "clusters": "ClusterFilter", listing.during: "TimeRange"}
        query = _document(OF_ACCOUNT, listing, types, {})
        pages = server.pages(query, values, ("viewer", "account"), limit)
        return collect(pages, listing.kind, Export(server, listing.field, values), limit)


def single_cluster(
    cluster_id: ClusterLike | None, scheduler_id: ClusterLike | None
) -> ClusterLike | None:
    """Returns the cluster that two synonymous arguments name; None if neither is given.

    Raises ValueError if they differ.
    """
    if cluster_id is not None and scheduler_id is not None and cluster_id != scheduler_id:
        raise ValueError("cluster_id and scheduler_id name two clusters: give one of them")
    return scheduler_id if cluster_id is None else cluster_id


def as_list(names: str | Iterable[str] | None) -> list[str] | None:
    """Returns the names as a list: a string is one name, and None stands for all."""
    if names is None:
        return None
    return [names] if isinstance(names, str) else list(names)


def _document(
    template: str, listing: Listing, types: Mapping[str, str], own_arguments: Mapping[str, str]
) -> str:
    arguments = {**types, **PAGING}
    return template % {
        "field": listing.field,
        "selection": listing.selection,
        "variables": ", ".join(
            f"${name}: {type_}" for name, type_ in {**own_arguments, **arguments}.items()
        ),
        "arguments": ", ".join(f"{name}: ${name}" for name in arguments),
    }
