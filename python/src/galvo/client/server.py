"""A Galvo server as the owner of one token sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from urllib3.exceptions import HTTPError

from galvo.client.errors import (
    GalvoError,
    GraphQLError,
    NotConfigured,
    NotFound,
    RequestRefused,
    code_of,
)
from galvo.client.transport import Transport
from galvo.client.values import plain
from galvo.plugin import read_settings, what_is_missing

GRAPHQL_TYPES = "application/graphql-response+json, application/json;q=0.9"
# Errors of a single text in a list: it is null then, and the rest is as good as ever.
UNREADABLE = frozenset({"KEY_MISSING", "DAMAGED"})
# The most that the server puts on a page.
PAGE = 100

Row = dict[str, Any]


class Server:
    """What a server is asked, with a token and within an account. It never shows the token."""

    def __init__(self, settings: Mapping[str, Any]):
        problem = what_is_missing(settings)
        if problem is not None:
            raise NotConfigured(problem)
        self.address: str = settings["server"]
        self.account: str | None = settings["account"]
        self._token: str = settings["token"]
        self._transport = Transport(self.address)

    @classmethod
    def configured(cls, account: str | None = None, server: str | None = None) -> Server:
        """The server that Dask's configuration names: ``galvo.server`` and ``galvo.token``."""
        return cls(read_settings(server=server, account=account))

    def __repr__(self) -> str:
        return f"<Galvo server {self.address}>"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. What is asked later makes a new one."""
        self._transport.close()

    def graphql(
        self,
        query: str,
        variables: Mapping[str, Any] | None = None,
        tolerated: Collection[str] = (),
    ) -> dict[str, Any]:
        """The data that a GraphQL document is answered with.

        Errors raise a GraphQLError, unless all of their codes are tolerated.
        """
        given = {name: plain(value, name) for name, value in (variables or {}).items()}
        body = json.dumps({"query": query, "variables": given}).encode()
        response = self._transport.send(
            "POST",
            "/graphql",
            {**self._credentials(), "Content-Type": "application/json", "Accept": GRAPHQL_TYPES},
            body,
            # A text that merely mentions the word is sent once, too, and that does no harm.
            repeatable=re.search(r"\bmutation\b", query) is None,
        )
        answer = _parsed(response.data)
        errors = answer.get("errors")
        if errors:
            data = answer.get("data")
            tolerable = isinstance(data, dict) and all(code_of(e) in tolerated for e in errors)
            if not tolerable:
                raise GraphQLError(errors, data, response.status)
        if response.status >= 300 or not isinstance(answer.get("data"), dict):
            raise self._refusal(response.status, answer)
        data = answer["data"]
        assert isinstance(data, dict)
        return data

    def pages(
        self,
        query: str,
        variables: Mapping[str, Any],
        path: tuple[str, ...],
        limit: int | None = None,
    ) -> Iterator[list[Row]]:
        """The pages of a list, each a list of rows, until the last one.

        The query has the variables ``$first`` and ``$after``, and calls the list ``list``; the path
        names the fields that lead there. A page may be empty and not the last one: the server
        looks at so many rows at a time. With a limit, no page is larger than is needed to see
        whether there are more rows.
        """
        after = None
        first = PAGE if limit is None else min(PAGE, limit + 1)
        while True:
            asked = {**variables, "first": first, "after": after}
            found: Any = self.graphql(query, asked, tolerated=UNREADABLE)
            for name in (*path, "list"):
                found = found[name]
                if found is None:
                    raise NotFound(f"there is no such {name} in this account", ["NOT_FOUND"])
            yield found["nodes"]
            turn = found["pageInfo"]
            if not turn["hasNextPage"]:
                return
            if turn["endCursor"] is None or turn["endCursor"] == after:
                raise GalvoError(f"{self.address} answers with the same page again and again")
            after = turn["endCursor"]

    def get(self, path: str) -> dict[str, Any]:
        """What a REST route answers, which is an object."""
        headers = {**self._credentials(), "Accept": "application/json"}
        response = self._transport.send("GET", path, headers, repeatable=True)
        answer = _parsed(response.data)
        if response.status >= 300:
            raise self._refusal(response.status, answer)
        return answer

    def report(self, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """What the server answers to a report of a cluster, which may be sent again and again."""
        response = self._transport.send(
            "POST", "/api/v1/reports", {**self._credentials(), **headers}, body, repeatable=True
        )
        answer = _parsed(response.data)
        if response.status >= 300:
            pointer = answer.get("pointer")
            if isinstance(pointer, str) and isinstance(answer.get("message"), str):
                answer = {**answer, "message": f"{answer['message']} ({pointer} of a report)"}
            raise self._refusal(response.status, answer)
        return answer

    def download(self, path: str, parameters: Mapping[str, str], media_type: str) -> Any:
        """The answer of a route that answers with a file, whose body is to be read."""
        target = path + ("?" + urlencode(parameters) if parameters else "")
        headers = {**self._credentials(), "Accept": media_type}
        response = self._transport.send("GET", target, headers, repeatable=True, streamed=True)
        if response.status != 200:
            try:
                answer = _parsed(response.read())
            except HTTPError:  # its status says enough
                answer = {}
            response.release_conn()
            raise self._refusal(response.status, answer)
        return response

    def _credentials(self) -> dict[str, str]:
        headers = {"Authorization": "Bearer " + self._token}
        if self.account is not None:
            headers["Galvo-Account"] = self.account
        return headers

    def _refusal(self, status: int, answer: Mapping[str, Any]) -> GalvoError:
        message, code = answer.get("message"), answer.get("code")
        codes = [code] if isinstance(code, str) else []
        if not isinstance(message, str):
            message = f"{self.address} answers with the status {status}, and not as Galvo does"
        if status == 404 and codes:
            return NotFound(message, codes)
        return RequestRefused(message, codes, status)


def _parsed(body: bytes) -> dict[str, Any]:
    """A body that should be a JSON object; empty when it is none, as a proxy's page."""
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
