"""Tests of the compute time of functions over time, with exact values."""

import math
import random

import pytest
from stand_ins import Scheduler

from galvo.plugin.collector import Context
from galvo.plugin.function_activity import FunctionActivity
from galvo.plugin.sections import LARGEST_LIMITS

MINUTE = 28_333_330  # the first of ten; the stand-in's clock begins in the fourth of them
BEGIN = MINUTE * 60


class Watched:
    """A scheduler whose tasks end with the given times."""

    def __init__(self):
        self.scheduler = Scheduler()
        self.begin()

    def begin(self):
        self.ledger = self.scheduler.ledger
        self.activity = FunctionActivity(Context(self.scheduler, {}, self.ledger))

    def ran(self, prefix, *times):
        self.activity.record_run(
            prefix,
            [
                {"action": "compute", "start": BEGIN + start, "stop": BEGIN + stop}
                for start, stop in times
            ],
        )

    def rows(self, second):
        """Returns the minutes in a report made then, with the seconds of their functions."""
        self.scheduler.clock = BEGIN + second
        self.activity.read(self.scheduler.clock)
        report = self.ledger.build(LARGEST_LIMITS)
        self.ledger.acknowledge(report, report.sequence)
        rows = {}
        for _, body in report.items["function_activity"]:
            row = {f["prefix"]: f["compute_seconds"] for f in body["functions"]}
            assert len(row) == len(body["functions"])
            if "other_compute_seconds" in body:
                row[None] = body["other_compute_seconds"]
            rows[body["minute"] - MINUTE] = row
        return rows


@pytest.fixture
def watched():
    return Watched()


def test_seconds_are_those_of_each_interval(watched):
    watched.ran("inc", (1, 2.5), (3, 4))
    watched.ran("inc", (14, 16))
    watched.ran("sum", (59.5, 60.25))
    assert watched.rows(70) == {
        0: {"inc": [3.5, 1, 0, 0], "sum": [0, 0, 0, 0.5]},
        1: {"sum": [0.25, 0, 0, 0]},
    }
    # Only what has changed is sent again, as a whole.
    watched.ran("dec", (0, 1))
    assert watched.rows(75) == {
        0: {"inc": [3.5, 1, 0, 0], "sum": [0, 0, 0, 0.5], "dec": [1, 0, 0, 0]}
    }
    assert watched.rows(90) == {}


def test_long_tasks_fill_all_intervals_in_which_they_ran(watched):
    watched.ran("load", (10, 95))
    watched.ran("load", (20, 50))
    assert watched.rows(100) == {
        0: {"load": [5, 25, 30, 20]},
        1: {"load": [15, 15, 5, 0]},
    }


def test_failed_attempts_and_transfers_do_not_count(watched):
    watched.ran(None, (0, 5))
    times = {"start": BEGIN, "stop": BEGIN + 5}
    watched.activity.record_run("inc", [{"action": "transfer", **times}])
    assert watched.rows(10) == {}


@pytest.mark.parametrize(
    "times",
    [(5, 5), (5, 4), (math.nan, 5), (0, math.nan), (-math.inf, 5), (0, math.inf), (1e12, 1e12 + 1)],
)
def test_times_that_cannot_be_are_left_out(watched, times):
    watched.ran("inc", times)
    assert watched.rows(10) == {}


def test_the_last_day_of_an_endless_task_counts(watched):
    days = 3 * 86_400
    watched.ran("endless", (0, days))
    rows = {}
    for _ in range(4):  # a report has a bounded number of minutes
        rows.update(watched.rows(days))
    assert sum(sum(row["endless"]) for row in rows.values()) == 86_400 - 60
    assert set(rows) == {minute for minute in range(days // 60 - 1439, days // 60)}
    # Afterwards these minutes are over.
    watched.ran("inc", (0, 1))
    assert watched.rows(days + 86_400) == {}
    assert watched.activity._minutes == {}


def test_sums_are_those_of_the_tasks(watched):
    choice, sums = random.Random(7), {}
    for _ in range(500):
        prefix = choice.choice(["a", "b", "c"])
        start = choice.uniform(0, 3_000)
        stop = start + choice.choice([0.01, 1, 40, 700]) * choice.random()
        sums[prefix] = sums.get(prefix, 0.0) + stop - start
        watched.ran(prefix, (start, stop))
    found = {}
    for row in watched.rows(4_000).values():
        for prefix, seconds in row.items():
            found[prefix] = found.get(prefix, 0.0) + sum(seconds)
    assert found == {prefix: pytest.approx(total, rel=1e-3) for prefix, total in sums.items()}


def test_twenty_functions_are_named_in_ten_minutes(watched):
    for number in range(25):
        watched.ran(f"f{number}", (0, 1))
    (row,) = watched.rows(30).values()
    assert list(row) == [*(f"f{number}" for number in range(20)), None]
    assert row[None] == [5, 0, 0, 0]
    # They stay the named ones for these ten minutes, also in minutes that become known later.
    watched.ran("f24", (100, 101))
    watched.ran("f3", (100, 102))
    assert watched.rows(130) == {1: {None: [0, 0, 1, 0], "f3": [0, 0, 2, 0]}}
    # Half of the names are then for those with the most time, and the others for who comes first.
    watched.ran("f22", (120, 500))
    assert watched.rows(550)[3] == {None: [15, 15, 15, 15]}
    for number in range(30):
        watched.ran(f"g{number}", (600, 601))
    watched.ran("f22", (602, 603))
    (row,) = watched.rows(650).values()
    assert row["f22"] == [1, 0, 0, 0]
    assert sum(name.startswith("g") for name in row if name) == 12
    assert row[None] == [18, 0, 0, 0]


def test_a_function_that_comes_late_is_named_if_it_occupies_a_part_of_the_threads(watched):
    watched.scheduler.total_nthreads = 4  # for ten minutes, 0.5 % of which are 12 s
    for number in range(30):
        watched.ran(f"f{number}", (0, 1))
    (row,) = watched.rows(30).values()
    assert (len(row), row[None]) == (15, [16, 0, 0, 0])
    watched.ran("late", (1, 15))
    watched.ran("f29", (2, 13))
    (row,) = watched.rows(40).values()
    # That of `f29` is larger with the second that counts as others already.
    assert (row["late"], row["f29"]) == ([14, 0, 0, 0], [11, 0, 0, 0])
    assert row[None] == [16, 0, 0, 0]
    watched.ran("f28", (40, 50))
    (row,) = watched.rows(60).values()
    assert "f28" not in row and row[None] == [16, 0, 5, 5]


def test_values_never_fall(watched):
    choice, seen = random.Random(3), {}
    for step in range(200):
        for _ in range(10):
            stop = step * 20 + choice.uniform(0, 20)
            start = stop - choice.choice([0.5, 5, 300]) * choice.random()
            watched.ran(f"f{choice.randint(0, 40)}", (max(0, start), stop))
        for minute, row in watched.rows(step * 20 + 20).items():
            for prefix, seconds in row.items():
                before = seen.get((minute, prefix), [0] * 4)
                assert all(new >= old for new, old in zip(seconds, before))
                seen[minute, prefix] = seconds


def test_another_plugin_goes_on(watched):
    watched.ran("inc", (1, 2))
    watched.rows(10)
    state = watched.activity.export_state()
    watched.scheduler.succeed()
    watched.begin()
    watched.activity.import_state(state)
    watched.ran("inc", (2, 4))
    assert watched.rows(20) == {0: {"inc": [3, 0, 0, 0]}}


@pytest.mark.parametrize("is_under_way", [False, True])
def test_another_plugin_sends_what_may_not_have_arrived(watched, is_under_way):
    watched.ran("inc", (1, 2))
    watched.ran("load", (10, 130))
    watched.activity.read(BEGIN + 140)
    if is_under_way:
        watched.ledger.build(LARGEST_LIMITS)
    state = watched.activity.export_state()
    watched.scheduler.succeed()
    watched.begin()
    watched.activity.import_state(state)
    outbox = watched.ledger.outboxes["function_activity"]
    assert outbox.characters == sum(record.characters for record in outbox.records) > 300
    assert watched.rows(150) == {
        0: {"inc": [1, 0, 0, 0], "load": [5, 15, 15, 15]},
        1: {"load": [15, 15, 15, 15]},
        2: {"load": [10, 0, 0, 0]},
    }


def test_the_size_of_what_waits_is_that_of_its_records(watched):
    outbox = watched.ledger.outboxes["function_activity"]
    for number in range(30):
        watched.ran(f"function_{number}", (1, 2))
        watched.activity.read(BEGIN + 30)
        assert outbox.characters == sum(record.characters for record in outbox.records) > 100
    watched.rows(40)
    assert outbox.characters == 0


def test_of_very_many_long_functions_the_shorter_ones_count_as_others(watched):
    """A read takes a bounded time however many functions end at a barrier."""
    for number in range(300):
        watched.ran(f"step_{number}", (5, 3_600 + 60 * (number % 25)))
    found, rows = {}, watched.rows(5_400)
    for row in rows.values():
        for prefix, seconds in row.items():
            found[prefix] = found.get(prefix, 0.0) + sum(seconds)
    assert sum(found.values()) == sum(3_600 + 60 * (n % 25) - 5 for n in range(300))
    # All that ran as long as any other is named.
    longest = [f"step_{number}" for number in range(300) if number % 25 == 24]
    assert all(found[prefix] == 3_600 + 60 * 24 - 5 for prefix in longest)


def test_times_far_ahead_take_no_steps(watched):
    for number in range(100):
        start = 1e9 + number * 1e7
        watched.ran("inc", (start, start + 86_000))
    assert watched.rows(10) == {}
    watched.ran("inc", (1, 2))
    assert watched.rows(20) == {0: {"inc": [1, 0, 0, 0]}}


def test_a_server_that_lost_its_store_gets_all_minutes(watched):
    watched.ran("inc", (1, 2))
    watched.ran("inc", (61, 62))
    rows = watched.rows(70)
    watched.activity.resend()
    assert watched.rows(75) == rows == {0: {"inc": [1, 0, 0, 0]}, 1: {"inc": [1, 0, 0, 0]}}


def test_tasks_are_recorded_when_they_end(watched):
    scheduler = watched.scheduler
    scheduler.clock = float(BEGIN)
    groups = scheduler.submit("inc-1", "fail-1", tasks=2)
    one, other = scheduler.keys(groups[0])
    scheduler.compute(one, seconds=2)
    scheduler.compute(other, seconds=20)
    scheduler.fail(scheduler.keys(groups[1])[0], startstops=[])
    assert watched.rows(30) == {0: {"inc": [15, 7, 0, 0]}}
