"""The courier against a server that answers in every way the protocol knows."""

import asyncio
import email.utils
import gc
import logging
import time
from contextlib import contextmanager

import pytest
from fake_galvo import TOKEN, FakeGalvo
from stand_ins import Scheduler

from galvo import plugin
from galvo.plugin import Courier

TOTALS = (
    "tasks tasks_succeeded tasks_erred errors bytes workers peak_workers peak_threads"
    " compute_seconds transfer_seconds thread_seconds"
)


def describe_cluster(closed_at=None, close_reason=None):
    return {
        "name": None,
        "address": "tcp://127.0.0.1:8786",
        "dashboard_url": None,
        "started_at": 1_700_000_000.0,
        "closed_at": closed_at,
        "close_reason": close_reason,
        "idle_since": None,
        "workers": 0,
        "threads": 0,
        "memory_limit_bytes": None,
        "memory_used_bytes": 0,
        "totals": dict.fromkeys(TOTALS.split(), 0),
    }


@pytest.fixture
def scheduler():
    scheduler = Scheduler(sequence=1000)
    scheduler.ids = 0x7000 << 64 | 0x8000 << 48  # ids look like those of version 7
    return scheduler


@contextmanager
def courier_to(address, scheduler, **settings):
    settings = {
        "server": address, "token": TOKEN, "account": "ada", "interval_seconds": 9.0, **settings
    }  # fmt: skip
    courier = Courier(settings, scheduler.ledger, scheduler, describe_cluster)
    yield courier
    courier.close()


def run(galvo, scheduler, act):
    """Lets ``act`` work with a courier on an event loop; returns what it returns."""

    async def main():
        with courier_to(galvo.address, scheduler) as courier:
            return await act(courier)

    return asyncio.run(main())


def deliver(galvo, scheduler, times=1):
    """Delivers so many times; returns the pauses asked for after each."""

    async def act(courier):
        pauses = []
        for _ in range(times):
            await courier.deliver()
            pauses.append(courier.pause)
        return pauses

    return run(galvo, scheduler, act)


def answer(status, headers=None, **body):
    return lambda report: (status, headers or {}, {"message": "m", **body})


def names(report):
    return [row["name"] for row in report["task_groups"]]


def test_a_report_says_who_sends_it(galvo, scheduler):
    scheduler.submit("x-1")
    deliver(galvo, scheduler)
    ((path, headers),) = galvo.requests
    assert path == "/api/v1/reports"
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["User-Agent"] == f"galvo-plugin/{plugin.VERSION}"
    assert headers["Content-Type"] == "application/json"
    (report,) = galvo.accepted
    expected = {
        "version": 1, "account": "ada", "sequence": 1001, "base": None, "final": False,
        "scheduler_id": scheduler.id, "interval_seconds": 9.0,
        "dropped": {"computations": 0, "task_groups": 0, "errors": 0},
    }  # fmt: skip
    assert {name: report[name] for name in expected} == expected
    assert abs(report["sent_at"] - time.time()) < 60
    assert names(report) == ["x-1"]


def test_a_prefix_of_the_server_is_kept(galvo, scheduler):
    galvo.address += "/below"
    deliver(galvo, scheduler)
    assert galvo.requests[0][0] == "/below/api/v1/reports"


def test_the_server_sets_the_pace(galvo, scheduler):
    for wanted in (3.5, 0.001, 1e9, "soon", None):
        galvo.answers.append(
            lambda report, wanted=wanted: (
                200,
                {},
                galvo.acknowledgement(report, interval_seconds=wanted),
            )  # fmt: skip
        )
    assert deliver(galvo, scheduler, 5) == [3.5, 0.5, 600.0, 9.0, 9.0]


def test_items_beyond_the_limits_follow_at_once(galvo, scheduler, monkeypatch):
    monkeypatch.setitem(plugin.USUAL_LIMITS, "task_groups", 4)
    scheduler.submit(*(f"x-{i}" for i in range(10)))
    deliver(galvo, scheduler)
    assert [len(report["task_groups"]) for report in galvo.accepted] == [4, 4, 2]
    assert [report["base"] for report in galvo.accepted] == [None, 1001, 1002]


def test_after_an_error_the_newest_values_go_out(galvo, scheduler):
    galvo.answers = [answer(500), answer(502)]
    (group,) = scheduler.submit("x-1")
    deliver(galvo, scheduler)
    scheduler.finish(group)
    deliver(galvo, scheduler, 2)
    assert [report["sequence"] for report in galvo.reports] == [1001, 1002, 1003]
    assert galvo.groups()[0]["states"] == {"forgotten": 1}
    assert galvo.accepted[0]["base"] is None


@pytest.mark.parametrize("status", [301, 404, 415, 418, 500])
def test_anything_else_backs_off_up_to_a_minute(galvo, scheduler, status):
    galvo.always = answer(status, {"Location": "/elsewhere"})
    pauses = deliver(galvo, scheduler, 8)
    bounds = [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(pauses, bounds))
    assert len(set(pauses)) == 8
    assert {path for path, _ in galvo.requests} == {"/api/v1/reports"}  # no redirect followed


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[1]", b"<html>", b'{"acknowledged": "1001"}', b'{"acknowledged": true}'],
)
def test_an_answer_that_acknowledges_nothing_counts_as_none(galvo, scheduler, body):
    galvo.answers = [lambda report: (200, {}, body)]
    scheduler.submit("x-1")
    deliver(galvo, scheduler, 2)
    assert [names(report) for report in galvo.reports] == [["x-1"], ["x-1"]]


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(galvo, scheduler, status):
    galvo.answers = [answer(status, {"Retry-After": "40"})]
    (pause,) = deliver(galvo, scheduler)
    assert 40.0 <= pause <= 50.0
    date = email.utils.formatdate(time.time() + 100, usegmt=True)
    galvo.answers = [answer(status, {"Retry-After": date}), answer(status, {"Retry-After": "soon"})]
    dated, unreadable = deliver(galvo, scheduler, 2)
    assert 95.0 <= dated <= 130.0
    assert unreadable <= 4.0


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_token_is_tried_slowly_and_told_once(galvo, scheduler, status, caplog):
    galvo.always = lambda report: (status, {}, {"message": f"bad token {TOKEN}"})
    with caplog.at_level(logging.INFO, "distributed.galvo"):
        pauses = deliver(galvo, scheduler, 3)
        assert all(60.0 <= pause <= 75.0 for pause in pauses)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(status) in caplog.text and TOKEN not in caplog.text


def test_recovery_is_told(galvo, scheduler, caplog):
    async def act(courier):
        for _ in range(3):
            await courier.deliver()

    galvo.answers = [answer(500)]
    with caplog.at_level(logging.INFO, "distributed.galvo"):
        run(galvo, scheduler, act)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_refused_item_is_left_out_of_the_next_report(galvo, scheduler):
    galvo.answers = [answer(400, pointer="/task_groups/1/name")]
    scheduler.submit("a-1", "b-1", "c-1")
    pauses = deliver(galvo, scheduler, 2)
    assert pauses == [1.0, 0.5]
    assert names(galvo.accepted[0]) == ["a-1", "c-1"]
    assert galvo.accepted[0]["dropped"] == {"computations": 0, "task_groups": 1, "errors": 0}


def test_a_report_refused_as_a_whole_is_given_up(galvo, scheduler):
    galvo.answers = [answer(400, pointer="/cluster/name")]
    scheduler.submit("a-1", "b-1")
    assert deliver(galvo, scheduler, 2)[0] == 9.0
    assert names(galvo.accepted[0]) == [] and galvo.accepted[0]["dropped"]["task_groups"] == 2


def test_too_large_a_report_is_halved_until_it_fits(galvo, scheduler):
    def only_small(report):
        if len(report["task_groups"]) > 3:
            return 413, {}, {"message": "too large"}
        return None

    galvo.always = only_small
    scheduler.submit(*(f"x-{i}" for i in range(10)))
    pauses = deliver(galvo, scheduler, 4)
    assert pauses[:2] == [0.0, 0.0]
    assert [len(r["task_groups"]) for r in galvo.reports[:3]] == [10, 5, 2]
    assert sorted(row["name"] for row in galvo.groups()) == [f"x-{i}" for i in range(10)]
    assert galvo.accepted[-1]["dropped"]["task_groups"] == 0


def test_limits_grow_back_once_everything_is_sent(galvo, scheduler):
    async def act(courier):
        for name in ("x", "y", "z"):
            scheduler.submit(*(f"{name}-{i}" for i in range(10)))
            await courier.deliver()
            await courier.deliver()

    galvo.answers = [answer(413)]
    run(galvo, scheduler, act)
    sizes = [len(report["task_groups"]) for report in galvo.reports]
    assert [size for size in sizes if size] == [10, 5, 5, 10, 10]


def test_a_single_item_that_is_too_large_is_dropped(galvo, scheduler):
    galvo.answers = [answer(413)]
    scheduler.ledger.group(scheduler.submit("x-1")[0])
    deliver(galvo, scheduler, 2)
    assert galvo.accepted[0]["dropped"] == {"computations": 1, "task_groups": 1, "errors": 0}


def test_too_large_a_report_without_items_backs_off(galvo, scheduler):
    galvo.always = answer(413)
    (pause,) = deliver(galvo, scheduler)
    assert 1.0 <= pause <= 2.0


def test_resend(galvo, scheduler):
    scheduler.submit("x-1")

    def lost_everything(report):
        galvo.rows.__init__()
        return 200, {}, galvo.acknowledgement(report, resend=True)

    galvo.answers = [None, lost_everything]
    deliver(galvo, scheduler, 3)
    assert [names(report) for report in galvo.reports] == [["x-1"], [], ["x-1"]]
    assert galvo.groups()[0]["name"] == "x-1" and galvo.computations()[0]["state"] == "running"


def test_the_wish_to_stop_is_passed_on(galvo, scheduler):
    async def act(courier):
        await courier.deliver()
        before = courier.stop_requested
        galvo.desired_state = "stopped"
        await courier.deliver()
        return before, courier.stop_requested

    assert run(galvo, scheduler, act) == (False, True)


def test_no_server_at_all(scheduler, caplog):
    absent = FakeGalvo()
    absent.close()
    scheduler.submit("x-1")
    with caplog.at_level(logging.INFO, "distributed.galvo"):
        pauses = deliver(absent, scheduler, 3)
    assert 1.0 <= pauses[0] <= 2.0 and pauses[2] <= 8.0
    assert len(caplog.records) == 1
    assert len(scheduler.ledger.outboxes["task_groups"].records) == 1


def test_a_server_that_never_answers_is_given_up_in_time(hung, scheduler, monkeypatch):
    monkeypatch.setattr(plugin, "REQUEST_SECONDS", 0.3)
    scheduler.submit("x-1")
    began = time.monotonic()
    deliver(hung, scheduler)
    assert 0.2 < time.monotonic() - began < 2.0
    assert len(scheduler.ledger.outboxes["task_groups"].records) == 1


def test_a_cancelled_delivery_gives_everything_back(hung, scheduler, monkeypatch):
    monkeypatch.setattr(plugin, "REQUEST_SECONDS", 0.3)
    scheduler.submit("x-1")
    unheard = []

    async def act(courier):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: unheard.append(context))
        delivery = asyncio.ensure_future(courier.deliver())
        while not hung.connections:
            await asyncio.sleep(0.01)
        assert len(scheduler.ledger.outboxes["task_groups"].records) == 0
        delivery.cancel()
        await asyncio.wait([delivery])
        assert delivery.cancelled()
        del delivery
        await asyncio.sleep(0.5)  # the abandoned request runs into its timeout
        gc.collect()

    run(hung, scheduler, act)
    assert unheard == []
    assert len(scheduler.ledger.outboxes["task_groups"].records) == 1


def final(galvo, scheduler, reason="done"):
    async def act(courier):
        began = time.monotonic()
        await courier.deliver_final(reason)
        return time.monotonic() - began

    return run(galvo, scheduler, act)


def test_the_final_message(galvo, scheduler):
    scheduler.submit("x-1")
    final(galvo, scheduler)
    (report,) = galvo.accepted
    assert report["final"] and report["cluster"]["close_reason"] == "done"
    assert [row["state"] for row in report["computations"]] == ["cancelled"]
    assert names(report) == ["x-1"]


def test_the_final_message_comes_last_when_there_is_too_much_for_it(galvo, scheduler, monkeypatch):
    monkeypatch.setitem(plugin.LARGEST_LIMITS, "task_groups", 4)
    scheduler.submit(*(f"x-{i}" for i in range(10)))
    final(galvo, scheduler)
    assert [report["final"] for report in galvo.accepted] == [False, False, True]
    assert len(galvo.groups()) == 10


def test_the_final_message_is_sent_again_without_a_refused_item(galvo, scheduler):
    galvo.answers = [answer(400, pointer="/task_groups/0"), answer(413)]
    scheduler.submit("a-1", "b-1", "c-1")
    final(galvo, scheduler)
    assert [report["final"] for report in galvo.accepted][-1] is True
    assert sorted(row["name"] for row in galvo.groups()) == ["b-1", "c-1"]


def test_the_final_message_is_tried_once_when_the_server_has_trouble(galvo, scheduler):
    galvo.always = answer(500)
    assert final(galvo, scheduler) < 2.0
    assert len(galvo.reports) == 1


def test_the_final_message_does_not_wait_longer_than_its_budget(hung, scheduler):
    assert 1.5 < final(hung, scheduler) < 2.6
