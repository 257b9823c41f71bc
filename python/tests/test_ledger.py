import copy
import gc
import random
import weakref
from types import SimpleNamespace

import pytest
from fake_galvo import MOST, Rows
from stand_ins import Group, Scheduler, message

from galvo.plugin import ledger, shares, work
from galvo.plugin.ledger import Ledger
from galvo.plugin.sections import LARGEST_LIMITS, Receipt

PLENTY = LARGEST_LIMITS
NOTHING = dict.fromkeys(MOST, 0)


@pytest.fixture
def scheduler():
    return Scheduler()


def report(scheduler, limits=PLENTY, closing=False):
    scheduler.read(closing)
    return scheduler.ledger.build(limits)


def bodies(report, kind="task_groups"):
    return [body for _, body in report.items[kind]]


def deliver(scheduler, limits=PLENTY, closing=False):
    """Sends one report that arrives, and returns its message."""
    sent = report(scheduler, limits, closing)
    scheduler.ledger.acknowledge(sent, sent.sequence)
    return message(sent)


def is_empty(message):
    return not any(message[kind] for kind in PLENTY)


def test_a_group_is_reported_as_it_is(scheduler):
    (source,) = scheduler.submit("load-1", tasks=2)
    (group,) = scheduler.submit("sum-1", tasks=3, dependencies=[source])
    group.dependencies.add(group)  # as when tasks depend on others of their own group
    first, second, third = scheduler.keys(group)
    scheduler.compute(first, seconds=2.0, nbytes=100)
    scheduler.fail(second)
    scheduler.blame(third)
    group.all_durations.update(transfer=0.5, odd=-1.0)
    load, total = bodies(report(scheduler))
    assert load["name"] == "load-1" and load["states"] == {"waiting": 2}
    assert total == {
        "id": total["id"],
        "name": "sum-1",
        "prefix": "sum",
        "first_seen_at": 1_700_000_000.0,
        "started_at": 1_700_000_000.0,
        "stopped_at": 1_700_000_002.0,
        "states": {"memory": 1, "erred": 2},
        "tasks": 3,
        "tasks_succeeded": 1,
        "tasks_erred": 1,
        "tasks_blamed": 1,
        "tasks_retried": 0,
        "span_id": None,
        "durations": {"compute": 2.0, "transfer": 0.5, "odd": 0.0},
        "bytes": 100,
        "types": ["int"],
        "dependencies": [load["id"]],
    }


def test_an_unchanged_group_is_sent_once(scheduler):
    scheduler.submit("x-1")
    assert len(deliver(scheduler)["task_groups"]) == 1
    assert is_empty(deliver(scheduler))


def test_a_lost_report_is_followed_by_the_newest_values(scheduler):
    (group,) = scheduler.submit("x-1", tasks=2)
    lost = report(scheduler)
    scheduler.compute(scheduler.keys(group)[0])
    scheduler.ledger.put_back(lost)
    (body,) = deliver(scheduler)["task_groups"]
    assert body["tasks_succeeded"] == 1
    assert is_empty(deliver(scheduler))


def test_what_changes_while_a_report_is_under_way_is_sent_again(scheduler):
    (group,) = scheduler.submit("x-1", tasks=2)
    sent = report(scheduler)
    scheduler.compute(scheduler.keys(group)[0])
    scheduler.ledger.acknowledge(sent, sent.sequence)
    assert [body["tasks_succeeded"] for body in deliver(scheduler)["task_groups"]] == [1]


def test_a_group_changed_without_any_hook_is_noticed(scheduler):
    (group,) = scheduler.submit("x-1")
    deliver(scheduler)
    group.nbytes_total = 77
    group.all_durations["transfer"] = 0.25
    (body,) = deliver(scheduler)["task_groups"]
    assert (body["bytes"], body["durations"]) == (77, {"transfer": 0.25})


def test_changes_without_hooks_are_noticed_among_many_groups(scheduler):
    groups = scheduler.submit(*(f"x-{i}" for i in range(2500)))
    deliver(scheduler)
    for group in groups:
        group.nbytes_total = 1
    seen = [len(deliver(scheduler)["task_groups"]) for _ in range(3)]
    assert sum(seen) == 2500 and max(seen) <= ledger.SWEPT_GROUPS


def test_scattered_data_is_noticed(scheduler):
    scheduler.scatter("data-1")
    (body,) = deliver(scheduler)["task_groups"]
    assert (body["name"], body["states"], body["tasks_succeeded"]) == ("data-1", {"memory": 1}, 1)


def test_each_object_of_a_recurring_name_is_a_group_of_its_own(scheduler):
    for _ in range(3):
        scheduler.finish(*scheduler.submit("inc", tasks=2))
    rows = deliver(scheduler)["task_groups"]
    assert [row["name"] for row in rows] == ["inc"] * 3
    assert len({row["id"] for row in rows}) == 3
    assert [row["tasks_succeeded"] for row in rows] == [2, 2, 2]
    assert scheduler.ledger.totals()["tasks"] == 6


def test_computations_that_vanish_between_reports_are_complete(scheduler):
    scheduler.finish(*scheduler.submit("a-1", "b-1", tasks=2))
    scheduler.finish(*scheduler.submit("c-1"))
    sent = deliver(scheduler)
    ids = {row["name"]: row["id"] for row in sent["task_groups"]}
    first, second = sent["computations"]
    assert first == {
        "id": str(scheduler.computations[0].id),
        "started_at": 1_700_000_000.0,
        "stopped_at": 1_700_000_004.0,
        "state": "finished",
        "task_group_ids": [ids["a-1"], ids["b-1"]],
        "code": [],
        "span_ids": [],
    }
    assert (second["stopped_at"], second["task_group_ids"]) == (1_700_000_005.0, [ids["c-1"]])
    assert all(row["states"]["forgotten"] == row["tasks"] for row in sent["task_groups"])


def test_a_computation_runs_until_its_last_group_is_done(scheduler):
    first, second = scheduler.submit("a-1", "b-1")
    scheduler.finish(first)
    (row,) = deliver(scheduler)["computations"]
    assert (row["state"], row["stopped_at"]) == ("running", None)
    scheduler.finish(second)
    (row,) = deliver(scheduler)["computations"]
    assert (row["state"], row["stopped_at"]) == ("finished", 1_700_000_002.0)
    assert len(row["task_group_ids"]) == 2


def test_a_computation_ends_before_a_later_one_reuses_its_group(scheduler):
    (group,) = scheduler.submit("inc")
    scheduler.compute(scheduler.keys(group)[0])  # and stays in memory
    scheduler.clock += 100
    assert scheduler.submit("inc") == [group]
    scheduler.compute(scheduler.keys(group, state="waiting")[0])
    first, second = deliver(scheduler)["computations"]
    assert first["task_group_ids"] == second["task_group_ids"]
    assert [row["stopped_at"] - row["started_at"] for row in (first, second)] == [1.0, 1.0]


def test_results_that_are_there_already_take_no_part_in_a_computation(scheduler):
    (old,) = scheduler.submit("old-1")
    (key,) = scheduler.keys(old)
    scheduler.compute(key)
    (new,) = scheduler.submit("new-1", dependencies=[old])
    scheduler.plugin.update_graph(scheduler, tasks=[key, *scheduler.keys(new)])
    sent = deliver(scheduler)
    ids = {row["name"]: row["id"] for row in sent["task_groups"]}
    links = [row["task_group_ids"] for row in sent["computations"]]
    assert links == [[ids["old-1"]], [ids["new-1"]]]


def test_an_error_makes_its_computation_erred_and_names_where_it_happened(scheduler):
    group, other = scheduler.submit("f-1", "g-1")
    scheduler.fail(scheduler.keys(group)[0], "KeyError('k')")
    scheduler.blame(scheduler.keys(other)[0])
    sent = deliver(scheduler)
    (error,), (computation,) = sent["errors"], sent["computations"]
    assert computation["state"] == "erred" and computation["stopped_at"] == 1_700_000_000.0
    by_name = {row["name"]: row for row in sent["task_groups"]}
    assert error == {
        "id": error["id"],
        "number": None,  # which the scheduler's plugin gives
        "at": 1_700_000_000.0,
        "key": error["key"],
        "task_group_id": by_name["f-1"]["id"],
        "computation_id": computation["id"],
        "type": "KeyError",
        "message": "KeyError('k')",
        "traceback": "  File ...\n",
        "worker": "tcp://w:1",
        "origin": "user",
        "retries": 0,
        "span_id": None,
        "worker_id": None,
    }
    assert error["key"].startswith("('f-1', ")
    assert (by_name["g-1"]["tasks_erred"], by_name["g-1"]["tasks_blamed"]) == (0, 1)
    assert scheduler.ledger.totals()["errors"] == scheduler.ledger.totals()["tasks_erred"] == 1


def test_closing_cancels_what_is_unfinished(scheduler):
    scheduler.finish(*scheduler.submit("a-1"))
    scheduler.submit("b-1")
    scheduler.clock += 5
    states = {row["id"]: row for row in deliver(scheduler, closing=True)["computations"]}
    first, second = (states[str(c.id)] for c in scheduler.computations)
    assert first["state"] == "finished"
    assert (second["state"], second["stopped_at"]) == ("cancelled", scheduler.clock)


def state_of_latest(scheduler):
    rows = {row["id"]: row for row in deliver(scheduler)["computations"]}
    return rows[str(scheduler.computations[-1].id)]["state"]


@pytest.mark.parametrize("state", ["waiting", "processing", "queued", "no-worker"])
def test_what_is_given_up_undone_is_cancelled(scheduler, state):
    (group,) = scheduler.submit("a-1", tasks=3)
    first, second, third = scheduler.keys(group)
    scheduler.compute(first)
    if state != "waiting":
        scheduler.transition(second, state)
    scheduler.clock += 5
    scheduler.drop(second)
    scheduler.clock += 5
    scheduler.drop(third)
    given_up = scheduler.clock
    scheduler.clock += 5
    scheduler.drop(first)
    (row,) = deliver(scheduler)["computations"]
    assert (row["state"], row["stopped_at"]) == ("cancelled", given_up)
    assert scheduler.ledger.released_tasks == {}
    # The next computation is a separate one.
    scheduler.finish(*scheduler.submit("a-1"))
    assert state_of_latest(scheduler) == "finished"


@pytest.mark.parametrize("first", ["erred", "given up"])
def test_running_and_erred_take_precedence_over_cancelled(scheduler, first):
    (group,) = scheduler.submit("a-1", tasks=3)
    erring, given_up, last = scheduler.keys(group)
    if first == "erred":
        scheduler.fail(erring)
    scheduler.drop(given_up)
    if first == "given up":
        scheduler.fail(erring)
    assert state_of_latest(scheduler) == "running"
    scheduler.compute(last)
    assert state_of_latest(scheduler) == "erred"


def test_what_was_done_once_is_not_given_up(scheduler):
    group, other = scheduler.submit("a-1", "b-1")
    (key,), (retried,) = scheduler.keys(group), scheduler.keys(other)
    scheduler.tasks[retried].retries = 2
    scheduler.retry(retried)
    scheduler.transition(retried, "processing")
    scheduler.compute(retried)
    # The worker that had the result is lost, and nobody waits until it is computed again.
    scheduler.compute(key)
    scheduler.transition(key, "released")
    scheduler.transition(key, "waiting")
    scheduler.transition(key, "processing")
    scheduler.drop(key)
    scheduler.drop(retried)
    assert state_of_latest(scheduler) == "finished"
    assert scheduler.ledger.released_tasks == {}


def test_what_an_error_left_undone_is_not_held_against_a_later_computation(scheduler):
    (group,) = scheduler.submit("a-1", tasks=4)
    failed, blamed, beside, waiting = scheduler.keys(group)
    scheduler.transition(beside, "processing")
    scheduler.fail(failed)
    scheduler.transition(blamed, "released")
    scheduler.blame(blamed)
    for key in (beside, waiting):  # no longer needed
        scheduler.transition(key, "released")
    assert state_of_latest(scheduler) == "erred"
    (again,) = scheduler.submit("a-1")
    assert again is group
    scheduler.compute(scheduler.keys(group, state="waiting")[0])
    for key in (blamed, failed, beside, waiting):  # now the program releases the first one
        scheduler.drop(key)
    assert state_of_latest(scheduler) == "finished"
    assert scheduler.ledger.released_tasks == {}


def test_totals_never_fall_and_need_only_what_changed(scheduler, monkeypatch):
    (group,) = scheduler.submit("x-1", tasks=2)
    scheduler.submit(*(f"idle-{i}" for i in range(50)))
    for key in scheduler.keys(group):
        scheduler.compute(key, nbytes=50)
    deliver(scheduler)
    before = scheduler.ledger.totals()
    assert (before["bytes"], before["compute_seconds"], before["tasks"]) == (100, 2.0, 52)
    group.nbytes_total = 10  # a worker corrected it
    deliver(scheduler)
    assert scheduler.ledger.totals() == before
    group.nbytes_total = 130
    added = []
    real = Ledger._add_to_totals
    monkeypatch.setattr(
        Ledger, "_add_to_totals", lambda self, record, body: added.append(real(self, record, body))
    )
    deliver(scheduler)
    assert scheduler.ledger.totals()["bytes"] == 130
    assert len(added) == 1


def test_groups_that_are_gone_are_let_go(scheduler):
    class Watched(Group):
        pass

    watched = Watched("w-1")
    scheduler.task_groups["w-1"] = watched
    scheduler.finish(*scheduler.submit("w-1", tasks=2))
    reference = weakref.ref(watched)
    unsent = report(scheduler)
    scheduler.computations.clear()
    del watched
    gc.collect()
    assert reference() is None  # although no report was acknowledged
    scheduler.ledger.put_back(unsent)
    (row,) = deliver(scheduler)["task_groups"]
    assert row["tasks_succeeded"] == 2
    assert scheduler.ledger.groups == {} and scheduler.ledger.totals()["tasks"] == 2
    assert not any(box.records for box in scheduler.ledger.outboxes.values())


def test_nothing_piles_up_over_many_computations(scheduler):
    for i in range(3000):
        scheduler.finish(*scheduler.submit(f"x-{i}"))
        if i % 100 == 0:
            deliver(scheduler)
    deliver(scheduler)
    ledger = scheduler.ledger
    assert (len(ledger.groups), len(ledger.computations), len(ledger.groups_to_read)) == (0, 1, 0)
    assert next(iter(ledger.computations.values())).groups == {}
    assert ledger.totals()["tasks"] == 3000


def test_without_a_server_the_oldest_finished_are_dropped_and_counted(scheduler):
    (living,) = scheduler.submit("living")
    scheduler.compute(scheduler.keys(living)[0])
    for i in range(10_500):
        scheduler.finish(*scheduler.submit(f"x-{i}"))
        if i % 500 == 0:
            scheduler.ledger.put_back(report(scheduler))
    scheduler.read()
    ledger = scheduler.ledger
    assert {kind: len(box.records) for kind, box in ledger.outboxes.items()} == {
        **NOTHING,
        "computations": 2000,
        "task_groups": 10_000,
    }
    dropped = {kind: box.dropped for kind, box in ledger.outboxes.items()}
    assert dropped == {**NOTHING, "computations": 8501, "task_groups": 501}
    limits = {**PLENTY, "computations": 2000, "task_groups": 10_000, "errors": 1}
    names = [row["name"] for row in deliver(scheduler, limits)["task_groups"]]
    # The group still in use is older than all others, and is kept.
    assert names == ["living", *(f"x-{i}" for i in range(501, 10_500))]
    assert ledger.totals()["tasks"] == 10_501


def test_many_new_groups_show_that_reading_should_not_wait(scheduler):
    scheduler.submit(*(f"x-{i}" for i in range(1000)))
    assert not scheduler.ledger.has_many_new_groups()
    scheduler.submit("one-more")
    assert scheduler.ledger.has_many_new_groups()
    scheduler.read()
    assert not scheduler.ledger.has_many_new_groups()


def test_errors_are_bounded_in_number_and_in_size(scheduler):
    (group,) = scheduler.submit("f-1", tasks=1500)
    for i, key in enumerate(scheduler.keys(group)):
        scheduler.fail(key, f"ValueError({i})")
    outbox = scheduler.ledger.outboxes["errors"]
    assert (len(outbox.records), outbox.dropped) == (1000, 500)
    assert next(iter(outbox.records)).body["message"] == "ValueError(500)"
    assert scheduler.ledger.totals()["errors"] == 1500
    for key in scheduler.keys(*scheduler.submit("h-1", tasks=300)):
        scheduler.fail(key, "E()", traceback_text="t" * 1_000_000)
    assert outbox.characters <= 16_000_000
    assert outbox.characters == sum(record.characters for record in outbox.records)
    assert len(outbox.records) >= 150


def test_limits_put_the_rest_into_the_next_report(scheduler):
    scheduler.submit(*(f"x-{i}" for i in range(7)))
    limits = {**PLENTY, "computations": 1, "task_groups": 3, "errors": 1}
    sizes, more = [], True
    while more:
        sent = report(scheduler, limits)
        scheduler.ledger.acknowledge(sent, sent.sequence)
        sizes.append(len(bodies(sent)))
        more = sent.has_more
    assert sizes == [3, 3, 1]


def test_sequence_and_base(scheduler):
    scheduler.ledger = scheduler.plugin._ledger = Ledger(1000, now=lambda: scheduler.clock)
    first = report(scheduler)
    assert (first.sequence, first.base) == (1001, None)
    scheduler.ledger.put_back(first)
    second = report(scheduler)
    scheduler.ledger.acknowledge(second, 1002)
    third = report(scheduler)
    assert (third.sequence, third.base) == (1003, 1002)


@pytest.mark.parametrize("acknowledged, following", [(5000, 5001), (999, 1002)])
def test_a_report_the_server_did_not_take_as_newest_is_repeated(scheduler, acknowledged, following):
    scheduler.ledger = scheduler.plugin._ledger = Ledger(1000, now=lambda: scheduler.clock)
    scheduler.submit("x-1")
    sent = report(scheduler)
    scheduler.ledger.acknowledge(sent, acknowledged)
    again = report(scheduler)
    assert (again.sequence, again.base) == (following, acknowledged)
    assert [row["name"] for row in bodies(again)] == ["x-1"]


def test_resend_covers_all_that_is_still_known(scheduler):
    scheduler.finish(*scheduler.submit("gone-1"))
    scheduler.submit("here-1")
    deliver(scheduler)
    assert is_empty(deliver(scheduler))
    scheduler.ledger.resend()
    # Acknowledged rows are lost there, so no report may build on them.
    assert scheduler.ledger.base is None
    sent = deliver(scheduler)
    assert [row["name"] for row in sent["task_groups"]] == ["here-1"]
    assert [row["state"] for row in sent["computations"]] == ["running"]


@pytest.mark.parametrize("pointer", ["/task_groups/1", "/task_groups/1/name"])
def test_a_refused_item_is_given_up_alone(scheduler, pointer):
    (_, refused, _) = scheduler.submit("a-1", "b-1", "c-1")
    sent = report(scheduler)
    assert scheduler.ledger.drop(sent, pointer)
    assert [row["name"] for row in deliver(scheduler)["task_groups"]] == ["a-1", "c-1"]
    assert scheduler.ledger.outboxes["task_groups"].dropped == 1
    # It is not tried again when it changes, but still counts.
    scheduler.finish(refused)
    assert deliver(scheduler)["task_groups"] == []
    assert scheduler.ledger.totals()["tasks_succeeded"] == 1


def test_a_refused_error_is_given_up_alone(scheduler):
    (group,) = scheduler.submit("a-1", tasks=3)
    for i, key in enumerate(scheduler.keys(group)):
        scheduler.fail(key, f"E({i})")
    assert scheduler.ledger.drop(report(scheduler), "/errors/0/message")
    assert [row["message"] for row in deliver(scheduler)["errors"]] == ["E(1)", "E(2)"]


@pytest.mark.parametrize(
    "pointer",
    [None, 7, "", "/cluster/name", "/task_groups", "/task_groups/3", "/task_groups/x", "/odd/0"],
)
def test_without_a_usable_pointer_all_items_are_given_up(scheduler, pointer):
    group, _, _ = scheduler.submit("a-1", "b-1", "c-1")
    scheduler.fail(scheduler.keys(group)[0])
    assert not scheduler.ledger.drop(report(scheduler), pointer)
    assert is_empty(deliver(scheduler))
    dropped = {kind: box.dropped for kind, box in scheduler.ledger.outboxes.items()}
    assert dropped == {**NOTHING, "computations": 1, "task_groups": 3, "errors": 1}


def test_adopting_what_exists_already():
    running = Scheduler()
    # Happens before anyone listens.
    running.plugin._ledger = None
    running.finish(*running.submit("old-1", tasks=2))
    group, dependent = running.submit("now-1", "after-1", tasks=3)
    first, second, _ = running.keys(group)
    running.compute(first)
    running.fail(second)
    running.blame(running.keys(dependent)[0])
    for key, task in running.tasks.items():
        task.exception_blame = task if key == second else running.tasks[second]
    running.tasks[second].exception_text = "ValueError('early')"
    running.tasks[second].traceback_text = '  File "x.py", line 1, in early\n'
    running.tasks[second].erred_on = {"tcp://worker"}
    ledger = running.plugin._ledger = Ledger(1, now=lambda: running.clock)
    ledger.adopt(running)
    running.ledger = ledger
    sent = deliver(running)
    rows = {row["name"]: row for row in sent["task_groups"]}
    assert rows["old-1"]["states"] == {"forgotten": 2}
    assert rows["now-1"]["states"] == {"memory": 1, "erred": 1, "waiting": 1}
    counts = ("tasks_succeeded", "tasks_erred", "tasks_blamed")
    assert [rows["now-1"][name] for name in counts] == [1, 1, 0]
    assert [rows["after-1"][name] for name in counts] == [0, 0, 1]
    assert [row["state"] for row in sent["computations"]] == ["finished", "running"]
    (error,) = sent["errors"]
    fields = ("key", "type", "message", "traceback", "worker")
    expected = (
        str(second),
        "ValueError",
        "ValueError('early')",
        '  File "x.py", line 1, in early\n',
        "tcp://worker",
    )
    assert tuple(error[name] for name in fields) == expected
    assert ledger.totals()["errors"] == 1
    running.finish_rest = [running.compute(key) for key in running.keys(group, state="waiting")]
    assert deliver(running)["task_groups"][0]["tasks_succeeded"] == 2


def test_another_plugin_goes_on_where_one_has_left(scheduler):
    rows = Rows()
    (first, second) = scheduler.submit("inc-1", "sum-1", tasks=3)
    second.dependencies.add(first)
    scheduler.fail(scheduler.keys(first)[0])
    scheduler.finish(first)
    (third,) = scheduler.submit("late-1", tasks=2)
    for key in scheduler.keys(second):
        scheduler.compute(key, nbytes=10)
    scheduler.compute(scheduler.keys(third)[0])
    rows.apply(deliver(scheduler))
    before, totals = copy.deepcopy(rows), scheduler.ledger.totals()
    sequence = scheduler.ledger.sequence
    scheduler.succeed()
    assert scheduler.ledger.totals() == totals
    again = deliver(scheduler)
    # The deleted group and the finished work are not sent again.
    assert [row["name"] for row in again["task_groups"]] == ["sum-1", "late-1"]
    assert again["errors"] == []
    assert again["sequence"] == sequence + 1
    rows.apply(again)
    assert rows.values() == before.values()
    assert scheduler.ledger.totals() == totals
    # From here on everything is as usual.
    scheduler.compute(scheduler.keys(third, state="waiting")[0])
    scheduler.fail(scheduler.keys(*scheduler.submit("late-1"), state="waiting")[0])
    rows.apply(deliver(scheduler))
    after = scheduler.ledger.totals()
    assert (after["tasks_succeeded"], after["errors"]) == (totals["tasks_succeeded"] + 1, 2)
    assert len(rows.task_groups) == 3 and len(rows.computations) == 2


def test_what_ran_without_a_plugin_counts_once_as_far_as_groups_show(scheduler):
    (kept, going) = scheduler.submit("kept-1", "going-1", tasks=2)
    for key in scheduler.keys(kept, going):
        scheduler.compute(key)
    ids = {row["name"]: row["id"] for row in deliver(scheduler)["task_groups"]}
    with scheduler.without_plugin():
        (new, _, _) = scheduler.submit("new-1", "kept-1", "going-1", tasks=3)
        for key in scheduler.keys(new, kept, going, state="waiting"):
            scheduler.compute(key)
        for key in scheduler.keys(going):
            scheduler.forget(key)
    sent = deliver(scheduler)
    rows = {row["name"]: row for row in sent["task_groups"]}
    assert {name: rows[name]["id"] for name in ids} == ids
    assert "going-1" not in scheduler.task_groups
    seconds = {name: row["durations"]["compute"] for name, row in rows.items()}
    # Forgotten results may have had any outcome, but their time is known.
    assert {name: row["tasks_succeeded"] for name, row in rows.items()} == {
        "kept-1": 5, "going-1": 2, "new-1": 3,
    }  # fmt: skip
    assert scheduler.ledger.totals()["compute_seconds"] == sum(seconds.values()) == 13.0
    assert scheduler.ledger.totals()["tasks"] == 13
    # The computation that started in the meantime is another one.
    links = [row["task_group_ids"] for row in sent["computations"]]
    assert links == [[ids["kept-1"], ids["going-1"]], [rows["new-1"]["id"]]]
    scheduler.succeed()
    assert scheduler.ledger.totals()["tasks"] == 13


def test_errors_are_sent_once(scheduler):
    keys = scheduler.keys(*scheduler.submit("f-1", tasks=4))
    for key in scheduler.tasks:
        scheduler.tasks[key].exception_blame = None
    for key in keys[:2]:
        scheduler.fail(key)
        scheduler.tasks[key].exception = object()
    assert len(deliver(scheduler)["errors"]) == 2
    with scheduler.without_plugin():
        scheduler.fail(keys[2])
        # This is the task of an earlier error, which was computed once more.
        scheduler.transition(keys[1], "processing")
        scheduler.fail(keys[1])
        scheduler.tasks[keys[1]].exception = object()
        for key in keys[1:3]:
            scheduler.tasks[key].exception_text = "late"
    sent = deliver(scheduler)["errors"]
    assert sorted(row["key"] for row in sent) == sorted(map(str, keys[1:3]))
    assert scheduler.ledger.totals()["errors"] == 4
    scheduler.succeed()
    assert deliver(scheduler)["errors"] == []


def test_what_was_not_sent_is_sent_by_the_next_one(scheduler):
    scheduler.finish(*scheduler.submit("a-1"))
    under_way = report(scheduler)
    scheduler.finish(*scheduler.submit("b-1"))
    scheduler.fail(scheduler.keys(*scheduler.submit("c-1"))[0])
    state = scheduler.succeed()
    sent = deliver(scheduler)
    assert [row["name"] for row in sent["task_groups"]] == ["a-1", "b-1", "c-1"]
    assert len(sent["errors"]) == 1 and len(sent["computations"]) == 3
    assert sent["sequence"] == under_way.sequence + 1
    # Data accepted under other settings may be withheld under these.
    stranger = Ledger(1, receipt=Receipt({"send_errors": False}))
    stranger.import_state(state, has_same_settings=False)
    stranger.adopt(scheduler)
    stranger.read(scheduler.task_groups)
    sent = message(stranger.build(PLENTY))
    assert [row["name"] for row in sent["task_groups"]] == ["a-1", "b-1", "c-1"]
    assert sent["errors"] == []


def test_an_item_counts_once_whoever_sends_it(scheduler):
    (group,) = scheduler.submit("a-1", tasks=2)
    scheduler.compute(scheduler.keys(group)[0])

    def send():
        sent = report(scheduler)
        for kind, taken in sent.items.items():
            for record, body in taken:
                of = scheduler.ledger.outboxes[kind].class_of(record)
                scheduler.ledger.receipt.send(record, of, len(str(body)))
        scheduler.ledger.acknowledge(sent, sent.sequence)
        return scheduler.ledger.receipt.describe()["tasks"]

    sent = send()
    assert sent["sent"] == 2
    scheduler.succeed()
    assert send() == sent


def test_the_exported_state_is_plain(scheduler):
    scheduler.fail(scheduler.keys(*scheduler.submit("a-1", "b-1", tasks=2))[0])
    scheduler.read()
    seen = []

    def look(value):
        seen.append(value)
        if isinstance(value, dict):
            for item in value.items():
                look(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                look(item)
        else:
            plain = type(value).__module__ == "builtins" and not callable(value)
            assert plain or value in (*scheduler.computations, *scheduler.task_groups.values())

    look(scheduler.ledger.export_state(scheduler))
    assert len(seen) > 50


def test_groups_that_were_sent_and_are_gone_are_let_go_with_their_computation(scheduler):
    for i in range(3):
        scheduler.finish(*scheduler.submit(f"x-{i}"))
        deliver(scheduler)
    assert [group.name for group in scheduler.ledger.forgotten_groups] == ["x-2"]
    scheduler.succeed()
    assert is_empty({**deliver(scheduler), "computations": []})
    assert [group.name for group in scheduler.ledger.forgotten_groups] == ["x-2"]
    scheduler.submit("y-1")
    assert not scheduler.ledger.forgotten_groups


def test_tasks_that_erred_and_are_forgotten_do_not_pile_up(scheduler, monkeypatch):
    monkeypatch.setattr(ledger, "MOST_ERRING_TASKS", 10)
    scheduler.succeed()
    scheduler.ledger.context = SimpleNamespace(
        scheduler=scheduler, sends=lambda kind: True, worker_id=lambda address: None
    )
    for _ in range(100):
        (key,) = scheduler.keys(*scheduler.submit("f-1"))
        scheduler.fail(key)
        scheduler.forget(key)
        assert len(scheduler.ledger._reported_errors) <= 11


@pytest.mark.parametrize("stimulus_id", ["task-erred-1700000000.5", None])
def test_attempts_that_fail_and_are_tried_again_are_counted(scheduler, stimulus_id):
    group, other = scheduler.submit("f-1", "g-1", tasks=2)
    first, second = scheduler.keys(group)
    for key in scheduler.tasks:
        scheduler.tasks[key].retries = 2
    scheduler.retry(first, stimulus_id)
    scheduler.retry(first, stimulus_id)
    scheduler.retry(second, stimulus_id)
    scheduler.transition(second, "processing", stimulus_id=stimulus_id)
    scheduler.compute(second)
    scheduler.fail(first)
    # Released for another reason, such as a worker that left.
    third = scheduler.keys(other)[0]
    scheduler.transition(third, "processing", stimulus_id=stimulus_id)
    scheduler.transition(third, "released", stimulus_id=stimulus_id and "handle-worker-cleanup-1")
    sent = deliver(scheduler)
    by_name = {row["name"]: row for row in sent["task_groups"]}
    assert by_name["f-1"]["tasks_retried"] == 3 and by_name["f-1"]["tasks_erred"] == 1
    assert by_name["g-1"]["tasks_retried"] == 0
    assert [row["retries"] for row in sent["errors"]] == [2]
    assert scheduler.ledger.retried == {}
    # The next use of this key starts from nothing.
    scheduler.fail(scheduler.keys(scheduler.submit("f-1")[0], state="waiting")[0])
    assert [row["retries"] for row in deliver(scheduler)["errors"]] == [0]


def test_what_is_remembered_of_retries_is_bounded(scheduler, monkeypatch):
    monkeypatch.setattr(ledger, "MOST_RETRIED_TASKS", 3)
    (group,) = scheduler.submit("f-1", tasks=6)
    for key in scheduler.keys(group):
        scheduler.tasks[key].retries = 5
        scheduler.retry(key, None)
        scheduler.retry(key)
    assert list(scheduler.ledger.retried) == scheduler.keys(group)[3:]
    assert len(scheduler.ledger._retries_left) <= 3
    assert deliver(scheduler)["task_groups"][0]["tasks_retried"] == 12


SPANS = [f"00000000-0000-4000-8000-{i:012}" for i in range(150)]


def test_groups_computations_and_errors_name_their_spans(scheduler):
    groups = scheduler.submit("a-1", "b-1", "c-1", "d-1")
    for group, span in zip(groups, [SPANS[0], SPANS[1], SPANS[0], "not an id"]):
        group.span_id = span
    scheduler.fail(scheduler.keys(groups[1])[0])
    sent = deliver(scheduler)
    spans = {row["name"]: row["span_id"] for row in sent["task_groups"]}
    assert spans == {"a-1": SPANS[0], "b-1": SPANS[1], "c-1": SPANS[0], "d-1": None}
    assert sent["computations"][0]["span_ids"] == SPANS[:2]
    assert sent["errors"][0]["span_id"] == SPANS[1]


def test_the_span_of_a_computation_that_vanishes_between_reports_is_known(scheduler):
    scheduler.submit("a-1")[0].span_id = SPANS[3]
    scheduler.finish(*scheduler.task_groups.values())
    scheduler.submit("b-1")
    assert deliver(scheduler)["computations"][0]["span_ids"] == [SPANS[3]]


def test_a_computation_names_so_many_spans(scheduler):
    for group, span in zip(scheduler.submit(*(f"x-{i}" for i in range(150))), SPANS):
        group.span_id = span
    assert deliver(scheduler)["computations"][0]["span_ids"] == SPANS[:100]


def test_lists_of_a_task_group_are_bounded(scheduler, monkeypatch):
    monkeypatch.setattr(work, "TYPES_PER_GROUP", 3)
    monkeypatch.setattr(work, "DEPENDENCIES_PER_GROUP", 3)
    sources = scheduler.submit(*(f"x{i}-1" for i in range(5)))
    (group,) = scheduler.submit("sum-1", dependencies=sources)
    scheduler.finish(*sources, group)
    group.types.update("abcde")
    (row,) = (row for row in deliver(scheduler)["task_groups"] if row["name"] == "sum-1")
    assert (len(row["types"]), len(row["dependencies"])) == (3, 3)
    assert (row["tasks"], row["tasks_succeeded"]) == (1, 1)


def test_links_and_shares_of_a_computation_are_bounded(scheduler, monkeypatch):
    """The totals of a computation are marked as too high; those of the cluster are complete."""
    monkeypatch.setattr(shares, "SHARES_PER_COMPUTATION", 3)
    monkeypatch.setattr(work, "GROUPS_PER_COMPUTATION", 4)
    names = [f"x{i}-1" for i in range(5)]
    for count in (2, 3):
        groups = scheduler.submit(*names, tasks=count)
        for key in scheduler.keys(*groups, state="waiting"):
            scheduler.compute(key)
    sent = deliver(scheduler)
    assert sum(row["tasks"] for row in sent["task_groups"]) == 5 * (2 + 3)
    first, second = sorted(sent["computations"], key=lambda row: row["started_at"])
    assert [len(row["task_group_ids"]) for row in (first, second)] == [4, 4]
    # Two groups count as a whole, so the totals of either include tasks of the other.
    for row, count in ((first, 2), (second, 3)):
        assert [share["tasks"] for share in row["task_group_shares"]] == [count] * 3
        assert [share["joint"] for share in row["task_group_shares"]] == [False, False, True]
    # The mark stays with a successor, and whatever changes later.
    scheduler.succeed()
    for key in scheduler.keys(*groups):
        scheduler.drop(key)
    for row in deliver(scheduler)["computations"]:
        assert any(share["joint"] for share in row["task_group_shares"])


class Snippets:
    """The part of a context that the ledger uses."""

    def __init__(self):
        self.allowed = True
        self.requested = []
        self.errors = 0

    def sends(self, data_class):
        assert data_class == "code"
        return self.allowed

    def frames(self, code):
        self.requested.append(list(code))
        if not self.allowed:
            return []
        return [[{"hash": c * 64, "file": "f", "line": 1, "relative_line": 0}] for c in code]

    def worker_id(self, address):
        return {"tcp://w:1": SPANS[7]}.get(address)

    def next_number(self, kind):
        assert kind == "errors"
        self.errors += 1
        return self.errors


def test_code_is_described_when_there_is_more_of_it(scheduler):
    context = scheduler.ledger.context = Snippets()
    scheduler.submit("a-1")
    scheduler.computations[0].code = ["a"]
    assert [f["hash"][0] for (f,) in deliver(scheduler)["computations"][0]["code"]] == ["a"]
    scheduler.read()
    scheduler.computations[0].code = ["a", "b"]
    scheduler.read()
    assert [f["hash"][0] for (f,) in deliver(scheduler)["computations"][0]["code"]] == ["a", "b"]
    context.allowed = False
    assert deliver(scheduler)["computations"][0]["code"] == []
    assert context.requested == [["a"], ["a", "b"], ["a", "b"]]


def test_code_that_cannot_be_read_is_no_obstacle(scheduler, caplog):
    context = scheduler.ledger.context = Snippets()
    context.frames = lambda code: 1 / 0
    scheduler.submit("a-1")
    for i in range(3):
        scheduler.computations[0].code = ["a"] * (i + 1)
        scheduler.read()
    assert deliver(scheduler)["computations"][0]["code"] == []
    assert caplog.text.count("Galvo could not read code") == 1


def test_errors_are_their_types_and_frames_where_no_more_may_be_sent(scheduler):
    scheduler.ledger.receipt.types_only = True
    (key,) = scheduler.keys(*scheduler.submit("a-1"))
    traceback = '  File "x.py", line 1, in f\n    secret()\n'
    scheduler.fail(key, "KeyError('ada')", traceback_text=traceback)
    (error,) = deliver(scheduler)["errors"]
    assert (error["type"], error["message"]) == ("KeyError", "")
    assert error["traceback"] == '  File "x.py", line 1, in f\n'


def test_errors_name_their_worker_and_have_no_source_where_code_is_not_sent(scheduler):
    context = scheduler.ledger.context = Snippets()
    first, second = scheduler.keys(*scheduler.submit("a-1", tasks=2))
    traceback = '  File "x.py", line 1, in f\n    secret()\n'
    scheduler.fail(first, traceback_text=traceback)
    context.allowed = False
    scheduler.fail(second, traceback_text=traceback)
    one, other = deliver(scheduler)["errors"]
    assert one["traceback"] == traceback
    assert other["traceback"].splitlines() == traceback.splitlines()[:1]
    assert one["worker_id"] == other["worker_id"] == SPANS[7]


def test_errors_that_settings_keep_are_counted_and_not_sent(scheduler):
    ledger = Ledger(1, now=lambda: scheduler.clock, receipt=Receipt({"send_errors": False}))
    scheduler.ledger = scheduler.plugin._ledger = ledger
    first, second, third = scheduler.keys(*scheduler.submit("a-1", tasks=3))
    scheduler.fail(first)
    scheduler.fail(second)
    scheduler.transition(third, "erred", cause=third, exception=b"of the scheduler")
    sent = deliver(scheduler)
    assert [row["origin"] for row in sent["errors"]] == ["dask"]
    assert sent["task_groups"][0]["tasks_erred"] == 3
    assert ledger.totals()["errors"] == 3
    assert ledger.receipt.describe()["user_errors"] == {"sent": 0, "bytes": 0, "withheld": 2}


def shares_of(scheduler):
    """Returns the tasks of shared groups by computation, in order, from the newest reports."""
    rows = {row["id"]: row for row in deliver(scheduler)["computations"]}
    ids = [str(computation.id) for computation in scheduler.computations]
    return [rows.get(id_, {}).get("task_group_shares") for id_ in ids]


def test_two_computations_of_one_function_count_their_own_tasks(scheduler):
    (group,) = scheduler.submit("f", tasks=3)
    for key in scheduler.keys(group):
        scheduler.compute(key, seconds=2.0, nbytes=10)
    assert shares_of(scheduler) == [None]  # the group belongs to the first one only
    (again,) = scheduler.submit("f", tasks=2)
    assert again is group
    done, failed = scheduler.keys(group, state="waiting")
    scheduler.compute(done, seconds=1.0, nbytes=7)
    scheduler.transition(failed, "processing")
    scheduler.fail(failed)
    ((first,), (second,)) = shares_of(scheduler)
    assert first == {
        "task_group_id": first["task_group_id"],
        "joint": False,
        "states": {"memory": 3},
        "tasks": 3,
        "tasks_succeeded": 3,
        "tasks_erred": 0,
        "tasks_retried": 0,
        "durations": {"compute": 6.0},
        "bytes": 30,
    }
    assert second == {
        **first,
        "states": {"memory": 1, "erred": 1},
        "tasks": 2,
        "tasks_succeeded": 1,
        "tasks_erred": 1,
        "durations": {"compute": 1.0},
        "bytes": 7,
    }
    # Later changes of results appear in the computation that they belong to.
    for key in scheduler.keys(group, state="memory"):
        scheduler.forget(key)
    ((first,), (second,)) = shares_of(scheduler)
    assert (first["states"], second["states"]) == ({"forgotten": 3}, {"forgotten": 1, "erred": 1})


def test_tasks_from_before_the_plugin_are_those_of_several_computations(scheduler):
    scheduler.plugin._ledger = None
    (group,) = scheduler.submit("f", tasks=3)
    for key in scheduler.keys(group):
        scheduler.compute(key)
    scheduler.submit("f", tasks=2)
    for key in scheduler.keys(group, state="waiting"):
        scheduler.compute(key)
    scheduler.ledger = scheduler.plugin._ledger = Ledger(1, now=lambda: scheduler.clock)
    scheduler.ledger.adopt(scheduler)
    first, second = shares_of(scheduler)
    assert [(one[0]["joint"], one[0]["tasks"]) for one in (first, second)] == [(True, 5)] * 2
    scheduler.submit("f", tasks=4)
    one, two, (three,) = shares_of(scheduler)
    assert (three["joint"], three["tasks"]) == (False, 4)
    assert one is None and two is None  # still the same five tasks


def take(scheduler, step, sources):
    """Applies one random event on a scheduler."""
    waiting = [key for key, task in scheduler.tasks.items() if task.state == "waiting"]
    done = [key for key, task in scheduler.tasks.items() if task.state in ("memory", "erred")]
    choice = scheduler.random.choice
    if step == "submit":
        names = scheduler.random.sample(["inc", "dec", "sum-1", "sum-2", "load"], 2)
        groups = scheduler.submit(*names, tasks=scheduler.random.randint(1, 3))
        groups[0].dependencies.update(sources)
        sources[:] = groups
    elif step == "scatter":
        scheduler.scatter(f"data-{scheduler.random.randint(1, 3)}")
    elif step == "silent" and scheduler.task_groups:
        choice(list(scheduler.task_groups.values())).nbytes_total += 1000
    elif step == "compute" and waiting:
        scheduler.compute(choice(waiting), seconds=scheduler.random.randint(1, 8) / 4)
    elif step == "fail" and waiting:
        scheduler.fail(choice(waiting), f"Error({scheduler.ids})")
    elif step == "retry" and waiting:
        scheduler.retry(choice(waiting))
    elif step == "blame" and waiting:
        scheduler.blame(choice(waiting))
    elif step == "forget" and done:
        scheduler.forget(choice(done))
    elif step == "forget all":
        for key in done:
            scheduler.forget(key)


STEPS = ["submit", "scatter", "silent", "fail", "retry", "blame", "forget", "forget all", "compute"]
STEPS += ["compute"] * 4 + ["report"] * 3


def simulate(seed, network, monkeypatch, *, of_many=False):
    """Simulates a scheduler's life over this network; returns the server's rows, and the ledger.

    The ledger is that of one plugin, or with ``of_many`` that of the last of several.
    """
    fate = random.Random(seed)
    scheduler = Scheduler(seed)
    for module in (ledger, work):
        monkeypatch.setattr(module, "uuid7", scheduler.new_id)
    steps = random.Random(seed)
    sources, rows = [], Rows()
    for _ in range(150):
        step = steps.choice(STEPS)
        if fate.random() < 0.1:
            scheduler.succeed() if of_many else scheduler.read()
        if step == "report":
            scheduler.read()
            network(scheduler.ledger, rows)
        else:
            take(scheduler, step, sources)
    for _ in range(2):
        scheduler.read(closing=True)
    while any(box.records for box in scheduler.ledger.outboxes.values()):
        sent = scheduler.ledger.build(PLENTY)
        rows.apply(message(sent))
        scheduler.ledger.acknowledge(sent, sent.sequence)
    return rows, scheduler.ledger


def perfect(ledger, rows):
    sent = ledger.build(PLENTY)
    rows.apply(message(sent))
    ledger.acknowledge(sent, sent.sequence)


class Hazardous:
    """Loses requests and answers, repeats requests, and delivers lost ones much later."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.late = []
        self.seen = set()

    def __call__(self, ledger, rows):
        limits = {kind: self.random.randint(1, 4) for kind in PLENTY}
        sent = ledger.build(limits)
        wire = copy.deepcopy(message(sent))
        what = self.random.choice(["arrives", "lost", "answer lost", "repeated", "late"])
        self.seen.add(what)
        if what in ("arrives", "answer lost", "repeated"):
            rows.apply(wire)
        if what in ("repeated", "late"):
            self.late.append(wire)
        if self.late and self.random.random() < 0.5:
            rows.apply(self.late.pop(self.random.randrange(len(self.late))))
        if what in ("arrives", "repeated"):
            ledger.acknowledge(sent, sent.sequence)
        else:
            ledger.put_back(sent)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_gets_lost_the_server_ends_with_the_same_rows(seed, monkeypatch):
    expected, calm = simulate(seed, perfect, monkeypatch)
    network = Hazardous(seed)
    rows, troubled = simulate(seed, network, monkeypatch)
    for wire in network.late:
        rows.apply(wire)
    assert rows.values() == expected.values()
    assert troubled.totals() == calm.totals()
    assert len(network.seen) >= 4 and rows.task_groups and rows.computations
    succeeded = sum(row["tasks_succeeded"] for _, row in rows.task_groups.values())
    assert troubled.totals()["tasks_succeeded"] == succeeded


@pytest.mark.parametrize("seed", range(60))
def test_however_many_plugins_report_the_rows_are_the_same(seed, monkeypatch):
    expected, one = simulate(seed, perfect, monkeypatch)
    network = Hazardous(seed)
    rows, last = simulate(seed, network, monkeypatch, of_many=True)
    for wire in network.late:
        rows.apply(wire)
    assert rows.values() == expected.values()
    assert last.totals() == one.totals()
