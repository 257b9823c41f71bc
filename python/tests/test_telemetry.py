"""The plugin's own rhythm and rules, with a scheduler of which only the needed parts are there."""

import asyncio
import math
from types import SimpleNamespace

import dask
import pytest
from conftest import local_cluster, on_loop, wait_until
from distributed import Client

import galvo
from galvo.plugin import CoiledTelemetry, telemetry
from galvo.plugin.collector import Collectors
from galvo.plugin.settings import read_settings


def test_a_scheduler_closes_after_so_much_idleness(configured):
    with dask.config.set({"galvo.idle.timeout": "1s"}):
        cluster = local_cluster(n_workers=0)
        try:
            with Client(cluster) as client:
                galvo.register(client)
                wait_until(lambda: cluster.scheduler.status.name == "closed", timeout=20)
        finally:
            cluster.close()
    configured.wait_for(lambda: configured.accepted[-1]["final"])
    assert configured.accepted[-1]["cluster"]["idle_since"] is not None


def test_the_shorter_timeout_counts(configured):
    with dask.config.set({"galvo.idle.timeout": "1 hour"}):
        with local_cluster(n_workers=0) as cluster, Client(cluster) as client:
            assert cluster.scheduler.idle_timeout is None
            galvo.register(client)
            assert cluster.scheduler.idle_timeout == 3600.0
            plugin = cluster.scheduler.plugins["galvo"]
            cluster.scheduler.idle_timeout = 60.0
            on_loop(cluster, plugin._limit_idleness)
            assert cluster.scheduler.idle_timeout == 60.0
            assert plugin._idle_since is None


class Old:
    """A scheduler of a release that does not watch its idleness."""

    def __init__(self):
        self.workers = {"a": SimpleNamespace(processing={})}
        self.unrunnable = set()
        self.transition_counter = 0
        self.reasons = []

    async def close(self, reason="unknown"):
        self.reasons.append(reason)


def test_idleness_is_watched_where_dask_does_not(monkeypatch):
    clock = [1_700_000_000.0]
    monkeypatch.setattr(telemetry, "time", lambda: clock[0])
    with dask.config.set({"galvo.idle.timeout": "10s"}):
        plugin = CoiledTelemetry()
    scheduler = plugin._scheduler = Old()

    async def main():
        plugin._limit_idleness()

        async def after(seconds):
            clock[0] += seconds
            plugin._watch_idleness()
            if plugin._stopping is not None:
                await plugin._stopping
            return bool(scheduler.reasons)

        assert not await after(9.0)
        scheduler.workers["a"].processing["x"] = 1.0
        assert not await after(9.0)
        scheduler.workers["a"].processing.clear()
        assert not await after(9.0)
        scheduler.unrunnable.add("y")
        assert not await after(9.0)
        scheduler.unrunnable.clear()
        scheduler.transition_counter += 1  # something was begun and done in between
        assert not await after(9.0)
        assert not await after(10.0)
        assert await after(0.5)
        plugin._watch_idleness()  # does it once

    asyncio.run(main())
    assert scheduler.reasons == ["idle-timeout-exceeded"]
    assert plugin._close_reason() == "idle-timeout-exceeded"


@pytest.fixture
def plugin():
    with dask.config.set({"galvo.computation.interval": "20s", "galvo.events.interval": "5s"}):
        plugin = CoiledTelemetry(read_settings("http://x", "t"))
    plugin._courier = SimpleNamespace(pause=20.0, stop_requested=False)
    plugin._ledger = SimpleNamespace(now=lambda: 0.0)
    plugin._timer = object()
    return plugin


def heard(plugin, *topics):
    """When events of these topics, one after the other, should be sent at the latest."""

    async def main():
        now = asyncio.get_running_loop().time()
        for topic in topics:
            plugin.log_event(topic, {"a": 1})
        return plugin._due_for_events() - now

    return asyncio.run(main())


def test_events_are_sent_within_their_interval(plugin):
    assert heard(plugin) == math.inf
    assert 4.9 < heard(plugin, "a") < 5.1


def test_topics_that_are_not_sent_hurry_nothing(plugin):
    plugin._settings["events_allow"] = ["b"]
    assert heard(plugin, "a") == math.inf
    assert 4.9 < heard(plugin, "a", "b") < 5.1


def test_events_do_not_hurry_a_server_that_wants_fewer_reports(plugin):
    plugin._courier.pause = 21.0
    assert heard(plugin, "a") == math.inf


class Recorder:
    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


def test_hooks_reach_the_collectors(plugin):
    recorder = Recorder()
    plugin._collectors = Collectors([recorder])
    plugin._workforce = SimpleNamespace(update=lambda arrived=0: None)
    plugin._scheduler = scheduler = SimpleNamespace(tasks={}, computations=[None])
    plugin._ledger.graph = lambda computation, groups: None

    async def main():
        plugin.update_graph(scheduler, client="c", keys={"k"}, tasks=["k"], annotations={})
        plugin.add_worker(scheduler, "tcp://a", odd=1)
        plugin.remove_worker(scheduler, "tcp://a")
        plugin.remove_worker(scheduler, "tcp://b", stimulus_id="s", odd=1)
        plugin.add_client(scheduler, "Client-1")
        plugin.remove_client(scheduler, "Client-1")
        plugin.log_event("topic", {"a": 1})
        plugin.restart(scheduler)

    asyncio.run(main())
    assert recorder.calls == [
        ("graph", ["k"]),
        ("worker_added", "tcp://a"),
        ("worker_removed", "tcp://a", None),
        ("worker_removed", "tcp://b", "s"),
        ("client_added", "Client-1"),
        ("client_removed", "Client-1"),
        ("event", "topic", {"a": 1}, 0.0),
        ("restarted",),
    ]


def test_without_a_ledger_hooks_do_nothing():
    plugin = CoiledTelemetry({})
    plugin._collectors = Collectors([Recorder()])
    scheduler = object()
    plugin.update_graph(scheduler, tasks=["k"])
    plugin.add_worker(scheduler, "a")
    plugin.remove_worker(scheduler, "a")
    plugin.add_client(scheduler, "c")
    plugin.remove_client(scheduler, "c")
    plugin.log_event("topic", {})
    plugin.restart(scheduler)
    assert plugin._collectors._collectors[0].calls == []


def test_a_collector_that_takes_long_to_start_holds_up_nothing(configured, monkeypatch):
    ended = []

    class Slow(telemetry.Usage):
        async def start(self):
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(True)

    monkeypatch.setattr(telemetry, "START_SECONDS", 0.1)

    async def main():
        async with local_cluster(asynchronous=True, n_workers=0) as cluster:
            plugin = CoiledTelemetry()
            monkeypatch.setattr(telemetry, "COLLECTORS", (Slow,))
            await plugin.start(cluster.scheduler)
            cluster.scheduler.add_plugin(plugin, name=plugin.name)
            assert not plugin._starting.done()
        assert ended == [True]

    asyncio.run(main())
    assert configured.accepted[-1]["final"]


def test_a_plugin_that_is_added_late_stays(configured, monkeypatch):
    """Dask adds a plugin that a client brings only after it has started."""

    class Slow(telemetry.Usage):
        async def start(self):
            await asyncio.sleep(5)

    monkeypatch.setattr(telemetry, "COLLECTORS", (Slow,))
    assert telemetry.START_SECONDS * 1000 > 1.5 * telemetry.TICK_MILLISECONDS

    async def main():
        async with local_cluster(asynchronous=True, n_workers=0) as cluster:
            plugin = CoiledTelemetry()
            await plugin.start(cluster.scheduler)
            cluster.scheduler.add_plugin(plugin, name=plugin.name)
            assert plugin._ledger is not None

    asyncio.run(main())
    assert configured.accepted[-1]["final"]
