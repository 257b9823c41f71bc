"""Tracks the workers, clients and environments of a cluster, and its threads over time."""

import asyncio
import json
import logging
import re
import sys
import uuid
from collections import Counter, deque
from itertools import chain
from typing import Any, Deque, Dict, Iterable, List, Mapping, Optional, Set

import distributed
from dask.utils import key_split
from distributed.comm import get_address_host
from distributed.versions import get_versions

from .collector import Collector, Context
from .sections import Record
from .values import ADDRESS_LENGTH, NAME_LENGTH, clean, cut, text_of, time_or_none, to_count, uuid7

logger = logging.getLogger("distributed.galvo")

ENVIRONMENT_TEXT_LENGTH, PACKAGES = 256, 500
CLIENT_LENGTH = 256
PROCESSING_KEYS, PROCESSING_FUNCTIONS = 100, 20
# The bound of tasks whose functions are counted: the event loop waits meanwhile.
MOST_COUNTED_TASKS = 10_000
# A worker killed for its memory use looks like one that died, until its nanny's message arrives.
SETTLING_SECONDS = 2.0
# The time for which, and the number of, ended workers that are found by their addresses: messages
# about them may arrive late.
REACHABLE_SECONDS, REACHABLE_WORKERS = 300.0, 5000
# The bounds of the records kept to be sent again to a server that lost its store.
ENDED_WORKERS, ENDED_CLIENTS, THREAD_CHANGES, ENVIRONMENTS = 500, 200, 2000, 200
# Not a client, but the scheduler's placeholder for tasks that no client waits for.
FIRE_AND_FORGET = "fire-and-forget"
# Before this release there is no event when a nanny ends a worker: the nanny only logs it.
NANNIES_SEND_EVENTS = [int(n) for n in re.findall(r"\d+", distributed.__version__)[:2]] >= [2024, 8]
MOST_NANNY_QUERIES = 10  # at the same time
OVER_MEMORY = re.compile(r"Worker (?:(\S+) \(pid=\d+\) )?exceeded \S+ memory budget")


class WorkerRecord(Record):
    """One worker process, from its start to its end. Names and addresses recur."""

    __slots__ = (
        "address",
        "ended_at",
        "environment_id",
        "executable",
        "host",
        "is_close_requested",
        "is_closing",
        "is_over_memory",
        "is_retiring",
        "is_silent",
        "last_memory",
        "last_seen_at",
        "lost_results",
        "memory_limit",
        "name",
        "number",
        "peak_memory",
        "processing_count",
        "processing_functions",
        "processing_keys",
        "started_at",
        "state",
        "threads",
        "was_removed",
    )  # fmt: skip

    def __init__(self, id: str, number: int, state: Any, started_at: float):
        super().__init__(id)
        self.number = number
        self.state = state  # Dask's WorkerState; None once the end is settled
        self.address = state.address
        self.name = cut(state.name, ADDRESS_LENGTH)
        self.host = cut(get_address_host(state.address), ADDRESS_LENGTH)
        self.started_at = started_at
        self.environment_id: Optional[str] = None
        self.executable: Optional[str] = None
        self.threads = state.nthreads
        self.memory_limit = state.memory_limit
        # The facts from messages of the scheduler and the worker.
        self.was_removed = False
        self.is_retiring = False
        self.is_closing = False
        self.is_close_requested = False
        self.is_silent = False
        self.is_over_memory = False
        # Set at its end.
        self.ended_at: Optional[float] = None
        self.processing_keys: List[str] = []
        self.processing_functions: Dict[str, int] = {}
        self.processing_count = self.lost_results = 0
        self.last_memory: Optional[int] = None
        self.peak_memory = 0
        self.last_seen_at: Optional[float] = None

    def note_memory(self) -> None:
        """Records the memory at the last heartbeat, if it is the largest so far."""
        memory = self.state.metrics.get("memory")
        # Users may replace Dask's own metrics by anything.
        if type(memory) is int and memory > self.peak_memory:
            self.peak_memory = memory

    def describe(self, end: Optional[str], with_functions: bool = True) -> Dict[str, Any]:
        functions = self.processing_functions if with_functions and end is not None else None
        peak = max(self.peak_memory, self.last_memory or 0)
        return {
            "id": self.id,
            "number": self.number,
            "name": self.name,
            "address": cut(self.address, ADDRESS_LENGTH),
            "host": self.host,
            "environment_id": self.environment_id,
            "threads": to_count(self.threads),
            "memory_limit_bytes": to_count(self.memory_limit) if self.memory_limit else None,
            "started_at": self.started_at,
            "ended_at": None if end is None else self.ended_at,
            "end": end,
            "processing_keys": self.processing_keys,
            "processing": self.processing_count,
            "processing_functions": functions,
            "lost_results": self.lost_results,
            # Those of a live worker are in its samples.
            "last_memory_bytes": None if end is None else self.last_memory,
            "peak_memory_bytes": None if end is None or not peak else to_count(peak),
            "last_seen_at": None if end is None else self.last_seen_at,
        }


class Workers(Collector):
    """Reports workers and how they ended, clients, environments, and changes in threads."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.environment_id: Optional[str] = None  # of the scheduler, once it is known
        self._scheduler = context.scheduler
        self._live: Dict[str, WorkerRecord] = {}  # by address
        self._ending: Dict[WorkerRecord, Optional[str]] = {}  # with the stimulus of the removal
        self._ended: Deque[WorkerRecord] = deque(maxlen=ENDED_WORKERS)
        self._recently_ended: Deque[WorkerRecord] = deque()
        self._by_address: Dict[str, WorkerRecord] = {}  # the latest one at an address
        self._ids: Dict[str, str] = {}  # of the latest worker at an address
        self._clients: Dict[str, Record] = {}
        self._inherited_clients: Set[str] = set()  # clients connected when the previous plugin left
        self._disconnected_clients: Deque[Record] = deque(maxlen=ENDED_CLIENTS)
        self._environments: Dict[str, Record] = {}  # by their description
        self._versions_future: Any = None  # of the scheduler's versions
        self._threads: Deque[Record] = deque(maxlen=THREAD_CHANGES)
        self._read_history_entries = 0  # the number of entries read from Dask's history
        self._last_thread_change_at = 0.0
        self._receives_events = False  # True if this release reports events to plugins
        self._restarted_at = 0.0
        self._adopted = self._closed = False
        self._queries: Set["asyncio.Future[None]"] = set()
        context.workers = self._ids
        context.environment = self.environment  # type: ignore[method-assign]

    async def start(self) -> None:
        # Older releases import numpy and pandas for this.
        loop = asyncio.get_running_loop()
        self._versions_future = loop.run_in_executor(None, get_versions)
        self._adopt(self.context.now())

    # Hooks.

    def worker_added(self, address: str) -> None:
        now, state = self.context.now(), self._scheduler.workers[address]
        record = self._live.get(address)
        if record is None or record.state is not state:
            self._start_worker(address, state, now)
        self._count_threads(now)

    def worker_removed(self, address: str, stimulus_id: Optional[str] = None) -> None:
        now = self.context.now()
        record = self._live.pop(address, None)
        if record is not None:
            self._handle_loss(record, now, stimulus_id)
            nanny = record.state.nanny
            if (
                nanny
                and not NANNIES_SEND_EVENTS
                and self._kind_of_end(record, stimulus_id) == "lost"
            ):
                self._query_nanny(record, nanny)
        self._count_threads(now)

    def client_added(self, client: str) -> None:
        self._connect(client, self.context.now())

    def client_removed(self, client: str) -> None:
        record = self._clients.pop(client, None)
        if record is not None:
            self._disconnect(record, self.context.now())

    def restarted(self) -> None:
        self._restarted_at = self.context.now()

    def event(self, topic: Any, message: Any, now: float) -> None:
        self._receives_events = True
        record = self._by_address.get(topic)
        if not isinstance(message, dict):
            return
        if record is not None:
            self._handle_message(record, message)
        elif topic == "worker-restart-memory":
            self._mark_over_memory(message.get("worker"), message.get("rss"))
        elif topic == "scheduler":
            if message.get("action") == "worker-ttl-timed-out":
                for address in message.get("workers") or ():
                    if address in self._live:
                        self._live[address].is_silent = True
        elif message.get("source") == "nanny":
            # Nannies without an event for it only log that a worker exceeded its memory.
            match = OVER_MEMORY.search(text_of(message.get("message")))
            if match:
                self._mark_over_memory(match.group(1) or message.get("worker"), None)

    # Reports.

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        if not self._adopted:
            self._adopt(now)
        elif not self._closed:
            self._update_workers(now)
        if closed_at is not None:
            self._closed = True
            for address, record in list(self._live.items()):
                del self._live[address]
                self._store_processing(record, [ts.key for ts in record.state.processing])
                record.is_closing = True
                self._remove(record, closed_at)
            for client in list(self._clients):
                self._disconnect(self._clients.pop(client), closed_at)
        for record, stimulus_id in list(self._ending.items()):
            end = self._kind_of_end(record, stimulus_id)
            is_overdue = now - (record.ended_at or now) >= SETTLING_SECONDS
            if is_overdue and not self._receives_events:
                self._replay_events(record)
                end = self._kind_of_end(record, stimulus_id)
            # "lost" may turn out to be "memory"; without events, any may turn out to be "retired".
            is_certain = end in ("memory", "retired") or (end == "closed" and self._receives_events)
            if is_certain or is_overdue or closed_at is not None:
                del self._ending[record]
                record.state, record.settled = None, True
                self._queue(record, end)
                self._ended.append(record)
        while self._recently_ended and (
            len(self._recently_ended) > REACHABLE_WORKERS
            or now - (self._recently_ended[0].ended_at or 0.0) > REACHABLE_SECONDS
        ):
            self._forget_address(self._recently_ended.popleft())
        if self._versions_future is not None and self._versions_future.done():
            versions, self._versions_future = self._versions_future, None
            self.environment_id = self.environment(versions.result(), sys.executable)
        self._read_threads(now)
        for kind in ("workers", "clients", "environments", "thread_history"):
            self.context.outboxes[kind].enforce_bounds()

    def resend(self) -> None:
        outboxes = self.context.outboxes
        for kind, records in (
            ("environments", self._environments.values()),
            ("workers", chain(self._ended, self._ending, self._live.values())),
            ("clients", chain(self._disconnected_clients, self._clients.values())),
            ("thread_history", self._threads),
        ):
            for record in records:
                outboxes[kind].add(record)

    def records(self) -> Iterable[Record]:
        return chain(
            self._live.values(), self._clients.values(), self._environments.values(), self._threads
        )

    def export_state(self) -> Dict[str, Any]:
        # The successor cannot observe how these workers ended.
        for record, stimulus_id in self._ending.items():
            record.settled = True
            self._queue(record, self._kind_of_end(record, stimulus_id))
        return {
            "workers": [(r.state, r.id, r.started_at) for r in self._live.values()],
            "numbers": {r.id: r.number for r in self._live.values()},
            "peak_memory": {r.id: r.peak_memory for r in self._live.values()},
            "clients": {client: record.body for client, record in self._clients.items()},
        }

    def import_state(self, inherited: Mapping[str, Any]) -> None:
        # Workers and clients that have left since are detected by ``_adopt``.
        # The state of an earlier release of the plugin has neither peaks nor numbers.
        peaks, numbers = inherited.get("peak_memory", {}), inherited.get("numbers", {})
        for state, id, started_at in inherited["workers"]:
            number = numbers.get(id) or self.context.next_number("workers")
            record = WorkerRecord(id, number, state, started_at)
            record.peak_memory = peaks.get(id, 0)
            self._add_worker(record)
        for client, body in inherited["clients"].items():
            self._add_client(client, dict(body))
        self._inherited_clients = set(self._clients)

    def close(self) -> None:
        for query in self._queries:
            query.cancel()
        if self._versions_future is not None:
            self._versions_future.cancel()
            self._versions_future = None

    # Environments.

    def environment(
        self, versions: Optional[Mapping[str, Any]], executable: Optional[str] = None
    ) -> Optional[str]:
        """Returns the id of the environment described by ``get_versions``; equal ones share it."""
        if not versions and not executable:
            return None
        key = repr((versions, executable))
        record = self._environments.get(key)
        if record is None:
            try:
                body = describe_environment(versions or {}, executable)
            except (AttributeError, TypeError, ValueError):  # it is not a description of Dask
                return None
            record = Record(body["id"], body, settled=True)
            record.characters = len(key)
            while len(self._environments) >= ENVIRONMENTS:
                del self._environments[next(iter(self._environments))]
            self._environments[key] = record
            self.context.outboxes["environments"].add(record)
        return record.id

    # Workers.

    def _adopt(self, now: float) -> None:
        """Adds what existed before the plugin."""
        self._adopted = True
        self._update_workers(now)
        clients = list(getattr(self._scheduler, "client_comms", ()))
        for client in self._inherited_clients - set(clients):
            self._disconnect(self._clients.pop(client), now)
        for client in clients:
            self._connect(client, self._find_arrival(client, "add-client", now))
        self._read_threads(now)

    def _start_worker(self, address: str, state: Any, started_at: float) -> None:
        earlier = self._live.pop(address, None)
        if earlier is not None:
            self._handle_loss(earlier, started_at)
        number = self.context.next_number("workers")
        self._add_worker(WorkerRecord(self._id_of(state), number, state, started_at))

    def _add_worker(self, record: WorkerRecord) -> None:
        self._live[record.address] = record
        # The address refers to the latest worker there.
        self._by_address[record.address] = record
        self._ids[record.address] = record.id
        self._read_environment(record)
        self._queue(record, None)

    def _id_of(self, state: Any) -> str:
        try:
            id = str(uuid.UUID(state.server_id.rpartition("Worker-")[2]))
        except (AttributeError, ValueError):
            return uuid7()
        # A worker that returns after it was given up starts another interval.
        return uuid7() if id in self._ids.values() else id

    def _update_workers(self, now: float) -> None:
        """Reads the changeable values of workers, and finds workers that no hook reported."""
        live, workers = self._live, self._scheduler.workers
        for address, state in list(workers.items()):
            record = live.get(address)
            if record is None or record.state is not state:
                self._start_worker(address, state, self._find_arrival(address, "add-worker", now))
                continue
            record.note_memory()
            if record.threads != state.nthreads or record.memory_limit != state.memory_limit:
                record.threads, record.memory_limit = state.nthreads, state.memory_limit
                self._queue(record, None)
            if record.executable is None and "galvo" in state.metrics:
                self._read_environment(record)
                self._queue(record, None)
        if len(live) > len(workers):
            for address in [address for address in live if address not in workers]:
                self._handle_loss(live.pop(address), now)

    def _read_environment(self, record: WorkerRecord) -> None:
        own_metrics = record.state.metrics.get("galvo")
        executable = own_metrics.get("executable") if isinstance(own_metrics, dict) else None
        record.executable = executable if isinstance(executable, str) else None
        record.environment_id = self.environment(record.state.versions, record.executable)

    def _queue(self, record: WorkerRecord, end: Optional[str]) -> None:
        body = record.describe(end, self.context.sends("tasks"))
        if body != record.body:
            record.body = body
            outbox = self.context.outboxes["workers"]
            outbox.resize(record, 500 + sum(map(len, record.processing_keys)))
            outbox.add(record)

    def _handle_message(self, record: WorkerRecord, message: Mapping[str, Any]) -> None:
        """Handles a message of the scheduler or the worker about the worker."""
        action = message.get("action")
        if action == "retired":
            record.is_retiring = True
        elif record.was_removed:
            return  # the scheduler also asks a worker that it has removed to close
        elif action == "worker-status-change":
            status = message.get("status")
            if status == "closing_gracefully":
                record.is_retiring = True
            elif status in ("closing", "closed"):
                record.is_closing = True
            elif status == "running":  # retiring was given up
                record.is_retiring = False
        elif action == "closing-worker":
            record.is_closing = True
        elif action == "close-worker":
            record.is_close_requested = True
        elif action == "remove-worker":
            self._handle_removal(record, message)

    def _handle_removal(self, record: WorkerRecord, message: Mapping[str, Any]) -> None:
        record.was_removed = True
        record.is_retiring = record.is_retiring or message.get("expected") is True
        if "lost-computed-tasks" in message:
            record.lost_results = len(message["lost-computed-tasks"])
        else:
            # This release sends the message before it takes anything from the worker.
            record.lost_results = sum(
                1 for ts in record.state.has_what if ts.run_spec and len(ts.who_has) == 1
            )
        self._store_processing(record, message.get("processing-tasks") or ())

    def _store_processing(self, record: WorkerRecord, keys: Iterable[Any]) -> None:
        keys = list(keys)
        # The tasks that it computed are more informative than those that waited there.
        computed = {ts.key for ts in getattr(record.state, "executing", ())}
        keys.sort(key=lambda key: (key not in computed, text_of(key)))
        record.processing_count = len(keys)
        record.processing_keys = [cut(key, NAME_LENGTH) for key in keys[:PROCESSING_KEYS]]
        functions = Counter(cut(key_split(key), NAME_LENGTH) for key in keys[:MOST_COUNTED_TASKS])
        record.processing_functions = dict(functions.most_common(PROCESSING_FUNCTIONS))

    def _replay_events(self, record: WorkerRecord) -> None:
        """Replays the messages about the worker that no plugin received, from Dask's memory."""
        events = list(self._scheduler.get_events(record.address))
        arrivals = [i for i, (_, m) in enumerate(events) if _action_of(m) == "add-worker"]
        for at, message in events[arrivals[-1] if arrivals else 0 :]:
            was_known = record.was_removed
            if isinstance(message, dict):
                self._handle_message(record, message)
            if record.was_removed and not was_known and "lost-computed-tasks" not in message:
                self._replay_removal(record, at)

    def _replay_removal(self, record: WorkerRecord, at: float) -> None:
        """Derives the effects of the removal at this time from Dask's log of transitions."""
        lost = set()
        for transition in reversed(getattr(self._scheduler, "transition_log", ())):
            key, start, finish, _, stimulus_id, moved_at = tuple(transition)[:6]
            if moved_at < at:
                break
            # Scattered data is not a result, and is forgotten.
            if start == "memory" and finish != "forgotten":
                lost.add(key)
            if str(stimulus_id).startswith("retire-workers"):
                record.is_retiring = True
        record.lost_results = len(lost)

    def _query_nanny(self, record: WorkerRecord, nanny: str) -> None:
        """Reads the log of the nanny of a worker that died."""
        if len(self._queries) < MOST_NANNY_QUERIES:
            query = asyncio.ensure_future(self._read_nanny_log(record, nanny))
            self._queries.add(query)
            query.add_done_callback(self._queries.discard)

    async def _read_nanny_log(self, record: WorkerRecord, nanny: str) -> None:
        try:
            response = self._scheduler.rpc(nanny).get_logs(n=20)
            for entry in await asyncio.wait_for(response, SETTLING_SECONDS):
                match = OVER_MEMORY.search(entry[-1])
                if match and match.group(1) == record.address:
                    self._mark_over_memory(record.address, None)
        except Exception:  # the nanny has ended, too
            logger.debug("Galvo could not ask %s how %s ended", nanny, record.address)

    def _mark_over_memory(self, address: Any, resident: Any) -> None:
        record = self._by_address.get(address) if isinstance(address, str) else None
        if record is None or record.is_over_memory:
            return
        record.is_over_memory = True
        if isinstance(resident, int):
            record.last_memory = to_count(resident)
        if record.settled:
            self._queue(record, "memory")

    def _handle_loss(
        self, record: WorkerRecord, at: float, stimulus_id: Optional[str] = None
    ) -> None:
        """Handles that the scheduler no longer has the worker."""
        if not record.was_removed:
            self._replay_events(record)
        self._remove(record, at, stimulus_id)

    def _remove(self, record: WorkerRecord, at: float, stimulus_id: Optional[str] = None) -> None:
        """Records the end of a worker.

        Its kind is decided when the next report is made, or later.
        """
        state = record.state
        record.ended_at = max(at, record.started_at)
        record.note_memory()
        if record.last_memory is None:
            memory = state.metrics.get("memory")
            record.last_memory = None if memory is None else to_count(memory)
        record.last_seen_at = time_or_none(getattr(state, "last_seen", None))
        self._ending[record] = stimulus_id
        self._recently_ended.append(record)

    def _kind_of_end(self, record: WorkerRecord, stimulus_id: Optional[str]) -> str:
        stimulus = stimulus_id or ""
        if record.is_over_memory:
            return "memory"
        if record.is_silent or stimulus.startswith("check-worker-ttl"):
            return "lost"
        # A connection that broke during retiring was not the planned end.
        broken = stimulus.startswith("handle-worker-cleanup")
        if record.is_retiring and (record.is_closing or record.is_close_requested or not broken):
            return "retired"
        if record.is_closing or record.is_close_requested or "restart" in stimulus:
            return "closed"
        if getattr(self._scheduler.status, "name", "") in ("closing", "closed"):
            return "closed"
        ended_at = record.ended_at or 0.0
        if not record.state.nanny and 0.0 <= ended_at - self._restarted_at < 1.0:
            return "closed"  # by a restart, which cannot start it again
        return "lost" if record.was_removed else "unknown"

    def _forget_address(self, record: WorkerRecord) -> None:
        if self._by_address.get(record.address) is record:
            del self._by_address[record.address], self._ids[record.address]

    # Clients.

    def _connect(self, client: str, connected_at: float) -> None:
        if client == FIRE_AND_FORGET or client in self._clients:
            return
        state = self._scheduler.clients.get(client)
        body = {
            "id": cut(client, CLIENT_LENGTH),
            "environment_id": self.environment(getattr(state, "versions", None)),
            "connected_at": connected_at,
            "disconnected_at": None,
        }
        self._add_client(client, body)

    def _add_client(self, client: str, body: Dict[str, Any]) -> None:
        record = self._clients[client] = Record(body["id"], body)
        record.characters = 300
        self.context.outboxes["clients"].add(record)

    def _disconnect(self, record: Record, at: float) -> None:
        body = record.body or {}
        record.body = {**body, "disconnected_at": max(at, body["connected_at"])}
        record.settled = True
        self._disconnected_clients.append(record)
        self.context.outboxes["clients"].add(record)

    def _find_arrival(self, name: str, action: str, default: float) -> float:
        """Returns the time of arrival that Dask recorded for something older than the plugin."""
        times = [at for at, m in self._scheduler.get_events(name) if _action_of(m) == action]
        return min(times[-1], default) if times else default

    # Threads.

    def _read_threads(self, now: float) -> None:
        history = getattr(self._scheduler, "total_nthreads_history", None)
        if history is None:
            if not self._threads:
                self._count_threads(now)
            return
        for at, threads in history[self._read_history_entries :]:
            self._add_threads(at, threads)
        self._read_history_entries = len(history)

    def _count_threads(self, now: float) -> None:
        """Checks the number at each change of workers, in a release without a history."""
        if not hasattr(self._scheduler, "total_nthreads_history"):
            self._add_threads(now, self._scheduler.total_nthreads)

    def _add_threads(self, at: float, threads: int) -> None:
        # Two changes at the same time would be taken for one.
        at = max(at, self._last_thread_change_at + 1e-6)
        self._last_thread_change_at = at
        record = Record(repr(at), {"at": at, "threads": to_count(threads)}, settled=True)
        self._threads.append(record)
        self.context.outboxes["thread_history"].add(record)


def describe_environment(versions: Mapping[str, Any], executable: Optional[str]) -> Dict[str, Any]:
    """Returns the item that describes an environment, identified by its content everywhere."""
    host, packages = dict(versions.get("host") or {}), dict(versions.get("packages") or {})
    described = clean(
        {
            "python": _cut_text(host.get("python")),
            "executable": None if executable is None else cut(executable, ADDRESS_LENGTH),
            "os": _cut_text(host.get("OS")),
            "os_release": _cut_text(host.get("OS-release")),
            "machine": _cut_text(host.get("machine")),
            "packages": {
                _cut_text(name): _cut_text(packages[name]) for name in sorted(packages)[:PACKAGES]
            },
        }
    )
    content = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return {"id": str(uuid.uuid5(uuid.NAMESPACE_OID, content)), **described}


def _action_of(message: Any) -> Any:
    return message.get("action") if isinstance(message, dict) else None


def _cut_text(value: Any) -> Optional[str]:
    return None if value is None else cut(value, ENVIRONMENT_TEXT_LENGTH)
