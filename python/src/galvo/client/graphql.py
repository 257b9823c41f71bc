"""Anything else that the server can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from galvo.client.server import Server


def graphql(
    query: str, variables: Mapping[str, Any] | None = None, account: str | None = None
) -> dict[str, Any]:
    """Ask the server's GraphQL API.

    Parameters
    ----------
    query:
        A GraphQL document with one operation. The schema is at ``/graphql`` of the server, with
        every field's unit.
    variables:
        The values of its variables, by name, as JSON has them. A ``datetime`` is a moment.
    account:
        The account; by default the configured one, and then the token's own.

    Returns
    -------
    dict
        What is under ``data`` of the answer, as the server wrote it.

    Raises
    ------
    GraphQLError
        If there are errors. ``codes`` has their codes, ``errors`` the errors themselves, and
        ``data`` what was answered all the same.
    ServerUnreachable
        If there is no answer. A query was sent several times then; a mutation, which may be done
        all the same, only if it never left.

    Examples
    --------
    >>> import galvo
    >>> galvo.graphql("{ viewer { user { name } } }")  # doctest: +SKIP
    {'viewer': {'user': {'name': 'ada'}}}
    """
    with Server.configured(account) as server:
        return server.graphql(query, variables)
