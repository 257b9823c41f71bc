"""A connection to a Galvo server with one token and one account."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from galvo.client.moments import parse_duration
from galvo.client.remembered import complete_settings
from galvo.client.transport import Transport
from galvo.client.values import plain
from galvo.plugin import exchange, find_configuration_problem, read_settings

GRAPHQL_MEDIA_TYPES = "application/graphql-response+json, application/json;q=0.9"
# Error codes of a single text in a list. That text is null, and the other data is intact.
UNREADABLE_CODES = frozenset({"KEY_MISSING", "DAMAGED"})
REPORTS_PATH = "/api/v1/reports"
# The lifetime of a scheduler's token for stored reports. It is short, because a user may have 1,000
# valid ones.
SCHEDULER_TOKEN_SECONDS = 600
# The server's largest page size.
PAGE_SIZE = 100
SLUG = "[a-z0-9][a-z0-9_-]{0,62}"
CONFIGURATION_HELP = (
    "; `galvo login` or galvo.login(server=…) does both, and so does"
    " galvo.register(server=…, token=…) for as long as this process runs"
)

Row = dict[str, Any]


class Server:
    """Sends requests to a server with a token and within an account. It never reveals the token."""

    def __init__(self, settings: Mapping[str, Any]):
        problem = find_configuration_problem(settings)
        if problem is not None:
            missing = not settings["server"] or not settings["token"]
            raise NotConfigured(problem + CONFIGURATION_HELP if missing else problem)
        self.address: str = settings["server"]
        self.account: str | None = settings["account"]
        self._token: str = settings["token"]
        # The token to use instead if the first lacks the scope to read.
        self._spare_token: str | None = settings.get("spare_token")
        # The scheduler whose reports were sent last, and its token.
        self._scheduler_token: tuple[str, str] | None = None
        self._transport = Transport(self.address)

    @classmethod
    def configured(
        cls, account: str | None = None, server: str | None = None, about: Any = None
    ) -> Server:
        """Returns the server of Dask's configuration, or the server that clusters were registered
        with.

        ``about`` is the cluster that the requests concern, in any form. The server it was
        registered with is known only for a client or a cluster object.
        """
        account = _check_account(account)
        settings = read_settings(server=server, account=account)
        if server is None:
            settings = complete_settings(settings, about)
        return cls(settings if account is None else {**settings, "account": account})

    def __repr__(self) -> str:
        return f"<Galvo server {self.address}>"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. A later request opens a new one."""
        self._transport.close()

    def graphql(
        self,
        query: str,
        variables: Mapping[str, Any] | None = None,
        tolerated: Collection[str] = (),
    ) -> dict[str, Any]:
        """Returns the ``data`` of the response to a GraphQL document.

        Raises a GraphQLError for errors, unless all of their codes are in ``tolerated``.
        """
        try:
            return self._graphql(query, variables, tolerated)
        except GraphQLError as error:
            if error.code != "MISSING_SCOPE" or self._spare_token is None:
                raise
        self._token, self._spare_token = self._spare_token, None
        return self._graphql(query, variables, tolerated)

    def _graphql(
        self, query: str, variables: Mapping[str, Any] | None, tolerated: Collection[str]
    ) -> dict[str, Any]:
        plain_variables = {name: plain(value, name) for name, value in (variables or {}).items()}
        body = json.dumps({"query": query, "variables": plain_variables}).encode()
        response = self._transport.send(
            "POST",
            "/graphql",
            {
                **self._credentials(),
                "Content-Type": "application/json",
                "Accept": GRAPHQL_MEDIA_TYPES,
            },
            body,
            # A query that merely contains the word is sent only once, too, which does no harm.
            repeatable=re.search(r"\bmutation\b", query) is None,
        )
        answer = _parse_object(response.data)
        errors = answer.get("errors")
        if errors:
            data = answer.get("data")
            is_tolerable = isinstance(data, dict) and all(code_of(e) in tolerated for e in errors)
            if not is_tolerable:
                raise self._add_advice(GraphQLError(errors, data, response.status))
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
        """Yields the pages of a list, each a list of rows, up to the last one.

        The query has the variables ``$first`` and ``$after``, and the alias ``list`` for the list.
        ``path`` names the fields that lead there. A page may be empty without being the last one,
        because the server examines a bounded number of rows at a time. With a limit, a page is no
        larger than needed to detect further rows.
        """
        after = None
        first = PAGE_SIZE if limit is None else min(PAGE_SIZE, limit + 1)
        while True:
            page_variables = {**variables, "first": first, "after": after}
            node: Any = self.graphql(query, page_variables, tolerated=UNREADABLE_CODES)
            for name in (*path, "list"):
                node = node[name]
                if node is None:
                    raise NotFound(f"there is no such {name} in this account", ["NOT_FOUND"])
            yield node["nodes"]
            page_info = node["pageInfo"]
            if not page_info["hasNextPage"]:
                return
            if page_info["endCursor"] is None or page_info["endCursor"] == after:
                raise GalvoError(f"{self.address} answers with the same page again and again")
            after = page_info["endCursor"]

    def get(self, path: str) -> dict[str, Any]:
        """Returns the JSON object that a REST route responds with."""
        headers = {**self._credentials(), "Accept": "application/json"}
        response = self._transport.send("GET", path, headers, repeatable=True)
        answer = _parse_object(response.data)
        if response.status >= 300:
            raise self._refusal(response.status, answer)
        return answer

    def report(self, scheduler: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Sends a stored report of a scheduler, and returns the response. Sending a report is
        idempotent.

        The token is exchanged for a scheduler's token first, as by ``galvo.register()``. So the
        account sees no reports with a token that permits more than reports.
        """
        if self._scheduler_token is None or self._scheduler_token[0] != scheduler:
            self._scheduler_token = scheduler, self._exchange_token()
        response = self._send_report(self._scheduler_token[1], body, headers)
        if response.status == 401 and self._scheduler_token[1] != self._token:
            # A long series of reports outlives the scheduler's token.
            self._scheduler_token = scheduler, self._exchange_token()
            response = self._send_report(self._scheduler_token[1], body, headers)
        answer = _parse_object(response.data)
        if response.status >= 300:
            pointer = answer.get("pointer")
            if isinstance(pointer, str) and isinstance(answer.get("message"), str):
                answer = {**answer, "message": f"{answer['message']} ({pointer} of a report)"}
            raise self._refusal(response.status, answer)
        return answer

    def _send_report(self, token: str, body: bytes, headers: Mapping[str, str]) -> Any:
        headers = {**self._credentials(token), **headers}
        return self._transport.send("POST", REPORTS_PATH, headers, body, repeatable=True)

    def _exchange_token(self) -> str:
        """Returns a short-lived token for the reports of one scheduler.

        A token that is already a scheduler's is returned unchanged, and so is any token if the
        server is too old to exchange it.
        """
        headers = {**self._credentials(), "Content-Type": "application/json"}
        body = json.dumps(
            {"label": "stored reports", "lifetimeSeconds": SCHEDULER_TOKEN_SECONDS}
        ).encode()
        response = self._transport.send("POST", exchange.PATH, headers, body, repeatable=True)
        answer = _parse_object(response.data)
        token = exchange.issued_token(response.status, answer)
        if token is not None:
            return token
        is_needless = exchange.needs_no_exchange(response.status, answer)
        if is_needless or response.status in exchange.UNKNOWN_STATUS:
            return self._token
        raise self._refusal(response.status, answer)

    def download(
        self, path: str, parameters: Mapping[str, str] | Sequence[tuple[str, str]], media_type: str
    ) -> Any:
        """Requests a file from a route, and returns the response with an unread body."""
        target = path + ("?" + urlencode(parameters) if parameters else "")
        headers = {**self._credentials(), "Accept": media_type}
        response = self._transport.send("GET", target, headers, repeatable=True, streamed=True)
        if response.status != 200:
            try:
                answer = _parse_object(response.read())
            except HTTPError:  # the status is sufficient
                answer = {}
            response.release_conn()
            raise self._refusal(response.status, answer)
        return response

    def _credentials(self, token: str | None = None) -> dict[str, str]:
        headers = {"Authorization": "Bearer " + (token or self._token)}
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
        return self._add_advice(RequestRefused(message, codes, status))

    def _add_advice(self, error: RequestRefused) -> RequestRefused:
        if error.code == "ACCOUNT_MISMATCH" and self.account is not None:
            error.args = (f"{error}: {self.account!r} was taken for the account",)
        return error


def _check_account(account: Any) -> str | None:
    """Returns an account argument if it is a valid name.

    Catches arguments given in the wrong order.
    """
    if account is None or account == "":
        return None
    if isinstance(account, str) and re.fullmatch(SLUG, account):
        return account
    if not isinstance(account, str):
        raise TypeError(
            f"{account!r} was taken for an account, and its name is needed: a cluster is given as"
            " cluster_id=…"
        )
    problem = f"{account!r} was taken for an account, and cannot be the name of one"
    if account.startswith("Scheduler-"):
        raise ValueError(f"{problem}: a cluster is given as cluster_id=…")
    try:
        parse_duration(account)
    except ValueError:
        raise ValueError(f"{problem}, which has lower-case letters, digits, '-' and '_'") from None
    raise ValueError(f"{problem}: a time is given as since=…")


def _parse_object(body: bytes) -> dict[str, Any]:
    """Parses a body that should be a JSON object; empty if it is not, such as a proxy's page."""
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
