"""Runs in the processes of workers and nannies: forwards logs and failing lines, measures the disk.

It also removes tokens from their configuration, see ``configured``.

A worker that is killed loses its log, so each line is sent as a Dask event as soon as it is
written. Nothing here may disturb the host process: missing or failing parts are skipped, the amount
sent is bounded, and ``make_sendable`` converts all of it. Lines that are left out are counted, and
the count is sent in their place.
"""

import asyncio
import logging
import os
import shutil
import sys
import threading
import weakref
from collections import deque
from contextlib import suppress
from time import monotonic, time
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Tuple

from distributed.diagnostics.plugin import NannyPlugin, WorkerPlugin

from .bundle import reduce_to_source
from .configured import find_tokens, remove_tokens, remove_tokens_from_nanny, runs_only_dask
from .excerpts import KEY as EXCERPT
from .excerpts import Excerpts
from .inputs import remove_arguments
from .records import RecordFactory, ancestry, find_logger
from .unsent_metrics import KEY, UnsentMetrics
from .values import make_sendable, text_of

# The topic of log line events.
TOPIC = "galvo-log"
METRIC = "galvo"
CLOSING = ("closing", "closing_gracefully")
LONGEST_MESSAGE = 20_000
# The rate limits of a process per time window: lines below WARNING, warnings, and errors with
# everything that has a traceback. A flood of one kind does not reduce the others' limits.
MOST_LINES, WINDOW_SECONDS = (200, 200, 100), 10.0
# The number of last lines of each kind beyond the limit that are still sent, at this interval and
# when the process ends. Repetitions of a line are also counted for this time before they are sent.
LAST_LINES, HOLD_SECONDS = 10, 1.0
# The bound of a nanny's lines that wait for an unresponsive scheduler.
MOST_QUEUED = 400
# The number of retries of one line, and the longest delay.
RETRIES, LONGEST_RETRY_SECONDS = 4, 30.0
# The time for the unsent lines of a nanny that ends.
FLUSH_SECONDS = 1.0
# An operation of Dask's RPC: a closing scheduler requests the lines held back.
OPERATION = "galvo_release_lines"
# The scheduler queries a worker that it has just removed. It may be waiting for its nanny to kill
# it.
METRICS_OPERATION = "galvo_unsent_metrics"
MEASURE_SECONDS = 5.0
SEND_SECONDS = 5.0
# The logger with the handlers.
HOME = "distributed"
# Records of these are read without a handler, which only earlier versions gave them. Dask lets some
# of them not propagate to the root.
FOLLOWED = ("root", "distributed.client", "tornado.application")
# The records of one thread that are remembered: handlers may log, too.
PASSING_RECORDS = 16


class Lines:
    """Limits the lines sent: merges repetitions, and counts the excess.

    A line is a dict with ``level``, ``logger``, ``message``, ``at`` and ``repeated``, and with
    ``left_out`` if it is the notice of lines missing in its place.
    """

    def __init__(
        self,
        most: Tuple[int, ...] = MOST_LINES,
        clock: Callable[[], float] = monotonic,
        last: int = LAST_LINES,
    ):
        self._most = most
        self._clock = clock
        self._tail_length = last
        self._last: Optional[Tuple[Any, ...]] = None
        # Repetitions not yet sent.
        self._held_line: Optional[Dict[str, Any]] = None
        self._window = -WINDOW_SECONDS
        self._sent = [0] * len(most)
        # The latest lines beyond the limit, by rank, and the number even beyond these.
        self._tails: List[Deque[Dict[str, Any]]] = [deque() for _ in most]
        self._left_out, self._left_out_at = 0, 0.0
        # First line beyond the limit not yet reported.
        self.excess_since: Optional[float] = None

    def add(self, line: Dict[str, Any]) -> List[Dict[str, Any]]:
        """Returns the lines to send now that this line was logged."""
        content = (line["level"], line["logger"], line["message"])
        if content == self._last:
            if self._held_line is None:
                self._held_line = line
            else:
                self._held_line["repeated"] += line["repeated"]
            return []
        sent = self.release()
        self._last = content
        return sent + self._limit(line)

    def release(self) -> List[Dict[str, Any]]:
        """Returns the held lines that may be sent now."""
        held_line, self._held_line = self._held_line, None
        sent = [] if held_line is None else self._limit(held_line)
        since = self.excess_since
        if since is not None and not 0 <= self._clock() - since < HOLD_SECONDS:
            sent += self._flush()
        return sent

    def finish(self) -> List[Dict[str, Any]]:
        """Returns all held lines, because there may be no later opportunity."""
        return self.release() + self._flush()

    def leave_out(self, line: Mapping[str, Any]) -> None:
        """Counts a line that cannot be sent; for a notice, the lines that it stands for."""
        self.count_left_out(line.get("left_out") or line["repeated"], line["at"])

    def count_left_out(self, number: int, at: float) -> None:
        self._left_out += number
        self._left_out_at = max(self._left_out_at, at)
        if self.excess_since is None:
            self.excess_since = self._clock()

    def holds(self) -> bool:
        return self._held_line is not None or self.excess_since is not None

    def _limit(self, line: Dict[str, Any]) -> List[Dict[str, Any]]:
        now, rank = self._clock(), rank_of(line)
        if not 0 <= now - self._window < WINDOW_SECONDS:
            self._window, self._sent = now, [0] * len(self._most)
        self._sent[rank] += 1
        if self._sent[rank] <= self._most[rank]:
            return [line]
        if self.excess_since is None:
            self.excess_since = now
        tail = self._tails[rank]
        tail.append(line)
        if len(tail) > self._tail_length:
            self.leave_out(tail.popleft())
        return []

    def _flush(self) -> List[Dict[str, Any]]:
        lines = [line for tail in self._tails for line in tail]
        if self._left_out:
            message = "%d lines were left out here: more were logged than one process may send"
            notice = new_line("WARNING", "galvo", message % self._left_out, self._left_out_at)
            notice["left_out"] = self._left_out
            lines.insert(0, notice)
        for tail in self._tails:
            tail.clear()
        self._left_out, self._left_out_at, self.excess_since = 0, 0.0, None
        return sorted(lines, key=lambda line: line["at"])


def rank_of(line: Mapping[str, Any]) -> int:
    """Returns a line's priority: 2 for errors and tracebacks, 1 for warnings, 0 otherwise."""
    if line["level"] in ("ERROR", "CRITICAL") or TRACEBACK in line["message"]:
        return 2
    return int(line["level"] == "WARNING")


class LineHandler(logging.Handler):
    """Passes the log of this process to ``send`` as bounded lines.

    It does not block or disturb the logging code: it raises nothing, and it holds no lock while a
    message is formatted, which runs user code. All other handling of the line is unchanged: only
    Dask's own logger has this handler, see ``records``.
    """

    def __init__(self, send: Callable[[Dict[str, Any]], None], most: Tuple[int, ...] = MOST_LINES):
        super().__init__(logging.INFO)
        self.lines = Lines(most)
        self._send = send
        self.trail: Optional[RecordFactory] = None
        self._process = os.getpid()
        # The "now" attribute is "reading" a record or "sending" lines; "seen" has the records
        # passed.
        self._doing = threading.local()
        # Lines that could not be counted regularly.
        self.unread = 0

    def handle(self, record: logging.LogRecord) -> bool:
        self.read(record)
        # Python prints records without a handler, and this handler would suppress that.
        last_resort = logging.lastResort
        if last_resort and record.levelno >= last_resort.level and self.stands_alone(record):
            last_resort.handle(record)
        return True

    def read(self, record: logging.LogRecord) -> None:
        # Without the lock that logging holds at this point: reading a record may wait for a thread
        # that logs as well.
        try:
            # Newer releases of Python may return another one.
            filtered = self.filter(record)
            if filtered:
                self.emit(filtered if isinstance(filtered, logging.LogRecord) else record)
        except Exception:
            pass

    def follows(self, logger: logging.Logger, record: logging.LogRecord) -> bool:
        """True if a record just created for this logger must be read."""
        if os.getpid() != self._process or not _is_sent_level(record) or logger.disabled:
            return False
        # Another version removes the handler, and knows of nothing else.
        has_handler = any(handler is self for handler in logging.getLogger(HOME).handlers)
        return has_handler and any(ancestor.name in FOLLOWED for ancestor in ancestry(logger))

    def stands_alone(self, record: logging.LogRecord) -> bool:
        """True if a record has only handlers of Galvo, of which this is the first."""
        try:
            handlers = [
                h for ancestor in ancestry(find_logger(record.name)) for h in ancestor.handlers
            ]
            return handlers[:1] == [self] and all(hasattr(h, "send_held") for h in handlers)
        except Exception:
            return False

    def emit(self, record: logging.LogRecord) -> None:
        # A forked process has the handler, but no sender for it. And nothing that is logged while a
        # line is sent may cause another line.
        doing = getattr(self._doing, "now", None)
        if doing == "sending" or os.getpid() != self._process:
            return
        try:
            if not _is_sent_level(record) or self._has_passed(record):
                return
            if doing == "reading":  # arguments of a line that log lines themselves
                self.unread += 1
                return
            self._doing.now = "reading"
            try:
                line = new_line(
                    record.levelname, record.name, _read_message(record), record.created
                )
            finally:
                self._doing.now = None
            _require_frames(50)
            self._send_lines(lambda: self.lines.add(line))
        except Exception:  # such as too deep a recursion, in which nothing can be called
            self.unread += 1

    def send_held(self) -> bool:
        """Sends lines held long enough. Returns True if there are more."""
        self._send_lines(self.lines.release)
        return self.holds()

    def finish(self) -> None:
        """Sends all held lines."""
        self._send_lines(self.lines.finish)

    def holds(self) -> bool:
        return self.lines.holds() or self.unread > 0

    def attach(self) -> None:
        logging.getLogger(HOME).addHandler(self)
        if self.trail is None or self.trail.galvo_reader is None:
            self.trail = RecordFactory(self)

    def _has_passed(self, record: logging.LogRecord) -> bool:
        # The record is not marked, because formatters might show a mark.
        seen = getattr(self._doing, "seen", None)
        if seen is None:
            seen = self._doing.seen = deque(maxlen=PASSING_RECORDS)
        if any(ancestor() is record for ancestor in seen):
            return True
        seen.append(weakref.ref(record))
        return False

    def _send_lines(self, lines: Callable[[], List[Dict[str, Any]]]) -> None:
        """Sends these lines.

        Lines that cannot be sent are counted, and reported with the next ones.
        """
        self.acquire()
        self._doing.now = "sending"
        try:
            if self.unread:
                number, self.unread = self.unread, 0
                self.lines.count_left_out(number, time())
            for line in lines():
                try:
                    self._send(line)
                except Exception:
                    self.lines.leave_out(line)
        finally:
            self._doing.now = None
            self.release()


def _require_frames(number: int) -> None:
    """Fails if the stack is so deep that sending might fail halfway and count a line twice."""
    if number > 0:
        _require_frames(number - 1)


def _is_sent_level(record: logging.LogRecord) -> bool:
    is_from_dask = record.name == "distributed" or record.name.startswith("distributed.")
    return record.levelno >= (logging.INFO if is_from_dask else logging.WARNING)


def new_line(level: Any, logger: Any, message: Any, at: float) -> Dict[str, Any]:
    """Creates a line of any input that can be sent and compared."""
    return {
        "level": make_sendable(text_of(level), NAMES_LENGTH),
        "logger": make_sendable(text_of(logger), NAMES_LENGTH),
        "message": make_sendable(text_of(message), LONGEST_MESSAGE),
        "at": float(at),
        "repeated": 1,
    }


def _read_message(record: logging.LogRecord) -> str:
    try:
        return message_of(record)
    except Exception:
        return text_of(record.msg) + " [its arguments cannot be shown]"


def message_of(record: logging.LogRecord) -> str:
    """Returns the message with its traceback, without task arguments in Dask's messages."""
    message, values = record.msg, record.args
    if isinstance(message, str) and isinstance(values, tuple) and message.startswith(WITH_INPUTS):
        shown_lines, remaining = [], list(values)
        for line in message.split("\n"):
            number = line.count("%") - 2 * line.count("%%")
            line_values, remaining = remaining[:number], remaining[number:]
            if number == 1 and line.startswith("Task:"):
                line = line.partition("%")[0] + remove_arguments(str(line_values[0]))
            elif number and line.startswith(("args:", "kwargs:", "Task:")):
                line = line.partition("%")[0] + "[removed]"
            elif number:
                line = line % tuple(line_values)
            shown_lines.append(line)
        message = "\n".join(shown_lines)
    else:
        message = record.getMessage()
    if record.exc_info and record.exc_info[0] is not None:
        message += "\n" + _FORMATTER.formatException(record.exc_info)
    elif record.exc_text:
        message += "\n" + record.exc_text
    return message


WITH_INPUTS = ("Compute Failed", "Run Failed")
TRACEBACK = "Traceback (most recent call last)"
# The longest name of a logger or a level.
NAMES_LENGTH = 512
_FORMATTER = logging.Formatter()


class GuestHandler(LineHandler):
    """Sends the log of this process through its workers or nannies.

    There is one per process, for any number of nannies and of plugins of any version, so each line
    is sent once.
    """

    def __init__(self) -> None:
        super().__init__(self._send_by_guest)
        self.guests: List["Guest"] = []
        self._is_timer_set = False
        # The excess that was announced.
        self._announced: Optional[float] = None

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self.holds():
            self._announce()
            if not self._is_timer_set:
                self._set_timer()

    def release_lines(self) -> List[Dict[str, Any]]:
        """Returns all held lines as messages, instead of sending them."""
        messages: List[Dict[str, Any]] = []
        send = self._send
        self.acquire()
        try:
            guest, alone = self.guests[0], len(self.guests) == 1
            queued = guest.take_queued()
            self._send = lambda line: messages.append(guest.message(line, alone))
            self.finish()
        finally:
            self._send = send
            self.release()
        return queued + messages

    def _announce(self) -> None:
        """Notifies the scheduler of held lines, so that it can request them if it closes soon."""
        since = self.lines.excess_since
        if since is None or since == self._announced:
            return
        self._announced = since
        try:
            self._doing.now = "sending"
            for guest in self.guests[:1]:
                guest.announce()
        except Exception:
            pass
        finally:
            self._doing.now = None

    def _set_timer(self) -> None:
        self._is_timer_set = True
        try:
            self.guests[0].later(self._on_timer)
        except Exception:
            self._is_timer_set = False

    def _on_timer(self) -> None:
        self._is_timer_set = False
        try:
            if self.send_held() and self.guests:
                self._set_timer()
        except Exception:
            pass

    def _send_by_guest(self, line: Dict[str, Any]) -> None:
        for guest in self.guests[:1]:
            guest.send(line, len(self.guests) == 1)


class Guest:
    """A worker or nanny through which lines are sent."""

    def __init__(self, host: Any, source: str):
        self.host = host
        self._source = source
        self._handler: Optional[GuestHandler] = None
        # For a nanny, whose messages may arrive despite an error, and be sent again.
        self._queue: Deque[Dict[str, Any]] = deque()
        self._number, self._token = 0, "%x-%x" % (id(self), int(time() * 1000))
        self._is_timer_set = False
        self._failures = 0

    def enter(self) -> None:
        handler = None
        for present in _handlers():
            if handler is None and type(present) is GuestHandler:
                handler = present
        if handler is None:
            handler = GuestHandler()
        for present in _handlers():
            if present is not handler:  # of another version
                _finish_handler(present)
                handler.guests += getattr(present, "guests", [])
                detach(present)
        handler.guests = [g for g in handler.guests if g.host is not self.host] + [self]
        handler.attach()
        self._handler = handler
        operations = getattr(self.host, "handlers", None)
        if isinstance(operations, dict):
            operations[OPERATION] = self._release_lines

    def leave(self) -> None:
        for handler in _handlers():
            guests = getattr(handler, "guests", [])
            if self in guests:
                if len(guests) == 1:
                    _finish_handler(handler)
                guests.remove(self)
                if not guests:
                    detach(handler)
        operations = getattr(self.host, "handlers", None)
        if isinstance(operations, dict) and operations.get(OPERATION) == self._release_lines:
            del operations[OPERATION]

    def later(self, function: Callable[[], None], seconds: float = HOLD_SECONDS) -> None:
        def call() -> None:
            asyncio.get_running_loop().call_later(seconds, function)

        self.host.loop.add_callback(call)

    def message(self, line: Mapping[str, Any], alone: bool) -> Dict[str, Any]:
        """Returns the line as a Dask event."""
        host = self.host
        message = {
            "source": self._source,
            "level": line["level"],
            "logger": line["logger"],
            "message": line["message"],
            "repeated": line["repeated"],
            # Clocks differ, ages do not.
            "age": max(time() - line["at"], 0.0),
        }
        if line.get("left_out"):
            message["left_out"] = line["left_out"]
        if self._source == "worker":
            # Only newer schedulers add it.
            message["worker"] = host.address
        else:
            # A nanny's events do not identify the nanny.
            message["nanny"] = host.address
            if alone:
                message["worker"] = host.worker_address
            self._number += 1
            message.update(number=self._number, token=self._token)
        return make_sendable(message)

    def send(self, line: Dict[str, Any], alone: bool) -> None:
        self._send(self.message(line, alone))

    def announce(self) -> None:
        self._send({"source": self._source, "holds": True, self._source: self.host.address})

    def take_queued(self) -> List[Dict[str, Any]]:
        queued = list(self._queue)
        self._queue.clear()
        return queued

    async def flush(self) -> None:
        """Waits briefly until a nanny's lines are sent."""
        with suppress(Exception):
            await asyncio.wait_for(self._deliver_all(), FLUSH_SECONDS)

    async def _deliver_all(self) -> None:
        await self._deliver()
        handler = self._handler
        if handler is not None and not handler.guests:
            # The queue had no room for these, and no other guest will send them.
            self._queue.extend(self.message(line, True) for line in handler.lines.finish())
            await self._deliver()

    def has_queued(self) -> bool:
        return bool(self._queue)

    def _send(self, message: Dict[str, Any]) -> None:
        if self._source == "worker":
            self.host.log_event(TOPIC, message)
            return
        if len(self._queue) >= MOST_QUEUED:
            if "left_out" in message:  # its number would become outdated; it is created again later
                self._leave_out(message)
                return
            self._leave_out(self._queue.popleft())
        self._queue.append(message)
        if not self._is_timer_set:
            self._is_timer_set = True
            self.host.loop.add_callback(self._deliver)

    async def _deliver(self) -> None:
        """Sends the lines of a nanny one after the other.

        Dask's own method would log a failure, and would not wait.
        """
        self._is_timer_set = True
        pause: Optional[float] = None
        try:
            while self._queue:
                message = self._queue[0]
                try:
                    sent = self.host.scheduler.log_event(topic=TOPIC, msg=message)
                    await asyncio.wait_for(sent, SEND_SECONDS)
                    self._failures = 0
                except (OSError, asyncio.TimeoutError):
                    # The nanny or the scheduler is closing, or unavailable for now.
                    self._failures += 1
                    if self._failures % RETRIES:
                        pause = min(2.0**self._failures, LONGEST_RETRY_SECONDS)
                        return
                    self._leave_out(message)
                except Exception:
                    self._leave_out(message)
                if self._queue and self._queue[0] is message:
                    self._queue.popleft()
        finally:
            self._is_timer_set = pause is not None
            if pause is not None:
                self._deliver_after(pause)

    def _deliver_after(self, seconds: float) -> None:
        def call() -> None:
            try:
                self.host.loop.add_callback(self._deliver)
            except Exception:
                self._is_timer_set = False

        try:
            self.later(call, seconds)
        except Exception:
            self._is_timer_set = False

    def _leave_out(self, message: Mapping[str, Any]) -> None:
        """Counts a message that cannot be sent. The next one reports the number."""
        if self._handler is not None and "repeated" in message:
            at = time() - message["age"]
            self._handler.lines.leave_out({**message, "at": at})

    def _release_lines(self, **kwargs: Any) -> List[Dict[str, Any]]:
        """Handles the RPC of a closing scheduler that requests the held lines."""
        try:
            return [] if self._handler is None else self._handler.release_lines()
        except Exception:
            return []


def _finish_handler(handler: Any) -> None:
    with suppress(Exception):  # it may be of a version without this, or its guest be gone
        handler.finish()


def _handlers() -> List[Any]:
    handlers = logging.getLogger(HOME).handlers
    return [handler for handler in handlers if hasattr(handler, "guests")]


def detach(handler: Any) -> None:
    for name in (HOME, *FOLLOWED):
        logging.getLogger(name).removeHandler(handler)
    if getattr(handler, "trail", None):  # missing in earlier versions
        handler.trail.end()


def is_with_scheduler(scheduler_id: Any) -> bool:
    """True if this is the process of that scheduler, which reads its log itself."""
    instances = getattr(sys.modules.get("distributed.scheduler"), "Scheduler", None)
    schedulers = list(getattr(instances, "_instances", None) or ())
    return any(scheduler.id == scheduler_id for scheduler in schedulers)


def _remove_tokens(settings: Mapping[str, Any], is_alone: bool) -> None:
    """Removes all tokens from the configuration of a process, unless it is a user's.

    ``is_alone`` is true for a process that is known to run a worker only. The process of a
    scheduler is left to the scheduler's plugin.
    """
    with suppress(Exception):
        if (is_alone or runs_only_dask()) and not is_with_scheduler(settings["scheduler_id"]):
            remove_tokens(find_tokens([settings.get("owner")]))


class WorkerMetric:
    """A worker metric: the size of its disk, which Dask itself does not report.

    It also numbers the heartbeats, see ``unsent_metrics``.
    """

    def __init__(self) -> None:
        self.unsent = UnsentMetrics()
        self._measured_at = -MEASURE_SECONDS
        self._disk_metrics: Dict[str, Any] = {}

    def __call__(self, worker: Any) -> Dict[str, Any]:
        # A worker whose metric raises does not survive its next heartbeat.
        try:
            if monotonic() - self._measured_at >= MEASURE_SECONDS:
                self._measured_at = monotonic()
                self._disk_metrics = {"executable": sys.executable}
                usage = shutil.disk_usage(worker.local_directory)
                self._disk_metrics.update(disk_total_bytes=usage.total, disk_free_bytes=usage.free)
            return make_sendable(
                {**self._disk_metrics, "heartbeat": self.unsent.record_heartbeat(worker)}
            )
        except Exception:
            pass
        return make_sendable(self._disk_metrics)


class WorkerSide(WorkerPlugin):
    """The worker plugin that the scheduler plugin installs, configured by its ``settings``."""

    def __init__(self, settings: Mapping[str, Any]):
        self.name = settings["name"]
        self._settings = dict(settings)
        self._guest: Optional[Guest] = None
        self._metric = WorkerMetric()
        self._excerpts = Excerpts()
        # Set only if it sends excerpts.
        self._worker: Any = None

    def __reduce__(self) -> Tuple[Any, ...]:
        return reduce_to_source("worker_side", "WorkerSide", make_sendable(self._settings))

    def setup(self, worker: Any) -> None:
        if self._settings.get("excerpts"):
            self._worker = worker
        # A nanny runs its worker in a process of its own.
        _remove_tokens(self._settings, bool(getattr(worker, "nanny", None)))
        try:
            worker.metrics[METRIC] = self._metric

            def final_metrics(
                **kwargs: Any,
            ) -> Dict[str, Any]:  # Dask asks operations for their names
                return self._final_metrics(worker)

            if isinstance(getattr(worker, "handlers", None), dict):
                worker.handlers[METRICS_OPERATION] = final_metrics
            if self._settings["logs"] and not is_with_scheduler(self._settings["scheduler_id"]):
                self._guest = Guest(worker, "worker")
                self._guest.enter()
        except Exception:
            pass

    def transition(self, key: Any, start: Any, finish: Any, **kwargs: Any) -> None:
        if finish == "error" and self._worker is not None:
            with suppress(Exception):
                # Before the worker reports the error to the scheduler.
                worker = self._worker
                task = getattr(worker, "state", worker).tasks[key]
                excerpt = self._excerpts.read_new(text_of(task.traceback_text))
                if excerpt is not None:
                    worker.log_event(TOPIC, make_sendable({EXCERPT: excerpt}))

    def teardown(self, worker: Any) -> None:
        self._worker = None
        try:
            if worker.metrics.get(METRIC) is self._metric:
                message = self._final_metrics(worker)
                if message:
                    # It stays among the metrics: another heartbeat may take the values sent here.
                    worker.log_event(TOPIC, message)
                else:
                    del worker.metrics[METRIC]
                    del worker.handlers[METRICS_OPERATION]
        except Exception:
            pass
        try:
            if self._guest is not None:
                self._guest.leave()
        except Exception:
            pass

    def _final_metrics(self, worker: Any) -> Dict[str, Any]:
        """Returns the unsent measurements of a worker that ends; empty for any other worker."""
        try:
            if getattr(getattr(worker, "status", None), "name", None) in CLOSING:
                # Only newer schedulers add the address to events.
                message = {KEY: self._metric.unsent.describe(worker), "worker": worker.address}
                return dict(make_sendable(message))
        except Exception:
            pass
        return {}


class NannySide(NannyPlugin):
    """The nanny plugin. Nannies report how their workers end."""

    restart = False

    def __init__(self, settings: Mapping[str, Any]):
        self.name = settings["name"]
        self._settings = dict(settings)
        self._guest: Optional[Guest] = None

    def __reduce__(self) -> Tuple[Any, ...]:
        return reduce_to_source("worker_side", "NannySide", make_sendable(self._settings))

    def setup(self, nanny: Any) -> None:
        with suppress(Exception):
            remove_tokens_from_nanny(nanny, [self._settings.get("owner")])
        _remove_tokens(self._settings, False)
        try:
            if self._settings["logs"] and not is_with_scheduler(self._settings["scheduler_id"]):
                self._guest = Guest(nanny, "nanny")
                self._guest.enter()
        except Exception:
            pass

    def teardown(self, nanny: Any) -> Any:
        try:
            if self._guest is not None:
                self._guest.leave()
                # Dask awaits the result.
                return self._guest.flush() if self._guest.has_queued() else None
        except Exception:
            pass
        return None
