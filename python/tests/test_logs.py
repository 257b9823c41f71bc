"""Tests of the log of a cluster, with real processes that are killed."""

import asyncio
import logging
import os
import pickle
import signal
import time
import uuid
from types import SimpleNamespace

import pytest
from conftest import wait_until
from distributed import Client, KilledWorker, LocalCluster, get_worker

from galvo.plugin import Context, Ledger
from galvo.plugin import logs as logs_module
from galvo.plugin import telemetry as module
from galvo.plugin.collector import Collector
from galvo.plugin.logs import Logs
from galvo.plugin.sections import Receipt
from galvo.plugin.telemetry import CoiledTelemetry
from galvo.plugin.worker_side import OPERATION, TOPIC, LineHandler


class Ids(Collector):
    """Provides the ids of workers, as the workers collector does."""

    def __init__(self, context):
        super().__init__(context)
        self.ids = context.workers = {}

    def worker_added(self, address):
        self.ids.setdefault(address, str(uuid.uuid4()))


def start(cluster, galvo, monkeypatch, *collectors, **settings):
    """Starts a plugin that has only these collectors, and returns it."""
    monkeypatch.setattr(module, "COLLECTORS", (Ids, *collectors))
    settings = {
        "server": galvo.address,
        "token": "seal-2f1c9d7a40",
        "account": None,
        "disabled": False,
        "interval_seconds": 0.2,
        "events_interval_seconds": 0.2,
        "events_allow": ["*"],
        "send_logs": True,
        "send_code": True,
        "send_errors": True,
        "worker_plugin": True,
        **settings,
    }
    plugin = CoiledTelemetry(settings)

    async def install():
        scheduler = cluster.scheduler
        scheduler.add_plugin(plugin, name="galvo")
        await plugin.start(scheduler)
        await plugin._starting
        for address in scheduler.workers:
            plugin._collectors.call("worker_added", address)

    in_loop(cluster, install)
    return plugin


def in_loop(cluster, function):
    future = asyncio.run_coroutine_threadsafe(function(), cluster.scheduler.loop.asyncio_loop)
    return future.result(20)


@pytest.fixture(scope="module")
def processes():
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=":0",
        memory_limit=0,
        silence_logs=False,
    ) as cluster:
        yield cluster


def installed(cluster):
    scheduler = cluster.scheduler
    names = [*scheduler.worker_plugins, *scheduler.nanny_plugins]
    return [name for name in names if name.startswith("galvo")]


def log_text(text, level=logging.WARNING):
    logging.getLogger("distributed.worker.mine").log(level, text)
    logging.getLogger("mine").log(level, "mine " + text)
    return os.getpid()


def log_and_die(text):
    log_text(text)
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)


def configure():
    """Returns the number of handlers of the root logger before ``basicConfig`` and after it."""
    root = logging.getLogger()
    before = len(root.handlers)
    logging.basicConfig()
    after = len(root.handlers)
    root.handlers.clear()
    return before, after


def fail(value, **kwargs):
    raise ValueError("no")  # SOURCELINE


def messages(galvo, **fields):
    rows = galvo.rows_of("logs")
    return [r for r in rows if all(r[name] == value for name, value in fields.items())]


def test_lines_of_processes_that_are_killed(processes, galvo, monkeypatch):
    plugin = start(processes, galvo, monkeypatch, Logs, send_code=False)
    with Client(processes) as client:
        address = next(iter(processes.scheduler.workers))
        pid = client.submit(log_text, "password=hunter2", workers=address, pure=False).result()

        def rows_with(text):
            return [row for row in messages(galvo) if text in row["message"]]

        wait_until(lambda: len(rows_with("password=[removed]")) == 2)
        for row in rows_with("password=[removed]"):
            assert row["source"] == "worker" and row["worker"] == address
            assert row["worker_id"] == plugin._collectors._collectors[0].ids[address]
            assert row["level"] == "WARNING" and row["repeated"] == 1
            assert abs(row["at"] - time.time()) < 20
        assert client.submit(configure, workers=address, pure=False).result() == (0, 1)
        ids = dict(plugin._collectors._collectors[0].ids)
        metrics = processes.scheduler.workers[address].metrics
        wait_until(lambda: processes.scheduler.workers[address].metrics.get("galvo"))
        assert metrics is not None

        # Its last line, and that of its nanny.
        client.submit(log_and_die, "the last words", workers=address, pure=False)
        wait_until(lambda: len(rows_with("the last words")) == 2)
        assert rows_with("the last words")[0]["worker_id"] == ids[address]
        wait_until(lambda: rows_with(f"process {pid} was killed by signal 9"))
        (row,) = rows_with(f"process {pid} was killed by signal 9")
        assert row["source"] == "nanny" and row["worker_id"] == ids[address]
        wait_until(lambda: len(processes.scheduler.workers) == 2)

        # Workers that start later have the plugin too.
        new = next(a for a in processes.scheduler.workers if a not in ids)
        client.submit(log_text, "I am new", workers=new, pure=False).result()
        wait_until(lambda: len(rows_with("I am new")) == 2)

        future = client.submit(fail, "SECRETARG", keyword="SECRETARG", pure=False)
        with pytest.raises(ValueError, match="no"):
            future.result()
        wait_until(lambda: rows_with("Compute Failed"))
        failed = rows_with("Compute Failed")[0]["message"]
        # Newer releases of Dask show the task without its arguments.
        assert "\nTask:" not in failed or f"<Task '{future.key}' fail(..., ...)>\n" in failed
        with pytest.raises(ValueError, match="no"):
            client.run(fail, "SECRETARG", keyword="SECRETARG")
        wait_until(lambda: rows_with("Run Failed"))
        everything = repr(messages(galvo))
        assert "SECRETARG" not in everything and "hunter2" not in everything
        assert "SOURCELINE" not in everything
        assert not [row for row in galvo.rows_of("events") if row["topic"] == TOPIC]
        # Dask logs that plugins are installed. These lines are not the user's.
        assert installed(processes) and "plugin galvo-" not in everything

        # A scheduler whose plugin is removed.
        in_loop(processes, lambda: asyncio.sleep(0, processes.scheduler.remove_plugin("galvo")))
        wait_until(lambda: installed(processes) == [])
        client.submit(log_text, "to nobody", pure=False).result()
        time.sleep(0.3)
        assert "to nobody" not in repr(processes.scheduler.get_events(TOPIC))
    assert not rows_with("to nobody")
    assert not [h for h in logging.getLogger("distributed").handlers if hasattr(h, "lines")]


def test_the_last_lines_of_a_killed_worker(processes, galvo, monkeypatch):
    start(processes, galvo, monkeypatch, Logs)
    processes.scheduler.allowed_failures = 0
    with Client(processes) as client:
        before = set(processes.scheduler.workers)
        future = client.submit(log_and_die, "so long", pure=False)
        with pytest.raises(KilledWorker):
            future.result()
        wait_until(lambda: [r for r in messages(galvo) if r["message"] == "so long"])
        (row,) = [r for r in messages(galvo) if r["message"] == "so long"]
        assert row["worker"] in before
        wait_until(lambda: len(processes.scheduler.workers) == 2)
    in_loop(processes, lambda: asyncio.sleep(0, processes.scheduler.remove_plugin("galvo")))
    wait_until(lambda: installed(processes) == [])


def test_workers_in_the_scheduler_s_process(cluster, client, galvo, monkeypatch):
    start(cluster, galvo, monkeypatch, Logs)
    address = next(iter(cluster.scheduler.workers))
    client.submit(log_text, "hello").result()
    assert not [h for h in logging.getLogger().handlers if hasattr(h, "lines")]
    for _ in range(5):
        logging.getLogger("distributed.scheduler").warning("again")
    wait_until(lambda: len([r for r in messages(galvo) if "hello" in r["message"]]) == 2)
    hello = [r for r in messages(galvo) if "hello" in r["message"]]
    assert sorted(r["source"] for r in hello) == ["scheduler", "worker"]
    (row,) = [r for r in hello if r["source"] == "worker"]
    assert row["worker"] == address

    def again():
        rows = [r for r in messages(galvo) if r["message"] == "again"]
        return sum(r["repeated"] for r in rows)

    wait_until(lambda: again() == 5)
    assert {r["source"] for r in messages(galvo) if r["message"] == "again"} == {"scheduler"}
    # The plugin's own message about a failure is an ordinary line, and does not multiply.
    time.sleep(0.5)
    assert len([r for r in messages(galvo) if "hello" in r["message"]]) == 2


def test_nothing_is_installed_for_logs_that_are_not_sent(cluster, client, galvo, monkeypatch):
    plugin = start(cluster, galvo, monkeypatch, Logs, send_logs=False)
    # Those of workers and of nannies also remove tokens.
    assert len(installed(cluster)) == 2
    assert not [h for h in logging.getLogger("distributed").handlers if hasattr(h, "lines")]
    client.submit(log_text, "hello").result()
    client.submit(lambda: get_worker().log_event(TOPIC, {"message": "x"})).result()
    wait_until(lambda: plugin._ledger.receipt.describe()["logs"]["withheld"] == 1)
    assert messages(galvo) == []


def test_workers_may_be_left_alone(cluster, client, galvo, monkeypatch):
    start(cluster, galvo, monkeypatch, Logs, worker_plugin=False)
    assert installed(cluster) == []
    logging.getLogger("distributed.scheduler").warning("read")
    wait_until(lambda: [r for r in messages(galvo) if r["message"] == "read"])


class Stand:
    """A Logs collector on a minimal stand-in of a scheduler."""

    def __init__(self, old=False, **settings):
        self.scheduler = SimpleNamespace(
            id="Scheduler-x", workers={}, status=SimpleNamespace(name="running"), plugins={}
        )
        if old:
            self.scheduler.events, self.scheduler.event_counts = {}, {}
        else:
            self.scheduler._broker = SimpleNamespace(truncate=lambda topic: None)
        receipt = Receipt({"send_logs": True, **settings})
        self.ledger = Ledger(1, receipt=receipt)
        settings = {"send_logs": True, "worker_plugin": False, **settings}
        self.context = Context(self.scheduler, settings, self.ledger)
        self.logs = Logs(self.context)

    def add_line(self, message, at=1e9, **more):
        line = {"source": "worker", "level": "INFO", "logger": "x", "message": message, **more}
        self.logs.event(TOPIC, line, at)

    def sent(self):
        self.logs.read(1e9)
        return [body for _, body in self.ledger.outboxes["logs"].take(10_000)]


def test_repeated_lines_are_one_line():
    stand = Stand()
    for _ in range(3):
        stand.add_line("same", worker="tcp://a:1")
    stand.add_line("same", worker="tcp://b:1", repeated=5, age=2.0)
    stand.add_line("same", worker="tcp://a:1", level="ERROR")
    assert [(r["worker"], r["repeated"], r["level"], r["at"]) for r in stand.sent()] == [
        ("tcp://a:1", 3, "INFO", 1e9),
        ("tcp://b:1", 5, "INFO", 1e9 - 2),
        ("tcp://a:1", 1, "ERROR", 1e9),
    ]
    assert stand.sent() == []


def test_what_dask_logs_of_these_plugins_is_left_out():
    stand = Stand()
    for kind in ("Worker", "Nanny"):
        for action in ("Registering", "Starting", "Removing"):
            stand.add_line(
                f"{action} {kind} plugin galvo-0123456789ab", logger="distributed.scheduler"
            )
    others = [
        "Registering Worker plugin mine",
        "Starting Worker plugin galvo-of-mine",
        "Worker plugin galvo-0123456789ab failed to setup",
    ]
    for message in others:
        stand.add_line(message)
    assert [row["message"] for row in stand.sent()] == others
    assert stand.ledger.receipt.describe()["logs"]["withheld"] == 0


def test_anything_may_come_under_the_topic():
    stand = Stand()
    for message in (None, 1, [], {}, "x", {"message": 3, "repeated": -1, "age": float("nan")}):
        stand.logs.event(TOPIC, message, 1e9)
    stand.add_line("x" * 100_000, worker=3, level="L" * 100, logger="l" * 1000, source=7)
    assert [len(row["message"]) for row in stand.sent()] == [0, 1, 20_000]


def test_releases_that_have_no_hook_are_polled():
    stand = Stand(old=True)
    event = (1e9, {"source": "nanny", "level": "INFO", "logger": "x", "message": "m"})
    stand.scheduler.events[TOPIC], stand.scheduler.event_counts[TOPIC] = [event], 1
    assert [row["message"] for row in stand.sent()] == ["m"]
    assert stand.sent() == [] and stand.scheduler.events[TOPIC] == []


def test_which_worker_a_nanny_speaks_of():
    stand = Stand()
    for i in range(3):
        address = f"tcp://10.0.0.{i}:1"
        stand.scheduler.workers[address] = SimpleNamespace(pid=100 + i)
        stand.logs.worker_added(address)
    nanny = {"source": "nanny", "nanny": "tcp://10.0.0.1:2"}
    stand.add_line("Worker process 101 was killed by signal 9", **nanny)
    stand.add_line("Worker process 102 was killed by signal 9", **nanny)  # on another machine
    stand.add_line("Closing Nanny at tcp://10.0.0.1:2", worker="tcp://10.0.0.1:1", **nanny)
    worker = [row["worker"] for row in stand.sent()]
    assert worker == ["tcp://10.0.0.1:1", None, "tcp://10.0.0.1:1"]


def test_the_server_may_refuse_logs():
    stand = Stand()
    stand.add_line("before")
    stand.ledger.receipt.accept(["basic"])
    stand.add_line("after")
    assert stand.sent() == []
    assert stand.ledger.receipt.describe()["logs"]["withheld"] == 2


def test_the_plugins_travel_as_text():
    from galvo.plugin.worker_side import WorkerSide

    settings = {"name": "n", "logs": True, "scheduler_id": "x"}
    assert b"WorkerPlugin" in pickle.dumps(WorkerSide(settings))


def test_lines_that_were_left_out_on_the_way_are_counted_in_their_places():
    stand = Stand()
    stand.add_line("before")
    for _ in range(2):
        stand.add_line("7 lines were left out here", left_out=7, age=1.0)
    stand.add_line("after", left_out=True)
    rows = stand.sent()
    assert [(row["message"], row["repeated"]) for row in rows] == [
        ("before", 1),
        ("7 lines were left out here", 1),
        ("7 lines were left out here", 1),
        ("after", 1),
    ]
    assert stand.ledger.outboxes["logs"].dropped == 14
    # Where no lines may be sent, reports of left-out lines are withheld as well.
    stand = Stand(send_logs=False)
    stand.add_line("7 lines were left out here", left_out=7)
    assert stand.sent() == [] and stand.ledger.outboxes["logs"].dropped == 0
    assert stand.ledger.receipt.describe()["logs"]["withheld"] == 7


def test_a_nanny_s_line_that_comes_twice_is_one():
    stand = Stand()
    for number in (1, 2, 2, 1, 3):
        stand.add_line(f"n{number}", source="nanny", nanny="tcp://a:1", token="t", number=number)
    # Another nanny at that address, and a second one beside it.
    stand.add_line("m1", source="nanny", nanny="tcp://a:1", token="u", number=1)
    stand.add_line("k1", source="nanny", nanny="tcp://b:1", token="t", number=1)
    rows = stand.sent()
    assert [row["message"] for row in rows] == ["n1", "n2", "n3", "m1", "k1"]
    assert {row["repeated"] for row in rows} == {1}


def test_lines_of_this_process_that_are_too_many_are_counted(monkeypatch):
    monkeypatch.setattr(logs_module, "MOST_WAITING", 3)
    stand = Stand()
    handler = stand.logs._handler = LineHandler(stand.logs._receive_own_line)
    for i in range(10):
        handler.handle(logging.LogRecord("distributed.x", 30, "f", 1, "line %d", (i,), None))
    rows = stand.sent()
    assert [row["message"] for row in rows[:3]] == ["line 7", "line 8", "line 9"]
    assert rows[3]["message"].startswith("7 lines were left out here") and len(rows) == 4
    assert stand.ledger.outboxes["logs"].dropped == 7


def test_lines_that_wait_in_vain_count_as_often_as_they_were_logged(monkeypatch):
    stand = Stand()
    stand.ledger.outboxes["logs"].most = 2
    for i in range(5):
        stand.add_line(f"line {i}", repeated=i + 1)
    assert [row["message"] for row in stand.sent()] == ["line 3", "line 4"]
    assert stand.ledger.outboxes["logs"].dropped == 1 + 2 + 3


class QueriedProcesses:
    def __init__(self, stand, answers):
        self.stand, self.answers, self.addresses = stand, answers, []

    def __call__(self, address):
        self.addresses.append(address)
        return SimpleNamespace(**{OPERATION: self.answers[address]})


def test_processes_that_hold_lines_are_queried_before_a_scheduler_closes(monkeypatch):
    monkeypatch.setattr(logs_module, "QUERY_SECONDS", 0.2)
    stand = Stand()
    now = stand.context.now()

    async def answer():
        line = {"source": "worker", "message": "held", "level": "INFO", "logger": "x"}
        return [{**line, "worker": "tcp://a:1", "left_out": 5}, line]

    async def fail():
        raise OSError("gone")

    async def hang():
        await asyncio.sleep(100)

    workers = {f"tcp://{name}:1": SimpleNamespace(nanny=f"tcp://n{name}:1") for name in "abcde"}
    stand.scheduler.workers = workers
    stand.scheduler.rpc = QueriedProcesses(
        stand, {"tcp://a:1": answer, "tcp://b:1": fail, "tcp://c:1": hang, "tcp://nd:1": answer}
    )
    # Workers that announced no held lines recently, or are of another cluster, are not queried.
    asyncio.run(stand.logs.finish())
    for address, age in [("a", 0), ("b", 1), ("c", 2), ("e", 60), ("elsewhere", 0)]:
        message = {"source": "worker", "holds": True, "worker": f"tcp://{address}:1"}
        stand.logs.event(TOPIC, message, now - age)
    nanny = {"source": "nanny", "holds": True, "nanny": "tcp://nd:1"}
    stand.logs.event(TOPIC, nanny, now)
    asyncio.run(stand.logs.finish())
    assert sorted(stand.scheduler.rpc.addresses) == [
        "tcp://a:1", "tcp://b:1", "tcp://c:1", "tcp://nd:1"
    ]  # fmt: skip
    assert len(stand.sent()) == 3 and stand.ledger.outboxes["logs"].dropped == 10
