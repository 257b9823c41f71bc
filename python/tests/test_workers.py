"""Tests of the reports about workers and their ends, clients, environments and threads."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import deque
from contextlib import contextmanager
from operator import mul
from types import SimpleNamespace

import dask
import distributed
import pytest
from conftest import local_cluster, on_loop, wait_until
from distributed import Client
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.versions import get_versions

from galvo.plugin.collector import Context
from galvo.plugin.ledger import Ledger
from galvo.plugin.workers import Workers

pytestmark = pytest.mark.filterwarnings("error::FutureWarning", "error::DeprecationWarning:galvo")
ID = "8682efd5-1c85-4961-a820-11a5453394e{}"
VERSIONS = {
    "host": {"python": "3.11.7.final.0", "OS": "Linux", "OS-release": "6.1", "machine": "x86_64"},
    "packages": {"python": "3.11.7.final.0", "dask": "2026.8.0", "lz4": None},
}


# ------------------------------------------------------------------------------ with stand-ins


def make_worker(n, **kwargs):
    """Returns a stand-in of a WorkerState."""
    fields = {
        "address": f"tcp://10.0.0.{n}:4000", "name": n, "server_id": "Worker-" + ID.format(n),
        "nthreads": 2, "memory_limit": 1000, "nanny": None, "versions": VERSIONS, "metrics": {},
        "last_seen": 0.0, "processing": set(), "executing": {}, "has_what": {},
    }  # fmt: skip
    return SimpleNamespace(**{**fields, **kwargs})


class Task:
    """A stand-in of a TaskState."""

    def __init__(self, key):
        self.key = key


class StandIn:
    """A scheduler with its own clock, and the collector that observes it."""

    def __init__(self, *workers):
        self.clock = 1_700_000_000.0
        self.topics = {}
        self.scheduler = SimpleNamespace(
            workers={}, clients={}, client_comms={}, status=SimpleNamespace(name="running"),
            total_nthreads_history=[(self.clock, 0)], total_nthreads=0,
            get_events=lambda topic: tuple(self.topics.get(topic, ())),
        )  # fmt: skip
        self.ledger = Ledger(1, now=lambda: self.clock)
        self.context = Context(self.scheduler, {"interval_seconds": 0.5}, self.ledger)
        self.collector = Workers(self.context)
        for state in workers:
            self.add(state)

    def add(self, state):
        state.last_seen = self.clock
        self.scheduler.workers[state.address] = state
        self.collector.worker_added(state.address)

    def add_event(self, topic, **message):
        self.collector.event(topic, message, self.clock)

    def remove(self, state, stimulus_id=None, with_event=True, **message):
        """Removes a worker as recent releases do."""
        del self.scheduler.workers[state.address]
        if with_event:
            removal = {"action": "remove-worker", "processing-tasks": set(), "expected": False}
            removal["lost-computed-tasks"] = set()
            self.add_event(state.address, **{**removal, **message})
        self.collector.worker_removed(state.address, stimulus_id)

    def read(self, seconds=0.0, closing=False):
        """Returns the new rows after this many seconds."""
        self.clock += seconds
        self.collector.read(self.clock, self.clock if closing else None)
        return self.take()

    def take(self):
        items = {}
        for kind, outbox in self.context.outboxes.items():
            bodies = [body for _, body in outbox.take(100_000)]
            if bodies:
                json.dumps(bodies, allow_nan=False)
                items[kind] = bodies
        return items


def test_a_worker_is_reported_when_it_comes_and_when_it_has_ended():
    worker = make_worker(1, metrics={"memory": 300})
    there = StandIn(worker)
    items = there.read()
    (environment,) = items["environments"]
    living = {
        "id": ID.format(1), "number": 1, "name": "1", "address": "tcp://10.0.0.1:4000",
        "host": "10.0.0.1",
        "environment_id": environment["id"], "threads": 2, "memory_limit_bytes": 1000,
        "started_at": 1_700_000_000.0, "ended_at": None, "end": None, "processing_keys": [],
        "processing": 0, "processing_functions": None, "lost_results": 0,
        "last_memory_bytes": None, "peak_memory_bytes": None, "last_seen_at": None,
    }  # fmt: skip
    assert items["workers"] == [living]
    worker.metrics = {"memory": 900}
    assert there.read(2) == {}  # a heartbeat changes nothing
    worker.metrics = {"memory": "replaced by a user"}
    assert there.read(2) == {}
    worker.metrics = {"memory": 700}
    worker.last_seen = there.clock + 4
    assert there.read(6) == {}
    lost, keys = {"a", "b"}, {("x", 1), ("x", 0), "y"}
    worker.executing = {Task("y"): 1.0}
    removal = {"processing-tasks": keys, "lost-computed-tasks": lost}
    there.remove(worker, "handle-worker-cleanup-1", **removal)
    assert there.read() == {}  # the cause may still turn out to be its memory
    assert there.read(2) == {
        "workers": [
            {
                **living, "ended_at": 1_700_000_010.0, "end": "lost",
                "processing_keys": ["y", "('x', 0)", "('x', 1)"], "processing": 3,
                "processing_functions": {"x": 2, "y": 1}, "lost_results": 2,
                "last_memory_bytes": 700, "peak_memory_bytes": 900,
                "last_seen_at": 1_700_000_008.0,
            }
        ]
    }  # fmt: skip
    assert there.read(1000) == {}


def retire(there, worker):
    there.add_event(
        worker.address, **{"action": "worker-status-change", "status": "closing_gracefully"}
    )


def close(there, worker):
    there.add_event(worker.address, action="closing-worker", reason="nanny-close")


def change_to_closing(there, worker):
    there.add_event(worker.address, action="worker-status-change", status="closing")


def run_again(there, worker):
    there.add_event(worker.address, action="worker-status-change", status="running")


def request_close(there, worker):
    there.add_event(worker.address, action="close-worker")


def exceed(there, worker):
    there.add_event("worker-restart-memory", worker=worker.address, pid=1, rss=990)


def be_silent(there, worker):
    there.add_event("scheduler", action="worker-ttl-timed-out", workers=[worker.address], ttl=300)


def restart(there, worker):
    there.collector.restarted()


def close_scheduler(there, worker):
    there.scheduler.status.name = "closing"


BROKEN = "handle-worker-cleanup-1.5"


@pytest.mark.parametrize(
    ("before", "stimulus_id", "after", "end"),
    [
        ([], BROKEN, [], "lost"),
        ([], None, [], "lost"),
        ([retire], "retire-workers-1.5", [], "retired"),
        ([retire], None, [], "retired"),
        ([retire], BROKEN, [], "lost"),  # died before that was done
        ([retire, change_to_closing], BROKEN, [], "retired"),  # closes itself afterwards
        ([retire, request_close], BROKEN, [], "retired"),
        ([retire, run_again], None, [], "lost"),
        ([close], BROKEN, [], "closed"),
        ([change_to_closing], None, [], "closed"),
        ([close, change_to_closing], BROKEN, [], "closed"),
        ([close_scheduler], BROKEN, [], "closed"),
        ([], "client-restart-1.5", [close], "closed"),
        ([restart], None, [], "closed"),
        ([exceed], BROKEN, [], "memory"),
        ([], BROKEN, [exceed], "memory"),
        ([retire, exceed, close], BROKEN, [], "memory"),
        ([be_silent, close, change_to_closing], BROKEN, [], "lost"),
        ([], "check-worker-ttl-1.5", [close], "lost"),
        ([], BROKEN, [close, change_to_closing], "lost"),  # the response to its removal
    ],
)
def test_how_a_worker_ended(before, stimulus_id, after, end):
    worker = make_worker(1, metrics={"memory": 300})
    there = StandIn(worker)
    for happening in before:
        happening(there, worker)
    there.remove(worker, stimulus_id)
    there.clock += 0.5
    for happening in after:
        happening(there, worker)
    there.read()
    there.read(2)
    (row,) = [record.body for record in there.collector._ended]
    assert row["end"] == end
    assert row["last_memory_bytes"] == (990 if end == "memory" else 300)
    assert row["peak_memory_bytes"] == row["last_memory_bytes"]


def test_an_end_is_corrected_when_its_cause_arrives_late():
    worker = make_worker(1)
    there = StandIn(worker)
    there.remove(worker, BROKEN)
    (row,) = there.read(5)["workers"]
    assert row["end"] == "lost"
    exceed(there, worker)
    exceed(there, worker)
    (corrected,) = there.read(5)["workers"]
    of_memory = {"last_memory_bytes": 990, "peak_memory_bytes": 990}
    assert corrected == {**row, "end": "memory", **of_memory}


def test_the_line_in_the_log_of_a_nanny_gives_memory_as_the_cause():
    one, two, three = (make_worker(n) for n in (1, 2, 3))
    there = StandIn(one, two, three)
    line = f"Worker {one.address} (pid=7) exceeded 95% memory budget. Restarting..."
    there.add_event("galvo-log", message=line, level="WARNING", source="nanny")
    there.add_event("galvo-log", message=line.replace("1:", "2:"), source="worker")  # no nanny
    there.add_event("galvo-log", message=3, source="nanny")
    there.collector.event("scores", "text", there.clock)
    line = "Worker exceeded 95% memory budget. Restarting"
    there.add_event("galvo-log", message=line, source="nanny", worker=three.address)
    # One of several nannies in a process.
    there.add_event("galvo-log", message=line, source="nanny")
    for worker in (one, two, three):
        there.remove(worker, BROKEN)
    assert [row["end"] for row in there.read(3)["workers"]] == ["memory", "lost", "memory"]


def test_a_worker_that_left_unseen():
    one, two = make_worker(1), make_worker(2)
    there = StandIn(one, two)
    there.take()
    del there.scheduler.workers[one.address]
    other = make_worker(3, address=two.address)
    there.scheduler.workers[two.address] = other  # replaces it
    rows = {row["id"]: row for row in there.read(5)["workers"]}
    assert list(rows) == [ID.format(3)]
    rows = {row["id"]: row for row in there.read(5)["workers"]}
    assert {id: row["end"] for id, row in rows.items()} == {
        ID.format(1): "unknown", ID.format(2): "unknown",
    }  # fmt: skip


def test_addresses_lead_to_the_latest_worker_for_minutes():
    one = make_worker(1)
    there = StandIn(one)
    assert there.context.worker_id(one.address) == ID.format(1)
    there.remove(one, BROKEN)
    there.read(290)
    assert there.context.worker_id(one.address) == ID.format(1)
    two = make_worker(2, address=one.address)
    there.add(two)
    assert there.context.worker_id(one.address) == ID.format(2)
    there.read(200)  # the first one is out of range now
    assert there.context.worker_id(one.address) == ID.format(2)
    there.remove(two, BROKEN)
    there.read(299)
    assert there.context.worker_id(one.address) == ID.format(2)
    there.read(2)
    assert there.context.worker_id(one.address) is None
    assert there.context.worker_id("tcp://elsewhere:1") is None


def test_workers_without_an_id_of_their_own_get_one():
    first, second = make_worker(1), make_worker(2, server_id="odd")
    del first.server_id
    there = StandIn(
        first, second, make_worker(3), make_worker(4, server_id="Worker-" + ID.format(3))
    )
    ids = [row["id"] for row in there.read()["workers"]]
    assert ids[2] == ID.format(3)
    assert len({*ids}) == 4
    assert [uuid.UUID(id).version for id in ids] == [7, 7, 4, 7]


def test_what_changes_of_a_living_worker():
    worker = make_worker(1, memory_limit=0)
    there = StandIn(worker)
    items = there.read()
    assert items["workers"][0]["memory_limit_bytes"] is None
    worker.nthreads, worker.memory_limit = 4, 2000
    (row,) = there.read(1)["workers"]
    assert (row["threads"], row["memory_limit_bytes"]) == (4, 2000)
    worker.metrics = {"galvo": {"executable": "/opt/python", "disk_free_bytes": 5}}
    items = there.read(1)
    (environment,) = items["environments"]
    assert environment["executable"] == "/opt/python"
    assert items["workers"][0]["environment_id"] == environment["id"]
    assert there.read(1) == {}


def test_keys_are_bounded():
    worker = make_worker(1)
    there = StandIn(worker)
    keys = {f"key-{i:03}" for i in range(250)} | {"a" * 5000}
    there.remove(worker, BROKEN, **{"processing-tasks": keys})
    (row,) = there.read(3)["workers"]
    assert row["processing"] == 251
    assert len(row["processing_keys"]) == 100
    assert row["processing_keys"][0].startswith("aaa")
    assert len(row["processing_keys"][0]) == 4096
    assert row["processing_keys"][1] == "key-000"


def test_closing_ends_all_that_is_there():
    worker, other = make_worker(1), make_worker(2)
    there = StandIn(worker, other)
    there.scheduler.clients = {"Client-1": SimpleNamespace(versions=VERSIONS)}
    there.collector.client_added("Client-1")
    there.take()
    there.remove(other, BROKEN)
    worker.processing = {Task("x")}
    items = there.read(1, closing=True)
    assert [(row["end"], row["ended_at"], row["processing_keys"]) for row in items["workers"]] == [
        ("lost", 1_700_000_000.0, []), ("closed", 1_700_000_001.0, ["x"]),
    ]  # fmt: skip
    (row,) = items["clients"]
    assert row["disconnected_at"] == 1_700_000_001.0
    assert there.read(1, closing=True) == {}
    there.remove(worker, BROKEN)
    there.collector.client_removed("Client-1")
    assert there.read(5) == {}


def test_an_older_release_is_read_from_what_it_remembers():
    """An older release calls no hook for events, and has no ids, and no history of threads."""
    there = StandIn()
    del there.scheduler.total_nthreads_history
    there.collector._read_threads(there.clock)
    workers = [make_worker(n) for n in (1, 2, 3)]
    history = there.scheduler.transition_log = deque(maxlen=100)
    for n, worker in enumerate(workers, 1):
        del worker.server_id
        there.scheduler.total_nthreads = 2 * n
        there.topics[worker.address] = [
            (there.clock - 9, {"action": "worker-status-change", "status": "closing"}),
            (there.clock, {"action": "add-worker"}),
        ]
        there.clock += 1
        there.add(worker)
    threads = [(row["at"], row["threads"]) for row in there.take()["thread_history"]]
    begun = 1_700_000_000.0
    assert threads == [(begun, 0), (begun + 1, 2), (begun + 2, 4), (begun + 3, 6)]
    history.append(("early", "memory", "released", {}, "elsewhere", there.clock))
    there.clock += 10
    dead, retired, closed = workers
    there.topics[closed.address].append(
        (there.clock, {"action": "worker-status-change", "status": "closing"})
    )
    for worker in workers:
        there.clock += 0.25
        message = {"action": "remove-worker", "processing-tasks": {"k": 0.5}}
        there.topics[worker.address].append((there.clock, message))
        if worker is dead:
            for key in ("a", "b", "a"):
                history.append((key, "memory", "released", {}, "cleanup", there.clock))
            history.append(("scattered", "memory", "forgotten", {}, "cleanup", there.clock))
            history.append(("k", "processing", "released", {}, "cleanup", there.clock))
        there.remove(worker, with_event=False)
    there.topics[retired.address].append((there.clock, {"action": "retired"}))
    assert "workers" not in there.read()
    rows = there.read(5)["workers"]
    assert [(row["end"], row["lost_results"], row["processing_keys"]) for row in rows] == [
        ("lost", 2, ["k"]), ("retired", 0, ["k"]), ("closed", 0, ["k"]),
    ]  # fmt: skip


def test_environments_are_what_they_contain():
    there, elsewhere = StandIn(), StandIn()
    id = there.context.environment(VERSIONS, "/bin/python")
    (row,) = there.take()["environments"]
    content = {
        "python": "3.11.7.final.0", "executable": "/bin/python", "os": "Linux",
        "os_release": "6.1", "machine": "x86_64", "packages": VERSIONS["packages"],
    }  # fmt: skip
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert row == {"id": str(uuid.uuid5(uuid.NAMESPACE_OID, text)), **content}
    assert row["id"] == id == elsewhere.context.environment(dict(VERSIONS), "/bin/python")
    assert there.context.environment(VERSIONS, "/bin/python") == id
    assert there.take() == {}  # already reported
    assert there.context.environment(VERSIONS) != id
    assert there.context.environment(None) is None
    assert there.context.environment({}) is None
    assert there.context.environment({"host": 3}) is None
    assert there.context.environment("text") is None


def test_environments_are_bounded():
    there = StandIn()
    packages = {f"p{i:04}" + "n" * 300: "v" * 300 for i in range(700)}
    there.context.environment({"host": {"OS": "o" * 300}, "packages": packages})
    (row,) = there.take()["environments"]
    assert len(row["packages"]) == 500
    name = next(iter(row["packages"]))
    assert (len(name), len(row["packages"][name]), len(row["os"])) == (256, 256, 256)
    assert row["python"] is None
    for i in range(300):
        there.context.environment({"host": {"machine": i}})
    assert len(there.collector._environments) == 200


def test_another_plugin_knows_who_was_there_before_it():
    staying, leaving = make_worker(1, server_id=None), make_worker(2)
    there = StandIn(staying, leaving)
    there.scheduler.clients = {"Client-1": SimpleNamespace(versions=VERSIONS)}
    there.scheduler.client_comms = {"Client-1": None}
    there.collector.client_added("Client-1")
    before = there.read(1)
    state = there.collector.export_state()
    del there.scheduler.workers[leaving.address]
    there.scheduler.client_comms = {"Client-2": None}
    there.ledger = Ledger(1, now=lambda: there.clock)
    there.context = Context(there.scheduler, {"interval_seconds": 0.5}, there.ledger)
    there.collector = Workers(there.context)
    there.collector.import_state(state)
    asyncio.run(there.collector.start())
    items = there.read(10)
    rows = {row["id"]: row for row in items["workers"]}
    assert set(rows) == {row["id"] for row in before["workers"]}
    ends = {row["name"]: (row["started_at"], row["end"]) for row in rows.values()}
    assert ends == {"1": (1_700_000_000.0, None), "2": (1_700_000_000.0, "unknown")}
    clients = {row["id"]: row["disconnected_at"] for row in items["clients"]}
    assert clients == {"Client-1": 1_700_000_001.0, "Client-2": None}
    environments = {row["environment_id"] for row in items["clients"] if row["id"] == "Client-1"}
    assert environments == {before["clients"][0]["environment_id"]}


def test_clients_come_and_go():
    there = StandIn()
    there.scheduler.clients = {"Client-1": SimpleNamespace(versions=VERSIONS)}
    there.collector.client_added("fire-and-forget")
    there.collector.client_added("Client-1")
    there.collector.client_added("Client-1")
    items = there.read(1)
    assert items["clients"] == [
        {
            "id": "Client-1",
            "environment_id": items["environments"][0]["id"],
            "connected_at": 1_700_000_000.0,
            "disconnected_at": None,
        }
    ]
    there.collector.client_removed("Client-1")
    there.collector.client_removed("Client-1")
    (row,) = there.read(1)["clients"]
    assert row == {**items["clients"][0], "disconnected_at": 1_700_000_001.0}
    for i in range(300):
        there.collector.client_added(f"Client-{i}")
        there.collector.client_removed(f"Client-{i}")
    assert len(there.collector._disconnected_clients) == 200
    assert there.collector._clients == {}


def test_changes_of_threads_are_sent_once_and_have_moments_of_their_own():
    there = StandIn()
    history, begun = there.scheduler.total_nthreads_history, 1_700_000_000.0
    history += [(begun + 5, 2), (begun + 5, 4)]
    rows = there.read()["thread_history"]
    assert [(row["at"], row["threads"]) for row in rows] == [
        (begun, 0), (begun + 5, 2), (begun + 5 + 1e-6, 4),
    ]  # fmt: skip
    assert there.read() == {}
    history.append((begun + 6, 2))
    assert there.read()["thread_history"] == [{"at": begun + 6, "threads": 2}]


def test_what_is_known_is_sent_again_to_a_server_that_lost_it():
    gone, ending, living = (make_worker(n) for n in (1, 2, 3))
    there = StandIn(gone, ending, living)
    for client in ("Client-1", "Client-2"):
        there.collector.client_added(client)
    there.collector.client_removed("Client-1")
    there.remove(gone, BROKEN)
    first = there.read(10)
    there.remove(ending, BROKEN)
    assert there.read() == {}
    there.collector.resend()
    again = there.take()

    def by_key(items):
        return {
            kind: {row["at" if kind == "thread_history" else "id"]: row for row in rows}
            for kind, rows in items.items()
        }

    assert by_key(again) == by_key(first)
    assert {row["id"]: row["end"] for row in again["workers"]} == {
        ID.format(1): "lost", ID.format(2): None, ID.format(3): None,
    }  # fmt: skip


# ---------------------------------------------------------------------------------- with Dask


class Watch(SchedulerPlugin):
    """Passes Dask's hooks to the collector, as the plugin does, and keeps the rows."""

    name = "watch"

    def __init__(self):
        self.rows = {}

    async def start(self, scheduler):
        self.ledger = Ledger(1)
        self.context = Context(scheduler, {"interval_seconds": 0.5}, self.ledger)
        self.collector = Workers(self.context)
        await self.collector.start()

    def add_worker(self, scheduler, worker):
        self.collector.worker_added(worker)

    def remove_worker(self, scheduler, worker, stimulus_id=None, **kwargs):
        self.collector.worker_removed(worker, stimulus_id)

    def add_client(self, scheduler, client):
        self.collector.client_added(client)

    def remove_client(self, scheduler, client):
        self.collector.client_removed(client)

    def restart(self, scheduler):
        self.collector.restarted()

    def log_event(self, topic, msg):
        self.collector.event(topic, msg, self.ledger.now())

    def read(self):
        self.collector.read(self.ledger.now())
        for kind, outbox in self.context.outboxes.items():
            for _, body in outbox.take(100_000):
                json.dumps(body, allow_nan=False)
                key = body["at"] if kind == "thread_history" else body["id"]
                self.rows.setdefault(kind, {})[key] = body
        return self.rows

    def workers(self):
        return self.read()["workers"]


@contextmanager
def watched(**kwargs):
    """Yields a cluster, its client, the plugin, and a function that reads the rows of a section."""
    with local_cluster(**kwargs) as cluster:
        with Client(cluster) as client:
            watch, scheduler = Watch(), cluster.scheduler

            async def add(dask_scheduler):
                await watch.start(scheduler)
                scheduler.add_plugin(watch, name=watch.name)

            cluster.sync(add, scheduler)
            yield cluster, client, lambda kind="workers": on_loop(cluster, watch.read)[kind]


def row_of(rows, state):
    """Returns the row of this worker; addresses are not reused within a test."""
    (row,) = (row for row in rows().values() if row["address"] == state.address)
    return row


def ended(rows, state):
    """Waits until the end of this worker is reported, and returns its row."""
    wait_until(lambda: row_of(rows, state)["end"] is not None)
    return row_of(rows, state)


def test_processes_that_die_and_are_retired():
    settings = {"processes": True, "n_workers": 2, "threads_per_worker": 1, "memory_limit": "1GiB"}
    # Tasks stay with the worker until it is killed, and copies of results where they are.
    unmoved = {
        "distributed.scheduler.work-stealing": False,
        "distributed.scheduler.active-memory-manager.start": False,
    }
    with (
        dask.config.set(unmoved),
        watched(**settings) as (cluster, client, rows),
    ):
        scheduler = cluster.scheduler
        first, second = sorted(scheduler.workers.values(), key=lambda ws: ws.name)
        first_rows = rows()
        for state in (first, second):
            (added_at,) = (
                at
                for at, message in scheduler.get_events(state.address)
                if message["action"] == "add-worker"
            )
            row = row_of(rows, state)
            assert row["started_at"] == added_at
            if hasattr(state, "server_id"):
                assert state.server_id == "Worker-" + row["id"]
            assert (row["name"], row["address"]) == (str(state.name), state.address)
            assert (row["threads"], row["memory_limit_bytes"]) == (1, 2**30)
            assert row["host"] == "127.0.0.1"
            assert row["end"] is row["ended_at"] is row["last_seen_at"] is None
        environments = rows("environments")
        assert {row["environment_id"] for row in first_rows.values()} == {
            id for id, row in environments.items() if row["executable"] is None
        }
        # One result is on both workers and cannot be lost with one of them.
        results = client.map(mul, range(5), range(5), workers=[first.address], pure=False)
        client.gather(results)
        client.replicate(results[:1], n=2)
        slow = client.map(
            time.sleep, [30] * 3, workers=[first.address], allow_other_workers=True, pure=False
        )
        wait_until(lambda: len(first.processing) + len(second.processing) == 3)
        keys = sorted(on_loop(cluster, lambda: [str(ts.key) for ts in first.processing]))
        metrics = first.metrics
        os.kill(first.pid, signal.SIGKILL)
        row = ended(rows, first)
        assert row["end"] == "lost"
        assert sorted(row["processing_keys"]) == keys
        assert row["processing"] == len(keys) > 0
        assert row["lost_results"] == 4
        assert row["last_memory_bytes"] == first.metrics["memory"] > 0
        assert first.metrics["time"] >= metrics["time"]
        assert row["started_at"] < row["last_seen_at"] == first.last_seen <= row["ended_at"]
        client.cancel(slow)
        # The nanny starts another process with the same name, which is another worker. The results
        # of the other one can only be moved to a worker that is ready.
        wait_until(lambda: [ws.status.name for ws in scheduler.workers.values()] == ["running"] * 2)
        assert [row["name"] for row in rows().values()].count(row["name"]) == 2
        client.retire_workers([second.address])
        row = ended(rows, second)
        assert (row["end"], row["lost_results"]) == ("retired", 0)
        thread_changes = [(row["at"], row["threads"]) for row in rows("thread_history").values()]
        if hasattr(scheduler, "total_nthreads_history"):
            assert thread_changes == scheduler.total_nthreads_history
        assert [threads for _, threads in thread_changes][-4:] == [2, 1, 2, 1]


def test_a_worker_that_its_nanny_ends_for_its_memory():
    def eat():
        held = []
        while True:
            held.append(b"x" * 5_000_000)
            time.sleep(0.01)

    unmanaged = dict.fromkeys(("target", "spill", "pause"), False)
    memory = {"distributed.worker.memory." + name: value for name, value in unmanaged.items()}
    with dask.config.set(memory):
        settings = {"processes": True, "threads_per_worker": 1, "memory_limit": "250MiB"}
        with watched(**settings) as (cluster, client, rows):
            (state,) = cluster.scheduler.workers.values()
            eating = client.submit(eat, key="eating", retries=0)
            row = ended(rows, state)
            assert row["end"] == "memory"
            assert row["processing_keys"] == ["eating"]
            assert row["last_memory_bytes"] > 0
            if hasattr(cluster.scheduler, "_workers_added_total"):  # it reports how much it was
                assert row["last_memory_bytes"] > 0.95 * 250 * 2**20
            assert row["peak_memory_bytes"] >= row["last_memory_bytes"]
            eating.cancel()


def test_an_adaptive_cluster_retires_and_a_restart_closes():
    with watched(n_workers=2, protocol="tcp://") as (cluster, client, rows):
        first, second = sorted(cluster.scheduler.workers.values(), key=lambda ws: ws.name)
        cluster.adapt(minimum=1, maximum=1, interval="100ms", wait_count=1)
        wait_until(lambda: len(cluster.scheduler.workers) == 1)
        stays = cluster.scheduler.workers.get(first.address, second)
        row = ended(rows, second if stays is first else first)
        assert row["end"] == "retired"
        client.restart(wait_for_workers=False)
        assert ended(rows, stays)["end"] == "closed"


def test_clients_that_come_and_go():
    with watched(n_workers=0) as (cluster, client, rows):
        (id,) = rows("clients")
        assert rows("clients")[id] == {
            "id": client.id,
            "environment_id": rows("clients")[id]["environment_id"],
            "connected_at": at_of(cluster, id, "add-client"),
            "disconnected_at": None,
        }
        assert rows("clients")[id]["environment_id"] in rows("environments")
        other = Client(cluster)
        wait_until(lambda: other.id in rows("clients"))
        assert rows("clients")[other.id]["disconnected_at"] is None
        other.close()
        wait_until(lambda: rows("clients")[other.id]["disconnected_at"] is not None)
        row = rows("clients")[other.id]
        assert 0 <= row["connected_at"] - at_of(cluster, other.id, "add-client") < 1
        assert 0 <= row["disconnected_at"] - at_of(cluster, other.id, "remove-client") < 1


def at_of(cluster, topic, action):
    events = cluster.scheduler.get_events(topic)
    return next((at for at, message in events if message["action"] == action), None)


@pytest.mark.parametrize(
    ("option", "number", "end"),
    [
        ("--nanny", signal.SIGTERM, "closed"),
        ("--no-nanny", signal.SIGKILL, "lost"),
        # Dask drops the connection without a message, although the worker closes in order.
        ("--no-nanny", signal.SIGTERM, "lost"),
    ],
)
def test_signals_to_worker_processes(option, number, end):
    with watched(n_workers=0, protocol="tcp://") as (cluster, _, rows):
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([*command, option, "--nthreads", "3"], **silent)
        try:
            running = "worker-status-change"
            wait_until(lambda: cluster.scheduler.workers, timeout=30)
            (state,) = cluster.scheduler.workers.values()
            wait_until(lambda: at_of(cluster, state.address, running), timeout=30)
            process.send_signal(number)
            row = ended(rows, state)
            assert (row["end"], row["threads"]) == (end, 3)
            process.wait(10)
        finally:
            process.kill()
            process.wait()


def test_the_environment_of_the_scheduler():
    with watched(n_workers=0) as (cluster, _, rows):
        wait_until(lambda: any(row["executable"] for row in rows("environments").values()))
        (row,) = (row for row in rows("environments").values() if row["executable"])
        host = get_versions()["host"]
        assert row["executable"] == sys.executable
        assert (row["python"], row["os"]) == (host["python"], host["OS"])
        assert (row["os_release"], row["machine"]) == (host["OS-release"], host["machine"])
        assert row["packages"] == get_versions()["packages"]
        assert row["packages"]["distributed"] == distributed.__version__
        assert cluster.scheduler.plugins["watch"].collector.environment_id == row["id"]


def test_starting_does_not_wait_for_versions():
    async def start():
        there = StandIn()
        await there.collector.start()
        assert there.collector.environment_id is None
        while there.collector.environment_id is None:
            there.read(1)
            await asyncio.sleep(0.01)
        there.collector.close()

    asyncio.run(asyncio.wait_for(start(), 20))
