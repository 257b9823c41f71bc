"""Tests of successive plugins on one scheduler."""

import asyncio
import gc
import weakref
from types import SimpleNamespace

import dask
import pytest
from conftest import local_cluster, on_loop, wait_until
from distributed import Client
from fake_galvo import Rows
from stand_ins import Scheduler

import galvo
from galvo.plugin import CoiledTelemetry, inheritance
from galvo.plugin.collector import Context
from galvo.plugin.inheritance import (
    ATTRIBUTE,
    FORMAT,
    destination,
    remove_forgotten,
    store_state,
    take_over_state,
)
from galvo.plugin.ledger import Ledger
from galvo.plugin.sections import Outbox, Record

HERE = {"server": "http://x", "account": None, "token": "t"}


@pytest.fixture
def often(configured):
    with dask.config.set({"galvo.computation.interval": "0.5s"}):
        yield configured


def inc(x):
    return x + 1


def fail(x):
    raise ValueError(x)


def work(client, *numbers):
    futures = client.map(inc, numbers)
    client.gather(futures)
    return futures


def unregister(cluster):
    on_loop(cluster, lambda: cluster.scheduler.remove_plugin(name="galvo"))


def rows_of(server, **fields):
    """Returns the rows that the server has for these reports, once two more have arrived."""
    seen = len(server.accepted)
    server.wait_for(lambda: len(server.accepted) >= seen + 2)
    rows = Rows()
    for report in server.accepted:
        if all(report[name] == value for name, value in fields.items()):
            rows.apply(report)
    return rows.values()


def used(rows, name):
    return sum(row[name] for row in rows["usage"].values())


def groups(rows):
    return sorted((row["name"], row["tasks_succeeded"]) for row in rows["task_groups"].values())


@pytest.mark.parametrize("noticed", [True, False], ids=["noticed", "unnoticed"])
def test_registering_again_goes_on(noticed, often, cluster, client):
    galvo.register()
    futures = [*work(client, 1, 2, 3), client.submit(fail, 1)]
    futures[-1].exception()
    before = rows_of(often)
    plugin = cluster.scheduler.plugins["galvo"]
    if noticed:
        unregister(cluster)
        wait_until(lambda: plugin._timer is None)
    else:
        on_loop(cluster, plugin._timer.stop)
        unregister(cluster)
        assert plugin._timer is not None
    galvo.register()
    assert plugin._timer is None
    assert cluster.scheduler.plugins["galvo"] is not plugin
    after = rows_of(often)
    assert groups(after) == groups(before) == [("fail", 0), ("inc", 3)]
    kinds = ("task_groups", "computations", "errors", "workers", "clients")
    for kind in (*kinds, "environments", "thread_history"):
        assert set(after[kind]) == set(before[kind]), kind
    # Meanwhile a new hour may have begun.
    assert set(before["usage"]) <= set(after["usage"])
    assert [used(after, name) for name in ("tasks", "errors", "tasks_erred")] == [3, 1, 1]
    assert often.accepted[-1]["receipt"]["tasks"]["withheld"] == 0
    futures += work(client, 4, 5)
    more = rows_of(often)
    assert groups(more) == [("fail", 0), ("inc", 5)]
    assert (used(more, "tasks"), used(more, "workers")) == (5, 1)
    # There is one plugin at a time, and its totals never decrease.
    sequences = [report["sequence"] for report in often.accepted]
    assert sequences == sorted(set(sequences))
    for name in ("tasks", "tasks_succeeded", "errors", "workers", "compute_seconds"):
        values = [report["cluster"]["totals"][name] for report in often.accepted]
        assert values == sorted(values), name
    for name in ("basic", "tasks", "user_errors"):
        values = [report["receipt"][name]["sent"] for report in often.accepted]
        assert values == sorted(values), name


def test_what_was_done_unregistered_counts_once(often, cluster, client):
    galvo.register()
    futures = work(client, 1, 2, 3)
    rows_of(often)
    unregister(cluster)
    futures += work(client, 4, 5, 6, 7)
    galvo.register()
    rows = rows_of(often)
    assert groups(rows) == [("inc", 7)]
    assert used(rows, "tasks") == 7
    assert len(rows["computations"]) == 2
    unregister(cluster)
    galvo.register()
    again = rows_of(often)
    for kind in ("task_groups", "computations", "errors", "spans", "fine_metrics", "workers"):
        assert again[kind] == rows[kind], kind
    assert used(again, "tasks") == 7


def test_another_account_receives_nothing_of_the_first_one(often, cluster, client):
    galvo.register(account="ada")
    futures = work(client, 1, 2, 3)
    first = rows_of(often, account="ada")
    unregister(cluster)
    galvo.register(account="bob")
    second = rows_of(often, account="bob")
    assert groups(second) == groups(first)
    assert not set(first["task_groups"]) & set(second["task_groups"])
    assert (used(first, "tasks"), used(second, "tasks")) == (3, 0)
    futures += work(client, 4)
    assert used(rows_of(often, account="bob"), "tasks") == 1
    unregister(cluster)
    galvo.register(account="ada")
    third = rows_of(often, account="ada")
    assert groups(third) == [("inc", 4)] and used(third, "tasks") == 4
    assert set(third["task_groups"]) == set(first["task_groups"])


def test_a_plugin_that_is_about_to_be_replaced_ends_first(often, cluster, client):
    galvo.register()
    futures = work(client, 1, 2)
    rows_of(often)
    before = cluster.scheduler.plugins["galvo"]
    after = CoiledTelemetry()

    async def replace():
        await after.start(cluster.scheduler)
        assert before._timer is None and after._timer is not None
        cluster.scheduler.plugins["galvo"] = after

    asyncio.run_coroutine_threadsafe(replace(), cluster.scheduler.loop.asyncio_loop).result(10)
    futures += work(client, 3)
    rows = rows_of(often)
    assert groups(rows) == [("inc", 3)] and used(rows, "tasks") == 3


def test_of_two_that_start_together_the_one_that_dask_adds_reports(often, cluster, client):
    scheduler = cluster.scheduler
    both = [CoiledTelemetry(), CoiledTelemetry()]

    async def register():
        starting = []
        for plugin in both:
            # As in Dask: a plugin that finds the name taken after it has started is not added.
            async def one(plugin=plugin):
                await plugin.start(scheduler)
                scheduler.add_plugin(plugin, name="galvo", idempotent=True)

            starting.append(asyncio.ensure_future(one()))
        await asyncio.gather(*starting)

    asyncio.run_coroutine_threadsafe(register(), scheduler.loop.asyncio_loop).result(10)
    futures = work(client, 1, 2)
    rows = rows_of(often)
    assert groups(rows) == [("inc", 2)] and used(rows, "tasks") == 2
    reports = scheduler.plugins["galvo"]
    (other,) = [plugin for plugin in both if plugin is not reports]
    wait_until(lambda: other._timer is None)
    assert reports._timer is not None
    assert not getattr(scheduler, ATTRIBUTE)["left"], "who has not reported stores nothing"
    del futures


def spoil(state):
    state["ledger"]["groups"] = {object(): {}}


def spoil_late(state):
    state["collectors"]["Usage"]["history"] = None


@pytest.mark.parametrize(
    "change",
    [spoil, spoil_late, dict.clear, lambda state: state.update(format=FORMAT + 1)],
    ids=["groups", "usage", "empty", "format"],
)
def test_what_cannot_be_understood_is_ignored(change, often, cluster, client, caplog):
    galvo.register()
    futures = work(client, 1, 2)
    rows_of(often)
    unregister(cluster)
    left = getattr(cluster.scheduler, ATTRIBUTE)["left"]
    wait_until(lambda: left)
    (state,) = left.values()
    change(state)
    sequence = often.accepted[-1]["sequence"]
    galvo.register()
    futures += work(client, 3)
    rows_of(often)
    last = often.accepted[-1]
    assert last["sequence"] > sequence
    assert last["cluster"]["totals"]["tasks_succeeded"] == 3
    assert "could not start" not in caplog.text


@pytest.mark.parametrize("found", [None, 5, {}, {"reporters": 3, "left": {}}, {"left": []}])
def test_whatever_lies_on_the_scheduler_is_no_obstacle(found):
    scheduler = SimpleNamespace(**{ATTRIBUTE: found})
    assert take_over_state(scheduler, HERE) is None


def test_a_plugin_that_fails_to_export_its_state_is_no_obstacle(caplog):
    def broken(by):
        raise RuntimeError("inside")

    scheduler = SimpleNamespace()
    inheritance.register_reporter(scheduler, broken)
    assert take_over_state(scheduler, HERE) is None
    assert "could not stop" in caplog.text
    inheritance.unregister_reporter(scheduler, broken)
    inheritance.unregister_reporter(scheduler, broken)
    assert getattr(scheduler, ATTRIBUTE)["reporters"] == []


def test_destinations():
    def differs(**settings):
        return destination({**HERE, **settings}) != destination(HERE)

    assert not differs(send_code=False)
    # Another token may belong to another account, unless the account is named.
    assert differs(token="u") and differs(server="http://y") and differs(account="ada")
    ada = {**HERE, "account": "ada"}
    assert destination(ada) == destination({**ada, "token": "u"})
    assert "ada" not in destination(ada) and len(destination(ada)) == 64


class Living(Scheduler):
    status = SimpleNamespace(name="running")


def test_only_the_latest_destinations_are_kept():
    async def main():
        scheduler = Living()
        for n in range(6):
            store_state(scheduler, {**HERE, "account": str(n)}, {"n": n})
        claimed = [take_over_state(scheduler, {**HERE, "account": str(n)}) for n in range(6)]
        assert [state and state["n"] for state in claimed] == [None, None, 2, 3, 4, 5]
        assert take_over_state(scheduler, {**HERE, "account": "5"}) is None

    asyncio.run(main())


def test_what_dask_has_forgotten_is_let_go(monkeypatch):
    monkeypatch.setattr(inheritance, "THINNING_SECONDS", 0.01)
    monkeypatch.setattr(inheritance, "UNSENT_THINNINGS", 2)
    scheduler = Living()
    living, going = scheduler.submit("living-1", "going-1")
    scheduler.fail(scheduler.keys(going)[0])
    scheduler.read()
    state = {"ledger": scheduler.ledger.export_state(scheduler)}
    name = weakref.ref(going)
    assert set(state["ledger"]["groups"]) == {living, going}
    assert len(state["ledger"]["erring"]) == 1

    async def main():
        nonlocal state, going
        store_state(scheduler, HERE, state)
        scheduler.ledger = scheduler.plugin._ledger = None
        await asyncio.sleep(0.1)
        del state
        # As long as Dask keeps its computation, it could be taken for a new one.
        scheduler.tasks = {key: ts for key, ts in scheduler.tasks.items() if ts.group is living}
        del scheduler.task_groups["going-1"]
        del going
        await asyncio.sleep(0.1)
        gc.collect()
        assert name() is not None
        scheduler.computations.clear()
        await asyncio.sleep(0.1)
        gc.collect()
        assert name() is None
        left = take_over_state(scheduler, HERE)["ledger"]
        assert list(left["groups"]) == [living]
        assert (left["erring"], left["computations"], left["unsent"]) == ({}, [], {})
        await asyncio.sleep(0.1)
        assert not getattr(scheduler, ATTRIBUTE)["is_thinned"]

    asyncio.run(main())


def test_thinning_counts_how_long_the_unsent_waits():
    scheduler = Living()
    scheduler.finish(*scheduler.submit("a-1"))
    scheduler.read()
    state = {
        "ledger": scheduler.ledger.export_state(scheduler),
        "collectors": {"FunctionActivity": {"minutes": [1]}, "Usage": {}},
    }
    for _ in range(inheritance.UNSENT_THINNINGS - 1):
        remove_forgotten(scheduler, state)
    assert state["ledger"]["unsent"]["task_groups"]
    assert state["collectors"]["FunctionActivity"]
    remove_forgotten(scheduler, state)
    assert state["ledger"]["unsent"] == {}
    assert state["collectors"] == {"Usage": {}}


def test_a_timeout_goes_with_its_settings(often):
    async def main():
        async with local_cluster(asynchronous=True, n_workers=0) as cluster:
            async with Client(cluster, asynchronous=True) as client:
                scheduler = cluster.scheduler
                scheduler.idle_timeout = theirs = 5000.0
                is_watched = hasattr(type(scheduler), "is_idle")
                left = theirs if is_watched else None
                for timeout, expected in (("20 minutes", 1200.0), ("1 hour", 3600.0), (None, left)):
                    if "galvo" in scheduler.plugins:
                        scheduler.remove_plugin(name="galvo")
                    with dask.config.set({"galvo.idle.timeout": timeout}):
                        await galvo.register(client)
                    assert scheduler.plugins["galvo"]._idleness.timeout == expected
                    assert scheduler.idle_timeout == theirs

    asyncio.run(main())


def test_what_is_made_again_is_sent_in_place_of_what_waited():
    def record(id, text):
        made = Record(id, {"id": id, "text": text}, settled=True)
        made.characters = len(text)
        return made

    first, second = Outbox(10), Outbox(10)
    for id in "abc":
        first.add(record(id, "early"))
    second.import_state(first.export_state(), is_recreated=True)
    taken = second.take(1)
    for id in "ab":
        second.add(record(id, "late"))
    second.put_back(taken)
    assert [r.body for r in second.records] == [
        {"id": "c", "text": "early"}, {"id": "a", "text": "late"}, {"id": "b", "text": "late"},
    ]  # fmt: skip
    assert second.characters == 13 and second.dropped == 0


def test_objects_are_numbered_on_by_the_next_plugin():
    scheduler, settings = SimpleNamespace(), {"server": "https://galvo.example", "token": "1"}
    first = Context(scheduler, settings, Ledger(1))
    assert [first.next_number("workers") for _ in range(2)] == [1, 2]
    assert first.next_number("errors") == 1
    after = Context(scheduler, settings, Ledger(1))
    assert (after.next_number("workers"), after.next_number("errors")) == (3, 2)
    # Another destination learns nothing of these.
    other = Context(scheduler, {**settings, "token": "2"}, Ledger(1))
    assert other.next_number("workers") == 1
