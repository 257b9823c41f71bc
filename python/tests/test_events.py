"""Tests of the events collected from Dask: each is sent once, also with live objects in it."""

import asyncio
import json
import math
import time
import traceback
import uuid
from types import SimpleNamespace

import pytest
from conftest import wait_until
from distributed import Client, LocalCluster, get_worker

from galvo.plugin import Context, Ledger
from galvo.plugin import telemetry as module
from galvo.plugin.collector import Collector
from galvo.plugin.events import FAILURES, LARGEST_DATA, MOST_OF_TOPIC, Events, copy
from galvo.plugin.sections import Receipt
from galvo.plugin.telemetry import CoiledTelemetry
from galvo.plugin.values import dumps


class Ids(Collector):
    """Provides the ids of workers, as the workers collector does."""

    def __init__(self, context):
        super().__init__(context)
        self.ids = context.workers = {}

    def worker_added(self, address):
        self.ids.setdefault(address, str(uuid.uuid4()))


def start(cluster, galvo, monkeypatch, **settings):
    monkeypatch.setattr(module, "COLLECTORS", (Ids, Events))
    settings = {
        "server": galvo.address,
        "token": "seal-2f1c9d7a40",
        "account": None,
        "disabled": False,
        "interval_seconds": 0.2,
        "events_interval_seconds": 0.2,
        "events_allow": ["*"],
        "send_code": True,
        **settings,
    }
    plugin = CoiledTelemetry(settings)

    async def install():
        cluster.scheduler.add_plugin(plugin, name="galvo")
        await plugin.start(cluster.scheduler)
        await plugin._starting

    asyncio.run_coroutine_threadsafe(install(), cluster.scheduler.loop.asyncio_loop).result(20)
    return plugin


@pytest.fixture
def empty_cluster():
    with LocalCluster(
        n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


def score(value):
    get_worker().log_event("scores", {"score": value, "api_key": "hunter2"})
    get_worker().log_event(["scores", "more"], {"both": value})
    return value


def test_events_of_a_cluster(empty_cluster, galvo, monkeypatch):
    cluster = empty_cluster
    plugin = start(cluster, galvo, monkeypatch)
    with Client(cluster) as client:
        cluster.scale(2)
        client.wait_for_workers(2)
        addresses = list(cluster.scheduler.workers)
        ids = plugin._collectors._collectors[0].ids
        client.submit(score, 1).result()
        client.log_event(["of-client", "all"], {"nan": math.nan, "set": [1]})
        client.run_on_scheduler(lambda: None)
        client_id = client.id
        cluster.scale(1)
        wait_until(lambda: len(cluster.scheduler.workers) == 1)
    wait_until(lambda: of(galvo, "remove-client"))
    time.sleep(0.5)
    rows = galvo.rows_of("events")

    added = of(galvo, "add-worker")
    assert sorted(row["topic"] for row in added) == sorted(addresses)
    assert {row["worker_id"] for row in added} == {ids[a] for a in addresses}
    (removed,) = of(galvo, "remove-worker")
    assert removed["topic"] in addresses and removed["worker_id"] == ids[removed["topic"]]
    assert removed["data"]["processing-tasks"] in ([], {})
    for action in ("add-client", "remove-client"):
        mine = [row for row in of(galvo, action) if row["data"]["client"] == client_id]
        assert [row["topic"] for row in mine] == [client_id]
    scores = [row for row in rows if row["topic"] == "scores"]
    assert [row["data"].get("score", row["data"].get("both")) for row in scores] == [1, 1]
    assert scores[0]["data"]["api_key"] == "[removed]"
    assert scores[0]["worker_id"] in ids.values()
    assert [row["data"]["both"] for row in rows if row["topic"] == "more"] == [1]
    (own,) = [row for row in rows if row["topic"] == "of-client"]
    assert own["data"] == {"nan": None, "set": [1]} and own["worker_id"] is None
    assert abs(own["at"] - time.time()) < 60
    (run,) = of(galvo, "run-function")
    assert run["data"]["function"].startswith("<") and "cloudpickle" not in repr(rows)
    keys = [(row["topic"], row["at"], dumps(row["data"])) for row in rows]
    assert len(keys) == len(set(keys))


def of(galvo, action):
    rows = galvo.rows_of("events")
    return [r for r in rows if isinstance(r["data"], dict) and r["data"].get("action") == action]


def test_failures_of_dask(empty_cluster, galvo, monkeypatch):
    start(empty_cluster, galvo, monkeypatch, events_allow=["invalid-task-states"])
    with Client(empty_cluster) as client:
        message = {"key": "x-1", "state": "flight", "story": [["x-1", "a"]] * 500}
        client.log_event("invalid-worker-task-state", {**message, "worker": "tcp://w:1"})
        client.log_event("worker-fail-hard", {"exception_text": "OSError()"})
        client.log_event("scores", {"a": 1})
    wait_until(galvo.errors)
    (error,) = galvo.errors()
    assert error["origin"] == "dask" and error["type"] == "InvalidTaskState"
    assert error["key"] == "x-1" and error["worker"] == "tcp://w:1"
    assert error["message"] == "impossible state: flight"
    (event,) = galvo.rows_of("events")
    assert event["topic"] == "invalid-worker-task-state"


class Stand:
    """An Events collector on a minimal stand-in of a scheduler."""

    def __init__(self, old=False, accepts=None, **settings):
        self.scheduler = SimpleNamespace(tasks={}, workers={})
        if old:
            self.scheduler.events, self.scheduler.event_counts = {}, {}
        else:
            self.scheduler._broker = object()
        self.settings = {"events_allow": ["*"], "send_code": True, **settings}
        self.ledger = Ledger(1, receipt=Receipt(self.settings))
        self.ledger.receipt.accept(accepts)
        self.context = Context(self.scheduler, self.settings, self.ledger)
        self.context.workers = {"tcp://a:1": "id-a", "tcp://b:1": "id-b"}
        self.events = Events(self.context)

    def log(self, topics, message, at=1e9):
        """Logs an event as Dask does, including live objects."""
        topics = [topics] if isinstance(topics, str) else topics
        if hasattr(self.scheduler, "events"):
            event = (at, message)
            for topic in topics:
                self.scheduler.events.setdefault(topic, []).append(event)
                counts = self.scheduler.event_counts
                counts[topic] = counts.get(topic, 0) + 1
        for topic in topics:
            self.events.event(topic, message, at)

    def sent(self, kind="events"):
        self.events.read(1e9)
        return [body for _, body in self.ledger.outboxes[kind].take(10_000)]

    def counts(self, data_class="events"):
        return self.ledger.receipt.describe()[data_class]


@pytest.mark.parametrize("old", [False, True])
def test_each_event_is_sent_once(old):
    stand = Stand(old=old)
    stand.log("tcp://a:1", {"action": "add-worker"}, 1e9)
    stand.log("all", {"action": "add-worker", "worker": "tcp://a:1"}, 1e9 + 0.1)
    stand.log(["all", "Client-1"], {"action": "add-client", "client": "Client-1"}, 1e9 + 0.2)
    stand.log(["scheduler", "Client-1"], {"action": "update-graph", "n": 1}, 1e9 + 0.3)
    lost = {"x"}
    message = {"action": "remove-worker", "processing-tasks": lost}
    stand.log("tcp://a:1", message.copy(), 1e9 + 0.4)
    message["worker"] = "tcp://a:1"
    stand.log("all", message, 1e9 + 0.5)
    for i in range(2):
        gone = {"action": "remove-client", "client": "Client-1"}
        stand.log(["all", "Client-1"], gone, 1e9 + 0.6 + i / 100)
    stand.log(["tcp://a:1", "tcp://b:1"], {"action": "retired"}, 1e9 + 0.7)
    stand.log("all", {"action": "gather", "count": 1}, 1e9 + 0.8)
    stand.log("all", {"action": "gather", "count": 1}, 1e9 + 0.9)
    sent = [(row["topic"], row["worker_id"], row["data"]["action"]) for row in stand.sent()]
    assert sent == [
        ("tcp://a:1", "id-a", "add-worker"),
        ("Client-1", None, "add-client"),
        ("Client-1", None, "update-graph"),
        ("tcp://a:1", "id-a", "remove-worker"),
        ("Client-1", None, "remove-client"),
        ("tcp://a:1", "id-a", "retired"),
        ("tcp://b:1", "id-b", "retired"),
        ("all", None, "gather"),
        ("all", None, "gather"),
    ]
    assert stand.sent() == [] and stand.counts()["withheld"] == 0


def test_messages_are_taken_as_they_are_at_once():
    stand = Stand()
    message = {"list": [1]}
    stand.log("mine", message)
    message["list"].append("later")
    assert stand.sent()[0]["data"] == {"list": [1]}


def test_only_topics_that_are_allowed():
    stand = Stand(events_allow=["scores", "all"])
    stand.log("scores", {})
    stand.log(["all", "Client-1"], {"action": "add-client", "client": "Client-1"})
    stand.log("others", {})
    stand.log("worker-fail-hard", {"exception_text": "x"})
    assert [row["topic"] for row in stand.sent()] == ["scores", "Client-1"]
    assert stand.counts()["withheld"] == 2 and stand.sent("errors") == []

    stand = Stand(events_allow=[])
    stand.log("scores", {})
    stand.log("worker-fail-hard", {"exception_text": "x"})
    assert stand.sent() == [] and stand.sent("errors") == []


@pytest.mark.parametrize("old", [False, True])
def test_each_named_topic_has_an_event_of_its_own(old):
    stand = Stand(old=old)
    stand.log(["train", "metrics"], {"loss": 1}, 1e9)
    stand.log(["all", "tcp://a:1", "train", "Client-1"], {"loss": 2}, 1e9 + 1)
    rows = stand.sent()
    sent = [(row["topic"], row["at"], row["data"]) for row in rows]
    assert sent == [
        ("train", 1e9, {"loss": 1}),
        ("metrics", 1e9, {"loss": 1}),
        ("train", 1e9 + 1, {"loss": 2}),
    ]
    assert len({row["id"] for row in rows}) == 3 and stand.counts()["withheld"] == 0


@pytest.mark.parametrize("old", [False, True])
def test_a_topic_that_is_not_allowed_is_not_sent_for_the_sake_of_another(old):
    stand = Stand(old=old, events_allow=["metrics"])
    stand.log(["private", "metrics", "secret"], {"loss": 1}, 1e9)
    stand.log(["private", "all"], {"loss": 2}, 1e9 + 1)
    assert [(row["topic"], row["data"]) for row in stand.sent()] == [("metrics", {"loss": 1})]
    assert stand.counts()["withheld"] == 3

    stand = Stand(old=old, events_allow=["all"])
    stand.log(["private", "all"], {"loss": 3})
    assert [row["topic"] for row in stand.sent()] == ["all"]
    assert stand.counts()["withheld"] == 1


def test_each_topic_has_a_bound_of_its_own():
    stand = Stand()
    for i in range(MOST_OF_TOPIC):
        stand.log("train", {"i": i})
    stand.log(["train", "metrics"], {"i": -1})
    assert [row["topic"] for row in stand.sent()[-1:]] == ["metrics"]
    assert stand.ledger.outboxes["events"].dropped == 1


def test_names_of_failures_stand_for_each_other():
    names = [topic for topic, kind in FAILURES.items() if kind == "InvalidTaskState"]
    assert len(names) == 3
    for listed in names:
        for logged in names:
            stand = Stand(events_allow=[listed])
            stand.log(logged, {"key": "x", "state": "y"})
            assert len(stand.sent()) == 1 and len(stand.sent("errors")) == 1


def test_failures_are_sent_although_events_are_refused():
    stand = Stand(accepts=["basic", "dask_errors"])
    stand.log("scores", {})
    failed = {"exception_text": "OSError('token=hunter2')", "worker": "tcp://a:1"}
    stand.log("worker-fail-hard", {**failed, "traceback_text": '  File "x", line 1\n    source\n'})
    (event,), (error,) = stand.sent(), stand.sent("errors")
    assert event["topic"] == "worker-fail-hard" and event["worker_id"] == "id-a"
    assert error["message"] == "OSError('token=[removed]')"
    assert error["traceback"] == '  File "x", line 1\n'  # code is refused as well
    assert error["worker"] == "tcp://a:1" and error["worker_id"] == "id-a"
    assert stand.counts()["withheld"] == 1 and stand.counts("dask_errors")["withheld"] == 0


def test_which_messages_are_failures():
    stand = Stand()
    story = [("x", "a", "b", {"c"})] * 1000
    stand.log("p2p", {"action": "p2p-failed", "shuffle": "s1"})
    stand.log("p2p", {"action": "something"})
    stand.log("transitions", {"action": "scheduler-transition-failed", "key": ("x", 1),
                              "start": "a", "finish": "b", "transition_log": story})  # fmt: skip
    stand.log("invalid-worker-transition", {"key": "x", "start": "a", "finish": "b"})
    stand.log("transition-counter-max-exceeded", {"key": "x", "start": "a", "finish": "b"})
    stand.log("worker-restart-memory", {"worker": "tcp://b:1", "pid": 3, "rss": 2**30})
    errors = stand.sent("errors")
    assert [error["type"] for error in errors] == [
        "P2PFailed",
        "SchedulerTransitionFailed",
        "InvalidTransition",
        "TransitionCounterMaxExceeded",
        "WorkerRestartMemory",
    ]
    assert errors[1]["message"] == "impossible transition from a to b"
    assert "1.00 GiB" in errors[4]["message"] and errors[4]["worker_id"] == "id-b"
    assert len(stand.sent()) == 6


def test_chatter_is_bounded():
    stand = Stand()
    for i in range(1000):
        stand.log("stealing", ["request", i], 1e9 + i / 100)
        stand.log("scores", {"i": i}, 1e9 + i / 100)
    rows = stand.sent()
    assert len([row for row in rows if row["topic"] == "scores"]) == 1000
    assert len([row for row in rows if row["topic"] == "stealing"]) == 120
    assert stand.ledger.outboxes["events"].dropped == 880
    stand.log("stealing", ["request", 1], 1e9 + 61)
    assert len(stand.sent()) == 1


def test_lines_of_logs_are_no_events():
    for old in (False, True):
        stand = Stand(old=old)
        stand.log("galvo-log", {"message": "x"})
        assert stand.sent() == [] and stand.counts()["withheld"] == 0


class Unknown:
    def __repr__(self):
        raise AssertionError("a description was requested")

    __str__ = __iter__ = __len__ = __repr__


def test_copies_are_plain():
    cyclic = []
    cyclic.append(cyclic)
    message = {
        "bytes": b"\x80\x05secret",
        "set": {"b", "a", ("x-1", 0), 3},
        ("tuple", 1): (1, 2.5, True, None),
        "numbers": [math.nan, math.inf, 2**70, -1],
        "unknown": [Unknown(), Unknown, len],
        "error": ValueError("token=hunter2"),
        "password": "hunter2",
        "nested": {"deep": {"token": ["hunter2"]}},
        Unknown(): 1,
        b"k": 2,
        "cyclic": cyclic,
        "text": "postgres://u:hunter2@h/x",
        "surrogate": "\ud800",
    }
    copied = copy(message)
    text = dumps(copied)
    assert "hunter2" not in text and "secret" not in text
    assert copied["bytes"] == "<8 bytes>"
    assert copied["set"] == ["('x-1', 0)", "3", "a", "b"]
    assert copied["('tuple', 1)"] == [1, 2.5, True, None]
    assert copied["numbers"] == [None, None, str(2**70), -1]
    assert copied["unknown"] == ["<Unknown>", "<type>", "<builtin_function_or_method>"]
    assert copied["error"] == "ValueError: token=[removed]"
    json.loads(text)


def test_copies_have_no_values_that_belong_to_the_name_of_a_secret():
    message = {
        b"password": "hunter2",
        "variables": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "n", "value": "2"}],
        "header": ("Authorization", "hunter2"),
        "headers": [["X-Api-Key", "hunter2"], ["Accept", "*"]],
        "coloured": "\x1b[1mpassword\x1b[0m: hunter2",
        "columns": ["token", "count"],
        "metric": {"name": "tokens", "value": 5},
    }
    copied = copy(message)
    assert "hunter2" not in dumps(copied)
    assert copied["variables"][1] == {"name": "n", "value": "2"}
    assert copied["headers"] == [["X-Api-Key", "[removed]"], ["Accept", "*"]]
    assert (copied["columns"], copied["metric"]) == (message["columns"], message["metric"])


def test_copies_are_bounded():
    keys = {(f"x-{i:032x}", i) for i in range(200_000)}
    deep = []
    for _ in range(10_000):
        deep = [deep]
    begun = time.process_time()
    for message in (
        {"lost": keys},
        {"all": [keys, keys]},
        deep,
        "x" * 10_000_000,
        {"x" * i: "y" * 1000 for i in range(1000)},
        [['é"\\\n' * 1000] * 100] * 100,
        [list(range(100))] * 100,
        {"transition_log": list(range(100_000))},
        "\u2028" * 100_000,
    ):
        assert len(dumps(copy(message)).encode()) <= LARGEST_DATA
    assert time.process_time() - begun < 1
    assert copy({"lost": keys})["lost"][-1] == "… 199980 more"
    assert copy({"story": list(range(1000))})["story"][-1] == 999


def test_source_is_taken_out_of_copies():
    text = 'Traceback:\n  File "x.py", line 1, in f\n    source()\nValueError: x'
    assert copy({"t": text})["t"] == text
    assert copy({"t": text}, source=False)["t"] == text.replace("    source()\n", "")
    assert "    source()" not in copy({"t": text.split("\n")}, source=False)["t"]
    assert copy({"t": text.split("\n")})["t"] == text.split("\n")
    assert list(copy({text: 1}, source=False)) == [text.replace("    source()\n", "")]
    line = {"msg": "Compute Failed\nargs:      1\nkwargs:    2\nException: x"}
    assert copy(line)["msg"] == (
        "Compute Failed\nargs:      [removed]\nkwargs:    [removed]\nException: x"
    )


def test_reading_is_cheap():
    stand = Stand(old=True)
    for i in range(1000):
        stand.log(f"tcp://w{i}:1", {"action": "add-worker"})
    stand.sent()
    begun = time.process_time()
    for _ in range(10):
        stand.sent()
    assert time.process_time() - begun < 0.1


def test_of_exceptions_in_copies_there_are_types_and_frames_where_no_more_may_be_sent():
    try:
        raise ValueError("hunter in the meadow")
    except ValueError as error:
        raised, text = error, traceback.format_exc()
    frame = text.split("\n")[1]
    kept = "Traceback (most recent call last):\n" + frame + "\nValueError\n"
    message = {
        "said": "it went on",
        "error": raised,
        "exception_text": "ValueError('hunter in the meadow')",
        "exception": "a hunter",
        "traceback_text": "".join(text.splitlines(True)[1:-1]),
        "text": "failed:\n" + text,
        "lines": text.splitlines(),
    }
    copied = copy(message, True, True)
    assert copied == {
        "said": "it went on",
        "error": "ValueError",
        "exception_text": "ValueError",
        "exception": "[removed]",
        "traceback_text": frame + "\n",
        "text": "failed:\n" + kept,
        "lines": [*kept.splitlines(), "… 1 more"],
    }
    assert copy(message)["exception_text"] == message["exception_text"]
