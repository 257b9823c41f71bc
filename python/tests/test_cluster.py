"""The plugin on real schedulers with real workers."""

import asyncio
import inspect
import logging
import os
import subprocess
import sys
import threading
import time
from operator import add
from pathlib import Path
from types import SimpleNamespace

import dask
import pytest
from conftest import local_cluster, on_loop, reached, wait_until
from distributed import Client, Event, Scheduler, Worker, wait
from fake_galvo import MOST, TOKEN, FakeGalvo
from test_shipping import SERVED

import galvo
from galvo import registration
from galvo.plugin import CoiledTelemetry


def inc(x):
    return x + 1


def boom(x):
    raise ValueError(f"no {x}")


def odd_boom(x):
    raise ValueError("nul \0 and lone \ud800 surrogate")


def die(x):
    os._exit(1)


def fail_twice(event):
    event = Event(event)
    if event.is_set():
        return 1
    event.set()
    raise KeyError("first")


def wait_for(event):
    Event(event).wait(30)
    return 1


def by_name(galvo_server):
    return {row["name"]: row for row in galvo_server.groups()}


def final(galvo_server):
    (report,) = (r for r in galvo_server.accepted if r["final"])
    assert report is galvo_server.accepted[-1]
    return report


def totals_equal_the_sum_of_groups(galvo_server):
    totals, groups = final(galvo_server)["cluster"]["totals"], galvo_server.groups()
    for name in ("tasks", "tasks_succeeded", "tasks_erred", "bytes"):
        assert totals[name] == sum(row[name] for row in groups), name
    for action in ("compute", "transfer"):
        seconds = sum(row["durations"].get(action, 0.0) for row in groups)
        assert totals[action + "_seconds"] == pytest.approx(seconds)


@pytest.fixture
def registered(configured, cluster, client):
    galvo.register(client)
    return configured


def test_short_computations_are_complete(registered, cluster, client):
    for i in range(3):
        numbers = client.map(inc, range(10 * i, 10 * i + 10))
        total = client.submit(sum, numbers)
        assert total.result() == sum(range(10 * i + 1, 10 * i + 11))
        del numbers, total
        wait_until(lambda: not cluster.scheduler.tasks)
    client.close()
    cluster.close()
    totals_equal_the_sum_of_groups(registered)
    groups = registered.groups()
    assert sorted(row["name"] for row in groups) == ["inc"] * 3 + ["sum"] * 3
    ids = {row["id"] for row in groups if row["name"] == "inc"}
    for row in groups:
        tasks = 10 if row["name"] == "inc" else 1
        assert row["states"] == {"forgotten": tasks}
        assert (row["tasks"], row["tasks_succeeded"]) == (tasks, tasks)
        assert (row["prefix"], row["types"]) == (row["name"], ["int"])
        assert row["durations"]["compute"] > 0 and row["stopped_at"] >= row["started_at"]
        assert len(row["dependencies"]) == (row["name"] == "sum")
        assert set(row["dependencies"]) <= ids
    computations = registered.computations()
    assert [len(row["task_group_ids"]) for row in computations] == [2, 2, 2]
    assert {row["state"] for row in computations} == {"finished"}
    linked = [group for row in computations for group in row["task_group_ids"]]
    assert sorted(linked) == sorted(row["id"] for row in groups)
    for row in computations:
        own = [g for g in groups if g["id"] in row["task_group_ids"]]
        assert row["stopped_at"] == max([row["started_at"], *(g["stopped_at"] for g in own)])


def test_successes_are_counted_as_dask_counts_them(registered, cluster, client):
    futures = client.map(inc, range(20))
    scattered = client.scatter(list(range(3)))
    total = client.submit(sum, futures + scattered)
    wait(total)
    prefixes = cluster.scheduler.task_prefixes
    expected = sum(prefix.state_counts["memory"] for prefix in prefixes.values())
    client.close()
    cluster.close()
    assert final(registered)["cluster"]["totals"]["tasks_succeeded"] == expected == 24


def test_graphs_of_collections_with_tuple_keys(registered, cluster, client):
    graph = {("x-1", i): (inc, i) for i in range(4)}
    graph[("y-1", 0)] = (sum, [("x-1", i) for i in range(4)])
    assert client.get(graph, ("y-1", 0)) == 10
    client.close()
    cluster.close()
    rows = by_name(registered)
    assert (rows["x-1"]["tasks"], rows["y-1"]["tasks"]) == (4, 1)
    assert rows["y-1"]["dependencies"] == [rows["x-1"]["id"]]


def test_errors_are_told_once_and_dependents_are_blamed(registered, cluster, client):
    bad = client.map(boom, range(3))
    dependents = [client.submit(add, bad[0], i) for i in range(2)]
    wait([*bad, *dependents])
    registered.wait_for(lambda: registered.errors())
    client.close()
    cluster.close()
    totals_equal_the_sum_of_groups(registered)
    errors = registered.errors()
    assert sorted(error["message"] for error in errors) == [
        f"ValueError('no {i}')" for i in range(3)
    ]
    rows = by_name(registered)
    (computation,) = {error["computation_id"] for error in errors}
    for error in errors:
        assert error["type"] == "ValueError" and "in boom" in error["traceback"]
        assert error["key"].startswith("boom-") and error["worker"].startswith("inproc://")
        assert error["task_group_id"] == rows["boom"]["id"]
    assert (rows["boom"]["tasks_erred"], rows["boom"]["tasks_blamed"]) == (3, 0)
    assert (rows["add"]["tasks_erred"], rows["add"]["tasks_blamed"]) == (0, 2)
    state = {row["id"]: row["state"] for row in registered.computations()}
    assert state[computation] == "erred"
    assert final(registered)["cluster"]["totals"]["errors"] == 3


def test_attempts_that_are_retried_are_no_errors(registered, cluster, client):
    assert client.submit(fail_twice, "failed-once", retries=3).result() == 1
    client.close()
    cluster.close()
    (row,) = registered.groups()
    assert (row["tasks_erred"], row["tasks_succeeded"]) == (0, 1)
    assert registered.errors() == [] and registered.computations()[0]["state"] == "finished"


def test_texts_that_strict_readers_refuse(registered, cluster, client):
    bad = client.submit(odd_boom, 1, key="odd\ud800 \0key")
    with pytest.raises(ValueError):
        bad.result()
    client.close()
    cluster.close()
    (error,) = registered.errors()  # the fake server refuses what strict parsers refuse
    assert error["key"] == "odd\ufffd \ufffdkey"
    # Dask sends the repr() of the message.
    assert error["message"] == "ValueError('nul \\x00 and lone \\ud800 surrogate')"


def test_durations_that_are_no_numbers(registered, cluster, client):
    future = client.submit(inc, 1)
    wait(future)
    (group,) = cluster.scheduler.task_groups.values()
    on_loop(cluster, lambda: group.add_duration("compute", group.stop, group.stop - 10))
    if not hasattr(group, "_all_durations_us"):
        on_loop(cluster, lambda: group.all_durations.update(odd=float("nan")))
    on_loop(cluster, lambda: setattr(group, "nbytes_total", -5))
    registered.wait_for(lambda: registered.groups() and registered.groups()[0]["bytes"] == 0)
    assert all(value >= 0 for value in registered.groups()[0]["durations"].values())


def test_killed_workers(configured):
    settings = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.nanny.pre-spawn-environ.PYTHONPATH": str(Path(__file__).parent),
    }
    with dask.config.set(settings), local_cluster(processes=True) as cluster:
        with Client(cluster) as client:
            galvo.register(client)
            future = client.submit(die, 1)
            wait(future, 60)
            text = str(future.exception())
    (error,) = configured.errors()
    assert error["type"] == "KilledWorker" and error["traceback"] == ""
    assert error["message"] == text and "die-" in error["message"]
    assert error["worker"].startswith("tcp://")
    assert by_name(configured)["die"]["tasks_erred"] == 1
    assert configured.computations()[0]["state"] == "erred"


def test_late_registration_starts_from_what_there_is(configured, cluster, client):
    kept = client.map(inc, range(4))
    bad = client.submit(boom, 1)
    blamed = client.submit(add, bad, 1)
    wait([*kept, bad, blamed])
    galvo.register(client)
    more = client.map(inc, range(100, 103))
    wait(more)
    client.close()
    cluster.close()
    totals_equal_the_sum_of_groups(configured)
    rows = by_name(configured)
    assert (rows["inc"]["tasks"], rows["inc"]["tasks_succeeded"]) == (7, 7)
    assert rows["inc"]["durations"]["compute"] > 0
    assert (rows["boom"]["tasks_erred"], rows["boom"]["tasks_blamed"]) == (1, 0)
    assert (rows["add"]["tasks_erred"], rows["add"]["tasks_blamed"]) == (0, 1)
    assert "erred" in {row["state"] for row in configured.computations()}
    (error,) = configured.errors()
    assert (error["type"], error["key"]) == ("ValueError", bad.key)
    assert "in boom" in error["traceback"] and "://" in error["worker"]
    last = final(configured)["cluster"]
    assert (last["totals"]["workers"], last["totals"]["peak_threads"]) == (1, 2)
    lifetime = last["closed_at"] - last["started_at"]
    assert 0 < last["totals"]["thread_seconds"] <= 2 * lifetime + 0.1


def test_what_a_running_cluster_looks_like(registered, cluster, client):
    cluster.scale(2)
    client.wait_for_workers(2)
    running = client.submit(wait_for, "go on")
    registered.wait_for(
        lambda: (
            any(row["states"].get("processing") for row in registered.groups())
            and registered.accepted[-1]["cluster"]["workers"] == 2
        )
    )
    report = registered.accepted[-1]
    now = report["cluster"]
    assert (now["threads"], now["closed_at"], report["final"]) == (4, None, False)
    assert now["address"] == cluster.scheduler_address
    assert now["dashboard_url"] == cluster.dashboard_link
    assert now["started_at"] == cluster.scheduler.time_started
    assert (now["totals"]["workers"], now["totals"]["peak_workers"]) == (2, 2)
    assert registered.computations()[0]["state"] == "running"
    registered.wait_for(lambda: registered.accepted[-1]["cluster"]["memory_used_bytes"] > 0)
    registered.wait_for(lambda: registered.accepted[-1]["cluster"]["name"] == cluster.name)
    Event("go on").set()
    wait(running)
    registered.wait_for(lambda: registered.computations()[0]["state"] == "finished")
    registered.wait_for(lambda: registered.accepted[-1]["cluster"]["idle_since"] is not None)


def test_unfinished_computations_are_cancelled_at_the_end(registered, cluster, client):
    event = Event("never mind")
    future = client.submit(wait_for, "never mind")
    registered.wait_for(lambda: registered.groups())
    on_loop(cluster, lambda: None)
    cluster.scheduler.loop.add_callback(cluster.scheduler.plugins["galvo"].before_close)
    registered.wait_for(lambda: any(r["final"] for r in registered.accepted))
    report = final(registered)
    (computation,) = report["computations"]
    assert computation["state"] == "cancelled"
    assert computation["stopped_at"] == report["cluster"]["closed_at"]
    event.set()
    wait(future)


def test_a_restart_loses_nothing_that_was_counted(registered, cluster, client):
    wait(client.map(inc, range(5)))
    on_loop(cluster, lambda: cluster.scheduler.task_metadata.update(NAMED))
    plugin = cluster.scheduler.plugins["galvo"]
    on_loop(
        cluster, lambda: setattr(plugin, "_delivery_due_at", 0.0)
    )  # the first report was sent before
    registered.wait_for(lambda: "ada's" in {r["cluster"]["name"] for r in registered.accepted})
    restart_without_workers(cluster)
    wait(client.map(inc, range(50, 52)))
    client.close()
    cluster.close()
    totals_equal_the_sum_of_groups(registered)
    assert final(registered)["cluster"]["totals"]["tasks_succeeded"] == 7
    assert final(registered)["cluster"]["name"] == "ada's"
    assert [row["tasks"] for row in registered.groups()] == [5, 2]


NAMED = {"cluster-manager-info": {"name": "ada's"}}


def restart_without_workers(cluster):
    """Does what client.restart() does to the scheduler's state, but keeps the workers."""
    scheduler = cluster.scheduler

    def restart():
        for state in list(scheduler.clients.values()):
            keys = [ts.key for ts in state.wants_what]
            scheduler.client_releases_keys(keys, client=state.client_key, stimulus_id="restart")
        scheduler._clear_task_state()
        for plugin in list(scheduler.plugins.values()):
            plugin.restart(scheduler)

    on_loop(cluster, restart)


def preload_arguments(kind, configured, tmp_path):
    if kind == "address":
        configured.source = SERVED
        return configured.address + "/api/v2/analytics/preload"
    if kind == "file":
        (tmp_path / "saved.py").write_text(SERVED, encoding="utf-8")
        return str(tmp_path / "saved.py")
    return "galvo"


@pytest.mark.parametrize("kind", ["address", "file", "module"])
def test_preloading_starts_one_timer(kind, configured, tmp_path, monkeypatch):
    if kind == "address":
        monkeypatch.setitem(dask.config.get("galvo"), "server", None)
    started = []
    real = Scheduler.add_plugin

    def add_plugin(self, plugin, **kwargs):
        real(self, plugin, **kwargs)
        if getattr(plugin, "name", None) == "galvo":
            start = plugin.start
            plugin.start = lambda scheduler: started.append(plugin) or start(scheduler)

    monkeypatch.setattr(Scheduler, "add_plugin", add_plugin)

    async def main():
        preload = preload_arguments(kind, configured, tmp_path)
        async with Scheduler(preload=[preload], dashboard_address=":0", port=0) as scheduler:
            async with Worker(scheduler.address):
                async with Client(scheduler.address, asynchronous=True) as client:
                    assert await client.submit(inc, 1) == 2
                plugin = scheduler.plugins["galvo"]
                timer = plugin._timer
                assert len(started) == 2 and started[0] is plugin
                await plugin.start(scheduler)
                assert plugin._timer is timer
                # Two timers would send twice as many reports.
                for _ in range(500):
                    if len(configured.accepted) >= 4:
                        break
                    await asyncio.sleep(0.01)
        sent = [report["sent_at"] for report in configured.accepted]
        assert min(b - a for a, b in zip(sent[:4], sent[1:4])) > 0.4

    asyncio.run(main())
    assert [row["name"] for row in configured.groups()] == ["inc"]
    assert final(configured)["cluster"]["totals"]["tasks_succeeded"] == 1


def test_the_command_line_with_a_served_plugin(configured, tmp_path):
    configured.source = SERVED
    environment = {
        **os.environ,
        "DASK_GALVO__TOKEN": TOKEN,
        "DASK_CONFIG": str(tmp_path),
        "DASK_GALVO__COMPUTATION__INTERVAL": "1s",
    }
    arguments = ["--port", "0", "--dashboard-address", ":0", "--preload"]
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", *arguments,
         configured.address + "/api/v2/analytics/preload"],
        env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        configured.wait_for(lambda: configured.accepted, timeout=60)
        process.terminate()
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert final(configured)["cluster"]["workers"] == 0
    assert f"Galvo reports to {configured.address}" in output
    assert TOKEN not in output and "Traceback" not in output


def test_a_hung_server_disturbs_nothing(hung, cluster, client, caplog, monkeypatch):
    monkeypatch.setattr(registration, "RESPONSE_SECONDS", 0.1)
    with pytest.warns(UserWarning, match="no answer"):
        galvo.register(client, server=hung.address, token=TOKEN, ship_token=True)
    wait_until(lambda: hung.connections)
    assert client.submit(sum, client.map(inc, range(200))).result() == sum(range(1, 201))
    plugin = cluster.scheduler.plugins["galvo"]
    # A report still waits for its response: the first one, or on a slow machine a later one.
    wait_until(lambda: plugin._delivery is not None)
    assert errors_in(caplog) == []
    client.close()
    reports = len(hung.connections)
    began = time.monotonic()
    cluster.close()
    assert time.monotonic() - began < 3.0
    assert plugin._delivery is None
    assert len(hung.connections) == reports + 1  # the final report
    # A worker whose heartbeat meets the end of its scheduler logs that, with any server.
    heartbeat = "Failed to communicate with scheduler during heartbeat."
    assert [text for text in errors_in(caplog) if text != heartbeat] == []


def errors_in(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_what_was_under_way_at_the_end_goes_with_the_final_message(configured, cluster, client):
    release = threading.Event()
    configured.answers = [lambda report: release.wait(20) and (500, {}, {"message": "late"})]
    wait(client.map(inc, range(3)))
    galvo.register(client)
    configured.wait_for(lambda: configured.reports)
    client.close()
    began = time.monotonic()
    cluster.close()
    assert time.monotonic() - began < 2.0
    release.set()
    assert [row["name"] for row in final(configured)["task_groups"]] == ["inc"]


def test_memory_is_bounded_while_a_server_hangs(hung, cluster, client, monkeypatch):
    galvo.register(client, server=hung.address, token=TOKEN, ship_token=True)
    plugin = cluster.scheduler.plugins["galvo"]
    ledger = plugin._ledger
    wait_until(lambda: hung.connections)
    # The second report stays in flight. A third one would take items that are counted here.
    shipped = type(plugin._sender)._send.__globals__
    for limit in ("CONNECT_SECONDS", "REQUEST_SECONDS"):
        monkeypatch.setitem(shipped, limit, 600.0)
    wait_until(lambda: len(hung.connections) == 2)
    for outbox in ledger.outboxes.values():
        outbox.most = 20
    for i in range(6):
        graph = {f"f{i}x{j}-{'0' * 32}": (inc, j) for j in range(10)}
        client.get(graph, list(graph))
        wait(client.map(boom, range(100 * i, 100 * i + 6)))
        wait_until(lambda: not cluster.scheduler.tasks)
        on_loop(cluster, lambda: ledger.read(cluster.scheduler.task_groups))
    assert max(len(outbox.records) for outbox in ledger.outboxes.values()) <= 20
    dropped = {kind: outbox.dropped for kind, outbox in ledger.outboxes.items()}
    # Of 66 groups and 36 errors 20 are kept.
    assert (dropped["task_groups"], dropped["errors"]) == (46, 16)
    assert len(hung.connections) == 2
    assert len(ledger.groups) == 0 and len(ledger.computations) == 1
    assert ledger.totals()["tasks"] == 96 and ledger.totals()["errors"] == 36


def test_many_new_groups_are_read_between_reports(configured, cluster, client):
    configured.interval = 600.0
    galvo.register(client)
    configured.wait_for(lambda: configured.accepted)
    ledger = cluster.scheduler.plugins["galvo"]._ledger
    graph = {f"f{i}-{'0' * 32}": (inc, i) for i in range(1100)}
    client.get(graph, list(graph))
    wait_until(lambda: ledger.totals()["tasks"] == 1100)
    assert len(configured.accepted) == 1


def test_an_absent_server_disturbs_nothing(cluster, client, caplog):
    absent = FakeGalvo()
    absent.close()
    with caplog.at_level(logging.INFO, "distributed.galvo"):
        galvo.register(client, server=absent.address, token=TOKEN)
        wait_until(lambda: "did not accept" in caplog.text)
        assert client.submit(inc, 1).result() == 2
        client.close()
        began = time.monotonic()
        cluster.close()
    assert time.monotonic() - began < 2.0
    messages = [record.getMessage() for record in caplog.records if "not accept" in record.msg]
    assert len(messages) == 1 and absent.address in messages[0]


def test_a_server_that_comes_back_gets_everything(configured, cluster, client):
    configured.always = lambda report: (503, {"Retry-After": "0"}, {"message": "later"})
    galvo.register(client)
    for i in range(3):
        client.submit(inc, i).result()
        client.submit(boom, i).exception()
    configured.wait_for(lambda: configured.reports)
    configured.always = None
    client.close()
    cluster.close()
    totals_equal_the_sum_of_groups(configured)
    assert len(configured.errors()) == 3
    assert sum(row["tasks_succeeded"] for row in configured.groups()) == 3


def test_a_refused_group_does_not_hold_up_the_others(configured, cluster, client):
    def refuse_boom(report):
        for i, row in enumerate(report["task_groups"]):
            if row["name"] == "boom":
                return 400, {}, {"message": "no", "pointer": f"/task_groups/{i}/name"}
        return None

    configured.always = refuse_boom
    futures = [*client.map(inc, range(3)), client.submit(boom, 1)]
    wait(futures)
    galvo.register(client)
    configured.wait_for(lambda: configured.groups())
    assert [row["name"] for row in configured.groups()] == ["inc"]
    assert configured.accepted[-1]["dropped"] == {**dict.fromkeys(MOST, 0), "task_groups": 1}
    assert configured.accepted[-1]["cluster"]["totals"]["tasks"] == 4


def test_resend_restores_a_server_that_lost_its_rows(registered, cluster, client):
    futures = client.map(inc, range(3))
    wait(futures)
    registered.wait_for(lambda: registered.groups() and registered.groups()[0]["tasks"] == 3)

    def forget_all(report):
        registered.rows.__init__()
        return 200, {}, registered.acknowledgement(report, resend=True)

    registered.answers = [forget_all]
    registered.wait_for(lambda: not registered.answers and registered.groups())
    assert registered.groups()[0]["tasks"] == 3 and registered.computations()


def test_a_server_may_stop_the_scheduler(configured):
    async def main():
        async with Scheduler(dashboard_address=":0", port=0) as scheduler:
            async with Worker(scheduler.address) as worker:
                await galvo.dask_setup(scheduler)
                await reached(lambda: configured.accepted)
                assert scheduler.status.name == "running"
                configured.desired_state = "stopped"
                await asyncio.wait_for(scheduler.finished(), 15)
                await asyncio.wait_for(worker.finished(), 15)

    asyncio.run(main())
    assert final(configured)["cluster"]["close_reason"] == "requested through Galvo"


def test_dask_tells_why_it_closes(configured):
    tells = "Closing scheduler. Reason" in inspect.getsource(Scheduler.close)

    async def main():
        async with Scheduler(dashboard_address=":0", port=0) as scheduler:
            await galvo.dask_setup(scheduler)
            await scheduler.close(**({"reason": "because"} if tells else {}))

    asyncio.run(main())
    assert final(configured)["cluster"]["close_reason"] == ("because" if tells else None)


@pytest.mark.parametrize("how", ["unregistered", "replaced"])
def test_a_plugin_that_is_no_longer_registered_stops(how, registered, cluster, client):
    registered.wait_for(lambda: registered.accepted)
    plugin = cluster.scheduler.plugins["galvo"]
    if how == "unregistered":
        on_loop(cluster, lambda: cluster.scheduler.remove_plugin(name="galvo"))
    else:
        other = CoiledTelemetry({"disabled": True})
        on_loop(cluster, lambda: cluster.scheduler.plugins.update(galvo=other))
    wait_until(lambda: plugin._timer is None)
    assert plugin._ledger is None
    sent = len(registered.reports)
    assert client.submit(inc, 1).result() == 2
    client.close()
    cluster.close()
    assert len(registered.reports) == sent


@pytest.mark.parametrize("missing", ["server", "token"])
def test_without_settings_it_says_so_once_and_sends_nothing(configured, missing, caplog):
    async def main():
        async with Scheduler(preload=["galvo"], dashboard_address=":0", port=0) as scheduler:
            assert scheduler.plugins["galvo"]._timer is None
            async with Worker(scheduler.address):
                async with Client(scheduler.address, asynchronous=True) as client:
                    assert await client.submit(inc, 1) == 2

    with dask.config.set({f"galvo.{missing}": None}):
        with caplog.at_level(logging.INFO, "distributed.galvo"):
            asyncio.run(main())
    lines = [r.getMessage() for r in caplog.records if r.name == "distributed.galvo"]
    assert len(lines) == 1 and f"galvo.{missing}" in lines[0]
    assert configured.requests == []


def test_disabled_sends_nothing(configured, caplog):
    async def main():
        async with Scheduler(preload=["galvo"], dashboard_address=":0", port=0) as scheduler:
            assert scheduler.plugins["galvo"]._timer is None

    with dask.config.set({"coiled.analytics.disabled": True}):
        asyncio.run(main())
    assert configured.requests == []


def test_nothing_that_goes_wrong_inside_reaches_the_scheduler(registered, cluster, client, caplog):
    plugin = cluster.scheduler.plugins["galvo"]
    ledger = plugin._ledger

    def broken(*args, **kwargs):
        raise RuntimeError("inside")

    ledger.group = ledger.graph = ledger.error = broken
    with caplog.at_level(logging.INFO):
        assert client.submit(inc, 1).result() == 2
        assert "no 1" in str(client.submit(boom, 1).exception())
        on_loop(cluster, lambda: None)
    ours = [r for r in caplog.records if r.name == "distributed.galvo"]
    assert len(ours) == 1 and "could not record" in ours[0].getMessage()
    assert not any("Plugin failed" in r.getMessage() for r in caplog.records)


def test_start_never_raises(cluster, caplog, monkeypatch):
    plugin = CoiledTelemetry({"disabled": False, "server": "http://x", "token": "t"})

    async def main():
        await plugin.start(object())  # not a scheduler
        plugin.transition("key", "waiting", "processing")
        await plugin.before_close()
        await plugin.close()

    asyncio.run(main())
    assert "could not start" in caplog.text


def test_workers_and_threads_are_added_up_without_a_history(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(galvo.plugin.workforce, "time", lambda: clock[0])

    scheduler = SimpleNamespace(workers={})
    worker = SimpleNamespace(nthreads=4)
    workforce = galvo.plugin.workforce.Workforce(scheduler)
    scheduler.workers["a"] = worker
    workforce.update(new_workers=1)
    clock[0] += 10
    scheduler.workers["b"] = worker
    workforce.update(new_workers=1)
    clock[0] += 5
    scheduler.workers.clear()
    workforce.update()
    clock[0] += 100
    workforce.update()
    assert (workforce.total_workers, workforce.peak_workers, workforce.peak_threads) == (2, 2, 8)
    assert workforce.thread_seconds == 4 * 10 + 8 * 5


def test_thread_time_at_the_end_is_the_same_in_totals_and_hours(configured, cluster, client):
    """Both end with the scheduler, however long the last reports take."""
    galvo.register(client)
    configured.wait_for(lambda: configured.accepted)
    refused = []

    def refuse_once(report):
        if not report["final"] or refused:
            return None
        refused.append(report)
        time.sleep(1.0)
        return 400, {}, {"message": "no", "pointer": "/task_groups/0"}

    configured.always = refuse_once
    wait(client.map(inc, range(3)))
    on_loop(cluster, lambda: asyncio.ensure_future(cluster.scheduler.close()))
    configured.wait_for(lambda: configured.accepted[-1]["final"])
    assert refused and refused[0]["task_groups"]
    totals = final(configured)["cluster"]["totals"]
    hours = sum(row["thread_seconds"] for row in configured.rows_of("usage"))
    assert totals["thread_seconds"] == pytest.approx(hours, abs=0.05)
    # They would look for the scheduler for half a minute.
    with dask.config.set({"distributed.comm.timeouts.connect": "0.1s"}):
        client.close()
        cluster.close()


ATTEMPTS, SECRET = [], "hunter2"


def flaky(x):
    ATTEMPTS.append(x)
    if len(ATTEMPTS) % 3:
        raise OSError(f"postgres://ada:{SECRET}@db is away")
    return x


def test_what_is_told_of_retries_spans_code_and_use(configured):
    ATTEMPTS.clear()
    frames = {"distributed.diagnostics.computations.nframes": 2}
    begun = time.monotonic()
    with dask.config.set(frames), local_cluster() as cluster, Client(cluster) as client:
        galvo.register(client)
        seconds_before = time.monotonic() - begun
        future = client.submit(flaky, 1, retries=5)  # held, so that its group is kept
        assert future.result() == 1
        failing = client.submit(flaky, 2, retries=1)
        wait(failing)
        assert failing.status == "error"
        worker = next(iter(cluster.scheduler.workers.values()))
        worker_id = worker.server_id[len("Worker-") :]
        threads = worker.nthreads
    (group,) = configured.groups()
    assert (group["tasks_retried"], group["tasks_erred"], group["tasks_succeeded"]) == (3, 1, 1)
    (error,) = configured.errors()
    assert error["message"] == "OSError('postgres://[removed]@db is away')"
    assert (error["retries"], error["origin"], error["worker_id"]) == (1, "user", worker_id)
    assert SECRET not in str(configured.reports)
    spans = configured.rows.spans
    assert error["span_id"] in spans and group["span_id"] in spans
    for computation in configured.computations():
        assert set(computation["span_ids"]) <= set(spans) and computation["span_ids"]
        ((*_, frame),) = computation["code"]
        assert frame["file"] == __file__ and frame["hash"] in configured.rows.code
    totals, hours = final(configured)["cluster"]["totals"], configured.rows_of("usage")
    assert sum(hour["retries"] for hour in hours) == 3
    for name, total in (
        ("tasks", "tasks_succeeded"), ("tasks_erred", "tasks_erred"), ("workers", "workers"),
        ("bytes", "bytes"),
    ):  # fmt: skip
        assert sum(hour[name] for hour in hours) == totals[total]
    seconds = sum(hour["thread_seconds"] for hour in hours)
    assert abs(seconds - totals["thread_seconds"]) < 0.2
    # Dask keeps the numbers of threads from before the plugin, and no numbers of workers.
    before = seconds - sum(hour["worker_seconds"] for hour in hours) * threads
    assert -0.2 < before < threads * seconds_before + 0.2
    receipt = final(configured)["receipt"]
    assert receipt["user_errors"]["sent"] == 1 and receipt["code"]["sent"] >= 1
