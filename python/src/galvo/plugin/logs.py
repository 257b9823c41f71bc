"""The log of the scheduler, of its workers and of their nannies."""

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
from .scrub import cut_inputs, scrub, strip_source, strip_source_of_warning
from .sections import Record
from .values import ADDRESS_LENGTH, cut, uuid7
from .worker_side import TOPIC, LineHandler, NannySide, WorkerSide, detach

LEVEL_LENGTH, LOGGER_LENGTH, MESSAGE_LENGTH = 32, 512, 20_000
MOST_WAITING = 5000  # lines of this process that have not been looked at
MOST_PENDING = 2000  # lines that may still be repeated before they are told
MOST_PROCESSES = 10_000
# How a nanny tells which worker it is about. Its address is another one by then, or none.
PROCESS = re.compile(r"\b(?:process |pid=)(\d{1,9})\b")
ADDRESS = re.compile(r"\b(?:tcp|tls|ucx|ucxx|wss?|inproc)://[^\s'\",;)\]>]{1,200}")

logger = logging.getLogger("distributed.galvo")


class Logs(Collector):
    """Reads the log of its own process, and has those of workers and nannies sent to it."""

    def __init__(self, context: Context):
        super().__init__(context)
        settings = context.settings
        self._reads = bool(settings.get("send_logs", True))
        self._visits = bool(settings.get("worker_plugin", True))
        # A name of its own: one that took over from this one keeps what it has installed.
        self._name = "galvo-" + uuid4().hex[:12]
        self._installed: Dict[str, bool] = {}
        self._handler: Optional[LineHandler] = None
        self._feed = Feed(context.scheduler)
        self._waiting: Deque[Dict[str, Any]] = deque(maxlen=MOST_WAITING)
        # What was said since the last report, by where and what: it may be said again.
        self._pending: Dict[Tuple[Any, ...], Dict[str, Any]] = {}
        self._processes: Dict[int, str] = {}  # of workers, and their addresses
        self._closing = False
        self._leaving: Optional["asyncio.Future[None]"] = None

    async def start(self) -> None:
        self._feed.skip()
        for address in list(self.context.scheduler.workers):
            self.worker_added(address)
        if self._reads:
            self._handler = LineHandler(self._overhear)
            self._handler.attach()
        if self._visits:
            settings = {
                "name": self._name,
                "logs": self._reads,
                "scheduler_id": self.context.scheduler.id,
            }
            await self._install("worker", WorkerSide(settings))
            if self._reads:
                await self._install("nanny", NannySide(settings))

    def worker_added(self, address: str) -> None:
        worker = self.context.scheduler.workers.get(address)
        process = getattr(worker, "pid", None)
        if isinstance(process, int):
            self._processes.pop(process, None)
            self._processes[process] = address
            if len(self._processes) > MOST_PROCESSES:
                del self._processes[next(iter(self._processes))]

    def event(self, topic: Any, message: Any, now: float) -> None:
        if topic == TOPIC and not self._feed.is_needed:
            self._hear(message, now)

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        self._closing = self._closing or closed_at is not None
        for _, at, message in self._feed.fetch(only=TOPIC):
            self._hear(message, at)
        self._forget_events()
        if self._handler is not None:
            self._handler.send_held()
        while self._waiting:
            line = self._waiting.popleft()
            source = _source_of(line["logger"])
            self._add(source, self._subject(source, line), line)
        self._release()

    def close(self) -> None:
        if self._handler is not None:
            detach(self._handler)
            self._handler = None
        self._pending.clear()
        scheduler = self.context.scheduler
        # What closes with the scheduler need not be told. A scheduler goes on that was relieved
        # of its plugin.
        status = getattr(scheduler.status, "name", None)
        if self._installed and not self._closing and status == "running":
            self._leaving = asyncio.ensure_future(self._uninstall())

    async def _install(self, kind: str, plugin: Any) -> None:
        register = getattr(self.context.scheduler, "register_%s_plugin" % kind, None)
        if register is None:
            return
        options = {"idempotent": False} if "idempotent" in signature(register).parameters else {}
        self._installed[kind] = True
        try:
            await register(None, dumps(plugin), self._name, **options)
        except Exception:
            # A worker that is just leaving; those that come later have it from Dask.
            logger.debug("Galvo could not reach all of the %ss", kind, exc_info=True)

    async def _uninstall(self) -> None:
        for kind in self._installed:
            try:
                unregister = getattr(self.context.scheduler, "unregister_%s_plugin" % kind)
                await unregister(None, self._name)
            except Exception:
                logger.debug("Galvo could not leave all of the %ss", kind, exc_info=True)

    def _overhear(self, line: Dict[str, Any]) -> None:
        """A line was logged in this process, in whichever thread."""
        self._waiting.append(self._presentable(line))

    def _hear(self, message: Any, at: float) -> None:
        """A line arrived as an event, which anybody could have logged."""
        if not isinstance(message, Mapping):
            return
        line: Dict[str, Any] = {
            name: str(message.get(name) or "") for name in ("level", "logger", "message")
        }
        repeated, age = message.get("repeated"), message.get("age")
        line["repeated"] = repeated if type(repeated) is int and repeated > 0 else 1
        line["at"] = at - (age if type(age) is float and 0 <= age < 3600 else 0.0)
        source = "nanny" if message.get("source") == "nanny" else "worker"
        worker = self._subject(source, line, message.get("worker"), message.get("nanny"))
        self._add(source, worker, self._presentable(line))

    def _presentable(self, line: Dict[str, Any]) -> Dict[str, Any]:
        """The line as it may leave the cluster; None as its message if it may not."""
        if not (self._reads and self.context.sends("logs")):
            return {**line, "message": None}
        message = cut_inputs(cut(line["message"], MESSAGE_LENGTH * 2))
        if not self.context.sends("code"):
            message = strip_source(message)
            if line["logger"] == "py.warnings":
                message = strip_source_of_warning(message)
        return {**line, "message": cut(scrub(message), MESSAGE_LENGTH)}

    def _subject(
        self, source: str, line: Mapping[str, Any], address: Any = None, nanny: Any = None
    ) -> Optional[str]:
        """The address of the worker that the line is from, or that its nanny speaks of."""
        if source == "scheduler":
            return None
        if source == "nanny":
            found = PROCESS.search(line["message"] or "")
            known = self._processes.get(int(found.group(1))) if found else None
            if known is not None and (nanny is None or _machine(known) == _machine(nanny)):
                address = known
        elif address is None:
            # A worker in this process: its lines do not say which one it is.
            workers = self.context.scheduler.workers
            named = [text for text in ADDRESS.findall(line["message"] or "") if text in workers]
            address = next(iter(workers)) if len(workers) == 1 else next(iter(named), None)
        return address if isinstance(address, str) else None

    def _add(self, source: str, worker: Optional[str], line: Mapping[str, Any]) -> None:
        if line["message"] is None:
            self.context.withheld("logs")
            return
        said = (source, worker, line["level"], line["logger"], line["message"])
        body = self._pending.get(said)
        if body is not None:
            body["repeated"] += line["repeated"]
            return
        self._pending[said] = {
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
            self._release()

    def _release(self) -> None:
        pending, self._pending = self._pending, {}
        outbox = self.context.outboxes["logs"]
        for body in pending.values():
            # By now it is known which worker has this address.
            if body["worker"] is not None:
                body["worker_id"] = self.context.worker_id(body["worker"])
            record = Record(body["id"], body, settled=True)
            record.characters = len(body["message"]) + 200
            outbox.add(record)
        outbox.enforce_bounds()

    def _forget_events(self) -> None:
        """The lines need not stay where Dask keeps events, since nobody asks for them there."""
        scheduler = self.context.scheduler
        if self._feed.is_needed:
            events = scheduler.events.get(TOPIC)
            if events:
                events.clear()
        elif hasattr(getattr(scheduler, "_broker", None), "truncate"):
            scheduler._broker.truncate(TOPIC)


def _machine(address: Any) -> str:
    return str(address).rpartition(":")[0]


def _source_of(name: str) -> str:
    """Whose line it is in a process that may have a scheduler, workers and nannies."""
    if name.startswith("distributed.nanny"):
        return "nanny"
    return "worker" if name.startswith("distributed.worker") else "scheduler"
