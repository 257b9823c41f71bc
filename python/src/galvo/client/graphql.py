"""Queries and mutations of the caller's own, in GraphQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from galvo.client.server import Server


def graphql(
    query: str, variables: Mapping[str, Any] | None = None, account: str | None = None
) -> dict[str, Any]:
    """Sends a document to the server's GraphQL API.

    Parameters
    ----------
    query:
        A GraphQL document with one operation. The server publishes the schema at ``/graphql``, with
        the unit of every field.
    variables:
        The values of its variables, by name, as in JSON. A ``datetime`` is sent as a time.
    account:
        The account. By default the configured account, then the token's own.

    Returns
    -------
    dict
        The ``data`` of the response, as the server wrote it.

    Raises
    ------
    GraphQLError
        If the response contains errors. ``codes`` has their codes, ``errors`` the errors
        themselves, and ``data`` the partial result.
    ServerUnreachable
        If there is no response. A query has been sent several times by then. A mutation is only
        sent again if it certainly did not reach the server; otherwise it may have been executed.
    TypeError
        If JSON cannot represent the value of a variable. The message names the variable.

    Examples
    --------
    >>> import galvo
    >>> galvo.graphql("{ viewer { user { name } } }")  # doctest: +SKIP
    {'viewer': {'user': {'name': 'ada'}}}
    """
    with Server.configured(account) as server:
        return server.graphql(query, variables)
