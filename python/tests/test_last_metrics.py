"""Tests of the metrics of ending workers, from the worker's side to the sums on the scheduler."""

import asyncio
import math
from collections import defaultdict
from types import SimpleNamespace

import msgpack
import pytest
from stand_ins import Scheduler

from galvo.plugin import last_metrics
from galvo.plugin.collector import Context
from galvo.plugin.last_metrics import LastMetrics
from galvo.plugin.unsent_metrics import KEY, MOST_METRICS, UnsentMetrics
from galvo.plugin.worker_side import METRIC, METRICS_OPERATION, TOPIC

CPU = ("execute", "span-1", "f", "thread-cpu", "seconds")
SQUASHED = ("execute", "f", "thread-cpu", "seconds")
ADDRESS = "tcp://w:1"


class Pair:
    """A worker and its scheduler: heartbeats carry metrics as in Dask, unless they are lost."""

    def __init__(self):
        self.worker = SimpleNamespace(digests_total=defaultdict(float))
        self.since = defaultdict(float)
        self.unsent = UnsentMetrics()
        self.scheduler = Scheduler()
        self.state = SimpleNamespace(metrics={})
        self.scheduler.workers = {ADDRESS: self.state}
        self.context = Context(self.scheduler, {}, self.scheduler.ledger)
        self.collector = LastMetrics(self.context)
        self.arrived = defaultdict(float)  # in Dask's own sums
        self.reported_workers = []
        self.context.on_last_metrics = self.reported_workers.append

    def measure(self, seconds, key=CPU):
        self.worker.digests_total[key] += seconds
        self.since[key] += seconds

    def heartbeat(self, arrives=True):
        taken, self.since = self.since, defaultdict(float)
        number = self.unsent.record_heartbeat(self.worker)
        if arrives:
            self.state.metrics = {METRIC: {"heartbeat": number}}
            for key, value in taken.items():
                self.arrived[(key[0], *key[2:])] += value

    def hand_over(self):
        message = {KEY: self.unsent.describe(self.worker), "worker": ADDRESS}
        self.collector.event(TOPIC, msgpack.unpackb(msgpack.packb(message)), 0.0)

    def remove(self):
        del self.scheduler.workers[ADDRESS]
        self.collector.worker_removed(ADDRESS)

    def total(self):
        return self.arrived[SQUASHED] + self.context.last_metrics.get(SQUASHED, 0.0)


@pytest.fixture
def pair():
    pair = Pair()
    pair.measure(1.0)
    pair.heartbeat()
    pair.measure(2.0)
    return pair


def test_what_no_heartbeat_has_taken_arrives_before_or_after_the_worker_is_removed(pair):
    pair.hand_over()
    assert pair.reported_workers == []  # another heartbeat may come
    pair.remove()
    assert (pair.total(), pair.reported_workers) == (3.0, [ADDRESS])
    assert pair.context.last_metrics_of_spans == {"span-1": {SQUASHED: 2.0}}


def test_what_is_handed_over_after_the_removal_counts_once(pair):
    pair.remove()
    pair.hand_over()
    pair.hand_over()
    assert (pair.total(), pair.reported_workers) == (3.0, [ADDRESS])


def test_a_heartbeat_that_got_lost_is_made_up_for(pair):
    pair.heartbeat(arrives=False)
    pair.measure(4.0)
    pair.remove()
    pair.hand_over()
    assert pair.total() == 7.0


def test_a_heartbeat_behind_what_was_handed_over_is_not_counted_twice(pair):
    pair.hand_over()
    pair.heartbeat()
    pair.remove()
    assert pair.total() == 3.0


def test_the_end_of_the_scheduler_is_the_end_of_waiting(pair):
    pair.hand_over()
    pair.collector.read(1.0, 1.0)
    assert pair.total() == 3.0


def test_only_what_everybody_can_carry_is_handed_over(pair):
    for key, value in (
        ("a digest of Dask's own", 1.0),
        (("execute", "span-1", "caf\udce9", "thread-cpu", "seconds"), 1.0),
        (("execute", "span-1", object(), "thread-cpu", "seconds"), 1.0),
        (("execute", "span-1", "f", "x" * 2000, "seconds"), 1.0),
        (("execute", "span-1", "f", "infinite", "seconds"), math.inf),
        (("execute", "span-1", "f", "huge", "bytes"), 2**70),
    ):
        pair.worker.digests_total[key] += value
    pair.hand_over()
    pair.remove()
    assert pair.context.last_metrics == {SQUASHED: 2.0}
    # Not all of it is known, so what is missing stays unaccounted.
    assert pair.reported_workers == []


def test_of_very_many_metrics_the_largest_seconds_are_handed_over():
    unsent, worker = UnsentMetrics(), SimpleNamespace(digests_total={})
    for i in range(MOST_METRICS + 5):
        worker.digests_total["execute", "s", "f", f"a{i}", "seconds"] = float(i + 1)
    worker.digests_total["execute", "s", "f", "b", "bytes"] = 1e12
    described = unsent.describe(worker)
    assert described["left_out"] == 6
    assert [number for _, number in described["unsent"]] == [
        float(i + 1) for i in range(MOST_METRICS + 4, 4, -1)
    ]


@pytest.mark.parametrize(
    "message",
    [None, [], {}, {KEY: None, "worker": ADDRESS}, {KEY: {"heartbeat": "x"}, "worker": ADDRESS}],
)
def test_events_that_anybody_could_have_logged_do_no_harm(pair, message):
    pair.collector.event(TOPIC, message, 0.0)
    pair.remove()
    assert pair.total() == 1.0


class Rpc:
    """Dask's connections to workers: those in ``answers`` answer, others do not."""

    def __init__(self, answers):
        self.answers, self.queried, self.removed = answers, [], []

    def __call__(self, address):
        async def query():
            self.queried.append(address)
            return self.answers[address]()

        return SimpleNamespace(**{METRICS_OPERATION: query})

    def remove(self, address):
        self.removed.append(address)


@pytest.mark.parametrize("way", ["queried", "by itself", "gone", "back"])
def test_a_removed_worker_that_sent_nothing_is_queried(monkeypatch, way):
    monkeypatch.setattr(last_metrics, "QUERY_DELAYS", (0.02, 0.02))
    pair = Pair()
    pair.measure(1.0)
    pair.heartbeat()
    pair.measure(2.0)
    answer = {KEY: pair.unsent.describe(pair.worker), "worker": ADDRESS}
    rpc = pair.scheduler.rpc = Rpc({} if way == "gone" else {ADDRESS: lambda: answer})

    async def remove():
        pair.remove()
        if way == "by itself":
            pair.hand_over()
        if way == "back":
            pair.scheduler.workers[ADDRESS] = pair.state
            pair.collector.worker_added(ADDRESS)
        await asyncio.sleep(0.2)

    asyncio.run(remove())
    known = {"queried": 3.0, "by itself": 3.0, "gone": 1.0, "back": 1.0}[way]
    assert pair.total() == known
    assert rpc.queried == {"queried": [ADDRESS], "gone": [ADDRESS, ADDRESS]}.get(way, [])
    assert rpc.removed == ([ADDRESS] if way == "queried" else [])
    assert not pair.collector._queries


def test_the_number_of_workers_queried_at_a_time_is_limited():
    pair = Pair()
    rpc = pair.scheduler.rpc = Rpc({})

    async def remove():
        for number in range(last_metrics.MOST_QUERIES + 20):
            pair.collector.worker_removed(f"tcp://w:{number + 2}")
        assert len(pair.collector._queries) == last_metrics.MOST_QUERIES
        pair.collector.close()
        await asyncio.sleep(0.01)
        assert not pair.collector._queries and rpc.queried == []

    asyncio.run(remove())
