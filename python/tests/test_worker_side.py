import asyncio
import logging
import os
import pickle
import subprocess
import sys
import threading
from types import SimpleNamespace

import msgpack
import pytest
from distributed.protocol.serialize import _is_dumpable

from galvo.plugin import worker_side
from galvo.plugin.scrub import cut_inputs
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
    lines = Lines(most=(3, 2, 2), clock=clock, last=2)
    lines.test_clock = clock
    return lines


def line(text, level="INFO", at=1.0):
    return new_line(level, "distributed.worker", text, at)


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


def left_out(sent):
    return [one["left_out"] for one in sent if "left_out" in one]


def test_what_exceeds_the_rate_is_counted(lines):
    sent = [one for i in range(10) for one in lines.add(line(str(i), at=i))]
    assert texts(sent) == [("0", 1), ("1", 1), ("2", 1)]
    assert lines.holds() and lines.release() == []
    lines.test_clock.now += 1.5
    sent = lines.release()
    # The last two are sent after all, after the notice that replaces the others.
    assert [one["message"] for one in sent[1:]] == ["8", "9"]
    assert sent[0]["message"].startswith("5 lines were left out here")
    assert left_out(sent) == [5] and sent[0]["at"] == 7.0
    assert not lines.holds() and lines.release() == []
    # The rate is averaged over ten seconds.
    assert lines.add(line("x")) == []
    lines.test_clock.now += 10
    assert texts(lines.add(line("y"))) == [("x", 1), ("y", 1)]


def test_the_next_line_states_what_was_left_out(lines):
    for i in range(6):
        lines.add(line(str(i)))
    lines.test_clock.now += 11
    sent = lines.add(line("x"))
    assert sent[0]["message"].startswith("1 lines were left out")
    assert [one["message"] for one in sent[1:]] == ["4", "5", "x"]


def test_a_flood_takes_nothing_from_what_matters(lines):
    for i in range(3000):
        lines.add(line(str(i)))
    assert texts(lines.add(line("a warning", "WARNING"))) == [("a warning", 1)]
    assert texts(lines.add(line("an error", "ERROR"))) == [("an error", 1)]
    with_traceback = "x\nTraceback (most recent call last):\n  File"
    assert texts(lines.add(line(with_traceback))) == [(with_traceback, 1)]
    for i in range(3000):
        lines.add(line(str(i), "WARNING"))
        lines.add(line(str(i), "ERROR"))
    sent = lines.finish()
    assert left_out(sent) == [2995 + 2998 - 1 + 2998]
    assert sorted(texts(sent[1:])) == [("2998", 1)] * 3 + [("2999", 1)] * 3
    assert not lines.holds() and lines.finish() == []


def test_repetitions_beyond_the_rate_count_as_often_as_they_were_logged(lines):
    for i in range(10):
        lines.add(line(str(i)))
        lines.add(line(str(i)))
        lines.add(line(str(i)))
    sent = lines.finish()
    assert sum(left_out(sent)) + sum(one["repeated"] for one in sent[1:]) + 4 == 30


def test_every_line_is_sent_or_counted(lines):
    levels, sent, logged = ["INFO", "WARNING", "ERROR", "INFO"], [], 0
    for i in range(2000):
        sent += lines.add(line("again" if i % 7 == 0 else str(i), levels[i % 4]))
        logged += 1
        lines.test_clock.now += 0.011
        if i % 50 == 0:
            sent += lines.release()
    sent += lines.finish()
    sent_count = sum(one["repeated"] for one in sent if "left_out" not in one)
    assert sent_count < 1000 and sent_count + sum(left_out(sent)) == logged


# Tasks as shown by Dask 2026.8, and as shown here.
TASKS = [
    ("<Task 'f-9e107d9d372bb6826bd81d3542a419d6' f(...)>",) * 2,
    ("<Task 'f-9e107d9d372bb6826bd81d3542a419d6' f(..., ...)>",) * 2,
    ("<Task 'f-1' f()>",) * 2,
    ("<Task ('x-9e107d9d', 0, 1) getitem(...)>",) * 2,
    ("<Task 'f-1' f('SECRET', b='SECRET')>", "<Task 'f-1' f([removed])>"),
    ("<Task 'f-1' f(, b=2)>", "<Task 'f-1' f([removed])>"),
    ("<Task 'it\\'s' f(...)>",) * 2,
    ('<Task "it\'s" f(...)>',) * 2,
    # Cut off after 1,000 characters.
    ("<Task 'f-1' f('SECRETSECRETSE", "<Task 'f-1' f([removed])>"),
    ("<Task 'f-1' f(...)> SECRET", "<Task 'f-1' f([removed])>"),
    ("<Task 'f-1' f(...)>\nSECRET", "<Task 'f-1' f([removed])>"),
    # Callables have their own representation, and so do other kinds of tasks.
    ("<Task 'f-1' <Model SECRET>('x')>", "[removed]"),
    ("DataNode('SECRET')", "[removed]"),
    ("List(('SECRET', <Task 'f-1' f()>))", "[removed]"),
    ("", "[removed]"),
]


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
    for task, kept in TASKS:
        shown = message_of(record(new, "k", "executing", task, "E()", "tb"))
        assert shown == (
            f"Compute Failed\nKey:       k\nState:     executing\nTask:  {kept}\n"
            "Exception: 'E()'\nTraceback: 'tb'\n"
        )
        # The scheduler checks received text once more.
        assert cut_inputs(shown) == shown
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
        self.handlers = {}
        self.closed, self.refused = False, {}
        self.scheduler = SimpleNamespace(log_event=self.receive_event)

    async def receive_event(self, topic, msg):
        if self.closed:
            raise OSError("closed")
        if msg.get("message") in self.refused:
            raise self.refused[msg["message"]]()
        self._carry(topic, msg)

    def log_event(self, topic, message):
        self._carry(topic, message)

    def _carry(self, topic, message):
        assert _is_dumpable(message)
        msgpack.packb(message)
        self.events.append((topic, message))

    def sent_messages(self):
        for function, arguments in self.loop.callbacks:
            if asyncio.iscoroutinefunction(function):
                asyncio.run(function(*arguments))
        self.loop.callbacks = []
        return [message["message"] for _, message in self.events if "message" in message]


def lines_of(host):
    """Returns the messages that are log lines, without notices."""
    return [m for _, m in host.events if "message" in m and "left_out" not in m]


def handlers():
    return [h for h in logging.getLogger("distributed").handlers if hasattr(h, "guests")]


def test_a_worker_has_one_handler_however_often_it_is_set_up():
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
    assert worker.sent_messages() == ["one"] and handlers() == []
    assert worker.metrics == {}


def test_nannies_in_one_process_send_each_line_once():
    nannies = [Host(), Host()]
    plugins = [NannySide(SETTINGS) for _ in nannies]
    for nanny, plugin in zip(nannies, plugins):
        plugin.setup(nanny)
    log = logging.getLogger("distributed.nanny")
    log.warning("one")
    assert [nanny.sent_messages() for nanny in nannies] == [["one"], []]
    message = nannies[0].events[0][1]
    assert message["source"] == "nanny" and "worker" not in message
    plugins[0].teardown(nannies[0])
    log.warning("two")
    assert nannies[1].sent_messages() == ["two"]
    assert nannies[1].events[0][1]["worker"] == nannies[1].worker_address
    plugins[1].teardown(nannies[1])
    assert handlers() == []


def test_a_nanny_that_cannot_send_stays_silent_and_loses_nothing(caplog):
    nanny, plugin = Host(), NannySide(SETTINGS)
    plugin.setup(nanny)
    log = logging.getLogger("distributed.nanny")
    log.warning("one")
    nanny.closed = True
    assert nanny.sent_messages() == []
    nanny.closed = False
    log.warning("two")
    asyncio.run(plugin._guest._deliver())
    assert nanny.sent_messages() == ["one", "two"]
    assert [record.getMessage() for record in caplog.records] == ["one", "two"]
    numbers = [message["number"] for _, message in nanny.events]
    assert numbers == sorted(set(numbers))
    plugin.teardown(nanny)


@pytest.mark.parametrize("error", [OSError, asyncio.TimeoutError, ValueError, TypeError])
def test_a_message_that_cannot_be_sent_costs_nothing_but_itself(error):
    nanny, plugin = Host(), NannySide(SETTINGS)
    plugin.setup(nanny)
    nanny.refused = {"two": error}
    log = logging.getLogger("distributed.nanny")
    for text in ("one", "two", "three"):
        log.warning(text)
    for _ in range(10):
        asyncio.run(plugin._guest._deliver())
    assert nanny.sent_messages() == ["one", "three"]
    plugin._guest._handler.finish()
    asyncio.run(plugin._guest._deliver())
    assert nanny.events[-1][1]["left_out"] == 1
    plugin.teardown(nanny)


def test_a_nanny_that_ends_sends_what_it_has(monkeypatch):
    nanny, plugin = Host(), NannySide(SETTINGS)
    plugin.setup(nanny)
    for i in range(250):  # 200 and the last 10
        logging.getLogger("distributed.nanny").warning("%d", i)
    asyncio.run(plugin.teardown(nanny))
    (notice,) = [message for _, message in nanny.events if "left_out" in message]
    assert notice["left_out"] == 40
    sent_texts = [message["message"] for message in lines_of(nanny)]
    assert len(sent_texts) == 210 and sent_texts[-1] == "249"
    assert handlers() == []

    # Without a listener, the nanny neither waits forever nor reports an error.
    nanny, plugin = Host(), NannySide(SETTINGS)
    plugin.setup(nanny)
    monkeypatch.setattr(worker_side, "FLUSH_SECONDS", 0.05)
    nanny.scheduler.log_event = lambda **kwargs: asyncio.sleep(100)
    logging.getLogger("distributed.nanny").warning("one")
    asyncio.run(plugin.teardown(nanny))


def test_the_queue_of_a_nanny_is_bounded_and_counts(monkeypatch):
    monkeypatch.setattr(worker_side, "MOST_QUEUED", 5)
    nanny, plugin = Host(), NannySide(SETTINGS)
    plugin.setup(nanny)
    for i in range(12):
        logging.getLogger("distributed.nanny").warning("%d", i)
    plugin._guest._handler.finish()
    asyncio.run(plugin.teardown(nanny))
    counted = sum(message.get("left_out", 0) for _, message in nanny.events)
    assert len(lines_of(nanny)) + counted == 12 and len(nanny.events) <= 6


def test_lines_of_other_threads():
    worker, plugin = Host(), WorkerSide(SETTINGS)
    plugin.setup(worker)
    thread = threading.Thread(target=logging.getLogger("distributed.x").error, args=("there",))
    thread.start()
    thread.join()
    plugin.teardown(worker)
    assert worker.sent_messages() == ["there"]


def test_the_metric_never_fails():
    worker, plugin = Host(), WorkerSide({**SETTINGS, "logs": False})
    plugin.setup(worker)
    metric = worker.metrics["galvo"]
    measured = metric(worker)
    assert 0 < measured["disk_free_bytes"] <= measured["disk_total_bytes"]
    assert measured["executable"] == sys.executable
    assert worker_side.WorkerMetric()(SimpleNamespace()) == {"executable": sys.executable}
    assert handlers() == []
    plugin.teardown(worker)


def test_what_a_worker_lacks_does_no_harm():
    for plugin in (WorkerSide(SETTINGS), NannySide(SETTINGS)):
        nothing = SimpleNamespace()
        plugin.setup(nothing)
        logging.getLogger("distributed.worker").error("x")
        plugin.teardown(nothing)
    assert handlers() == []


def test_a_nanny_that_sends_no_logs_has_no_handler():
    plugin = NannySide({**SETTINGS, "logs": False})
    plugin.setup(Host())
    assert handlers() == []
    plugin.teardown(Host())


def test_pickles_carry_no_bytecode_and_need_no_package():
    for plugin in (WorkerSide(SETTINGS), NannySide(SETTINGS)):
        assert len(pickle.dumps(plugin)) < 60_000
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


class Name(str):
    """A subclass of str that fails when it is described."""

    def __str__(self):
        raise ValueError("no")

    __repr__ = __format__ = __str__


class Unprintable:
    def __str__(self):
        raise ValueError("no")

    __repr__ = __str__


class Talkative:
    """Logs a line when it is converted to text."""

    def __str__(self):
        logging.getLogger("distributed.worker.talk").warning("from within")
        return "talk"


HOSTILE = [
    (("caf\udce9 %s", "caf\udce9.csv"), "caf\\udce9 caf\\udce9.csv"),
    ((Name("a name"),), "a name [its arguments cannot be shown]"),
    (("%s", Unprintable()), "%s [its arguments cannot be shown]"),
    (("%d", "x"), "%d [its arguments cannot be shown]"),
    (("%s", 10**5000), "%s [its arguments cannot be shown]"),
    ((Unprintable(),), "<Unprintable> [its arguments cannot be shown]"),
    (("nul \0 \u202e \x1b[31m",), "nul \0 \u202e \x1b[31m"),
    (("%s", Talkative()), "talk"),
    ((b"bytes",), "b'bytes'"),
    ((10**30,), str(10**30)),
]


@pytest.mark.parametrize("source", [WorkerSide, NannySide])
@pytest.mark.parametrize("number", range(5))
def test_whatever_is_logged_can_be_carried(source, number):
    level = ["WARNING", Name("WARNING"), "caf\udce9", None, 7][number]
    name = ["plain", Name("distributed.x"), "caf\udce9", "x" * 10**6, "\0"][number]
    host, plugin = Host(), source(SETTINGS)
    plugin.setup(host)
    for (message, *values), _ in HOSTILE:
        record = logging.LogRecord("x", 40, "f", 1, message, tuple(values), None)
        record.levelname, record.name = level, name
        for handler in handlers():
            handler.handle(record)
    finished = plugin.teardown(host)
    if finished is not None:
        asyncio.run(finished)
    messages = lines_of(host)
    # A line that an argument logged while it was read is counted.
    assert sum(message.get("left_out", 0) for _, message in host.events) == 1
    assert [message["message"] for message in messages] == [shown for _, shown in HOSTILE]
    assert all(len(message["logger"]) <= 512 for message in messages)


def test_a_recursion_that_ends_while_a_line_is_read_is_counted():
    worker, plugin = Host(), WorkerSide(SETTINGS)
    plugin.setup(worker)

    logged = []

    def descend(depth):
        logged.append(depth)
        logging.getLogger("mine").error("at %d", depth)
        descend(depth + 1)

    with pytest.raises(RecursionError):
        descend(0)
    plugin.teardown(worker)
    stored = len(lines_of(worker))
    counted = sum(message.get("left_out", 0) for _, message in worker.events)
    # The last one may have ended before it was a record, or while it was counted.
    assert counted > 0 and abs(stored + counted - len(logged)) <= 1


def test_a_line_does_not_wait_for_another_that_is_being_read():
    worker, plugin = Host(), WorkerSide(SETTINGS)
    plugin.setup(worker)
    log = logging.getLogger("mine")

    class ShownByThread:
        """Like a Dask collection, is represented by another thread, which logs."""

        def __str__(self):
            thread = threading.Thread(target=log.error, args=("by another thread",), daemon=True)
            thread.start()
            thread.join(10)
            assert not thread.is_alive()
            return "shown"

    record = logging.LogRecord("mine", 40, "f", 1, "%s", (ShownByThread(),), None)
    (handler,) = handlers()
    handler.handle(record)
    plugin.teardown(worker)
    assert sorted(worker.sent_messages()) == ["by another thread", "shown"]


def test_a_worker_that_ends_or_is_queried_sends_what_it_holds():
    worker, plugin = Host(), WorkerSide(SETTINGS)
    plugin.setup(worker)
    release = worker.handlers[worker_side.OPERATION]
    log = logging.getLogger("distributed.worker")
    for i in range(300):
        log.warning("%d", i)
    # It announces once that it holds lines.
    assert [m for _, m in worker.events if m.get("holds")] == [
        {"source": "worker", "holds": True, "worker": worker.address}
    ]
    answered = release()
    msgpack.packb(answered)
    assert [m.get("left_out") for m in answered] == [90] + [None] * 10
    assert answered[-1]["message"] == "299" and release() == []
    for i in range(100):
        log.warning("%d more", i)
    plugin.teardown(worker)
    assert worker.handlers == {}
    assert worker.events[-1][1]["message"] == "99 more"
    (notice,) = [m for _, m in worker.events if "left_out" in m]
    assert notice["left_out"] == 90


def test_the_metric_can_be_carried(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/caf\udce9/bin/python")
    measured = worker_side.WorkerMetric()(Host())
    msgpack.packb(measured)
    assert measured["executable"] == "/opt/caf\\udce9/bin/python"


class EarlierHandler(logging.Handler):
    """The handler of an earlier version, which had more loggers."""

    loggers = ("", "distributed", "distributed.client", "tornado.application")

    def __init__(self):
        super().__init__()
        self.guests = []


def test_handlers_of_earlier_versions_leave_all_their_loggers():
    earlier, worker, plugin = EarlierHandler(), Host(), WorkerSide(SETTINGS)
    for name in earlier.loggers:
        logging.getLogger(name).addHandler(earlier)
    plugin.setup(worker)
    present = [h for name in earlier.loggers for h in logging.getLogger(name).handlers]
    assert earlier not in present
    plugin.teardown(worker)


def test_a_handler_that_an_earlier_version_takes_away_reads_nothing():
    worker, plugin = Host(), WorkerSide(SETTINGS)
    plugin.setup(worker)
    (handler,) = handlers()
    logging.getLogger("mine").warning("one")
    for name in EarlierHandler.loggers:
        logging.getLogger(name).removeHandler(handler)
    logging.getLogger("mine").warning("none")
    logging.getLogger("distributed.some").warning("none")
    assert worker.sent_messages() == ["one"]
    detach(handler)
    plugin.teardown(worker)


def test_factories_and_filters_that_stay_only_pass_records_on():
    log, original = logging.getLogger("mine"), logging.getLogRecordFactory()
    workers = [Host(), Host()]
    try:
        handlers = [LineHandler(lambda line, w=w: w.events.append(line)) for w in workers]
        for handler in handlers:
            handler.attach()
        log.addFilter(lambda record: True)
        log.warning("both")
        # The lower handler is removed first.
        detach(handlers[0])
        log.warning("one")
        detach(handlers[1])
        log.warning("none")
        assert [[e["message"] for e in w.events] for w in workers] == [["both"], ["both", "one"]]
        assert logging.getLogRecordFactory() is original and len(log.filters) == 1
    finally:
        log.filters.clear()
