"""The plugin's own rhythm and rules, with a scheduler of which only the needed parts are there."""

import asyncio
import math
import time
from types import SimpleNamespace

import dask
import pytest
from conftest import local_cluster, on_loop, wait_until
from distributed import Client

import galvo
from galvo.plugin import CoiledTelemetry, telemetry
from galvo.plugin.collector import Collectors
from galvo.plugin.idleness import Idleness
from galvo.plugin.settings import read_settings


def close(cluster):
    """Dask's cluster would look for a scheduler that has closed itself for half a minute."""
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        cluster.close()


def test_a_scheduler_closes_after_so_much_idleness(configured):
    with dask.config.set({"galvo.idle.timeout": "1s"}):
        cluster = local_cluster(n_workers=0)
        try:
            with Client(cluster) as client:
                galvo.register(client)
                wait_until(lambda: cluster.scheduler.status.name == "closed", timeout=20)
        finally:
            close(cluster)
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
            on_loop(cluster, plugin._idleness._limit)
            assert cluster.scheduler.idle_timeout == 60.0
            configured.wait_for(
                lambda: (
                    configured.accepted
                    and configured.accepted[-1]["cluster"]["idle_timeout_seconds"] == 60.0
                )
            )


def test_a_cluster_is_kept_for_as_long_as_somebody_wants(configured):
    with dask.config.set({"galvo.idle.timeout": "3s"}):
        configured.keep_alive_seconds = 600.0
        cluster = local_cluster(n_workers=0)
        try:
            with Client(cluster) as client:
                galvo.register(client)
                configured.wait_for(
                    lambda: (
                        configured.accepted
                        and configured.accepted[-1]["cluster"]["idle_timeout_seconds"] is None
                    )
                )
                time.sleep(3.5)
                assert cluster.scheduler.status.name == "running"
                configured.keep_alive_seconds = 0.0
                wait_until(lambda: cluster.scheduler.status.name == "closed", timeout=20)
        finally:
            close(cluster)


class Scheduler:
    """What of a scheduler is looked at."""

    def __init__(self, **attributes):
        self.workers = {"a": SimpleNamespace(processing={})}
        self.unrunnable = set()
        self.transition_counter = 0
        self.__dict__.update(attributes)


class Watched(Scheduler):
    """A scheduler of a release that watches its idleness."""

    is_idle = True


class Watch:
    """The idleness of a scheduler, on a clock that a test moves."""

    def __init__(self, scheduler, timeout):
        self.at = 1_700_000_000.0
        self.scheduler = scheduler
        self.idleness = Idleness(scheduler, timeout, lambda: self.at)

    def after(self, seconds):
        self.at += seconds
        return self.idleness.look()


def test_idleness_is_watched_where_dask_does_not():
    watch = Watch(Scheduler(idle_since=1.0), 10.0)
    scheduler, idleness, begun = watch.scheduler, watch.idleness, watch.at
    assert (idleness.timeout, idleness.since, idleness.graph_updates()) == (10.0, begun, None)
    assert not watch.after(9.0)
    scheduler.workers["a"].processing["x"] = 1.0
    assert not watch.after(9.0)
    assert idleness.since is None
    scheduler.workers["a"].processing.clear()
    assert not watch.after(9.0)
    assert idleness.since == watch.at
    scheduler.unrunnable.add("y")
    assert not watch.after(9.0)
    scheduler.unrunnable.clear()
    assert not watch.after(9.0)
    scheduler.transition_counter += 1  # something was begun and done in between
    assert not watch.after(9.0)
    assert not watch.after(10.0)
    idleness.keep(5.0)
    assert idleness.timeout is None
    assert not watch.after(4.5)
    assert watch.after(0.5)
    assert watch.after(0.5)
    scheduler.workers["a"].processing["x"] = 1.0
    assert not watch.after(60.0)


def test_without_a_timeout_idleness_is_told_and_never_too_long():
    watch = Watch(Scheduler(), None)
    assert not watch.after(1e6)
    assert (watch.idleness.timeout, watch.idleness.since) == (None, watch.at - 1e6)


def test_dask_is_told_how_long_is_too_long():
    for theirs, ours, limit in ((None, 10.0, 10.0), (60.0, 10.0, 10.0), (5.0, 10.0, 5.0)):
        watch = Watch(Watched(idle_timeout=theirs, idle_since=None), ours)
        scheduler, idleness = watch.scheduler, watch.idleness
        assert (scheduler.idle_timeout, idleness.since) == (limit, None)
        idleness.keep(100.0)
        assert (scheduler.idle_timeout, idleness.timeout) == (theirs, theirs)
        assert not watch.after(99.0)
        assert scheduler.idle_timeout == theirs
        assert not watch.after(1.0)
        assert scheduler.idle_timeout == limit
        idleness.keep(100.0)
        idleness.keep(0.0)
        assert scheduler.idle_timeout == limit
    # Others may change it at any time.
    watch = Watch(Watched(idle_timeout=None, idle_since=1_700_000_000.0), 10.0)
    watch.scheduler.idle_timeout = 7.0
    watch.idleness.keep(100.0)
    assert watch.scheduler.idle_timeout == 7.0
    assert not watch.after(101.0)
    assert (watch.scheduler.idle_timeout, watch.idleness.since) == (7.0, 1_700_000_000.0)
    untouched = Watched(idle_timeout=None, idle_since=None, _active_graph_updates=2)
    watch = Watch(untouched, None)
    watch.idleness.keep(100.0)
    assert (untouched.idle_timeout, watch.idleness.graph_updates()) == (None, 2)


def obeys(**wishes):
    """Why a scheduler is closed of which the server wants this; it has work if ``busy``."""
    busy = wishes.pop("busy", False)

    class Closing(Watched):
        async def close(self, reason="unknown"):
            reasons.append(reason)

    async def main():
        plugin._obey()
        if plugin._stopping is not None:
            await plugin._stopping

    reasons = []
    plugin = CoiledTelemetry(read_settings("http://x", "t"))
    plugin._scheduler = Closing(idle_timeout=None, idle_since=None if busy else 1_700_000_000.0)
    plugin._idleness = Idleness(plugin._scheduler, None, lambda: 1_700_000_100.0)
    wanted = {"stop_requested": True, "stop_only_if_idle": False, "stop_reason": None}
    plugin._courier = SimpleNamespace(keep_alive=None, **{**wanted, **wishes})
    asyncio.run(main())
    return reasons, plugin._courier.stop_requested


def test_a_stop_for_idleness_spares_a_scheduler_that_has_work_again():
    assert obeys() == (["requested through Galvo"], True)
    assert obeys(stop_reason="by ada", busy=True) == (["by ada"], True)
    assert obeys(stop_reason="idle", stop_only_if_idle=True) == (["idle"], True)
    assert obeys(stop_reason="idle", stop_only_if_idle=True, busy=True) == ([], False)
    assert obeys(stop_requested=False) == ([], False)


@pytest.fixture
def plugin():
    with dask.config.set({"galvo.computation.interval": "20s", "galvo.events.interval": "5s"}):
        plugin = CoiledTelemetry(read_settings("http://x", "t"))
    plugin._courier = SimpleNamespace(pause=20.0, failing=False, stop_requested=False)
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


def test_events_do_not_hurry_a_server_that_said_when_to_come_back(plugin):
    plugin._courier.pause, plugin._courier.failing = 12.0, True
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
