"""The sender with a server that gives every response of the protocol."""

import asyncio
import email.utils
import gc
import hashlib
import json
import logging
import pickle
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from conftest import reached
from distributed.scheduler import KilledWorker, WorkerState
from fake_galvo import MOST, TOKEN, FakeGalvo
from stand_ins import Scheduler

from galvo.plugin import VERSION, report_sender
from galvo.plugin.collector import Collector, Collectors, Context
from galvo.plugin.report_sender import ReportSender
from galvo.plugin.resolver import CachingResolver
from galvo.plugin.sections import LARGEST_LIMITS, Record

DEAD = WorkerState.__new__(WorkerState)
DEAD.address = "tcp://w:1"
KILLED = pickle.dumps(KilledWorker("x", DEAD, 3))
EMPTY = hashlib.sha256(b"").hexdigest()
NOTHING = dict.fromkeys(MOST, 0)
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
        "idle_timeout_seconds": None,
        "graph_updates": None,
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
def sender_to(address, scheduler, **settings):
    settings = {
        "server": address, "token": TOKEN, "account": "ada", "interval_seconds": 9.0,
        "ship_token": True, **settings
    }  # fmt: skip
    sender = ReportSender(settings, scheduler.ledger, scheduler, describe_cluster)
    yield sender
    sender.close()


def run(galvo, scheduler, act):
    """Runs ``act`` with a sender on an event loop, and returns its result."""

    async def main():
        with sender_to(galvo.address, scheduler) as sender:
            return await act(sender)

    return asyncio.run(main())


def deliver(galvo, scheduler, times=1):
    """Delivers ``times`` times, and returns the retry delay after each."""

    async def act(sender):
        pauses = []
        for _ in range(times):
            await sender.deliver()
            pauses.append(sender.pause)
        return pauses

    return run(galvo, scheduler, act)


def answer(status, headers=None, **body):
    return lambda report: (status, headers or {}, {"message": "m", **body})


def names(report):
    return [row["name"] for row in report["task_groups"]]


def test_a_report_names_its_sender(galvo, scheduler):
    scheduler.submit("x-1")
    deliver(galvo, scheduler)
    ((path, headers),) = galvo.requests
    assert path == "/api/v1/reports"
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["User-Agent"] == f"galvo-plugin/{VERSION}"
    assert headers["Content-Type"] == "application/json"
    (report,) = galvo.accepted
    expected = {
        "version": 1, "account": "ada", "sequence": 1001, "base": None, "final": False,
        "scheduler_id": scheduler.id, "interval_seconds": 9.0,
        "dropped": NOTHING,
    }  # fmt: skip
    assert {name: report[name] for name in expected} == expected
    assert abs(report["sent_at"] - time.time()) < 60
    assert names(report) == ["x-1"]


def test_a_prefix_of_the_server_is_kept(galvo, scheduler):
    galvo.address += "/below"
    deliver(galvo, scheduler)
    assert galvo.requests[0][0] == "/below/api/v1/reports"


def test_the_server_sets_the_pace(galvo, scheduler):
    for interval in (3.5, 0.001, 1e9, "soon", None):
        galvo.answers.append(
            lambda report, interval=interval: (
                200,
                {},
                galvo.acknowledgement(report, interval_seconds=interval),
            )  # fmt: skip
        )
    assert deliver(galvo, scheduler, 5) == [3.5, 0.5, 600.0, 9.0, 9.0]


def test_items_beyond_the_limits_follow_at_once(galvo, scheduler, monkeypatch):
    monkeypatch.setitem(report_sender.USUAL_LIMITS, "task_groups", 4)
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
    assert {path for path, _ in galvo.requests} == {"/api/v1/reports"}  # no redirect was followed


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


@pytest.mark.parametrize("status", [429, 503])
def test_senders_with_the_same_answer_come_back_at_different_times(galvo, scheduler, status):
    galvo.always = answer(status, {"Retry-After": "5"})
    pauses = deliver(galvo, scheduler, 30)
    assert min(pauses) >= 5.0
    # At first within two seconds, and finally within a minute.
    assert all(pause <= 5.0 + max(1.25, 2.0**count) for count, pause in enumerate(pauses[:5], 1))
    late = pauses[5:]
    assert max(late) <= 65.0
    assert max(late) - min(late) > 20.0


def test_a_quota_that_is_used_up_is_logged_once_and_loses_nothing(galvo, scheduler, caplog):
    body = {"code": "QUOTA_EXCEEDED", "message": "the account has used its daily quota of 20 GB"}
    galvo.answers = [answer(507, {"Retry-After": "40000"}, **body)] * 3
    scheduler.submit("x-1")
    with caplog.at_level(logging.INFO, "distributed.galvo"):
        *pauses, last = deliver(galvo, scheduler, 4)
    assert all(600.0 <= pause <= 750.0 for pause in pauses)
    assert last < 60.0
    assert [names(report) for report in galvo.reports] == [["x-1"]] * 4
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2, messages
    assert "507 the account has used its daily quota of 20 GB" in messages[0]
    assert "accepts reports again" in messages[1]


def test_a_quota_that_is_nearly_used_up_is_logged_once(galvo, scheduler, caplog):
    daily = {"quota": "daily_bytes", "used": 90, "limit": 100}
    share = daily | {"quota": "daily_clusters", "applies_to": "credential"}
    odd = [None, {"quota": 1}, {"quota": "x", "used": True, "limit": 2}]
    quotas = [[daily], [daily, *odd], [], [daily], "daily_bytes", None, [share]]
    galvo.answers = [
        lambda report, near=near: (
            200,
            {},
            {"acknowledged": report["sequence"], "quotas_near": near},
        )
        for near in quotas
    ]
    with caplog.at_level(logging.WARNING, "distributed.galvo"):
        deliver(galvo, scheduler, len(quotas))
    texts = [record.getMessage() for record in caplog.records]
    assert [re.sub("http://[^ ]+", "URL", text) for text in texts] == [
        f"The quota {name} of the Galvo server at URL is nearly used up: 90 of 100, the {whose}; "
        "reports beyond it are refused"
        for name, whose in [
            ("daily_bytes", "account's limit"),
            ("daily_bytes", "account's limit"),
            ("daily_clusters", "token's share"),
        ]
    ]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_token_is_tried_slowly_and_logged_once(galvo, scheduler, status, caplog):
    galvo.always = lambda report: (status, {}, {"message": f"bad token {TOKEN}"})
    with caplog.at_level(logging.INFO, "distributed.galvo"):
        pauses = deliver(galvo, scheduler, 3)
        assert all(60.0 <= pause <= 75.0 for pause in pauses)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(status) in caplog.text and TOKEN not in caplog.text


@pytest.mark.parametrize(
    "code, seconds",
    [("NOT_CLUSTER_OWNER", 600.0), ("CLUSTER_QUARANTINED", 600.0), ("CLUSTER_DELETED", 3600.0)],
)
def test_a_cluster_of_which_nothing_is_taken_is_tried_seldom_and_logged_once(
    galvo, scheduler, code, seconds, caplog
):
    galvo.always = lambda report: (409, {}, {"code": code, "message": "the cluster was deleted"})
    with caplog.at_level(logging.INFO, "distributed.galvo"):
        pauses = deliver(galvo, scheduler, 3)
    assert all(seconds <= pause <= 1.25 * seconds for pause in pauses)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().endswith("did not accept a report: 409 the cluster was deleted")


def test_a_shared_cluster_is_reported_on_with_the_token_of_who_reported_it_first(galvo, scheduler):
    def of_owner_alone(report):
        if galvo.requests[-1][1]["Authorization"] == f"Bearer {TOKEN}":
            return None
        return 409, {}, {"code": "NOT_CLUSTER_OWNER", "message": "no"}

    async def act():
        verdicts = []
        for token, times in ((TOKEN, 1), ("of-a-colleague", 2)):
            with sender_to(galvo.address, scheduler, token=token) as sender:
                for _ in range(times):
                    await sender.deliver()
                    verdicts.append((sender.verdict or {}).get("status"))
                pause = sender.pause
        return verdicts, pause

    galvo.always = of_owner_alone
    verdicts, pause = asyncio.run(act())
    # None is the state for which a registering client waits.
    assert verdicts == [200, None, 200]
    assert pause == 0.5 and len(galvo.accepted) == 2


def test_a_conflict_of_another_kind_is_tried_like_any_failure(galvo, scheduler):
    galvo.always = lambda report: (409, {}, {"code": "CONFLICT", "message": "no"})
    assert max(deliver(galvo, scheduler, 2)) <= 4.0


def test_recovery_is_logged(galvo, scheduler, caplog):
    async def act(sender):
        for _ in range(3):
            await sender.deliver()

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
    assert galvo.accepted[0]["dropped"] == {**NOTHING, "task_groups": 1}


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
    async def act(sender):
        for name in ("x", "y", "z"):
            scheduler.submit(*(f"{name}-{i}" for i in range(10)))
            await sender.deliver()
            await sender.deliver()

    galvo.answers = [answer(413)]
    run(galvo, scheduler, act)
    sizes = [len(report["task_groups"]) for report in galvo.reports]
    assert [size for size in sizes if size] == [10, 5, 5, 10, 10]


def test_a_single_item_that_is_too_large_is_dropped(galvo, scheduler):
    galvo.answers = [answer(413)]
    scheduler.ledger.group(scheduler.submit("x-1")[0])
    # Of one group and one computation, the larger one is removed.
    deliver(galvo, scheduler, 2)
    assert galvo.accepted[0]["dropped"] == {**NOTHING, "task_groups": 1}
    assert [len(galvo.accepted[0][kind]) for kind in ("computations", "task_groups")] == [1, 0]


def test_items_that_are_too_large_are_dropped_one_by_one(galvo, scheduler):
    galvo.answers = [answer(413), answer(413)]
    scheduler.ledger.group(scheduler.submit("x-1")[0])
    deliver(galvo, scheduler, 3)
    assert galvo.accepted[0]["dropped"] == {**NOTHING, "computations": 1, "task_groups": 1}


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
    async def act(sender):
        await sender.deliver()
        before = sender.stop_requested
        galvo.desired_state = "stopped"
        await sender.deliver()
        return before, sender.stop_requested

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
    monkeypatch.setattr(report_sender, "REQUEST_SECONDS", 0.3)
    scheduler.submit("x-1")
    began = time.monotonic()
    deliver(hung, scheduler)
    assert 0.2 < time.monotonic() - began < 2.0
    assert len(scheduler.ledger.outboxes["task_groups"].records) == 1


def test_a_cancelled_delivery_gives_everything_back(hung, scheduler, monkeypatch):
    monkeypatch.setattr(report_sender, "REQUEST_SECONDS", 1.5)
    scheduler.submit("x-1")
    unhandled = []

    async def act(sender):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: unhandled.append(context))
        delivery = asyncio.ensure_future(sender.deliver())
        await reached(lambda: hung.connections)
        assert len(scheduler.ledger.outboxes["task_groups"].records) == 0
        delivery.cancel()
        await asyncio.wait([delivery])
        assert delivery.cancelled()
        del delivery
        await asyncio.sleep(1.7)  # the abandoned request runs into its timeout
        gc.collect()

    run(hung, scheduler, act)
    assert unhandled == []
    assert len(scheduler.ledger.outboxes["task_groups"].records) == 1


def final(galvo, scheduler, reason="done"):
    async def act(sender):
        began = time.monotonic()
        await sender.deliver_final(reason)
        return time.monotonic() - began

    return run(galvo, scheduler, act)


def test_the_final_message(galvo, scheduler):
    scheduler.submit("x-1")
    final(galvo, scheduler)
    (report,) = galvo.accepted
    assert report["final"] and report["cluster"]["close_reason"] == "done"
    assert [row["state"] for row in report["computations"]] == ["cancelled"]
    assert names(report) == ["x-1"]


def end_executor():
    """Shuts down the event loop's executor, as at interpreter exit."""
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    asyncio.get_running_loop().set_default_executor(executor)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("known", [True, False])
def test_the_final_message_of_a_program_that_ends(
    galvo, scheduler, host, known, monkeypatch, caplog
):
    looked_up, real = [], socket.getaddrinfo
    galvo.address = galvo.address.replace("127.0.0.1", host)

    def look_up(*arguments):
        looked_up.append((arguments[0], threading.current_thread().name))
        return real(*arguments)

    async def act(sender):
        if known:
            await sender.deliver()
        end_executor()
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        await sender.deliver_final("done")

    scheduler.submit("x-1")
    run(galvo, scheduler, act)
    assert [report["final"] for report in galvo.accepted] == [False, True][not known :]
    assert galvo.groups()[0]["name"] == "x-1" and caplog.records == []
    # An unknown name is resolved, and never on the event loop.
    assert looked_up == ([] if known else [(host, "galvo-resolver")])


def test_a_name_server_that_is_silent_does_not_hold_up_a_program_that_ends(
    galvo, scheduler, monkeypatch
):
    started, answered = threading.Event(), threading.Event()

    def look_up(*_):
        started.set()
        answered.wait(60)
        raise socket.gaierror("no such name")

    async def act(sender):
        end_executor()
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        delivery = asyncio.ensure_future(sender.deliver_final("done"))
        await reached(started.is_set)  # the event loop stays responsive
        await delivery

    scheduler.submit("x-1")
    run(galvo, scheduler, act)
    assert galvo.accepted == [] and not answered.is_set()
    answered.set()


def test_a_name_is_looked_up_each_time_as_long_as_that_does_not_block(monkeypatch):
    answers = iter(["10.0.0.1", "10.0.0.2", OSError("no such name"), RuntimeError("no more work")])

    async def getaddrinfo(host, port, **kwargs):
        address = next(answers)
        if isinstance(address, Exception):
            raise address
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    async def main():
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
        resolver, found = CachingResolver(), []
        for _ in range(4):
            try:
                found.append(await resolver.resolve("galvo", 80, socket.AF_INET))
            except OSError:
                found.append(None)
        return found

    first, second = ([(socket.AF_INET, (f"10.0.0.{n}", 80))] for n in (1, 2))
    assert asyncio.run(main()) == [first, second, None, second]


def test_what_fails_while_a_report_is_encoded_is_not_tried_on_the_event_loop(
    galvo, scheduler, monkeypatch
):
    where = []

    def encode(*_):
        where.append(threading.current_thread() is threading.main_thread())
        raise RuntimeError("cannot be encoded")

    monkeypatch.setattr(ReportSender, "_encode", encode)
    deliver(galvo, scheduler)
    assert where == [False] and galvo.requests == []


def test_the_final_message_comes_last_when_there_is_too_much_for_it(galvo, scheduler, monkeypatch):
    monkeypatch.setitem(report_sender.LARGEST_LIMITS, "task_groups", 4)
    scheduler.submit(*(f"x-{i}" for i in range(10)))
    final(galvo, scheduler)
    assert [report["final"] for report in galvo.accepted] == [False, False, True]
    assert len(galvo.groups()) == 10


def test_the_final_message_has_its_own_time_when_the_server_is_slow(galvo, scheduler, monkeypatch):
    monkeypatch.setitem(report_sender.LARGEST_LIMITS, "task_groups", 4)
    galvo.always = lambda report: time.sleep(1.2)
    scheduler.submit(*(f"x-{i}" for i in range(10)))
    assert 2.4 <= final(galvo, scheduler) < 4.0
    assert [report["final"] for report in galvo.accepted] == [False, True]
    assert len(galvo.groups()) == 8


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


def counts(report):
    """Returns the receipt's counts of the classes with any."""
    receipt = {
        name: (counts["sent"], counts["withheld"]) for name, counts in report["receipt"].items()
    }
    return {name: counts for name, counts in receipt.items() if counts != (0, 0)}


def characters(rows):
    return sum(len(json.dumps(row, separators=(",", ":"), ensure_ascii=False)) for row in rows)


def test_the_receipt_counts_each_item_once(galvo, scheduler):
    (group,) = scheduler.submit("x-1", tasks=2)
    galvo.answers = [answer(500), answer(200, acknowledged=7)]

    async def act(sender):
        for _ in range(3):
            await sender.deliver()
        scheduler.fail(scheduler.keys(group)[0], "ValueError('no — no')")
        await sender.deliver()
        scheduler.finish(group)
        await sender.deliver()

    run(galvo, scheduler, act)
    assert [counts(report) for report in galvo.reports] == [
        *[{"tasks": (2, 0)}] * 3,
        *[{"tasks": (2, 0), "user_errors": (1, 0)}] * 2,
    ]
    last = galvo.reports[-1]["receipt"]
    assert last["user_errors"]["bytes"] == characters(galvo.errors())
    largest = {}
    for report in galvo.reports:
        for row in report["task_groups"] + report["computations"]:
            largest[row["id"]] = max(largest.get(row["id"], 0), characters([row]))
    assert last["tasks"]["bytes"] == sum(largest.values())


def test_what_the_server_does_not_accept_stays_here_and_is_counted(galvo, scheduler):
    galvo.accepts = ["basic", "code"]
    (group,) = scheduler.submit("x-1", tasks=2)
    first, second = scheduler.keys(group)

    async def act(sender):
        await sender.deliver()
        scheduler.fail(first)
        for _ in range(3):
            scheduler.clock += 1.0
            await sender.deliver()
        galvo.accepts = ["tasks"]
        await sender.deliver()
        await sender.deliver()
        scheduler.transition(second, "erred", cause=second, exception=KILLED)
        await sender.deliver()

    run(galvo, scheduler, act)
    # The first report is written before any response. The group and the error are not counted again
    # when they change.
    sent = [counts(report) for report in galvo.reports]
    assert sent[0] == {"tasks": (2, 0)}
    assert sent[1:5] == [{"tasks": (2, 1), "user_errors": (0, 1)}] * 4
    assert [len(report["task_groups"]) for report in galvo.reports] == [1, 0, 0, 0, 0, 1, 1]
    assert [report["errors"] for report in galvo.reports[:6]] == [[]] * 6
    assert galvo.groups()[0]["tasks_erred"] == 2
    # The scheduler's own exceptions are always accepted.
    assert [row["type"] for row in galvo.errors()] == ["KilledWorker"]


class Recorder(Collector):
    """Records its calls, and has one row that may not always be sent."""

    def __init__(self, context):
        super().__init__(context)
        self.calls = []
        self.record = Record("x", {"hash": EMPTY, "text": ""}, settled=True)

    def read(self, now, closed_at=None):
        self.calls.append(("read", closed_at is not None))

    def resend(self):
        self.calls.append("resend")
        self.context.outboxes["code"].add(self.record)


def test_collectors_are_read_before_each_report_and_resend_on_request(galvo, scheduler):
    recorder = Recorder(Context(scheduler, {}, scheduler.ledger))
    galvo.answers = [
        answer(200, acknowledged=1001, resend=True),
        answer(200, acknowledged=1002, accepts=["code", "tasks"]),  # logs are refused now
    ]

    async def act(sender):
        sender._collectors = Collectors([recorder])
        for _ in range(3):
            await sender.deliver()
        await sender.deliver_final("over")

    run(galvo, scheduler, act)
    # Finally all classes are accepted, so that withheld records may be sent.
    assert recorder.calls == [
        *[("read", False), "resend", ("read", False), ("read", False), "resend"],
        *[("read", True)],
    ]
    assert [len(report.get("code", [])) for report in galvo.reports] == [0, 1, 0, 1]
    assert galvo.reports[-1]["receipt"]["code"] == {"sent": 1, "bytes": 85, "withheld": 0}


class Reader(Collector):
    """Records when it is read, and when the event loop continues after that."""

    def __init__(self, name, context, order):
        super().__init__(context)
        self.name, self.order, self.is_separate = name, order, name.startswith("apart")

    def read(self, now, closed_at=None):
        self.order.append(self.name)
        asyncio.get_running_loop().call_soon(self.order.append, "go on")


def test_the_event_loop_goes_on_after_what_is_read_apart_but_not_at_the_end(galvo, scheduler):
    context, order = Context(scheduler, {}, scheduler.ledger), []
    kinds = ["first", "apart 1", "second", "apart 2", "third"]

    async def act(sender):
        sender._collectors = Collectors([Reader(kind, context, order) for kind in kinds])
        await sender.deliver()
        assert order[:4] == ["apart 1", "go on", "apart 2", "go on"]
        assert order[4:] == ["first", "second", "third", *["go on"] * 3]
        order.clear()
        await sender.deliver_final("over")
        assert order == [*kinds, *["go on"] * 5]

    run(galvo, scheduler, act)


def test_an_item_that_cannot_be_written_does_not_hold_up_the_others(galvo, scheduler, caplog):
    scheduler.submit("x-1", "y-1")
    record = Record("odd", {"odd": object()}, settled=True)
    scheduler.ledger.outboxes["events"].add(record)
    deliver(galvo, scheduler, 2)
    assert names(galvo.accepted[0]) == ["x-1", "y-1"]
    assert [report["dropped"]["events"] for report in galvo.accepted] == [0, 1]
    assert "1 events cannot be written as JSON" in caplog.text


def test_a_report_has_a_size_and_large_items_go_one_by_one(galvo, scheduler):
    for i in range(5):
        record = Record(str(i), {}, settled=True)
        record.characters = 3_000_000 if i else 20_000_000
        scheduler.ledger.outboxes["code"].add(record)
    taken, more = [], True
    while more:
        report = scheduler.ledger.build(LARGEST_LIMITS)
        taken.append([int(record.id) for record, _ in report.items["code"]])
        more = report.has_more
    assert taken == [[0], [1, 2], [3, 4]]
