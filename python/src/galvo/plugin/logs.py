"""Collects the logs of the scheduler, its workers and their nannies."""

import asyncio
import logging
import re
from collections import deque
from inspect import signature
from typing import Any, Deque, Dict, Mapping, Optional, Tuple
from uuid import uuid4

from distributed.protocol.pickle import dumps

from .collector import Collector, Context
from .events import Feed
from .exception_texts import without_exceptions
from .excerpts import KEY as EXCERPT
from .identity import identity
from .scrub import cut_inputs, scrub, strip_source, strip_source_of_warning
from .sections import Record
from .unsent_metrics import KEY
from .values import ADDRESS_LENGTH, cut, text_of, to_count, uuid7
from .worker_side import OPERATION, TOPIC, LineHandler, NannySide, WorkerSide, detach, new_line

LEVEL_LENGTH, LOGGER_LENGTH, MESSAGE_LENGTH = 32, 512, 20_000
MOST_WAITING = 5000  # lines of this process that have not been processed
MOST_PENDING = 2000  # lines that may still be repeated before they are reported
MOST_PROCESSES = 10_000
# Processes that recently reported that they hold lines back are queried before the scheduler
# closes, with this timeout.
HOLDING_SECONDS, QUERY_SECONDS = 10.0, 1.0
# A nanny's log line identifies the worker by its process. The worker's address may have changed or
# be gone.
PROCESS = re.compile(r"\b(?:process |pid=)(\d{1,9})\b")
# Dask's log lines about the plugins installed here are of no use to users.
OWN_PLUGIN = re.compile(
    r"(?:Registering|Starting|Removing) (?:Worker|Nanny) plugin galvo-[0-9a-f]{12}\Z"
)
ADDRESS = re.compile(r"\b(?:tcp|tls|ucx|ucxx|wss?|inproc)://[^\s'\",;)\]>]{1,200}")

logger = logging.getLogger("distributed.galvo")


class Logs(Collector):
    """Reads the log of its own process, and has workers and nannies send theirs."""

    def __init__(self, context: Context):
        super().__init__(context)
        settings = context.settings
        self._sends_logs = bool(settings.get("send_logs", True))
        self._uses_worker_plugins = bool(settings.get("worker_plugin", True))
        # A unique name: a successor keeps its own installed plugins.
        self._name = "galvo-" + uuid4().hex[:12]
        self._installed: Dict[str, bool] = {}
        self._handler: Optional[LineHandler] = None
        self._feed = Feed(context.scheduler)
        self._unprocessed_lines: Deque[Dict[str, Any]] = deque()
        self._lost_lines = 0  # lines that did not fit there
        self._holders: Dict[str, float] = {}  # by address, with the time of the message
        # By nanny and its start time, the number of the last message, which may arrive twice.
        self._last_numbers: Dict[Tuple[Any, Any], int] = {}
        # Lines since the last report, by source and content, because they may be repeated.
        self._pending: Dict[Tuple[Any, ...], Dict[str, Any]] = {}
        self._processes: Dict[int, str] = {}  # of workers, and their addresses
        self._closing = False
        self._uninstallation: Optional["asyncio.Future[None]"] = None

    async def start(self) -> None:
        self._feed.skip()
        for address in list(self.context.scheduler.workers):
            self.worker_added(address)
        if self._sends_logs:
            self._handler = LineHandler(self._receive_own_line)
            self._handler.attach()
        if self._uses_worker_plugins:
            settings = {
                "name": self._name,
                "logs": self._sends_logs,
                "excerpts": bool(self.context.settings.get("send_code", True)),
                "scheduler_id": self.context.scheduler.id,
                "owner": identity(self.context.settings),
            }
            await self._install("worker", WorkerSide(settings))
            await self._install("nanny", NannySide(settings))

    def worker_added(self, address: str) -> None:
        worker = self.context.scheduler.workers.get(address)
        process = getattr(worker, "pid", None)
        if isinstance(process, int):
            self._processes.pop(process, None)
            self._processes[process] = address
            _forget_oldest(self._processes)

    def event(self, topic: Any, message: Any, now: float) -> None:
        if topic == TOPIC and not self._feed.is_needed:
            self._receive_message(message, now)

    async def finish(self) -> None:
        now = self.context.now()
        present_addresses = set(self.context.scheduler.workers)
        present_addresses.update(
            ws.nanny for ws in self.context.scheduler.workers.values() if ws.nanny
        )
        addresses = [
            a
            for a, at in self._holders.items()
            if now - at < HOLDING_SECONDS and a in present_addresses
        ]
        if addresses:
            # Processes that do not respond in time are busy, and are skipped.
            queries = [
                asyncio.ensure_future(self._query_held_lines(address)) for address in addresses
            ]
            _, unanswered = await asyncio.wait(queries, timeout=QUERY_SECONDS)
            for query in unanswered:
                query.cancel()

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        self._closing = self._closing or closed_at is not None
        for _, at, message in self._feed.fetch(only=TOPIC):
            self._receive_message(message, at)
        self._forget_events()
        if self._handler is not None:
            if closed_at is None:
                self._handler.send_held()
            else:
                self._handler.finish()
        while self._unprocessed_lines:
            line = self._unprocessed_lines.popleft()
            source = _source_of(line["logger"])
            self._add(source, self._worker_of_line(source, line), line)
        self._add_loss_notice(now)
        self._queue_records()

    def close(self) -> None:
        if self._handler is not None:
            detach(self._handler)
            self._handler = None
        self._pending.clear()
        scheduler = self.context.scheduler
        # Plugins of a closing scheduler need no removal. A scheduler that only lost this plugin
        # continues.
        status = getattr(scheduler.status, "name", None)
        if self._installed and not self._closing and status == "running":
            self._uninstallation = asyncio.ensure_future(self._uninstall())

    async def _install(self, kind: str, plugin: Any) -> None:
        register = getattr(self.context.scheduler, "register_%s_plugin" % kind, None)
        if register is None:
            return
        options = {"idempotent": False} if "idempotent" in signature(register).parameters else {}
        self._installed[kind] = True
        try:
            await register(None, dumps(plugin), self._name, **options)
        except Exception:
            # A worker that is leaving. Workers that join later get the plugin from Dask.
            logger.debug("Galvo could not reach all of the %ss", kind, exc_info=True)

    async def _uninstall(self) -> None:
        for kind in self._installed:
            try:
                unregister = getattr(self.context.scheduler, "unregister_%s_plugin" % kind)
                await unregister(None, self._name)
            except Exception:
                logger.debug("Galvo could not leave all of the %ss", kind, exc_info=True)

    async def _query_held_lines(self, address: str) -> None:
        try:
            for message in await getattr(self.context.scheduler.rpc(address), OPERATION)():
                self._receive_message(message, self.context.now())
        except Exception:
            logger.debug("Galvo could not ask %s for the lines it holds", address)

    def _receive_own_line(self, line: Dict[str, Any]) -> None:
        """Receives a line that was logged in this process, in any thread."""
        self._unprocessed_lines.append(self._redact(line))
        if len(self._unprocessed_lines) > MOST_WAITING:
            earliest = self._unprocessed_lines.popleft()
            self._lost_lines += earliest.get("left_out") or earliest["repeated"]

    def _add_loss_notice(self, now: float) -> None:
        """Reports the number of lines that were lost, in their place."""
        number = self._feed.pop_missed_count()
        if self._lost_lines and self._handler is not None:
            with self._handler.lock:  # of the logging threads
                number, self._lost_lines = number + self._lost_lines, 0
        if number:
            message = "%d lines were left out here: they came faster than reports are made"
            line = {**new_line("WARNING", "galvo", message % number, now), "left_out": number}
            self._add("scheduler", None, self._redact(line))

    def _receive_message(self, message: Any, at: float) -> None:
        """Receives a line as an event, which any client could have logged."""
        if not isinstance(message, Mapping) or KEY in message or EXCERPT in message:
            return
        if message.get("holds") is True:
            address = message.get(message.get("source") or "")
            if isinstance(address, str):
                self._holders.pop(address, None)
                self._holders[address] = at
                _forget_oldest(self._holders)
            return
        if self._is_repetition(message):
            return
        line: Dict[str, Any] = {
            name: text_of(message.get(name) or "") for name in ("level", "logger", "message")
        }
        repeated, age = message.get("repeated"), message.get("age")
        line["repeated"] = to_count(repeated) if type(repeated) is int and repeated > 0 else 1
        line["at"] = at - (age if type(age) is float and 0 <= age < 3600 else 0.0)
        left_out = message.get("left_out")
        if type(left_out) is int and left_out > 0:
            line["left_out"] = to_count(left_out)
        source = "nanny" if message.get("source") == "nanny" else "worker"
        worker = self._worker_of_line(source, line, message.get("worker"), message.get("nanny"))
        self._add(source, worker, self._redact(line))

    def _is_repetition(self, message: Mapping[str, Any]) -> bool:
        """True if a nanny repeats a message because it got no response in time."""
        number, sender = message.get("number"), (message.get("nanny"), message.get("token"))
        if type(number) is not int or not all(isinstance(name, str) for name in sender):
            return False
        if number <= self._last_numbers.get(sender, 0):
            return True
        self._last_numbers[sender] = number
        _forget_oldest(self._last_numbers)
        return False

    def _redact(self, line: Dict[str, Any]) -> Dict[str, Any]:
        """Redacts the line; its message is None if it may not be sent."""
        if not (self._sends_logs and self.context.sends("logs")):
            return {**line, "message": None}
        message = cut_inputs(cut(line["message"], MESSAGE_LENGTH * 2))
        types_only = self.context.ledger.receipt.types_only
        if types_only:
            message = without_exceptions(message, line["logger"] == "py.warnings")
        if types_only or not self.context.sends("code"):
            message = strip_source(message)
            if line["logger"] == "py.warnings":
                message = strip_source_of_warning(message)
        return {**line, "message": cut(scrub(message), MESSAGE_LENGTH)}

    def _worker_of_line(
        self, source: str, line: Mapping[str, Any], address: Any = None, nanny: Any = None
    ) -> Optional[str]:
        """Returns the address of the worker that logged the line, or that its nanny's line
        concerns.
        """
        if source == "scheduler":
            return None
        if source == "nanny":
            match = PROCESS.search(line["message"] or "")
            worker_address = self._processes.get(int(match.group(1))) if match else None
            if worker_address is not None and (
                nanny is None or _machine(worker_address) == _machine(nanny)
            ):
                address = worker_address
        elif address is None:
            # A worker in this process: its lines do not identify it.
            workers = self.context.scheduler.workers
            named_addresses = [
                text for text in ADDRESS.findall(line["message"] or "") if text in workers
            ]
            address = (
                next(iter(workers)) if len(workers) == 1 else next(iter(named_addresses), None)
            )
        return address if isinstance(address, str) else None

    def _add(self, source: str, worker: Optional[str], line: Mapping[str, Any]) -> None:
        left_out = line.get("left_out", 0)
        if line["message"] is None:
            self.context.count_withheld("logs", left_out or 1)
            return
        if OWN_PLUGIN.match(line["message"]):
            return
        self.context.outboxes["logs"].dropped += left_out
        line_key = (source, worker, line["level"], line["logger"], line["message"])
        if left_out:
            line_key += (uuid7(),)  # each has its own position
        body = self._pending.get(line_key)
        if body is not None:
            body["repeated"] += line["repeated"]
            return
        self._pending[line_key] = {
            "id": uuid7(),
            "at": line["at"],
            "source": source,
            "worker_id": None,
            "worker": None if worker is None else cut(worker, ADDRESS_LENGTH),
            "level": cut(line["level"], LEVEL_LENGTH),
            "logger": cut(line["logger"], LOGGER_LENGTH),
            "message": line["message"],
            "repeated": line["repeated"],
        }
        if len(self._pending) > MOST_PENDING:
            self._queue_records()

    def _queue_records(self) -> None:
        pending, self._pending = self._pending, {}
        outbox = self.context.outboxes["logs"]
        for body in pending.values():
            # By now the worker with this address is known.
            if body["worker"] is not None:
                body["worker_id"] = self.context.worker_id(body["worker"])
            record = Record(body["id"], body, settled=True)
            record.characters = len(body["message"]) + 200
            outbox.add(record)
        outbox.enforce_bounds()

    def _forget_events(self) -> None:
        """Removes the lines from Dask's events, where nobody reads them."""
        scheduler = self.context.scheduler
        if self._feed.is_needed:
            events = scheduler.events.get(TOPIC)
            if events:
                events.clear()
        elif hasattr(getattr(scheduler, "_broker", None), "truncate"):
            scheduler._broker.truncate(TOPIC)


def _forget_oldest(entries: Dict[Any, Any]) -> None:
    if len(entries) > MOST_PROCESSES:
        del entries[next(iter(entries))]


def _machine(address: Any) -> str:
    return str(address).rpartition(":")[0]


def _source_of(name: str) -> str:
    """Returns the source of a line in a process that may have a scheduler, workers and nannies."""
    if name.startswith("distributed.nanny"):
        return "nanny"
    return "worker" if name.startswith("distributed.worker") else "scheduler"
