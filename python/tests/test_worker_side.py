import asyncio
import logging
import os
import pickle
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from galvo.plugin import worker_side
from galvo.plugin.worker_side import (
    GuestHandler,
    LineHandler,
    Lines,
    NannySide,
    WorkerSide,
    detach,
    message_of,
    new_line,
)

SETTINGS = {"name": "galvo-test", "logs": True, "scheduler_id": "Scheduler-elsewhere"}


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def lines():
    clock = Clock()
    lines = Lines(most=3, clock=clock)
    lines.test_clock = clock
    return lines


def line(text, level="INFO"):
    return new_line(level, "distributed.worker", text, 1.0)


def texts(sent):
    return [(one["message"], one["repeated"]) for one in sent]


def test_repetitions_are_folded():
    lines = Lines()
    assert texts(lines.add(line("a"))) == [("a", 1)]
    assert lines.add(line("a")) == [] and lines.add(line("a")) == []
    assert lines.holds()
    assert texts(lines.add(line("b"))) == [("a", 2), ("b", 1)]
    assert not lines.holds()
    lines.add(line("b"))
    assert texts(lines.release()) == [("b", 1)]
    assert lines.release() == []


def test_what_exceeds_the_rate_is_counted(lines):
    sent = [one for i in range(10) for one in lines.add(line(str(i)))]
    assert texts(sent) == [("0", 1), ("1", 1), ("2", 1)]
    assert lines.holds() and lines.release() == []
    lines.test_clock.now += 11
    sent = lines.release()
    assert len(sent) == 1 and sent[0]["message"].startswith("7 lines were left out")
    assert not lines.holds()
    assert texts(lines.add(line("x"))) == [("x", 1)]


def test_the_next_line_tells_what_was_left_out(lines):
    for i in range(4):
        lines.add(line(str(i)))
    lines.test_clock.now += 11
    sent = lines.add(line("x"))
    assert sent[0]["message"].startswith("1 lines were left out") and sent[1]["message"] == "x"


def test_arguments_of_tasks_never_appear():
    def record(message, *values, exc_info=None):
        return logging.LogRecord("distributed.worker", 30, "f", 1, message, values, exc_info)

    old = (
        "Compute Failed\nKey:       %s\nFunction:  %s\n"
        "args:      %s\nkwargs:    %s\nException: %r\n"
    )
    shown = message_of(record(old, "k", "f", "(SECRET\nException: 1)", "{SECRET}", "ValueError()"))
    assert "SECRET" not in shown
    assert shown.startswith("Compute Failed\nKey:       k\nFunction:  f\nargs:      [removed]\n")
    assert shown.endswith("kwargs:    [removed]\nException: 'ValueError()'\n")
    new = "Compute Failed\nKey:       %s\nState:     %s\nTask:  %s\nException: %r\nTraceback: %r\n"
    shown = message_of(record(new, "k", "executing", "<Task SECRET>", "E()", "tb"))
    assert "SECRET" not in shown and shown.endswith("Exception: 'E()'\nTraceback: 'tb'\n")
    try:
        raise ValueError("x")
    except ValueError:
        info = sys.exc_info()
    shown = message_of(
        record(
            "Run Failed\nFunction: %s\nargs:     %s\nkwargs:   %s\n", "f", "S", "S", exc_info=info
        )
    )
    assert "args:     [removed]\nkwargs:   [removed]\n" in shown
    assert shown.endswith("ValueError: x")


@pytest.fixture
def handler():
    sent = []
    handler = LineHandler(sent.append)
    handler.sent = sent
    handler.attach()
    yield handler
    detach(handler)


def test_levels(handler, monkeypatch):
    ours, theirs = logging.getLogger("distributed.some"), logging.getLogger("some.library")
    monkeypatch.setattr(ours, "level", logging.DEBUG)
    monkeypatch.setattr(theirs, "level", logging.DEBUG)
    for log in (ours, theirs):
        log.debug("debug")
        log.info("info")
        log.warning("warning %d", 1)
    assert [(one["logger"], one["message"]) for one in handler.sent] == [
        ("distributed.some", "info"),
        ("distributed.some", "warning 1"),
        ("some.library", "warning 1"),
    ]


def test_a_line_leads_to_no_other_line(handler):
    log = logging.getLogger("distributed.some")

    def send(one):
        handler.sent.append(one)
        log.error("while sending")
        raise RuntimeError

    handler._send = send
    log.warning("first")
    log.warning("second")
    assert [one["message"] for one in handler.sent] == ["first", "second"]


def test_messages_that_cannot_be_made_are_passed_over(handler):
    log = logging.getLogger("distributed.some")
    for arguments in [("%d", "x"), ("%s %s", 1), (object(),)]:
        record = logging.LogRecord(
            "distributed.some", 40, "f", 1, arguments[0], arguments[1:], None
        )
        handler.handle(record)
    log.error("fine")
    assert handler.sent[-1]["message"] == "fine"


def test_processes_that_are_forked_stay_silent(handler):
    log = logging.getLogger("distributed.some")
    child = os.fork()
    if child == 0:
        log.error("in the child")
        os._exit(len(handler.sent))
    assert os.waitpid(child, 0)[1] == 0


class Loop:
    def __init__(self):
        self.callbacks = []

    def add_callback(self, function, *arguments):
        self.callbacks.append((function, arguments))


class Host:
    """A worker or a nanny."""

    def __init__(self):
        self.address = self.worker_address = f"tcp://127.0.0.1:{id(self)}"
        self.local_directory = os.getcwd()
        self.loop = Loop()
        self.metrics = {}
        self.events = []
        self.scheduler = SimpleNamespace(log_event=self.tell)

    async def tell(self, topic, msg):
        if self.address is None:
            raise OSError("closed")
        self.events.append((topic, msg))

    def log_event(self, topic, message):
        self.events.append((topic, message))

    def said(self):
        for function, arguments in self.loop.callbacks:
            if asyncio.iscoroutinefunction(function):
                asyncio.run(function(*arguments))
        self.loop.callbacks = []
        return [message["message"] for _, message in self.events]


def handlers():
    return [h for h in logging.getLogger("distributed").handlers if hasattr(h, "guests")]


def test_a_worker_has_one_handler_however_often_it_is_asked():
    worker, log = Host(), logging.getLogger("distributed.worker")
    first, second = WorkerSide(SETTINGS), pickle.loads(pickle.dumps(WorkerSide(SETTINGS)))
    assert type(second) is not WorkerSide  # made of the same text, in a module of its own
    for plugin in (first, second, first, second):
        plugin.setup(worker)
        assert len(handlers()) == 1
    log.warning("one")
    second.teardown(worker)
    log.warning("none")
    first.teardown(worker)
    assert worker.said() == ["one"] and handlers() == []
    assert worker.metrics == {}


def test_nannies_in_one_process_send_each_line_once():
    nannies = [Host(), Host()]
    plugins = [NannySide(SETTINGS) for _ in nannies]
    for nanny, plugin in zip(nannies, plugins):
        plugin.setup(nanny)
    log = logging.getLogger("distributed.nanny")
    log.warning("one")
    assert [nanny.said() for nanny in nannies] == [["one"], []]
    message = nannies[0].events[0][1]
    assert message["source"] == "nanny" and "worker" not in message
    plugins[0].teardown(nannies[0])
    log.warning("two")
    assert nannies[1].said() == ["two"]
    assert nannies[1].events[0][1]["worker"] == nannies[1].worker_address
    plugins[1].teardown(nannies[1])
    assert handlers() == []


def test_a_nanny_that_cannot_send_says_nothing(caplog):
    nanny, plugin = Host(), NannySide(SETTINGS)
    plugin.setup(nanny)
    log = logging.getLogger("distributed.nanny")
    nanny.address = None
    log.warning("one")
    assert nanny.said() == []
    nanny.address = "tcp://127.0.0.1:1"
    log.warning("two")
    assert nanny.said() == ["two"]
    assert [record.getMessage() for record in caplog.records] == ["one", "two"]
    plugin.teardown(nanny)


def test_lines_of_other_threads():
    worker, plugin = Host(), WorkerSide(SETTINGS)
    plugin.setup(worker)
    thread = threading.Thread(target=logging.getLogger("distributed.x").error, args=("there",))
    thread.start()
    thread.join()
    plugin.teardown(worker)
    assert worker.said() == ["there"]


def test_the_metric_never_fails():
    worker, plugin = Host(), WorkerSide({**SETTINGS, "logs": False})
    plugin.setup(worker)
    metric = worker.metrics["galvo"]
    measured = metric(worker)
    assert 0 < measured["disk_free_bytes"] <= measured["disk_total_bytes"]
    assert measured["executable"] == sys.executable
    assert worker_side.Disk()(SimpleNamespace()) == {"executable": sys.executable}
    assert handlers() == []
    plugin.teardown(worker)


def test_what_a_worker_lacks_does_no_harm():
    for plugin in (WorkerSide(SETTINGS), NannySide(SETTINGS)):
        nothing = SimpleNamespace()
        plugin.setup(nothing)
        logging.getLogger("distributed.worker").error("x")
        plugin.teardown(nothing)
    assert handlers() == []


def test_pickles_carry_no_bytecode_and_need_no_package():
    for plugin in (WorkerSide(SETTINGS), NannySide(SETTINGS)):
        assert len(pickle.dumps(plugin)) < 50_000
        code = (
            "import pickle, sys; p = pickle.load(sys.stdin.buffer); import distributed;"
            "assert isinstance(p, (distributed.WorkerPlugin, distributed.diagnostics.plugin."
            "NannyPlugin)); assert p.name == 'galvo-test'; assert 'galvo' not in sys.modules;"
            "pickle.loads(pickle.dumps(p))"
        )
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        subprocess.run(
            [sys.executable, "-c", code], input=pickle.dumps(plugin), check=True, cwd="/",
            env=environment,
        )  # fmt: skip


def test_handlers_know_each_other():
    assert GuestHandler().guests == []
