"""Tests of the plugin's schedule and rules, with a minimal stand-in of a scheduler."""

import asyncio
import math
import time
from types import SimpleNamespace

import dask
import pytest
from conftest import local_cluster, wait_until
from distributed import Client

import galvo
from galvo.plugin import CoiledTelemetry, telemetry
from galvo.plugin.collector import Collectors
from galvo.plugin.idleness import Idleness
from galvo.plugin.settings import read_settings


def close(cluster):
    """Closes the cluster; Dask itself would wait 30 seconds for a scheduler that closed itself."""
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
            galvo.register(client)

            def reported():
                reports = configured.accepted
                return reports and reports[-1]["cluster"]["idle_timeout_seconds"]

            configured.wait_for(lambda: reported() == 3600.0)
            # Dask applies its own timeout itself, from the start of the idleness; none is set yet.
            assert cluster.scheduler.idle_timeout is None
            cluster.scheduler.idle_timeout = 60.0
            configured.wait_for(lambda: reported() == 60.0)


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
    """The attributes of a scheduler that are read."""

    def __init__(self, **attributes):
        self.workers = {"a": SimpleNamespace(processing={})}
        self.unrunnable = set()
        self.transition_counter = 0
        self.__dict__.update(attributes)


class Watched(Scheduler):
    """A scheduler of a release that observes its own idleness."""

    is_idle = True


class Watch:
    """The idleness of a scheduler, with clocks that the test moves."""

    def __init__(self, scheduler, timeout, at=1_700_000_000.0):
        self.at, self.steady = at, 50.0
        self.scheduler = scheduler
        self.idleness = Idleness(scheduler, timeout, lambda: self.at, lambda: self.steady)

    def after(self, seconds):
        """Checks four times a second for this many seconds; returns the last result."""
        for _ in range(int(seconds * 4)):
            self.at += 0.25
            self.steady += 0.25
            found = self.idleness.check()
        return found

    def closes_after(self, within=1_000):
        """Returns the seconds until it closes, rounded to a quarter."""
        begun = self.steady
        while not self.after(0.25):
            assert self.steady - begun < within, "it stays"
        return self.steady - begun


def test_idleness_is_watched_where_dask_does_not():
    watch = Watch(Scheduler(idle_since=1.0), 10.0)
    scheduler, idleness, begun = watch.scheduler, watch.idleness, watch.at
    assert (idleness.timeout, idleness.since, idleness.graph_updates()) == (10.0, begun, None)
    assert not watch.after(9.0)
    scheduler.workers["a"].processing["x"] = 1.0
    assert not watch.after(9.0)
    assert idleness.since is None
    scheduler.workers["a"].processing.clear()
    assert not watch.after(0.25)
    assert idleness.since == watch.at
    scheduler.unrunnable.add("y")
    assert not watch.after(9.0)
    scheduler.unrunnable.clear()
    assert not watch.after(9.0)
    scheduler.transition_counter += 1  # something was begun and done in between
    assert not watch.after(10.25)
    assert watch.after(0.25)
    assert watch.after(0.25)
    scheduler.workers["a"].processing["x"] = 1.0
    assert not watch.after(60.0)


def test_without_a_timeout_idleness_is_reported_and_never_too_long():
    watch = Watch(Scheduler(), None)
    assert not watch.after(1e4)
    assert (watch.idleness.timeout, watch.idleness.since) == (None, watch.at - 1e4)


def test_dask_keeps_its_own_timeout():
    for theirs, ours, shorter in ((None, 10.0, 10.0), (60.0, 10.0, 10.0), (5.0, 10.0, 5.0)):
        watch = Watch(Watched(idle_timeout=theirs, idle_since=None), ours)
        idleness = watch.idleness
        assert (idleness.timeout, idleness.since) == (shorter, None)
        idleness.keep_alive_for(100.0)
        assert idleness.timeout == theirs
        assert not watch.after(99.75)
        assert idleness.timeout == theirs
        assert not watch.after(0.25)
        assert idleness.timeout == shorter
        idleness.keep_alive_for(100.0)
        idleness.keep_alive_for(0.0)
        assert (idleness.timeout, watch.scheduler.idle_timeout) == (shorter, theirs)
    watch = Watch(Watched(idle_timeout=0, idle_since=None, _active_graph_updates=2), None)
    assert (watch.idleness.timeout, watch.idleness.graph_updates()) == (None, 2)


# With a release of Dask that observes its idleness, and with one that does not.
both_kinds = pytest.mark.parametrize("kind", [Watched, Scheduler])


def idle_for(kind, seconds, timeout=10.0):
    """Returns a scheduler that had been idle for this long when the timeout took effect."""
    at = 1_700_000_000.0
    watch = Watch(kind(idle_timeout=None, idle_since=at - seconds), timeout, at)
    return watch


@both_kinds
def test_a_timeout_counts_from_registration(kind):
    watch = idle_for(kind, 14.0)
    assert watch.closes_after() == 10.25
    if kind is Watched:  # the reported value is the true one
        assert watch.idleness.since == 1_700_000_000.0 - 14.0


@both_kinds
def test_a_timeout_counts_from_the_end_of_what_kept_the_scheduler(kind):
    watch = idle_for(kind, 14.0)
    for _ in range(3):  # each answer contains it
        watch.idleness.keep_alive_for(30.0)
        assert not watch.after(20.0)
    # No more instructions arrive: the timeout expires by itself.
    assert watch.closes_after() == 10.0 + 10.25
    watch = idle_for(kind, 14.0)
    watch.idleness.keep_alive_for(3600.0)
    assert not watch.after(20.0)
    watch.idleness.keep_alive_for(0.0)
    watch.idleness.keep_alive_for(0.0)
    assert watch.closes_after() == 10.25


@both_kinds
def test_answers_that_keep_nothing_do_not_begin_anew(kind):
    watch = idle_for(kind, 0.0)
    for _ in range(9):
        assert not watch.after(1.0)
        watch.idleness.keep_alive_for(0.0)
    assert watch.closes_after() == 1.25


@both_kinds
@pytest.mark.parametrize(
    "wall, steady",
    [
        (3600.0, 0.0),  # the machine slept, on Linux, or the clock was set
        (3600.0, 3600.0),  # slept on another system, or the process was stopped
        (-3600.0, 0.0),
        (1e6, 2.0),
    ],
)
def test_time_in_which_a_scheduler_could_not_be_reached_does_not_count(kind, wall, steady):
    watch = idle_for(kind, 0.0)
    begun = watch.idleness.since
    assert not watch.after(4.0)
    watch.at += wall
    watch.steady += steady
    expected = watch.at - 4.0 - (0.0 if steady > 5 else steady)
    assert watch.closes_after() == pytest.approx(
        10.25 - 4.0 - (0 if steady > 5 else steady), abs=0.5
    )
    # So the server receives the same value, which its policy uses.
    assert watch.idleness.since == pytest.approx(expected, abs=0.5)
    assert begun != watch.idleness.since


def test_what_dask_counts_anew_after_a_pause_is_left_alone():
    watch = idle_for(Watched, 0.0)
    assert not watch.after(4.0)
    watch.at += 3600.0
    watch.scheduler.idle_since = watch.at  # it checked first
    assert not watch.after(0.25)
    assert watch.idleness.since == watch.scheduler.idle_since
    # A value that it set just before is not used.
    watch.scheduler.idle_since = watch.at + 0.1
    watch.at += 3600.0
    assert not watch.after(0.25)
    assert watch.idleness.since == pytest.approx(watch.at, abs=0.5)


@both_kinds
def test_small_differences_of_the_clocks_change_nothing(kind):
    watch = idle_for(kind, 0.0)
    begun = watch.idleness.since
    for _ in range(8):
        assert not watch.after(1.0)
        watch.at += 0.01
    assert watch.idleness.since == begun


@both_kinds
@pytest.mark.parametrize(
    "timeout, later, left",
    [
        (10.0, 0.25, 3.0),  # the same idleness continues
        (20.0, 0.25, 20.25),  # another idleness begins
        (10.0, 600.0, 10.25),  # nothing held in between
    ],
)
def test_a_plugin_that_follows_goes_on_counting(kind, timeout, later, left):
    watch = idle_for(kind, 14.0)
    assert not watch.after(7.0)
    state = watch.idleness.export_state()
    follower = Watch(watch.scheduler, timeout, watch.at + later)
    follower.idleness.import_state(state)
    assert follower.closes_after() == left
    # The state left by an earlier version is incomplete.
    follower = Watch(watch.scheduler, 10.0, watch.at)
    follower.idleness.import_state({k: state[k] for k in ("since", "transitions", "kept_until")})
    assert follower.closes_after() == 10.25


def test_a_plugin_that_follows_keeps_as_long():
    watch = idle_for(Watched, 14.0)
    watch.idleness.keep_alive_for(30.0)
    follower = Watch(watch.scheduler, 10.0, watch.at + 5.0)
    follower.idleness.import_state(watch.idleness.export_state())
    assert follower.closes_after() == 25.0 + 10.25


def obeys(**wishes):
    """Returns the reason for closing a scheduler with these settings; it has work if ``busy``."""
    busy = wishes.pop("busy", False)

    class Closing(Watched):
        async def close(self, reason="unknown"):
            reasons.append(reason)

    async def main():
        plugin._close_if_requested()
        if plugin._stopping is not None:
            await plugin._stopping

    reasons = []
    plugin = CoiledTelemetry(read_settings("http://x", "t"))
    plugin._scheduler = Closing(idle_timeout=None, idle_since=None if busy else 1_700_000_000.0)
    plugin._idleness = Idleness(plugin._scheduler, None, lambda: 1_700_000_100.0)
    sender_fields = {"stop_requested": True, "stop_only_if_idle": False, "stop_reason": None}
    sender_fields["reported_idle_since"] = 1_700_000_000.0
    plugin._sender = SimpleNamespace(keep_alive=None, **{**sender_fields, **wishes})
    asyncio.run(main())
    return reasons, plugin._sender.stop_requested


def test_a_stop_for_idleness_spares_a_scheduler_that_has_work_again():
    assert obeys() == (["requested through Galvo"], True)
    assert obeys(stop_reason="by ada", busy=True) == (["by ada"], True)
    assert obeys(stop_reason="idle", stop_only_if_idle=True) == (["idle"], True)
    assert obeys(stop_reason="idle", stop_only_if_idle=True, busy=True) == ([], False)
    # It has had work since it reported, which is done.
    later = {"reported_idle_since": 1_699_999_990.0}
    assert obeys(stop_reason="idle", stop_only_if_idle=True, **later) == ([], False)
    assert obeys(stop_reason="by ada", **later) == (["by ada"], True)
    assert obeys(stop_requested=False) == ([], False)


@pytest.fixture
def plugin():
    with dask.config.set({"galvo.computation.interval": "20s", "galvo.events.interval": "5s"}):
        plugin = CoiledTelemetry(read_settings("http://x", "t"))
    plugin._sender = SimpleNamespace(pause=20.0, is_failing=False, stop_requested=False)
    plugin._ledger = SimpleNamespace(now=lambda: 0.0)
    plugin._timer = object()
    return plugin


def seconds_until_due(plugin, *topics):
    """Returns the latest times at which events of these topics, in turn, should be sent."""

    async def main():
        now = asyncio.get_running_loop().time()
        for topic in topics:
            plugin.log_event(topic, {"a": 1})
        return plugin._due_for_events() - now

    return asyncio.run(main())


def test_events_are_sent_within_their_interval(plugin):
    assert seconds_until_due(plugin) == math.inf
    assert 4.9 < seconds_until_due(plugin, "a") < 5.1


def test_topics_that_are_not_sent_hurry_nothing(plugin):
    plugin._settings["events_allow"] = ["b"]
    assert seconds_until_due(plugin, "a") == math.inf
    assert 4.9 < seconds_until_due(plugin, "a", "b") < 5.1


def test_events_do_not_hurry_a_server_that_wants_fewer_reports(plugin):
    plugin._sender.pause = 21.0
    assert seconds_until_due(plugin, "a") == math.inf


def test_events_do_not_hurry_a_server_that_sent_a_retry_time(plugin):
    plugin._sender.pause, plugin._sender.is_failing = 12.0, True
    assert seconds_until_due(plugin, "a") == math.inf


class Recorder:
    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


def test_hooks_reach_the_collectors(plugin):
    recorder = Recorder()
    plugin._collectors = Collectors([recorder])
    plugin._workforce = SimpleNamespace(update=lambda new_workers=0, closed_at=None: None)
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
    """Dask adds a plugin that a client provides only after it has started."""

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
