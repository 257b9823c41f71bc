"""Takes reports to the server."""

import asyncio
import json
import logging
import math
import random
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from distributed.metrics import time
from tornado.httpclient import HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from .collector import Collectors
from .ledger import Ledger
from .resolver import LastingResolver
from .sections import LARGEST_LIMITS, USUAL_LIMITS, Record, Report
from .settings import VERSION, clamp_interval
from .values import ADDRESS_LENGTH, compress, cut, dumps

logger = logging.getLogger("distributed.galvo")

CONNECT_SECONDS, REQUEST_SECONDS, FINAL_SECONDS = 2.0, 5.0, 2.0
# Sections that a report must have, be they empty.
ALWAYS_PRESENT = ("computations", "task_groups", "errors")
LONGEST_PAUSE = REFUSED_PAUSE = 60.0
# What is unsent when the scheduler closes, and after it the last message, which has its own time.
LONGEST_FAREWELL = 2 * FINAL_SECONDS
# Body, headers, and by kind the records that cannot be written.
Encoded = Tuple[bytes, Dict[str, str], Dict[str, List[Record]]]


class Outcome(Enum):
    """What became of a report."""

    ACCEPTED = "accepted"
    MORE = "accepted, and the limits left something for another one"
    AGAIN = "refused, and what was refused has been taken out or split"
    FAILED = "not accepted"


class Courier:
    """Takes reports to the server, one at a time, and tells the ledger what became of them.

    ``describe_cluster`` returns the "cluster" part of a report, given when and why it is closed.
    The collectors are read before each report.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        ledger: Ledger,
        scheduler: Any,
        describe_cluster: Callable[..., Dict[str, Any]],
        collectors: Optional[Collectors] = None,
    ):
        self._settings = settings
        self._ledger = ledger
        self._scheduler = scheduler
        self._describe_cluster = describe_cluster
        self._collectors = Collectors() if collectors is None else collectors
        # Whatever client the program has configured, only this one lets its resolver be chosen.
        self._http = SimpleAsyncHTTPClient(force_instance=True, resolver=LastingResolver())
        self._share = 1.0  # of the limits; halved when the server finds a report too large
        self._failures = 0
        self._problem: Optional[str] = None  # the one logged last
        self.pause = 0.0  # seconds until the next delivery
        # What the server wants of the scheduler: that it closes, why, and whether only if it still
        # has no work; and for how many seconds more somebody wants it to stay, each time it tells.
        self.stop_requested = self.stop_only_if_idle = False
        self.stop_reason: Optional[str] = None
        self.keep_alive: Optional[float] = None

    async def deliver(self) -> None:
        """Sends what is unsent, and the state of the cluster in any case."""
        outcome = Outcome.MORE
        while outcome is Outcome.MORE:
            await self._read_in_steps()
            report = self._ledger.build(self._limits(USUAL_LIMITS))
            outcome = await self._send(report, REQUEST_SECONDS)

    async def deliver_final(self, reason: Optional[str]) -> None:
        """Sends what is unsent, and last that the scheduler closes.

        Either takes at most ``FINAL_SECONDS``, so a server that does not answer is waited for once.
        """
        clock = asyncio.get_running_loop().time
        closed_at, deadline = time(), clock() + FINAL_SECONDS
        closing: Dict[str, Any] = {}
        while not closing or clock() < deadline:
            self._read(closed_at)
            limits, hurried = self._limits(LARGEST_LIMITS), deadline - clock() < FINAL_SECONDS / 2
            if not closing and (hurried or not self._ledger.exceeds(limits)):
                # The last message must not be lost for the sake of those before it: a server that
                # was slow to take them is there, and has as long for it as for all of them.
                closing = {"closed_at": closed_at, "close_reason": reason}
                deadline = clock() + FINAL_SECONDS
            outcome = await self._send(self._ledger.build(limits), deadline - clock(), **closing)
            if outcome is Outcome.FAILED or (closing and outcome is not Outcome.AGAIN):
                return

    def preview(self) -> str:
        """The report that would be sent now, as JSON."""
        self._read()
        report = self._ledger.build(LARGEST_LIMITS)
        text, _ = self._write(self._message(report, {}), report)
        return text

    @property
    def failing(self) -> bool:
        """Whether the last report was not accepted, so that the pause is to be kept."""
        return self._failures > 0

    def close(self) -> None:
        self._http.close()

    def _read(self, closed_at: Optional[float] = None) -> None:
        # What collectors tell of tasks builds on what the ledger has read.
        self._ledger.read(self._scheduler.task_groups, closed_at)
        self._collectors.call("read", self._ledger.now(), closed_at)

    async def _read_in_steps(self) -> None:
        """The same, and lets the event loop go on where what is told need not be of one moment.

        So a large cluster's scheduler is held more often, for less long. All but what collectors
        tell that stand apart is read in the step in which the report is built.
        """
        collectors = list(self._collectors)
        for collector in collectors:
            if collector.apart:
                self._collectors.call_one(collector, "read", self._ledger.now(), None)
                await asyncio.sleep(0)
        self._ledger.look_round(self._scheduler.task_groups)
        await asyncio.sleep(0)
        self._ledger.read_touched(self._scheduler.task_groups)
        for collector in collectors:
            if not collector.apart:
                self._collectors.call_one(collector, "read", self._ledger.now(), None)

    def _limits(self, limits: Mapping[str, int]) -> Dict[str, int]:
        return {kind: max(1, int(limit * self._share)) for kind, limit in limits.items()}

    async def _send(self, report: Report, timeout: float, **closing: Any) -> Outcome:
        settled = False
        try:
            message = self._message(report, closing)
            body, headers, unfit = await self._encode_aside(message, report)
            for kind, records in unfit.items():
                self._complain("%d %s cannot be written as JSON" % (len(records), kind))
                report.items[kind] = [item for item in report.items[kind] if item[0] not in records]
                self._ledger.outboxes[kind].give_up(records)
            response = await self._post(body, headers, timeout)
            settled = True
            return self._settle(report, response)
        except Exception as error:
            return self._fail("%s: %s" % (type(error).__name__, error))
        finally:
            if not settled:  # also when cancelled
                self._ledger.give_back(report)

    def _message(self, report: Report, closing: Mapping[str, Any]) -> Dict[str, Any]:
        return {
            "version": 1,
            "account": self._settings["account"],
            "scheduler_id": self._scheduler.id,
            "sequence": report.sequence,
            "base": report.base,
            "sent_at": time(),
            "interval_seconds": self._settings["interval_seconds"],
            "final": bool(closing),
            "cluster": self._describe_cluster(**closing),
            "dropped": {kind: box.dropped for kind, box in self._ledger.outboxes.items()},
        }

    async def _encode_aside(self, message: Dict[str, Any], report: Report) -> Encoded:
        """Encodes outside of the event loop, unless the interpreter ends and starts no threads."""
        loop = asyncio.get_running_loop()
        try:
            encoding = loop.run_in_executor(None, self._encode, message, report)
        except RuntimeError:
            return self._encode(message, report)
        return await encoding

    def _encode(self, message: Dict[str, Any], report: Report) -> Encoded:
        """The request, and records that cannot stand in one."""
        text, unfit = self._write(message, report)
        return (*compress(text), unfit)

    def _write(
        self, message: Dict[str, Any], report: Report
    ) -> Tuple[str, Dict[str, List[Record]]]:
        parts: List[str] = []
        unfit: Dict[str, List[Record]] = {}
        for kind, taken in report.items.items():
            texts, outbox = [], self._ledger.outboxes[kind]
            for record, body in taken:
                try:
                    text = dumps(body)
                except Exception:
                    unfit.setdefault(kind, []).append(record)
                    continue
                texts.append(text)
                self._ledger.receipt.send(record, outbox.class_of(record), len(text))
            if texts or kind in ALWAYS_PRESENT:
                parts.append('"%s":[%s]' % (kind, ",".join(texts)))
        message["receipt"] = self._ledger.receipt.describe()
        return dumps(message)[:-1] + "," + ",".join(parts) + "}", unfit

    async def _post(self, body: bytes, headers: Dict[str, str], timeout: float) -> Any:
        headers["Authorization"] = "Bearer " + self._settings["token"]
        headers["User-Agent"] = "galvo-plugin/" + VERSION
        request = HTTPRequest(
            self._settings["server"] + "/api/v1/reports",
            method="POST",
            headers=headers,
            body=body,
            connect_timeout=min(CONNECT_SECONDS, timeout),
            request_timeout=timeout,
            # A redirect would carry the token to a place that nobody configured.
            follow_redirects=False,
        )
        response = self._http.fetch(request, raise_error=False)
        # An abandoned request ends by itself at its timeout, and must not be heard of then.
        response.add_done_callback(lambda r: r.cancelled() or r.exception())
        return await asyncio.wait_for(asyncio.shield(response), timeout + 0.25)

    def _settle(self, report: Report, response: Any) -> Outcome:
        try:
            answer = json.loads(response.body)
        except (TypeError, ValueError):
            answer = None
        if not isinstance(answer, dict):
            answer = {}
        acknowledged = answer.get("acknowledged")
        if response.code == 200 and type(acknowledged) is int and 0 <= acknowledged < 2**53:
            return self._accept(report, acknowledged, answer)
        problem = "%d %s" % (response.code, answer.get("message") or response.reason)
        if response.code == 400:
            self._complain(problem)
            pointed = self._ledger.give_up(report, answer.get("pointer"))
            self.pause = self._settings["interval_seconds"]
            if pointed:
                self.pause = min(1.0, self.pause)
            return Outcome.AGAIN
        if response.code == 413 and any(report.items.values()):
            self._complain(problem)
            self._shrink(report)
            self.pause = 0.0
            return Outcome.AGAIN
        self._ledger.give_back(report)
        outcome = self._fail(problem)
        if response.code in (401, 403):
            self.pause = REFUSED_PAUSE * random.uniform(1.0, 1.25)
        elif response.code in (429, 503):
            wanted = _retry_after_seconds(response.headers.get("Retry-After"))
            if wanted is not None:
                # All that were refused together were told the same, so what follows is drawn. It
                # grows with the failures, or a server that is overloaded would be asked more often
                # than when it is not.
                spread = max(1.0, wanted / 4, _backoff(self._failures))
                self.pause = wanted + random.uniform(0.0, spread)
        return outcome

    def _accept(self, report: Report, acknowledged: int, answer: Mapping[str, Any]) -> Outcome:
        if self._problem is not None:
            logger.info("The Galvo server at %s accepts reports again", self._settings["server"])
        self._failures, self._problem = 0, None
        self._ledger.acknowledge(report, acknowledged)
        if self._ledger.receipt.accept(answer.get("accepts")):
            self._ledger.send_again()
            self._collectors.call("resend")
        if not report.more:
            self._share = min(1.0, self._share * 2)
        try:
            self.pause = clamp_interval(answer["interval_seconds"])
        except (KeyError, TypeError, ValueError):
            self.pause = self._settings["interval_seconds"]
        self._heed(answer)
        if answer.get("resend") is True:
            self._ledger.resend()
            self._collectors.call("resend")
            return Outcome.ACCEPTED
        more = report.more and acknowledged == report.sequence
        return Outcome.MORE if more else Outcome.ACCEPTED

    def _heed(self, answer: Mapping[str, Any]) -> None:
        """Notes what the server wants of the scheduler."""
        kept = answer.get("keep_alive_seconds")
        if isinstance(kept, (int, float)) and math.isfinite(kept):
            self.keep_alive = max(0.0, float(kept))
        reason = answer.get("stop_reason")
        self.stop_reason = cut(reason, ADDRESS_LENGTH) if isinstance(reason, str) else None
        self.stop_only_if_idle = answer.get("stop_only_if_idle") is True
        self.stop_requested = answer.get("desired_state") == "stopped"

    def _shrink(self, report: Report) -> None:
        """Halves the number of items per report; of single ones, drops the largest."""
        sizes = {kind: len(taken) for kind, taken in report.items.items()}
        if max(sizes.values()) > 1:
            filled = max(size / USUAL_LIMITS[kind] for kind, size in sizes.items())
            self._share = min(self._share, filled) / 2
        else:
            singles = [(kind, *taken[0]) for kind, taken in report.items.items() if taken]
            kind, record, _ = max(singles, key=lambda single: single[1].sent_characters)
            self._ledger.outboxes[kind].give_up([record])
        self._ledger.give_back(report)

    def _fail(self, problem: str) -> Outcome:
        self._complain(problem)
        self._failures += 1
        self.pause = _backoff(self._failures) * random.uniform(0.5, 1.0)
        return Outcome.FAILED

    def _complain(self, problem: str) -> None:
        """Logs a problem once, not each time that it happens."""
        problem = cut(problem.replace(self._settings["token"], "[token]"), 300)
        if problem != self._problem:
            self._problem = problem
            logger.warning(
                "The Galvo server at %s did not accept a report: %s",
                self._settings["server"],
                problem,
            )


def _backoff(failures: int) -> float:
    """The longest pause after so many failures in a row, in seconds."""
    return min(LONGEST_PAUSE, 2.0 ** min(failures, 6))


def _retry_after_seconds(text: Optional[str]) -> Optional[float]:
    """The seconds a Retry-After header asks for, which may also be written as a date."""
    try:
        seconds = float(text or "")
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time()  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None
    return min(max(seconds, 0.0), 3600.0) if math.isfinite(seconds) else None
