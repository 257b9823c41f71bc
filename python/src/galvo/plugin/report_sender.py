"""Sends reports to the server."""

import asyncio
import json
import logging
import math
import random
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Tuple

from distributed.metrics import time
from tornado.httpclient import HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from .collector import Collectors
from .exchange import PATH as EXCHANGE_PATH
from .exchange import (
    UNKNOWN_STATUS,
    adopt_token,
    is_due,
    issued_token,
    needs_no_exchange,
    parse_response,
    request_body,
    request_headers,
)
from .identity import fingerprint
from .inheritance import destination, owner_token, store_owner_token
from .ledger import Ledger
from .proxy import ProxyClient, proxy_for
from .resolver import CachingResolver
from .scrub import add_secret
from .sections import DATA_CLASSES, LARGEST_LIMITS, USUAL_LIMITS, Record, Report
from .settings import VERSION, clamp_interval
from .spool import split_report, write_spool_file
from .values import ADDRESS_LENGTH, NAME_LENGTH, compress, cut, dumps, make_sendable

logger = logging.getLogger("distributed.galvo")

CONNECT_SECONDS, REQUEST_SECONDS, FINAL_SECONDS = 2.0, 5.0, 2.0
# Sections that a report must have even if they are empty.
ALWAYS_PRESENT = ("computations", "task_groups", "errors")
LONGEST_PAUSE = REFUSED_PAUSE = 60.0
# The retry delay after a permanent refusal of a cluster, by error code, in seconds. Only people
# change that state: a cluster is handed over or restored. A deleted cluster never returns.
CLUSTER_REFUSED_PAUSES = {
    "NOT_CLUSTER_OWNER": 600.0,
    "CLUSTER_QUARANTINED": 600.0,
    "CLUSTER_DELETED": 3600.0,
}
QUOTA_PAUSE = 600.0
# The time for unsent data when the scheduler closes, and then for the last message.
LONGEST_FINAL_DELIVERY = 2 * FINAL_SECONDS
# The body, the headers, and the records that cannot be serialized, by kind.
Encoded = Tuple[bytes, Dict[str, str], Dict[str, List[Record]]]


class Outcome(Enum):
    """The outcome of sending a report."""

    ACCEPTED = "accepted"
    INCOMPLETE = "accepted, but the limits left data for another report"
    REDUCED = "refused, and the refused data was removed or is split in the next report"
    FAILED = "not accepted"


class ReportSender:
    """Sends reports to the server, one at a time, and records their outcome in the ledger.

    ``describe_cluster`` returns the "cluster" part of a report, given the time and reason of
    closing. The collectors are read before each report.
    """

    def __init__(
        self,
        settings: Dict[str, Any],
        ledger: Ledger,
        scheduler: Any,
        describe_cluster: Callable[..., Dict[str, Any]],
        collectors: Optional[Collectors] = None,
    ):
        self._settings = settings
        add_secret(settings.get("token"))
        # Set only if the server accepts this cluster's reports from its owner only.
        self._owner_token: Optional[str] = None
        self._ledger = ledger
        self._scheduler = scheduler
        self._describe_cluster = describe_cluster
        self._collectors = Collectors() if collectors is None else collectors
        # Of tornado's clients, only this one accepts a custom resolver. The program may have
        # configured another.
        self._http = SimpleAsyncHTTPClient(force_instance=True, resolver=CachingResolver())
        proxy = proxy_for(settings["server"])
        self._proxy = None if proxy is None else ProxyClient(proxy)
        self._lacks_token_exchange = False  # True if the server is too old to exchange tokens
        # The part of the limits in use. A report that the server finds too large halves it.
        self._limit_share = 1.0
        self._failures = 0
        self._logged_problem: Optional[str] = None  # the last one
        self._logged_quotas: Set[str] = set()  # of the last response
        self.pause = 0.0  # seconds until the next delivery
        # The server's request to the scheduler: to close, the reason, and whether to close only if
        # it is still idle. Also the number of seconds for which a user keeps it alive, in each
        # response.
        self.stop_requested = self.stop_only_if_idle = False
        self.stop_reason: Optional[str] = None
        self.keep_alive: Optional[float] = None
        # The outcome of the last report, for clients that register; None if there is none.
        self.verdict: Optional[Dict[str, Any]] = None
        # The start of idleness as of the last report.
        self.reported_idle_since: Optional[float] = None

    async def deliver(self) -> None:
        """Sends unsent data, and the state of the cluster in any case."""
        outcome = Outcome.INCOMPLETE
        while outcome is Outcome.INCOMPLETE:
            await self._read_in_steps()
            report = self._ledger.build(self._limits(USUAL_LIMITS))
            outcome = await self._send(report, REQUEST_SECONDS)

    async def deliver_final(self, reason: Optional[str]) -> bool:
        """Sends unsent data, and finally that the scheduler closes. Returns True if all arrived.

        Each of the two takes at most ``FINAL_SECONDS``, so an unresponsive server delays closing
        only once.
        """
        clock = asyncio.get_running_loop().time
        closed_at, deadline = time(), clock() + FINAL_SECONDS
        closing_fields: Dict[str, Any] = {}
        while not closing_fields or clock() < deadline:
            self._read(closed_at)
            limits, is_short_of_time = (
                self._limits(LARGEST_LIMITS),
                deadline - clock() < FINAL_SECONDS / 2,
            )
            if not closing_fields and (is_short_of_time or not self._ledger.exceeds(limits)):
                # The last message must not be lost because of earlier ones. A server that accepted
                # those slowly is alive, and gets the same time again for the last message.
                closing_fields = {"closed_at": closed_at, "close_reason": reason}
                deadline = clock() + FINAL_SECONDS
            outcome = await self._send(
                self._ledger.build(limits), deadline - clock(), **closing_fields
            )
            if outcome is Outcome.FAILED or (closing_fields and outcome is not Outcome.REDUCED):
                return outcome is not Outcome.FAILED
        return False

    def keep_unsent(self, directory: str, reason: Optional[str]) -> str:
        """Writes unsent data and the end of the scheduler into a file, and returns its path.

        The reports are those that would be sent next, each as if the previous one had arrived.
        """
        closed_at = time()
        closing_fields = {"closed_at": closed_at, "close_reason": reason}
        self._read(closed_at)
        reports: List[str] = []
        is_last = False
        while not is_last:
            is_last = not self._ledger.exceeds(LARGEST_LIMITS)
            report = self._ledger.build(LARGEST_LIMITS)
            text, _ = self._write(self._message(report, closing_fields if is_last else {}), report)
            reports.append(text)
            self._ledger.acknowledge(report, report.sequence)
        header = {
            "server": self._settings["server"],
            "account": self._settings["account"],
            "destination": destination(self._settings),
            "scheduler_id": self._scheduler.id,
            "closed_at": closed_at,
            "reports": len(reports),
        }
        if self._settings.get("exchanged_for") and self._settings["token"]:
            # The next scheduler's token is only valid for its own reports.
            header["token"] = self._settings["token"]
        return write_spool_file(directory, header, reports)

    async def forward_reports(
        self, reports: List[str], token: Optional[str] = None
    ) -> Optional[str]:
        """Sends reports of a closed scheduler. Returns the problem if one is refused, otherwise
        None.

        It retries while the server is unavailable or busy. ``token`` is the other scheduler's
        token, if it left one. Raises ``PermissionError`` if that token is no longer valid.
        """
        loop = asyncio.get_running_loop()
        pending_reports = list(reports)
        while pending_reports:
            text, failures = pending_reports.pop(0), 0
            while True:
                body, headers = await loop.run_in_executor(None, compress, text)
                try:
                    response = await self._post(body, headers, REQUEST_SECONDS, token)
                    code, problem = response.code, "%d %s" % (response.code, response.reason)
                except Exception:
                    code, problem = None, ""
                if code == 200:
                    break
                halves = await loop.run_in_executor(None, split_report, text) if code == 413 else []
                if halves:
                    pending_reports[:0] = halves
                    break
                if code in (400, 404, 409, 413, 422):
                    return problem
                if code in (401, 403) and (
                    token is not None or self._settings.get("exchanged_for")
                ):
                    raise PermissionError(problem)
                failures += 1
                await asyncio.sleep(_backoff(failures) * random.uniform(0.5, 1.0))
        return None

    def preview(self) -> str:
        """Returns the report that would be sent now, as JSON."""
        self._read()
        report = self._ledger.build(LARGEST_LIMITS)
        text, _ = self._write(self._message(report, {}), report)
        return text

    @property
    def is_failing(self) -> bool:
        """True if the last report was not accepted, so that the retry delay applies."""
        return self._failures > 0

    def close(self) -> None:
        self._http.close()
        if self._proxy is not None:
            self._proxy.close()

    def _read(self, closed_at: Optional[float] = None) -> None:
        # The collectors' data about tasks builds on what the ledger has read.
        self._ledger.read(self._scheduler.task_groups, closed_at)
        self._collectors.call("read", self._ledger.now(), closed_at)

    async def _read_in_steps(self) -> None:
        """Reads like ``_read``, but yields to the event loop between data with separate timestamps.

        The scheduler of a large cluster is then blocked more often, but for shorter times. All data
        except that of ``is_separate`` collectors is read in the same step that builds the report.
        """
        collectors = list(self._collectors)
        for collector in collectors:
            if collector.is_separate:
                self._collectors.call_one(collector, "read", self._ledger.now(), None)
                await asyncio.sleep(0)
        self._ledger.find_changed_groups(self._scheduler.task_groups)
        await asyncio.sleep(0)
        self._ledger.read_marked_groups(self._scheduler.task_groups)
        for collector in collectors:
            if not collector.is_separate:
                self._collectors.call_one(collector, "read", self._ledger.now(), None)

    def _limits(self, limits: Mapping[str, int]) -> Dict[str, int]:
        return {kind: max(1, int(limit * self._limit_share)) for kind, limit in limits.items()}

    async def _send(self, report: Report, timeout: float, **closing_fields: Any) -> Outcome:
        settled = False
        try:
            message = self._message(report, closing_fields)
            body, headers, unserializable = await self._encode_in_thread(message, report)
            for kind, records in unserializable.items():
                self._log_problem_once("%d %s cannot be written as JSON" % (len(records), kind))
                report.items[kind] = [item for item in report.items[kind] if item[0] not in records]
                self._ledger.outboxes[kind].drop(records)
            response = await self._post(body, headers, timeout)
            self.reported_idle_since = message["cluster"].get("idle_since")
            settled = True
            return self._settle(report, response)
        except Exception as error:
            outcome = self._fail("%s: %s" % (type(error).__name__, error))
            self.verdict = {"status": None, "message": self._logged_problem}
            return outcome
        finally:
            if not settled:  # also on cancellation
                self._ledger.put_back(report)

    def _message(self, report: Report, closing_fields: Mapping[str, Any]) -> Dict[str, Any]:
        return {
            "version": 1,
            "account": self._settings["account"],
            "scheduler_id": self._scheduler.id,
            "sequence": report.sequence,
            "base": report.base,
            "sent_at": time(),
            "interval_seconds": self._settings["interval_seconds"],
            "final": bool(closing_fields),
            "cluster": self._describe_cluster(**closing_fields),
            "dropped": {kind: box.dropped for kind, box in self._ledger.outboxes.items()},
        }

    async def _encode_in_thread(self, message: Dict[str, Any], report: Report) -> Encoded:
        """Encodes in a thread, or inline if the interpreter is exiting and starts no threads."""
        loop = asyncio.get_running_loop()
        try:
            encoding = loop.run_in_executor(None, self._encode, message, report)
        except RuntimeError:
            return self._encode(message, report)
        return await encoding

    def _encode(self, message: Dict[str, Any], report: Report) -> Encoded:
        """Returns the request's body and headers, and the records that cannot be serialized."""
        text, unserializable = self._write(message, report)
        return (*compress(text), unserializable)

    def _write(
        self, message: Dict[str, Any], report: Report
    ) -> Tuple[str, Dict[str, List[Record]]]:
        parts: List[str] = []
        unserializable: Dict[str, List[Record]] = {}
        for kind, record_items in report.items.items():
            texts, outbox = [], self._ledger.outboxes[kind]
            for record, body in record_items:
                try:
                    text = dumps(body)
                except Exception:
                    unserializable.setdefault(kind, []).append(record)
                    continue
                texts.append(text)
                self._ledger.receipt.send(record, outbox.class_of(record), len(text))
            if texts or kind in ALWAYS_PRESENT:
                parts.append('"%s":[%s]' % (kind, ",".join(texts)))
        message["receipt"] = self._ledger.receipt.describe()
        return dumps(message)[:-1] + "," + ",".join(parts) + "}", unserializable

    async def _post(
        self, body: bytes, headers: Dict[str, str], timeout: float, token: Optional[str] = None
    ) -> Any:
        if not self._settings["token"]:
            raise RuntimeError("the client that registered it could not exchange its token yet")
        token = token or self._owner_token
        if token is None and is_due(self._settings) and not self._lacks_token_exchange:
            refusal = await self._exchange(timeout)
            if refusal is not None:
                return refusal
        return await self._request("/api/v1/reports", body, headers, timeout, token)

    async def _exchange(self, timeout: float) -> Any:
        """Exchanges the token. Returns the response if the server refuses, otherwise None.

        A token that was configured on the scheduler has been there all along, so a server without
        token exchange receives that token.
        """
        headers = request_headers(self._settings)
        body = request_body(self._scheduler.id)
        response = await self._request(EXCHANGE_PATH, body, headers, timeout, None)
        answer = parse_response(response.body)
        token = issued_token(response.code, answer)
        if token is not None:
            adopt_token(self._settings, token)
        elif response.code in UNKNOWN_STATUS:
            self._lacks_token_exchange = True
        elif needs_no_exchange(response.code, answer):
            self._settings["exchanged_for"] = fingerprint(self._settings["token"])
        elif response.code in (401, 403, 409, 429) or response.code >= 500:
            return response
        else:
            problem = "%d %s" % (response.code, answer.get("message") or response.reason)
            raise RuntimeError("the token cannot be exchanged: " + problem)
        return None

    async def _request(
        self, path: str, body: bytes, headers: Dict[str, str], timeout: float, token: Optional[str]
    ) -> Any:
        headers["Authorization"] = "Bearer " + (token or self._settings["token"])
        headers["User-Agent"] = "galvo-plugin/" + VERSION
        url, connect = self._settings["server"] + path, min(CONNECT_SECONDS, timeout)
        if self._proxy is not None:
            proxied_response = self._proxy.post(url, body, headers, connect, timeout)
            return await asyncio.wait_for(proxied_response, timeout + 0.25)
        request = HTTPRequest(
            url,
            method="POST",
            headers=headers,
            body=body,
            connect_timeout=connect,
            request_timeout=timeout,
            # A redirect would send the token to a host that nobody configured.
            follow_redirects=False,
        )
        response = self._http.fetch(request, raise_error=False)
        # An abandoned request ends at its own timeout. Its exception must be retrieved, or asyncio
        # logs it.
        response.add_done_callback(lambda r: r.cancelled() or r.exception())
        return await asyncio.wait_for(asyncio.shield(response), timeout + 0.25)

    def _settle(self, report: Report, response: Any) -> Outcome:
        try:
            answer = json.loads(response.body)
        except (TypeError, ValueError):
            answer = None
        if not isinstance(answer, dict):
            answer = {}
        self._record_verdict(response, answer)
        acknowledged = answer.get("acknowledged")
        if response.code == 200 and type(acknowledged) is int and 0 <= acknowledged < 2**53:
            return self._accept(report, acknowledged, answer)
        problem = "%d %s" % (response.code, answer.get("message") or response.reason)
        if response.code == 400:
            self._log_problem_once(problem)
            is_pointer_usable = self._ledger.drop(report, answer.get("pointer"))
            self.pause = self._settings["interval_seconds"]
            if is_pointer_usable:
                self.pause = min(1.0, self.pause)
            return Outcome.REDUCED
        if response.code == 413 and any(report.items.values()):
            self._log_problem_once(problem)
            self._shrink(report)
            self.pause = 0.0
            return Outcome.REDUCED
        self._ledger.put_back(report)
        if (
            response.code == 409
            and answer.get("code") == "NOT_CLUSTER_OWNER"
            and self._use_owner_token()
        ):
            self.verdict, self.pause = None, 0.0
            self._failures += 1
            return Outcome.FAILED
        outcome = self._fail(problem)
        refused = CLUSTER_REFUSED_PAUSES.get(answer.get("code")) if response.code == 409 else None
        if refused is not None:
            self.pause = refused * random.uniform(1.0, 1.25)
        elif response.code in (401, 403):
            self.pause = REFUSED_PAUSE * random.uniform(1.0, 1.25)
        elif response.code in (429, 503, 507):
            retry_after = _retry_after_seconds(response.headers.get("Retry-After"))
            if retry_after is not None:
                if response.code == 507:
                    # The account has used up a quota. An admin may raise it before the quota period
                    # ends.
                    retry_after = min(retry_after, QUOTA_PAUSE)
                # All reporters that were refused together got the same delay, so jitter is added.
                # It grows with the failures; otherwise an overloaded server would receive more
                # requests than an idle one.
                longest_jitter = max(1.0, retry_after / 4, _backoff(self._failures))
                self.pause = retry_after + random.uniform(0.0, longest_jitter)
        return outcome

    def _use_owner_token(self) -> bool:
        """Continues with the token of the cluster's owner, if an earlier plugin had it.

        A cluster that several people share is thus reported regardless of who registered last.
        """
        token = owner_token(self._scheduler, self._settings["server"])
        if token is None or token == (self._owner_token or self._settings["token"]):
            return False
        add_secret(token)
        self._owner_token = token
        logger.info(
            "The cluster belongs to who reported it first to the Galvo server at %s, and is"
            " reported on with their token",
            self._settings["server"],
        )
        return True

    def _record_verdict(self, response: Any, answer: Mapping[str, Any]) -> None:
        number, accepts = answer.get("cluster_id"), answer.get("accepts")
        code = answer.get("code")
        self.verdict = {
            "status": response.code,
            "code": cut(code, NAME_LENGTH) if isinstance(code, str) else None,
            "message": self._redact_tokens(str(answer.get("message") or response.reason)),
            "cluster": number if type(number) is int else None,
            "url": self._page_url(answer),
            "refused": [],
        }
        if isinstance(accepts, list):
            self.verdict["refused"] = [name for name in DATA_CLASSES if name not in accepts]

    def _page_url(self, answer: Mapping[str, Any]) -> Optional[str]:
        """Returns the address of the cluster's page; None if the server names none."""
        url, path = answer.get("url"), answer.get("path")
        if isinstance(url, str):
            return cut(url, ADDRESS_LENGTH)
        if isinstance(path, str) and path.startswith("/"):
            return cut(self._settings["server"] + path, ADDRESS_LENGTH)
        return None

    def _accept(self, report: Report, acknowledged: int, answer: Mapping[str, Any]) -> Outcome:
        if self._logged_problem is not None:
            logger.info("The Galvo server at %s accepts reports again", self._settings["server"])
        self._failures, self._logged_problem = 0, None
        token = self._owner_token or self._settings["token"]
        store_owner_token(self._scheduler, self._settings["server"], token)
        self._ledger.acknowledge(report, acknowledged)
        if self._ledger.receipt.accept(answer.get("accepts")):
            self._ledger.send_again()
            self._collectors.call("resend")
        if not report.has_more:
            self._limit_share = min(1.0, self._limit_share * 2)
        try:
            self.pause = clamp_interval(answer["interval_seconds"])
        except (KeyError, TypeError, ValueError):
            self.pause = self._settings["interval_seconds"]
        self._store_requests(answer)
        self._warn_of_quotas(answer.get("quotas_near"))
        if answer.get("resend") is True:
            self._ledger.resend()
            self._collectors.call("resend")
            return Outcome.ACCEPTED
        more = report.has_more and acknowledged == report.sequence
        return Outcome.INCOMPLETE if more else Outcome.ACCEPTED

    def _store_requests(self, answer: Mapping[str, Any]) -> None:
        """Records the server's requests to the scheduler."""
        keep_alive_seconds = answer.get("keep_alive_seconds")
        if isinstance(keep_alive_seconds, (int, float)) and math.isfinite(keep_alive_seconds):
            self.keep_alive = max(0.0, float(keep_alive_seconds))
        reason = answer.get("stop_reason")
        self.stop_reason = (
            make_sendable(reason, ADDRESS_LENGTH) if isinstance(reason, str) else None
        )
        self.stop_only_if_idle = answer.get("stop_only_if_idle") is True
        self.stop_requested = answer.get("desired_state") == "stopped"

    def _shrink(self, report: Report) -> None:
        """Halves the number of items per report.

        If each kind has only one, drops the largest item.
        """
        sizes = {kind: len(record_items) for kind, record_items in report.items.items()}
        if max(sizes.values()) > 1:
            used_share = max(size / USUAL_LIMITS[kind] for kind, size in sizes.items())
            self._limit_share = min(self._limit_share, used_share) / 2
        else:
            singles = [
                (kind, *record_items[0])
                for kind, record_items in report.items.items()
                if record_items
            ]
            kind, record, _ = max(singles, key=lambda single: single[1].sent_characters)
            self._ledger.outboxes[kind].drop([record])
        self._ledger.put_back(report)

    def _fail(self, problem: str) -> Outcome:
        self._log_problem_once(problem)
        self._failures += 1
        self.pause = _backoff(self._failures) * random.uniform(0.5, 1.0)
        return Outcome.FAILED

    def _warn_of_quotas(self, quotas: Any) -> None:
        """Logs each quota that is nearly used up once, and again after it had recovered."""
        items = (
            [item for item in quotas if isinstance(item, dict)] if isinstance(quotas, list) else []
        )
        near_quotas = set()
        for item in items[:10]:
            name, used, limit = (item.get(key) for key in ("quota", "used", "limit"))
            limit_kind = (
                "token's share" if item.get("applies_to") == "credential" else "account's limit"
            )
            if not isinstance(name, str) or type(used) is not int or type(limit) is not int:
                continue
            near_quotas.add(name)
            if name not in self._logged_quotas:
                logger.warning(
                    "The quota %s of the Galvo server at %s is nearly used up: %d of %d, the %s; "
                    "reports beyond it are refused",
                    make_sendable(name, NAME_LENGTH),
                    self._settings["server"],
                    used,
                    limit,
                    limit_kind,
                )
        self._logged_quotas = near_quotas

    def _redact_tokens(self, text: str) -> str:
        for token in (self._settings["token"], self._owner_token):
            if token:
                text = text.replace(token, "[token]")
        return make_sendable(text, 300)

    def _log_problem_once(self, problem: str) -> None:
        """Logs a problem once, and not each time it occurs."""
        problem = self._redact_tokens(problem)
        if problem != self._logged_problem:
            self._logged_problem = problem
            logger.warning(
                "The Galvo server at %s did not accept a report: %s",
                self._settings["server"],
                problem,
            )


def _backoff(failures: int) -> float:
    """Returns the longest retry delay after this number of consecutive failures, in seconds."""
    return min(LONGEST_PAUSE, 2.0 ** min(failures, 6))


def _retry_after_seconds(text: Optional[str]) -> Optional[float]:
    """Returns the seconds of a Retry-After header, which may be a date; None if it is unusable."""
    try:
        seconds = float(text or "")
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time()  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None
    return min(max(seconds, 0.0), 3600.0) if math.isfinite(seconds) else None
