"""What runs in the processes of workers and nannies: it forwards their log, and measures the disk.

A worker that is killed takes its log along, so each line leaves as an event of Dask's as soon as
it is written. Nothing here may disturb the process it is a guest of: whatever is missing or goes
wrong is passed over, and how much is sent is bounded.
"""

import asyncio
import logging
import os
import shutil
import sys
import threading
from collections import deque
from time import monotonic, time
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Tuple

from distributed.diagnostics.plugin import NannyPlugin, WorkerPlugin

from .bundle import by_source

TOPIC = "galvo-log"  # of the events that are lines of logs
METRIC = "galvo"
LONGEST_MESSAGE = 20_000
# So many lines may one process send in so many seconds.
MOST_LINES, WINDOW_SECONDS = 200, 10.0
HOLD_SECONDS = 1.0  # how long repetitions of a line are counted before that is told
MEASURE_SECONDS = 5.0
SEND_SECONDS = 5.0
# Dask gives some loggers handlers of their own, and lets them pass nothing on to the root.
LOGGERS = ("", "distributed", "distributed.client", "tornado.application")


class Lines:
    """Bounds how many lines go out: folds repetitions, and counts what exceeds the rate.

    A line is a dict with ``level``, ``logger``, ``message``, ``at`` and ``repeated``.
    """

    def __init__(self, most: int = MOST_LINES, clock: Callable[[], float] = monotonic):
        self._most = most
        self._clock = clock
        self._last: Optional[Tuple[Any, ...]] = None
        self._held: Optional[Dict[str, Any]] = None  # repetitions that nobody was told of
        self._window = -WINDOW_SECONDS
        self._lines = 0
        self._left_out = 0

    def add(self, line: Dict[str, Any]) -> List[Dict[str, Any]]:
        """What is to be sent now that there is this line."""
        same = (line["level"], line["logger"], line["message"])
        if same == self._last:
            if self._held is None:
                self._held = line
            else:
                self._held["repeated"] += line["repeated"]
            return []
        sent = self.release()
        self._last = same
        return sent + self._pass(line)

    def release(self) -> List[Dict[str, Any]]:
        """What was held back, as far as it may be sent now."""
        held, self._held = self._held, None
        sent = [] if held is None else self._pass(held)
        if self._left_out and self._clock() - self._window >= WINDOW_SECONDS:
            sent += self._notice()
        return sent

    def holds(self) -> bool:
        return self._held is not None or self._left_out > 0

    def _pass(self, line: Dict[str, Any]) -> List[Dict[str, Any]]:
        now, sent = self._clock(), []
        if now - self._window >= WINDOW_SECONDS:
            sent = self._notice()
            self._window, self._lines = now, 0
        self._lines += 1
        if self._lines <= self._most:
            return [*sent, line]
        self._left_out += line["repeated"]
        return sent

    def _notice(self) -> List[Dict[str, Any]]:
        number, self._left_out = self._left_out, 0
        if not number:
            return []
        message = "%d lines were left out here: there were more than %d in %d seconds" % (
            number,
            self._most,
            WINDOW_SECONDS,
        )
        return [new_line("WARNING", "galvo", message, time())]


class LineHandler(logging.Handler):
    """Gives what is logged in this process to ``send``, as bounded lines."""

    def __init__(self, send: Callable[[Dict[str, Any]], None], most: int = MOST_LINES):
        super().__init__(logging.INFO)
        self.lines = Lines(most)
        self._send = send
        self._seen = "_galvo_%x" % id(self)
        self._process = os.getpid()
        self._busy = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        # A process that was forked has the handler, but nobody to send for it. And nothing that
        # is logged while a line is sent may lead to another line.
        if getattr(self._busy, "now", False) or os.getpid() != self._process:
            return
        self._busy.now = True
        try:
            # The same record comes by once more where a logger passes it on to the root.
            if hasattr(record, self._seen):
                return
            setattr(record, self._seen, True)
            of_dask = record.name == "distributed" or record.name.startswith("distributed.")
            if of_dask or record.levelno >= logging.WARNING:
                line = new_line(record.levelname, record.name, message_of(record), record.created)
                for passed in self.lines.add(line):
                    self._send(passed)
        except Exception:
            pass
        finally:
            self._busy.now = False

    def send_held(self) -> bool:
        """Sends what was held back long enough; returns whether there is more of it."""
        self.acquire()
        self._busy.now = True
        try:
            for line in self.lines.release():
                self._send(line)
        except Exception:
            pass
        finally:
            self._busy.now = False
            self.release()
        return self.lines.holds()

    def attach(self) -> None:
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self)


def new_line(level: str, logger: str, message: str, at: float) -> Dict[str, Any]:
    if len(message) > LONGEST_MESSAGE:
        message = message[:LONGEST_MESSAGE] + "…"
    return {"level": level, "logger": logger, "message": message, "at": at, "repeated": 1}


def message_of(record: logging.LogRecord) -> str:
    """The message with its traceback, without the arguments of tasks that Dask shows in some."""
    message, values = record.msg, record.args
    if isinstance(message, str) and isinstance(values, tuple) and message.startswith(WITH_INPUTS):
        shown, remaining = [], list(values)
        for line in message.split("\n"):
            number = line.count("%") - 2 * line.count("%%")
            mine, remaining = remaining[:number], remaining[number:]
            if number and line.startswith(("args:", "kwargs:", "Task:")):
                line = line.partition("%")[0] + "[removed]"
            elif number:
                line = line % tuple(mine)
            shown.append(line)
        message = "\n".join(shown)
    else:
        message = record.getMessage()
    if record.exc_info and record.exc_info[0] is not None:
        message += "\n" + _FORMATTER.formatException(record.exc_info)
    elif record.exc_text:
        message += "\n" + record.exc_text
    return message


WITH_INPUTS = ("Compute Failed", "Run Failed")
_FORMATTER = logging.Formatter()


class GuestHandler(LineHandler):
    """Sends the log of this process through the workers or nannies in it.

    There is one in a process, however many nannies it has, and however many plugins of whichever
    version were asked for it: each line leaves once.
    """

    def __init__(self) -> None:
        super().__init__(self._send_by_guest)
        self.guests: List["Guest"] = []
        self._timed = False

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self.lines.holds() and not self._timed:
            self._timed = True
            try:
                self.guests[0].later(self._later)
            except Exception:
                self._timed = False

    def _later(self) -> None:
        self._timed = False
        if self.send_held() and self.guests:
            self._timed = True
            self.guests[0].later(self._later)

    def _send_by_guest(self, line: Dict[str, Any]) -> None:
        for guest in self.guests[:1]:
            guest.send(line, len(self.guests) == 1)


class Guest:
    """A worker or nanny, as the one through whom lines are sent."""

    def __init__(self, host: Any, source: str):
        self.host = host
        self._source = source
        self._queue: Deque[Dict[str, Any]] = deque(maxlen=MOST_LINES * 2)
        self._timed = False

    def enter(self) -> None:
        handler = None
        for present in _handlers():
            if handler is None and type(present) is GuestHandler:
                handler = present
        if handler is None:
            handler = GuestHandler()
        for present in _handlers():
            if present is not handler:  # of another version
                handler.guests += getattr(present, "guests", [])
                detach(present)
        handler.guests = [g for g in handler.guests if g.host is not self.host] + [self]
        handler.attach()

    def leave(self) -> None:
        for handler in _handlers():
            guests = getattr(handler, "guests", [])
            if self in guests:
                guests.remove(self)
                if not guests:
                    detach(handler)

    def later(self, function: Callable[[], None]) -> None:
        def call() -> None:
            asyncio.get_running_loop().call_later(HOLD_SECONDS, function)

        self.host.loop.add_callback(call)

    def send(self, line: Dict[str, Any], alone: bool) -> None:
        message = {
            "source": self._source,
            "level": line["level"],
            "logger": line["logger"],
            "message": line["message"],
            "repeated": line["repeated"],
            # Clocks differ, ages do not.
            "age": max(time() - line["at"], 0.0),
        }
        host = self.host
        if self._source == "worker":
            message["worker"] = host.address  # which only newer schedulers add
            host.log_event(TOPIC, message)
            return
        # A nanny's events do not say which one it was.
        message["nanny"] = host.address
        if alone:
            message["worker"] = host.worker_address
        self._queue.append(message)
        if not self._timed:
            self._timed = True
            host.loop.add_callback(self._deliver)

    async def _deliver(self) -> None:
        """Sends what a nanny has to say, one after the other.

        Its own way of sending complains to the log when that fails, and does not wait.
        """
        try:
            while self._queue:
                message = self._queue.popleft()
                sent = self.host.scheduler.log_event(topic=TOPIC, msg=message)
                await asyncio.wait_for(sent, SEND_SECONDS)
        except Exception:
            # The nanny or the scheduler is about to go, or away for now.
            self._queue.clear()
        finally:
            self._timed = False


def _handlers() -> List[Any]:
    handlers = logging.getLogger("distributed").handlers
    return [handler for handler in handlers if hasattr(handler, "guests")]


def detach(handler: Any) -> None:
    for name in LOGGERS:
        logging.getLogger(name).removeHandler(handler)


def is_with_scheduler(scheduler_id: Any) -> bool:
    """Whether this is the process of that scheduler, which reads its log itself."""
    instances = getattr(sys.modules.get("distributed.scheduler"), "Scheduler", None)
    schedulers = list(getattr(instances, "_instances", None) or ())
    return any(scheduler.id == scheduler_id for scheduler in schedulers)


class Disk:
    """A metric of a worker: how large its disk is. Dask itself does not tell."""

    def __init__(self) -> None:
        self._measured_at = -MEASURE_SECONDS
        self._measured: Dict[str, Any] = {}

    def __call__(self, worker: Any) -> Dict[str, Any]:
        # A worker whose metric fails does not survive its next heartbeat.
        try:
            if monotonic() - self._measured_at >= MEASURE_SECONDS:
                self._measured_at = monotonic()
                self._measured = {"executable": sys.executable}
                usage = shutil.disk_usage(worker.local_directory)
                self._measured.update(disk_total_bytes=usage.total, disk_free_bytes=usage.free)
        except Exception:
            pass
        return self._measured


class WorkerSide(WorkerPlugin):
    """Installed in workers by the scheduler plugin, with what its ``settings`` ask for."""

    def __init__(self, settings: Mapping[str, Any]):
        self.name = settings["name"]
        self._settings = dict(settings)
        self._guest: Optional[Guest] = None
        self._disk = Disk()

    def __reduce__(self) -> Tuple[Any, ...]:
        return by_source("worker_side", "WorkerSide", self._settings)

    def setup(self, worker: Any) -> None:
        try:
            worker.metrics[METRIC] = self._disk
            if self._settings["logs"] and not is_with_scheduler(self._settings["scheduler_id"]):
                self._guest = Guest(worker, "worker")
                self._guest.enter()
        except Exception:
            pass

    def teardown(self, worker: Any) -> None:
        try:
            if worker.metrics.get(METRIC) is self._disk:
                del worker.metrics[METRIC]
            if self._guest is not None:
                self._guest.leave()
        except Exception:
            pass


class NannySide(NannyPlugin):
    """The same for nannies, which tell how their workers end."""

    restart = False

    def __init__(self, settings: Mapping[str, Any]):
        self.name = settings["name"]
        self._settings = dict(settings)
        self._guest: Optional[Guest] = None

    def __reduce__(self) -> Tuple[Any, ...]:
        return by_source("worker_side", "NannySide", self._settings)

    def setup(self, nanny: Any) -> None:
        try:
            if not is_with_scheduler(self._settings["scheduler_id"]):
                self._guest = Guest(nanny, "nanny")
                self._guest.enter()
        except Exception:
            pass

    def teardown(self, nanny: Any) -> None:
        try:
            if self._guest is not None:
                self._guest.leave()
        except Exception:
            pass
