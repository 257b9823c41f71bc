"""Galvo's scheduler plugin: tells a Galvo server what a Dask scheduler is doing.

This one file is all that runs on a scheduler. It reaches it in three ways: pickled by
``galvo.register()``, executed from the text that a Galvo server offers (also by
``dask scheduler --preload <address>``), or imported as a preload module. It therefore uses nothing
but what Dask always brings along, and makes no assumption about the module it finds itself in.

Read it from the end: ``CoiledTelemetry`` receives Dask's hooks and keeps a ``Ledger`` of what has
happened; a ``Courier`` takes reports from the ledger to the server, and says which of them arrived.
"""

import asyncio
import gzip
import json
import logging
import math
import operator
import os
import pickle
import random
import re
import sys
import uuid
from collections import deque
from email.utils import parsedate_to_datetime
from enum import Enum
from inspect import signature
from itertools import islice
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit

import dask.config
from dask.utils import parse_timedelta
from distributed import Client
from distributed.comm import get_address_host
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time
from distributed.utils import format_dashboard_link
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.ioloop import PeriodicCallback

VERSION = "0.1.0"

# Dask shows messages of loggers below "distributed" without any configuration.
logger = logging.getLogger("distributed.galvo")

# ------------------------------------------------------------------------------------ settings

PRELOAD_PATH = "/api/v2/analytics/preload"
# The value that the coiled package puts into the configuration. It is not a Galvo server, and a
# token for one must not be sent there.
COILED_DEFAULT_SERVER = "https://cloud.coiled.io"
SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.5, 600.0  # seconds


def read_settings(
    server: Optional[str] = None, token: Optional[str] = None, account: Optional[str] = None
) -> Dict[str, Any]:
    """What Dask's configuration says about reporting, as plain values that travel in a pickle.

    Arguments win over ``galvo.*``, which wins over what the ``coiled`` package would use.
    """
    server = server or _configured("galvo.server") or _server_of_module(__name__)
    if server is None:
        server = _configured("coiled.server")
        if server is not None and normalise_server(server) == COILED_DEFAULT_SERVER:
            server = None
    token = token or _configured("galvo.token", "coiled.token")
    account = account or _configured("galvo.account", "coiled.workspace", "coiled.account")
    interval = _configured("galvo.computation.interval", "coiled.analytics.computation.interval")
    disabled = _configured("galvo.disabled", "coiled.analytics.disabled")
    return {
        "server": None if server is None else normalise_server(server),
        "token": None if token is None else str(token).strip(),
        "account": None if account is None else str(account),
        "interval_seconds": _interval_seconds(interval),
        "disabled": str(disabled).strip().lower() in ("true", "1", "yes", "on"),
    }


def normalise_server(text: Any) -> str:
    """The address reports are sent below: with a scheme, without a slash at the end."""
    text = str(text).strip()
    if "://" not in text:
        text = "http://" + text
    return text.partition("?")[0].partition("#")[0].rstrip("/")


def what_is_missing(settings: Mapping[str, Any]) -> Optional[str]:
    """Why these settings do not allow to report anything, as a sentence; None when they do."""
    server, token = settings["server"], settings["token"]
    if not server:
        return "no server is configured: set galvo.server (DASK_GALVO__SERVER) to its address"
    try:
        address = urlsplit(server)
        usable = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in server:
        return "galvo.server is not an http or https address, free of user names and passwords"
    if not token:
        return "no token is configured: set galvo.token (DASK_GALVO__TOKEN)"
    # Anything else cannot stand in an HTTP header, and the complaint would show the token.
    if not re.match(r"[!-~]+\Z", token):
        return "galvo.token contains spaces or characters that a token never has"
    return None


def _configured(*names: str) -> Any:
    values = (dask.config.get(name, None) for name in names)
    return next((value for value in values if value is not None and value != ""), None)


def _server_of_module(name: str) -> Optional[str]:
    """The server this very text came from, when the module is named after its address."""
    if not re.match(r"https?://", name):
        return None
    # Slashes are doubled when the configured address ends in one.
    found = re.match(r"(.+?)/*" + PRELOAD_PATH + r"/*(?:[?#].*)?\Z", name)
    return found.group(1) if found else None


def _interval_seconds(text: Any) -> float:
    try:
        return clamp_interval(parse_timedelta("15s" if text is None else text, default="s"))
    except Exception:
        logger.warning("Galvo does not understand the interval %r and takes 15 seconds", text)
        return 15.0


def clamp_interval(seconds: float) -> float:
    if not math.isfinite(seconds):
        raise ValueError("an interval must be finite")
    return min(max(float(seconds), SHORTEST_INTERVAL), LONGEST_INTERVAL)


# ---------------------------------------------------------------------------- values of a report

NAME_LENGTH, TYPE_LENGTH, ADDRESS_LENGTH = 4096, 256, 2048
MESSAGE_LENGTH, TRACEBACK_LENGTH = 20_000, 100_000
TRUNCATED = "… [truncated]"
STATES = frozenset(
    ["released", "waiting", "no-worker", "queued", "processing", "memory", "erred", "forgotten"]
)
UNFINISHED = ("processing", "waiting", "queued", "no-worker")


def cut(value: Any, length: int) -> str:
    """``value`` as text of at most ``length`` characters; it can be seen where some are gone."""
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= length else text[: length - len(TRUNCATED)] + TRUNCATED


def count(value: Any) -> int:
    return min(max(int(value), 0), 2**53 - 1)


def duration(value: float) -> float:
    """Seconds that may be added up. Clocks that were set back give negative ones."""
    return value if 0.0 <= value < math.inf else 0.0


def moment(value: Optional[float]) -> Optional[float]:
    """Unix seconds, or None instead of Dask's markers for "not yet"."""
    return value if value is not None and 0.0 < value <= 253402300799.0 else None


def uuid7() -> str:
    """An id that sorts by the time it was made at."""
    value = int(time() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62))


def clean(value: Any) -> Any:
    """The same value with nothing in it that strict JSON readers or databases refuse."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def encode(report: Dict[str, Any]) -> Tuple[bytes, Dict[str, str]]:
    """A report as the body and the headers of a request. This runs outside of the event loop."""
    text = json.dumps(clean(report), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    body, headers = text.encode("utf-8"), {"Content-Type": "application/json"}
    if len(body) > 1024:
        body = gzip.compress(body, compresslevel=6)
        headers["Content-Encoding"] = "gzip"
    return body, headers


def describe_error(kwargs: Mapping[str, Any]) -> Dict[str, Any]:
    """What a transition to "erred" tells about the exception."""
    kind, message = None, str(kwargs.get("exception_text") or "")
    exception = kwargs.get("exception")
    if not message and isinstance(exception, bytes):
        # The scheduler's own verdicts, such as KilledWorker, come without text. The bytes were
        # written by this process; what workers send is of another type and is never opened.
        try:
            opened = pickle.loads(exception)
            kind, message = type(opened).__name__, str(opened)
        except Exception:
            message = "an exception of the scheduler that could not be read"
    elif message:
        found = re.match(r"([^\W\d][\w.]*)\(", message)
        kind = found.group(1).rpartition(".")[2] if found else None
    worker = kwargs.get("worker")
    return {
        "type": None if kind is None else cut(kind, TYPE_LENGTH),
        "message": cut(message, MESSAGE_LENGTH),
        "traceback": cut(kwargs.get("traceback_text") or "", TRACEBACK_LENGTH),
        "worker": None if worker is None else cut(worker, ADDRESS_LENGTH),
    }


# ---------------------------------------------------------------------------------- the ledger

# Items per report, and the most that a server accepts in one.
USUAL_LIMITS = {"computations": 500, "task_groups": 1000, "errors": 100}
LARGEST_LIMITS = {"computations": 1000, "task_groups": 5000, "errors": 500}
# What may wait for a server that does not answer.
MOST_UNSENT = {"computations": 2_000, "task_groups": 10_000, "errors": 1_000}
MOST_UNSENT_CHARACTERS = 16_000_000
GROUPS_PER_COMPUTATION, DEPENDENCIES_PER_GROUP, TYPES_PER_GROUP = 5000, 1000, 100
# Groups looked at per report although no hook mentioned them: data scattered by a client and
# sizes that a worker corrects change a group without a transition.
SWEPT_GROUPS = 1000


class Record:
    """Something that becomes an item of reports. Its body is replaced, and never changed."""

    __slots__ = ("body", "characters", "given_up", "id", "settled")

    def __init__(self, id: str, body: Optional[Dict[str, Any]] = None, settled: bool = False):
        self.id = id
        self.body = body
        self.settled = settled  # whether it can change no more
        self.given_up = False  # whether it is not to be sent again
        self.characters = 0


class GroupRecord(Record):
    """One TaskGroup object. Names recur, objects do not, so each object has an id of its own."""

    __slots__ = (
        "blamed", "computation", "counted", "dependencies", "dependencies_seen", "erred",
        "first_seen_at", "group", "name", "prefix", "stop", "succeeded",
    )  # fmt: skip

    def __init__(self, group: Any, now: float):
        super().__init__(uuid7())
        self.group: Any = group  # None once Dask has forgotten all of its tasks
        self.stop = 0.0
        self.name = cut(group.name, NAME_LENGTH)
        self.prefix = cut(group.prefix.name, NAME_LENGTH)
        self.first_seen_at = now
        self.computation: Optional["ComputationRecord"] = None  # the latest one using the group
        self.dependencies: Dict[str, None] = {}
        self.dependencies_seen = 0
        self.succeeded = group.states.get("memory", 0)
        self.erred = 0
        self.blamed = 0
        self.counted = (0, 0, 0, 0.0, 0.0, 0)  # its part in the ledger's totals

    def is_running(self) -> bool:
        return self.group is not None and any(map(self.group.states.get, UNFINISHED))

    def stopped_at(self) -> float:
        return self.stop if self.group is None else self.group.stop

    def describe(self) -> Dict[str, Any]:
        group = self.group
        # Scattered data is in memory without ever having moved there.
        self.succeeded = max(self.succeeded, group.states.get("memory", 0))
        return {
            "id": self.id,
            "name": self.name,
            "prefix": self.prefix,
            "first_seen_at": self.first_seen_at,
            "started_at": moment(group.start),
            "stopped_at": moment(group.stop),
            "states": {s: count(n) for s, n in group.states.items() if n and s in STATES},
            "tasks": count(len(group)),
            "tasks_succeeded": self.succeeded,
            "tasks_erred": self.erred,
            "tasks_blamed": self.blamed,
            "durations": {
                cut(action, TYPE_LENGTH): duration(seconds)
                for action, seconds in islice(group.all_durations.items(), 100)
            },
            "bytes": count(group.nbytes_total),
            "types": sorted(cut(t, 512) for t in islice(group.types, TYPES_PER_GROUP)),
            "dependencies": list(self.dependencies),
        }


class ComputationRecord(Record):
    """One of Dask's Computations. It is over once it is done and Dask has begun another one."""

    __slots__ = ("erred", "group_ids", "groups", "is_latest", "started_at", "stop")

    def __init__(self, computation: Any):
        super().__init__(str(computation.id))
        self.started_at = computation.start
        self.groups: Dict[GroupRecord, None] = {}  # those that may still change
        # Links only grow on the server, so of very many groups the latest are the ones to send.
        self.group_ids: "deque[str]" = deque(maxlen=GROUPS_PER_COMPUTATION)
        self.stop = 0.0
        self.erred = False
        self.is_latest = True

    def link(self, record: GroupRecord) -> None:
        record.computation = self
        if record not in self.groups:
            self.groups[record] = None
            self.group_ids.append(record.id)

    def describe(self, now: float, closed_at: Optional[float]) -> Dict[str, Any]:
        for record in list(self.groups):
            self.stop = max(self.stop, record.stopped_at())
            if record.group is None:
                del self.groups[record]
        if any(record.is_running() for record in self.groups):
            state, stopped_at = "running" if closed_at is None else "cancelled", closed_at
        else:
            state = "erred" if self.erred else "finished"
            # Where no task was computed, the time that was noticed has to do, and is kept.
            noticed_at = (self.body or {}).get("stopped_at") or now
            stopped_at = max(self.stop or noticed_at, self.started_at)
        return {
            "id": self.id,
            "started_at": self.started_at,
            "stopped_at": stopped_at,
            "state": state,
            "task_group_ids": list(self.group_ids),
        }


class Outbox:
    """Records of one kind that the server does not know as they are, oldest first."""

    def __init__(self, most: int):
        self.most = most
        self.records: Dict[Record, None] = {}
        self.characters = 0
        self.dropped = 0

    def add(self, record: Record) -> None:
        if not record.given_up and record not in self.records:
            self.records[record] = None
            self.characters += record.characters

    def take(self, limit: int) -> List[Tuple[Record, Any]]:
        taken = list(islice(self.records, limit))
        for record in taken:
            self._remove(record)
        return [(record, record.body) for record in taken]

    def give_back(self, taken: Iterable[Tuple[Record, Any]]) -> None:
        later, self.records, self.characters = self.records, {}, 0
        for record in [*(record for record, _ in taken), *later]:
            self.add(record)
        self.enforce_bounds()

    def give_up(self, records: Iterable[Record]) -> None:
        for record in records:
            record.given_up = True
            self.dropped += 1
            if record in self.records:
                self._remove(record)

    def enforce_bounds(self) -> None:
        """Drops the oldest that can change no more. Dask itself remembers all the others."""
        for record in list(self.records):
            if len(self.records) <= self.most and self.characters <= MOST_UNSENT_CHARACTERS:
                return
            if record.settled:
                self.give_up([record])

    def _remove(self, record: Record) -> None:
        del self.records[record]
        self.characters -= record.characters


class Report:
    """What was taken out of the ledger to be sent, until it is known whether it arrived."""

    def __init__(self, sequence: int, base: Optional[int], more: bool):
        self.sequence = sequence
        self.base = base
        self.more = more  # whether the limits leave something out
        self.items: Dict[str, List[Tuple[Record, Any]]] = {}


class Ledger:
    """What has happened on a scheduler, and which of it the server does not know yet.

    Values are cumulative, so no report is queued: whatever differs from what the server is known
    to have goes, with its newest values, into the next one. There is one report under way at a
    time: ``build`` takes it out, and ``acknowledge``, ``give_back`` or ``give_up`` settles it.
    """

    def __init__(self, sequence: int, now: Callable[[], float] = time):
        self.now = now
        self.sequence = sequence
        self.base: Optional[int] = None
        self.groups: Dict[Any, GroupRecord] = {}  # by TaskGroup object
        self.computations: Dict[str, ComputationRecord] = {}  # those that may still change
        self.touched: Dict[GroupRecord, None] = {}  # to be read before the next report
        self.outboxes = {kind: Outbox(most) for kind, most in MOST_UNSENT.items()}
        self._totals = (0, 0, 0, 0.0, 0.0, 0)
        self._error_count = 0
        self._groups_when_read = 0
        self._round: Iterator[GroupRecord] = iter(())

    # What the hooks record. Reading a group's values waits until a report needs them.

    def group(self, group: Any) -> GroupRecord:
        """The record of a TaskGroup, which is begun with the states it has now."""
        record = self.groups.get(group)
        if record is None:
            record = self.groups[group] = GroupRecord(group, self.now())
            self.touched[record] = None
        return record

    def graph(self, computation: Any, groups: Iterable[Any]) -> ComputationRecord:
        """Tasks of these TaskGroups have been added to this Computation."""
        known = self.computations.get(str(computation.id))
        if known is None:
            # Dask begins another one when all tasks are done, and none of the new ones has
            # moved yet: this is when the end of the one before can be seen.
            for earlier in list(self.computations.values()):
                earlier.is_latest = False
                self._read_computation(earlier)
            self.outboxes["computations"].enforce_bounds()
            known = ComputationRecord(computation)
            self.computations[known.id] = known
        records = [self.group(group) for group in groups]
        for record in records:
            known.link(record)
            self.touched[record] = None
        return known

    def adopt(self, scheduler: Any) -> None:
        """Records what there is already. Of tasks released before now no outcome is known."""
        for computation in list(scheduler.computations):
            known = self.graph(computation, computation.groups)
            known.erred = any(group.states.get("erred") for group in computation.groups)
        groups = [self.group(group) for group in scheduler.task_groups.values()]
        if any(record.group.states.get("erred") for record in groups):
            times = {task.key: task.timestamp for task in getattr(scheduler, "erred_tasks", ())}
            for ts in scheduler.tasks.values():
                if ts.state == "erred":
                    self._adopt_error(ts, times.get(ts.key))

    def _adopt_error(self, ts: Any, at: Optional[float]) -> None:
        """A task that is still "erred", as its transition would have told it."""
        kwargs = {}
        if ts.exception_blame in (None, ts):
            names = ("exception", "exception_text", "traceback_text")
            kwargs = {name: getattr(ts, name, None) for name in names}
            kwargs.update(cause=ts.key, worker=next(iter(getattr(ts, "erred_on", ())), None))
        record = self.group(ts.group)
        # Dask keeps the time of the latest ones; of others, when the group was last computing.
        self.error(record, ts.key, kwargs, at or record.group.stop or self.now())

    def error(
        self, record: GroupRecord, key: Any, kwargs: Mapping[str, Any], at: Optional[float] = None
    ) -> None:
        """A task of this group went to "erred", by its own fault or by that of a dependency."""
        now, computation = self.now() if at is None else at, record.computation
        if computation is not None:
            computation.erred = True
            computation.stop = max(computation.stop, now)
        if kwargs.get("cause") is None and not kwargs.get("exception_text"):
            record.blamed += 1
            return
        record.erred += 1
        self._error_count += 1
        body = {
            "id": uuid7(),
            "at": now,
            "key": cut(key, NAME_LENGTH),
            "task_group_id": record.id,
            "computation_id": None if computation is None else computation.id,
            **describe_error(kwargs),
        }
        error = Record(body["id"], body, settled=True)
        error.characters = len(body["message"]) + len(body["traceback"]) + len(body["key"])
        self.outboxes["errors"].add(error)
        self.outboxes["errors"].enforce_bounds()

    def crowded(self) -> bool:
        """Whether so many groups are new that they should be read without waiting for a report."""
        return len(self.groups) - self._groups_when_read > 1000

    # What reports are made of.

    def read(self, live: Mapping[str, Any], closed_at: Optional[float] = None) -> None:
        """Reads what may have changed. ``live`` are the scheduler's task groups by name."""
        for group in live.values():
            if group not in self.groups:
                self.group(group)
        touched, self.touched = self.touched, {}
        swept = list(islice(self._round, SWEPT_GROUPS))
        if len(swept) < SWEPT_GROUPS:
            self._round = iter(list(self.groups.values()))
            swept += islice(self._round, SWEPT_GROUPS - len(swept))
        touched.update((record, None) for record in swept if not record.settled)
        # Groups may leave below, so all dependencies are looked up first.
        for record in touched:
            self._link_dependencies(record)
        for record in touched:
            body = record.describe()
            if body != record.body:
                record.body = body
                self._add_to_totals(record, body)
                self.outboxes["task_groups"].add(record)
            if live.get(record.group.name) is not record.group:
                del self.groups[record.group]
                record.stop, record.group, record.settled = record.group.stop, None, True
        self._groups_when_read = len(self.groups)
        for computation in list(self.computations.values()):
            self._read_computation(computation, closed_at)
        for outbox in self.outboxes.values():
            outbox.enforce_bounds()

    def exceeds(self, limits: Mapping[str, int]) -> bool:
        return any(len(box.records) > limits[kind] for kind, box in self.outboxes.items())

    def build(self, limits: Mapping[str, int]) -> Report:
        """Takes the oldest of what is unsent out, as the report to send now."""
        self.sequence += 1
        report = Report(self.sequence, self.base, more=self.exceeds(limits))
        for kind, outbox in self.outboxes.items():
            report.items[kind] = outbox.take(limits[kind])
        return report

    def acknowledge(self, report: Report, acknowledged: int) -> None:
        """The server has said up to which sequence it knows; normally that is the report's own.

        Nothing needs to be kept of what arrived: a record that changed since is unsent already.
        """
        if acknowledged != report.sequence:
            # The server keeps the newest, so what it numbers as old has changed nothing there.
            self.sequence = max(self.sequence, acknowledged)
            self.give_back(report)
        self.base = acknowledged

    def give_back(self, report: Report) -> None:
        """The report is not known to have arrived: its items are the oldest unsent ones again."""
        for kind, taken in report.items.items():
            self.outboxes[kind].give_back(taken)

    def give_up(self, report: Report, pointer: Any = None) -> bool:
        """The server refuses the report because of the item at this JSON pointer.

        That item is dropped and the rest given back; without a usable pointer all are dropped.
        Returns whether the pointer was usable.
        """
        found = re.match(r"/(\w+)/(\d+)(?:/|\Z)", pointer if isinstance(pointer, str) else "")
        refused = report.items
        if found:
            kind, index = found.group(1), int(found.group(2))
            refused = {kind: report.items.get(kind, [])[index : index + 1]}
        usable = bool(found and refused[kind])
        for kind, taken in (refused if usable else report.items).items():
            self.outboxes[kind].give_up(record for record, _ in taken)
        self.give_back(report)
        return usable

    def resend(self) -> None:
        """The server has lost what it once acknowledged: all that is still known is unsent."""
        # The next reports stand on nothing, which ends the server's wish once one of them arrives.
        self.base = None
        for kind, records in (("task_groups", self.groups), ("computations", self.computations)):
            for record in records.values():
                if record.body is not None:
                    self.outboxes[kind].add(record)

    def totals(self) -> Dict[str, Any]:
        """Sums over all groups ever seen, as they were when they were last read."""
        tasks, succeeded, erred, compute, transfer, nbytes = self._totals
        return {
            "tasks": count(tasks),
            "tasks_succeeded": count(succeeded),
            "tasks_erred": count(erred),
            "errors": count(self._error_count),
            "compute_seconds": compute,
            "transfer_seconds": transfer,
            "bytes": count(nbytes),
        }

    def _link_dependencies(self, record: GroupRecord) -> None:
        dependencies = record.group.dependencies
        if len(dependencies) != record.dependencies_seen:
            record.dependencies_seen = len(dependencies)
            for dependency in dependencies:
                known = self.groups.get(dependency)
                if known is None or known is record:
                    continue
                if len(record.dependencies) < DEPENDENCIES_PER_GROUP:
                    record.dependencies[known.id] = None

    def _add_to_totals(self, record: GroupRecord, body: Mapping[str, Any]) -> None:
        # Only what a group has more than ever before is added, so that totals never fall.
        durations = body["durations"]
        values = (
            body["tasks"], body["tasks_succeeded"], body["tasks_erred"],
            durations.get("compute", 0.0), durations.get("transfer", 0.0), body["bytes"],
        )  # fmt: skip
        highest: Any = tuple(map(max, values, record.counted))
        added = map(operator.sub, highest, record.counted)
        self._totals, record.counted = tuple(map(operator.add, self._totals, added)), highest

    def _read_computation(
        self, computation: ComputationRecord, closed_at: Optional[float] = None
    ) -> None:
        body = computation.describe(self.now(), closed_at)
        if body != computation.body:
            computation.body = body
            self.outboxes["computations"].add(computation)
        if not computation.is_latest and body["state"] != "running":
            del self.computations[computation.id]
            computation.settled = True
            computation.groups.clear()


# -------------------------------------------------------------------------------- the courier

CONNECT_SECONDS, REQUEST_SECONDS, FINAL_SECONDS = 2.0, 5.0, 2.0
LONGEST_PAUSE = REFUSED_PAUSE = 60.0


class Outcome(Enum):
    """What became of a report."""

    ACCEPTED = "accepted"
    MORE = "accepted, and the limits left something for another one"
    AGAIN = "refused, and what was refused has been taken out or split"
    FAILED = "not accepted"


class Courier:
    """Takes reports to the server, one at a time, and tells the ledger what became of them.

    ``describe_cluster`` returns the "cluster" part of a report, given when and why it is closed.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        ledger: Ledger,
        scheduler: Any,
        describe_cluster: Callable[..., Dict[str, Any]],
    ):
        self._settings = settings
        self._ledger = ledger
        self._scheduler = scheduler
        self._describe_cluster = describe_cluster
        self._http = AsyncHTTPClient(force_instance=True)
        self._share = 1.0  # of the limits; halved when the server finds a report too large
        self._failures = 0
        self._problem: Optional[str] = None  # the one logged last
        self.pause = 0.0  # seconds until the next delivery
        self.stop_requested = False

    async def deliver(self) -> None:
        """Sends what is unsent, and the state of the cluster in any case."""
        outcome = Outcome.MORE
        while outcome is Outcome.MORE:
            self._ledger.read(self._scheduler.task_groups)
            report = self._ledger.build(self._limits(USUAL_LIMITS))
            outcome = await self._send(report, REQUEST_SECONDS)

    async def deliver_final(self, reason: Optional[str]) -> None:
        """Sends what is unsent and that the scheduler closes, within ``FINAL_SECONDS``."""
        clock = asyncio.get_running_loop().time
        closed_at, deadline = time(), clock() + FINAL_SECONDS
        while clock() < deadline:
            self._ledger.read(self._scheduler.task_groups, closed_at)
            limits, remaining = self._limits(LARGEST_LIMITS), deadline - clock()
            # The last message must not be lost for the sake of those before it.
            final = remaining < FINAL_SECONDS / 2 or not self._ledger.exceeds(limits)
            closing = {"closed_at": closed_at, "close_reason": reason} if final else {}
            outcome = await self._send(self._ledger.build(limits), remaining, **closing)
            if outcome is Outcome.FAILED or (final and outcome is not Outcome.AGAIN):
                return

    def close(self) -> None:
        self._http.close()

    def _limits(self, limits: Mapping[str, int]) -> Dict[str, int]:
        return {kind: max(1, int(limit * self._share)) for kind, limit in limits.items()}

    async def _send(self, report: Report, timeout: float, **closing: Any) -> Outcome:
        settled = False
        try:
            message = self._message(report, closing)
            loop = asyncio.get_running_loop()
            body, headers = await loop.run_in_executor(None, encode, message)
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
            **{kind: [body for _, body in taken] for kind, taken in report.items.items()},
            "dropped": {kind: box.dropped for kind, box in self._ledger.outboxes.items()},
        }

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
                self.pause = wanted + random.uniform(0.0, max(1.0, wanted / 4))
        return outcome

    def _accept(self, report: Report, acknowledged: int, answer: Mapping[str, Any]) -> Outcome:
        if self._problem is not None:
            logger.info("The Galvo server at %s accepts reports again", self._settings["server"])
        self._failures, self._problem = 0, None
        self._ledger.acknowledge(report, acknowledged)
        if not report.more:
            self._share = min(1.0, self._share * 2)
        try:
            self.pause = clamp_interval(answer["interval_seconds"])
        except (KeyError, TypeError, ValueError):
            self.pause = self._settings["interval_seconds"]
        if answer.get("desired_state") == "stopped":
            self.stop_requested = True
        if answer.get("resend") is True:
            self._ledger.resend()
            return Outcome.ACCEPTED
        more = report.more and acknowledged == report.sequence
        return Outcome.MORE if more else Outcome.ACCEPTED

    def _shrink(self, report: Report) -> None:
        """Halves the number of items per report; a single one that is too large is dropped."""
        sizes = {kind: len(taken) for kind, taken in report.items.items()}
        if max(sizes.values()) > 1:
            filled = max(size / USUAL_LIMITS[kind] for kind, size in sizes.items())
            self._share = min(self._share, filled) / 2
            self._ledger.give_back(report)
        else:
            self._ledger.give_up(report)

    def _fail(self, problem: str) -> Outcome:
        self._complain(problem)
        self._failures += 1
        self.pause = min(LONGEST_PAUSE, 2.0 ** min(self._failures, 6)) * random.uniform(0.5, 1.0)
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


# ---------------------------------------------------------------------------------- the plugin

TICK_MILLISECONDS = 250
STOP_REASON = "requested through Galvo"
# Evaluated where the pickle is opened. It needs nothing there but the text of this file, whereas
# a pickled class carries bytecode, which crashes a scheduler with another version of Python.
REBUILD = (
    "(lambda module: (exec(compile(SOURCE, NAME, 'exec', 0, True), module),"
    " module['CoiledTelemetry'](SETTINGS))[1])({'__name__': NAME, 'SOURCE': SOURCE})"
)


class Workforce:
    """How many workers and threads a scheduler has had."""

    def __init__(self, scheduler: Any):
        self._scheduler = scheduler
        self.seen = self.peak_workers = len(scheduler.workers)
        self.peak_threads = 0
        self.thread_seconds = 0.0
        self._since, self._threads = time(), 0
        for at, threads in getattr(scheduler, "total_nthreads_history", ()):
            self._since = min(self._since, at)
            self._advance(at, threads)
        self.update()

    def update(self, arrived: int = 0) -> None:
        """Counts up to this moment; to be called whenever a worker has come or gone."""
        workers = self._scheduler.workers
        self.seen += arrived
        self.peak_workers = max(self.peak_workers, len(workers))
        self._advance(time(), sum(ws.nthreads for ws in workers.values()))

    def _advance(self, at: float, threads: int) -> None:
        self.thread_seconds += max(at - self._since, 0.0) * self._threads
        self._since, self._threads = max(at, self._since), threads
        self.peak_threads = max(self.peak_threads, threads)


class CoiledTelemetry(SchedulerPlugin):
    """Reports a scheduler's computations, task groups and errors to a Galvo server.

    Without arguments it is configured by Dask's configuration in the process that makes it, see
    ``read_settings``. Pickled copies keep those settings.
    """

    name = "galvo"
    idempotent = True

    def __init__(self, settings: Optional[Mapping[str, Any]] = None):
        self._settings = dict(read_settings() if settings is None else settings)
        self._scheduler: Any = None
        self._ledger: Optional[Ledger] = None  # while there is something to report to
        self._courier: Any = None
        self._workforce: Any = None
        self._timer: Any = None
        self._delivery: Optional["asyncio.Future[None]"] = None
        self._stopping: Optional["asyncio.Future[None]"] = None
        self._due = 0.0  # on the event loop's clock
        self._cluster_name: Optional[str] = None
        self._mishaps = 0
        _repair_coiled_register()

    def __repr__(self) -> str:
        # Neither the token nor what else may stand in an address is shown.
        return "<CoiledTelemetry of Galvo %s>" % VERSION

    def __reduce__(self) -> Tuple[Any, ...]:
        scope = {"SOURCE": own_source(), "NAME": __name__, "SETTINGS": dict(self._settings)}
        return eval, (REBUILD, scope)

    # Dask's hooks. Whatever goes wrong in one of them must not reach the scheduler.

    async def start(self, scheduler: Any) -> None:
        # Dask starts plugins that a preload module has added, and started, once more.
        if self._scheduler is not None:
            return
        self._scheduler = scheduler
        try:
            self._start()
        except Exception:
            self._ledger = None
            logger.warning("Galvo reports nothing: it could not start", exc_info=True)

    async def before_close(self) -> None:
        await self._finish()

    async def close(self) -> None:
        await self._finish()

    def update_graph(self, scheduler: Any, *args: Any, **kwargs: Any) -> None:
        if self._ledger is None:
            return
        try:
            tasks = map(scheduler.tasks.get, kwargs.get("tasks", ()))
            # What is there already, result or error, takes no part in what is to be computed.
            over = ("memory", "erred")
            groups = {ts.group: None for ts in tasks if ts is not None and ts.state not in over}
            self._ledger.graph(scheduler.computations[-1], groups)
        except Exception:
            self._mishap()

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        # Called several times per task: it only counts, and marks the group to be read later.
        ledger = self._ledger
        if ledger is None:
            return
        try:
            group = self._scheduler.tasks[key].group
            record = ledger.groups.get(group)
            if record is None:
                record = ledger.group(group)  # its states include this transition
                record.succeeded += start == "memory"
            elif finish == "memory":
                record.succeeded += 1
            if finish == "erred":
                ledger.error(record, key, kwargs)
            ledger.touched[record] = None
        except Exception:
            self._mishap()

    def add_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        if self._workforce is not None:
            self._workforce.update(arrived=1)

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        if self._workforce is not None:
            self._workforce.update()

    # Behind the hooks.

    def _start(self) -> None:
        if self._settings["disabled"]:
            logger.info("Galvo is disabled and reports nothing")
            return
        problem = what_is_missing(self._settings)
        if problem is not None:
            logger.warning("Galvo reports nothing: %s", problem)
            return
        ledger = Ledger(sequence=int(time() * 1000))
        ledger.adopt(self._scheduler)
        self._workforce = Workforce(self._scheduler)
        self._courier = Courier(self._settings, ledger, self._scheduler, self._describe_cluster)
        self._ledger = ledger
        self._timer = PeriodicCallback(self._tick, TICK_MILLISECONDS)
        self._timer.start()
        logger.info("Galvo reports to %s", self._settings["server"])

    def _tick(self) -> None:
        # Dask tells nothing to a plugin that was removed or replaced.
        if not any(plugin is self for plugin in self._scheduler.plugins.values()):
            self._leave()
            return
        if self._courier.stop_requested and self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop_scheduler())
        if self._ledger is not None and self._ledger.crowded():
            self._ledger.read(self._scheduler.task_groups)
        loop = asyncio.get_running_loop()
        if self._delivery is None and loop.time() >= self._due:
            self._delivery = asyncio.ensure_future(self._courier.deliver())
            self._delivery.add_done_callback(self._delivered)

    def _delivered(self, delivery: "asyncio.Future[None]") -> None:
        self._delivery = None
        if not delivery.cancelled() and delivery.exception() is not None:
            logger.warning("Galvo could not make a report", exc_info=delivery.exception())
            self._courier.pause = LONGEST_PAUSE
        self._due = delivery.get_loop().time() + self._courier.pause

    async def _stop_scheduler(self) -> None:
        logger.info("Closing the scheduler, as requested through Galvo")
        close = self._scheduler.close
        reason = {"reason": STOP_REASON} if "reason" in signature(close).parameters else {}
        try:
            await close(**reason)
        except Exception:
            logger.warning("Galvo could not close the scheduler", exc_info=True)

    async def _finish(self) -> None:
        """Sends the final message, at the first of Dask's two closing hooks."""
        if self._timer is None:
            return
        self._timer.stop()
        self._timer = None
        try:
            if self._delivery is not None:
                self._delivery.cancel()
                await asyncio.wait([self._delivery], timeout=0.1)
            final = self._courier.deliver_final(self._close_reason())
            await asyncio.wait_for(final, FINAL_SECONDS + 0.1)
        except asyncio.TimeoutError:
            pass
        except Exception:
            logger.warning("Galvo could not make the final report", exc_info=True)
        self._leave()

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        if self._delivery is not None:
            self._delivery.cancel()
        self._timer = self._ledger = self._workforce = None
        self._courier.close()

    def _describe_cluster(
        self, closed_at: Optional[float] = None, close_reason: Optional[str] = None
    ) -> Dict[str, Any]:
        scheduler, workforce, ledger = self._scheduler, self._workforce, self._ledger
        workers = list(scheduler.workers.values())
        workforce.update()
        # The name comes with Dask's metadata, which a restart clears.
        name = (scheduler.task_metadata.get("cluster-manager-info") or {}).get("name")
        self._cluster_name = self._cluster_name if name is None else cut(name, NAME_LENGTH)
        limits = [ws.memory_limit or 0 for ws in workers]
        totals = ledger.totals() if ledger is not None else {}
        totals.update(
            thread_seconds=workforce.thread_seconds,
            workers=workforce.seen,
            peak_workers=workforce.peak_workers,
            peak_threads=workforce.peak_threads,
        )
        return {
            "name": self._cluster_name,
            "address": cut(scheduler.address, ADDRESS_LENGTH),
            "dashboard_url": _dashboard_url(scheduler),
            "started_at": scheduler.time_started,
            "closed_at": closed_at,
            "close_reason": close_reason,
            "idle_since": moment(scheduler.idle_since),
            "workers": len(workers),
            "threads": sum(ws.nthreads for ws in workers),
            "memory_limit_bytes": count(sum(limits)) if limits and all(limits) else None,
            "memory_used_bytes": count(sum(ws.metrics.get("memory", 0) for ws in workers)),
            "totals": totals,
        }

    def _close_reason(self) -> Optional[str]:
        if self._stopping is not None:
            return STOP_REASON
        # Dask tells the reason to its log only; newer releases do so before they call plugins.
        try:
            for entry in self._scheduler.get_logs(n=5):
                found = re.search(r"Closing scheduler\. Reason: (.+)", entry[-1])
                if found and found.group(1) != "unknown":
                    return cut(found.group(1), ADDRESS_LENGTH)
        except Exception:
            self._mishap()
        return None

    def _mishap(self) -> None:
        self._mishaps += 1
        if self._mishaps == 1:
            logger.warning("Galvo could not record something; this is said once", exc_info=True)


async def dask_setup(scheduler: Any) -> None:
    """Lets this file, its address or the module be given to ``dask scheduler --preload``."""
    if CoiledTelemetry.name not in scheduler.plugins:
        plugin = CoiledTelemetry()
        scheduler.add_plugin(plugin, name=plugin.name)
        await plugin.start(scheduler)


def own_source() -> str:
    """The text of this file. A server that offers it puts it in front, as ``SOURCE``."""
    if "SOURCE" in globals():
        return globals()["SOURCE"]
    with open(__file__, encoding="utf-8") as file:
        return file.read()


def _dashboard_url(scheduler: Any) -> Optional[str]:
    server = scheduler.services.get("dashboard")
    if server is None:
        return None
    try:
        link = format_dashboard_link(get_address_host(scheduler.address), server.port)
        return cut(link, ADDRESS_LENGTH)
    except KeyError:  # the configured link refers to something the environment does not have
        return None


def _repair_coiled_register() -> None:
    """Lets ``coiled.analytics.register()`` work with releases of Dask newer than itself.

    It passes an argument that ``Client.register_plugin`` no longer takes, just after having made
    this plugin in the same process.
    """
    module = sys.modules.get("coiled.analytics")
    current = getattr(Client, "register_plugin", None)
    if not hasattr(module, "register_plugin") or current is None:
        return
    parameters = signature(current).parameters
    if "idempotent" in parameters or "kwargs" in parameters:
        return

    def register_plugin(client: Any, plugin: Any, **kwargs: Any) -> Any:
        kwargs.pop("idempotent", None)
        return client.register_plugin(plugin, **kwargs)

    module.register_plugin = register_plugin  # type: ignore[union-attr]
