"""Tests of usage per hour of the clock, with exact values."""

import itertools
import math
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from stand_ins import Scheduler

from galvo.plugin.collector import Collectors, Context
from galvo.plugin.ledger import Ledger
from galvo.plugin.sections import LARGEST_LIMITS, Receipt
from galvo.plugin.usage import DURATIONS, EXECUTE, NUMBERS, Usage

HOUR = 472_222  # 1_699_999_200 seconds; the stand-in's clock begins 800 seconds later
BEGIN = HOUR * 3600
GIB = 2**30
NOTHING = {**dict.fromkeys(DURATIONS, 0.0), **dict.fromkeys(NUMBERS, 0), "functions": []}


class Watched:
    """A scheduler with workers, whose usage is measured."""

    def __init__(self, history=None, metrics=None, **settings):
        self.scheduler = Scheduler()
        self.scheduler.clock = float(BEGIN)
        self.scheduler.workers = {}
        if history is not None:
            self.scheduler.total_nthreads_history = history
        if metrics is not None:
            self.scheduler.cumulative_worker_metrics = metrics
        self.metrics, self.history = metrics, history
        self.settings = settings
        self.usage = None

    def start(self):
        ledger = self.scheduler.ledger
        ledger.receipt._withheld_classes |= set(self.settings.get("kept", ()))
        self.context = Context(self.scheduler, {}, ledger)
        self.usage = Usage(self.context)
        ledger.adopt(self.scheduler)
        return self

    @contextmanager
    def without_plugin(self):
        """Runs the block without a plugin; afterwards a new one continues from the state of the
        previous one.
        """
        self.scheduler.read()
        self.usage.read(self.scheduler.clock)
        state, self.usage = self.usage.export_state(), None
        with self.scheduler.without_plugin():
            yield
        context = Context(self.scheduler, {}, self.scheduler.ledger)
        self.usage = Usage(context)
        self.usage.import_state(state)

    def at(self, second):
        self.scheduler.clock = BEGIN + second
        return self

    def add(self, address, threads=2, gib=4):
        limit = None if gib is None else gib * GIB
        self.scheduler.workers[address] = SimpleNamespace(nthreads=threads, memory_limit=limit)
        self.count_threads()
        if self.usage is not None:
            self.usage.worker_added(address)

    def remove(self, address):
        del self.scheduler.workers[address]
        self.count_threads()
        self.usage.worker_removed(address, "bye")

    def count_threads(self):
        if self.history is not None:
            threads = sum(ws.nthreads for ws in self.scheduler.workers.values())
            self.history.append((self.scheduler.clock, threads))

    def rows(self, closing=False):
        """Returns the rows of usage in a report made now, by hour from the first, without zeros."""
        self.scheduler.read()
        now = self.scheduler.clock
        self.usage.read(now, now if closing else None)
        report = self.scheduler.ledger.build(LARGEST_LIMITS)
        self.scheduler.ledger.acknowledge(report, report.sequence)
        self.settled = [record.settled for record, _ in report.items["usage"]]
        rows = {}
        for _, body in report.items["usage"]:
            row = dict(body)
            hour = row.pop("hour") - HOUR
            unknown = set(EXECUTE) if self.metrics is None else set()
            assert set(NOTHING) - {"functions"} - unknown <= set(row)
            assert not unknown & set(row)
            rows[hour] = {name: value for name, value in row.items() if value}
        return rows


@pytest.fixture(params=["with a history", "without"])
def watched(request):
    return Watched([(float(BEGIN), 0)] if request.param == "with a history" else None)


def test_threads_workers_and_memory_are_integrated_over_each_hour(watched):
    watched.start()
    watched.at(600).add("a", threads=2, gib=4)
    watched.at(1200).add("b", threads=3, gib=1)
    watched.at(1800).remove("a")
    # b has had 2,400 seconds of the first hour, the whole second one, and 30 seconds.
    assert watched.at(2 * 3600 + 30).rows() == {
        0: {
            "thread_seconds": 1200 * 2 + 2400 * 3.0,
            "worker_seconds": 1200 + 2400.0,
            "memory_gib_seconds": 1200 * 4 + 2400 * 1.0,
            "workers": 2,
        },
        1: {
            "thread_seconds": 3 * 3600.0, "worker_seconds": 3600.0, "memory_gib_seconds": 3600.0
        },
        2: {"thread_seconds": 90.0, "worker_seconds": 30.0, "memory_gib_seconds": 30.0},
    }  # fmt: skip
    # Measurements from before the end of an hour may still arrive.
    assert watched.settled == [True, False, False]
    watched.at(2 * 3600 + 40).remove("b")
    last = {"thread_seconds": 120.0, "worker_seconds": 40.0, "memory_gib_seconds": 40.0}
    assert watched.at(3 * 3600 + 1).rows() == {2: last, 3: {}}
    assert watched.settled == [False, False]
    assert watched.at(3 * 3600 + 120).rows() == {}
    assert [record.hour - HOUR for record in watched.usage._past] == [0, 1, 2]
    assert all(record.settled for record in watched.usage._past)


def test_looking_more_often_changes_nothing(watched):
    watched.start()
    watched.at(100).add("a", threads=4, gib=None)
    newest = {}
    for second in itertools.chain(range(100, 7300, 130), [7300]):
        newest.update(watched.at(second).rows())
    assert newest == {
        0: {"thread_seconds": 14_000.0, "worker_seconds": 3500.0, "workers": 1},
        1: {"thread_seconds": 14_400.0, "worker_seconds": 3600.0},
        2: {"thread_seconds": 400.0, "worker_seconds": 100.0},
    }


def test_an_hour_that_nothing_changes_in_is_sent_once(watched):
    watched.start()
    assert watched.rows() == {0: {}}
    assert watched.at(10).rows() == {}
    assert watched.at(3600).rows() == {1: {}}


def test_threads_of_before_the_plugin_came_are_known_from_the_history():
    watched = Watched([(BEGIN - 1800.0, 2), (BEGIN - 900.0, 4)], {})
    watched.scheduler.workers["a"] = SimpleNamespace(nthreads=4, memory_limit=GIB)
    watched.at(100).start()
    assert watched.at(200).rows() == {
        -1: {"thread_seconds": 1800 + 3600.0},
        # Only observed threads are counted as idle.
        0: {
            "thread_seconds": 800.0, "observed_seconds": 400.0, "idle_seconds": 400.0,
            "worker_seconds": 100.0, "memory_gib_seconds": 100.0, "workers": 1,
        },
    }  # fmt: skip


def test_a_history_of_many_days_is_not_sent_from_its_beginning():
    watched = Watched([(BEGIN - 1000 * 3600.0, 1)]).start()
    rows = watched.at(1).rows()
    assert len(rows) == 100  # in one report
    while more := watched.rows():
        rows.update(more)
    assert sorted(rows) == list(range(-500, 1))


def test_what_tasks_do_is_the_growth_of_their_totals():
    watched = Watched().start()
    scheduler = watched.scheduler
    (inc,), (add,) = scheduler.submit("inc-1", tasks=4), scheduler.submit("add-1", tasks=1)
    first, second, third, _ = scheduler.keys(inc)
    scheduler.tasks[third].retries = 1
    scheduler.compute(first, seconds=2.0, nbytes=100)
    scheduler.compute(second, seconds=1.0, nbytes=50)
    inc.all_durations["transfer"] = 0.5
    scheduler.retry(third)
    row = watched.at(10).rows()[0]
    assert row == {
        "compute_seconds": 3.0, "transfer_seconds": 0.5, "tasks": 2, "retries": 1, "bytes": 150,
        "functions": [
            {
                "prefix": "inc", "compute_seconds": 3.0, "transfer_seconds": 0.5, "tasks": 2,
                "tasks_erred": 0, "bytes": 150,
            }
        ],
    }  # fmt: skip
    scheduler.fail(third)
    scheduler.compute(scheduler.keys(add)[0], seconds=4.0, nbytes=1)
    rows = watched.at(3600 + 10).rows()
    # The task computed in the first hour, and its end was seen in the second one.
    assert rows == {
        0: {
            **row,
            "compute_seconds": 7.0,
            "functions": [
                *row["functions"],
                {
                    "prefix": "add", "compute_seconds": 4.0, "transfer_seconds": 0.0, "tasks": 0,
                    "tasks_erred": 0, "bytes": 0,
                },
            ],
        },
        1: {
            "tasks": 1, "tasks_erred": 1, "errors": 1, "bytes": 1,
            "functions": [
                {
                    "prefix": "inc", "compute_seconds": 0.0, "transfer_seconds": 0.0, "tasks": 0,
                    "tasks_erred": 1, "bytes": 0,
                },
                {
                    "prefix": "add", "compute_seconds": 0.0, "transfer_seconds": 0.0, "tasks": 1,
                    "tasks_erred": 0, "bytes": 1,
                },
            ],
        },
    }  # fmt: skip
    totals = scheduler.ledger.totals()
    assert (totals["compute_seconds"], totals["tasks_succeeded"]) == (7.0, 3)


def test_what_was_done_before_the_plugin_came_is_of_no_hour():
    watched = Watched(metrics={("execute", "inc", "thread-cpu", "seconds"): 10.0})
    (group,) = watched.scheduler.submit("inc-1", tasks=2)
    first, second = watched.scheduler.keys(group)
    watched.scheduler.compute(first)
    (early,) = watched.scheduler.submit("early-1")
    watched.scheduler.fail(watched.scheduler.keys(early)[0])
    for ts in watched.scheduler.tasks.values():
        ts.exception_blame = None
    watched.scheduler.ledger = watched.scheduler.plugin._ledger = type(watched.scheduler.ledger)(
        1, now=lambda: watched.scheduler.clock
    )
    watched.start()
    assert watched.rows() == {0: {}}
    watched.add("a", threads=1)
    watched.scheduler.compute(second, seconds=2.0)
    watched.scheduler.fail(*watched.scheduler.keys(*watched.scheduler.submit("late-1")))
    watched.metrics["execute", "inc", "thread-cpu", "seconds"] = 11.5
    (row,) = watched.rows().values()
    assert (row["tasks"], row["compute_seconds"], row["cpu_seconds"]) == (1, 2.0, 1.5)
    assert (row["errors"], row["tasks_erred"]) == (1, 1)
    assert watched.scheduler.ledger.totals()["errors"] == 2


def test_what_is_done_before_the_first_report_is_of_its_hour():
    watched = Watched()
    scheduler = watched.scheduler
    scheduler.plugin._ledger = None
    (group,) = scheduler.submit("inc-1", tasks=5)
    for key in scheduler.keys(group):
        scheduler.compute(key)
    scheduler.ledger = scheduler.plugin._ledger = Ledger(1, now=lambda: scheduler.clock)
    watched.start()
    scheduler.submit("inc-1", tasks=150)
    for key in scheduler.keys(group, state="waiting"):
        scheduler.compute(key, seconds=0.5)
    (row,) = watched.rows().values()
    assert (row["tasks"], row["compute_seconds"], row["bytes"]) == (150, 75.0, 1200)
    assert row["functions"][0]["tasks"] == 150
    assert scheduler.ledger.totals()["tasks_succeeded"] == 155


def test_an_hour_goes_on_when_another_plugin_comes():
    fine = ("execute", "inc", "thread-cpu", "seconds")
    watched = Watched([(float(BEGIN), 0)], {fine: 5.0}).start()
    scheduler = watched.scheduler
    watched.at(0).add("a", threads=2, gib=4)
    (group,) = scheduler.submit("inc-1", tasks=4)
    first, second, third, fourth = scheduler.keys(group)
    scheduler.compute(first, seconds=2.0)
    scheduler.fail(second)
    watched.metrics[fine] = 7.0
    before = watched.at(3600 + 100).rows()
    totals = scheduler.ledger.totals()
    with watched.without_plugin():
        pass
    # Hours that may still change are reported as before.
    assert watched.rows() == before
    assert scheduler.ledger.totals() == totals
    with watched.without_plugin():
        watched.at(3600 + 110).add("b", threads=1, gib=4)
        scheduler.compute(third, seconds=10.0)
        watched.metrics[fine] = 8.0
    scheduler.compute(fourth, seconds=20.0)
    watched.at(3600 + 200)
    row = watched.rows()[1]
    hour = {name: row[name] - before[1].get(name, 0) for name in ("tasks", "compute_seconds")}
    assert hour == {"tasks": 2, "compute_seconds": 30.0}
    assert (row["tasks_erred"], row["errors"], row["cpu_seconds"]) == (1, 1, 1.0)
    # Dask has the history of threads; of workers, only those seen at a read are known.
    assert row["thread_seconds"] == 2 * 110 + 3 * 90
    assert row["workers"] == 1 and row["worker_seconds"] == pytest.approx(120 + 2 * 80)
    watched.usage.resend()
    assert set(watched.rows()) >= {0, 1}


FINE = {
    ("execute", "inc", "thread-cpu", "seconds"): 1.0,
    ("execute", "inc", "thread-noncpu", "seconds"): 2.0,
    ("execute", "inc", "serialize", "seconds"): 3.0,
    ("execute", "add", "deserialize", "seconds"): 4.0,
    ("execute", "add", "disk-read", "seconds"): 5.0,
    ("execute", "add", "disk-write", "seconds"): 6.0,
    ("execute", "add", "compress", "seconds"): 7.0,
    ("execute", "add", "decompress", "seconds"): 8.0,
    ("execute", "add", "memory-read", "seconds"): 9.0,
    ("execute", "add", "executor", "seconds"): 10.0,
    ("execute", "add", "offload", "seconds"): 11.0,
    ("execute", "add", "other", "seconds"): 12.0,
    ("execute", "add", "failed", "seconds"): 13.0,
    ("execute", "add", "cancelled", "seconds"): 14.0,
    ("execute", "add", "p2p-get-output-cpu", "seconds"): 15.0,
    ("execute", "add", "p2p-get-output-noncpu", "seconds"): 16.0,
    ("execute", "add", "p2p-comms-limiter", "seconds"): 17.0,
    ("execute", "add", ("of", "users"), "seconds"): 18.0,
    ("execute", "add", "disk-write", "bytes"): 1000,
    ("memory-monitor", "disk-write", "bytes"): 500,
    # None of these is time of computing threads, or spilled data.
    ("execute", "add", "disk-write", "count"): 7,
    ("execute", "add", "disk-read", "bytes"): 7,
    ("execute", "add", "odd", "weird"): math.nan,
    ("p2p", "background-disk", "disk-write", "bytes"): 7,
    ("p2p", "background-comms", "idle", "seconds"): 7.0,
    ("gather-dep", "network", "seconds"): 7.0,
    ("get-data", "serialize", "seconds"): 7.0,
    "latency": 7.0,
    (): 7.0,
}


def test_fine_metrics_go_into_sums_by_class():
    watched = Watched([(float(BEGIN), 0)], {}).start()
    watched.at(0).add("a", threads=4, gib=None)
    watched.metrics.update(FINE)
    row = watched.at(100).rows()[0]
    assert row == {
        "thread_seconds": 400.0,
        "worker_seconds": 100.0,
        "workers": 1,
        "cpu_seconds": 16.0,
        "noncpu_seconds": 18.0,
        "serialize_seconds": 7.0,
        "spill_seconds": 35.0,
        "overhead_seconds": 68.0,
        "failed_seconds": 27.0,
        "spilled_bytes": 1500,
        "idle_seconds": 400.0 - 171.0,
    }
    # Values that do not grow, or are no numbers, add nothing.
    watched.metrics["execute", "inc", "thread-cpu", "seconds"] = math.inf
    watched.metrics["execute", "inc", "thread-noncpu", "seconds"] = 1.0
    assert watched.at(100).rows() == {}
    watched.metrics["execute", "inc", "thread-cpu", "seconds"] = 100.0
    row = watched.at(101).rows()[0]
    assert (row["cpu_seconds"], row["idle_seconds"]) == (115.0, 404.0 - 171.0 - 99.0)
    # At most the time of all threads can have been busy.
    watched.metrics["execute", "inc", "thread-cpu", "seconds"] = 1000.0
    row = watched.at(101).rows()[0]
    assert row["cpu_seconds"] == 115.0 + 134.0 and "idle_seconds" not in row


def test_idle_time_is_absent_where_dask_measures_nothing():
    watched = Watched([(float(BEGIN), 2)]).start()
    watched.at(10).scheduler.read()
    watched.usage.read(watched.scheduler.clock)
    (record,) = watched.scheduler.ledger.outboxes["usage"].records
    assert not {"idle_seconds", *EXECUTE} & set(record.body)
    watched = Watched([(float(BEGIN), 2)], {}).start()
    watched.usage.read(watched.scheduler.clock)
    (record,) = watched.scheduler.ledger.outboxes["usage"].records
    assert record.body["idle_seconds"] == 0.0


def test_functions_are_sent_only_where_tasks_are():
    watched = Watched().start()
    watched.scheduler.ledger.receipt.accept(["basic"])
    watched.scheduler.finish(*watched.scheduler.submit("inc-1"))
    watched.usage.read(watched.scheduler.clock)
    watched.scheduler.read()
    watched.usage.read(watched.scheduler.clock)
    (record,) = watched.scheduler.ledger.outboxes["usage"].records
    assert "functions" not in record.body and record.body["tasks"] == 1


def test_of_very_many_functions_those_that_took_longest_are_sent(monkeypatch):
    monkeypatch.setattr("galvo.plugin.usage.FUNCTIONS", 3)
    monkeypatch.setattr("galvo.plugin.usage.MOST_FUNCTIONS", 6)
    watched = Watched().start()
    for i in (4, 1, 5, 3, 2, 0, 9):
        watched.scheduler.compute(
            watched.scheduler.keys(*watched.scheduler.submit(f"f{i}-1"))[0], seconds=1.0 + i
        )
    row = watched.rows()[0]
    assert [function["prefix"] for function in row["functions"]] == ["f5", "f4", "f3"]
    assert row["tasks"] == 7  # of all functions


def test_a_clock_that_is_set_back_does_not_undo_an_hour(watched):
    watched.start()
    watched.at(100).add("a", threads=1, gib=None)
    rows = watched.at(3700).rows()
    assert rows[0]["thread_seconds"] == 3500.0
    rows = watched.at(3500).rows()
    assert 0 not in rows
    assert watched.at(3800).rows() == {1: {"thread_seconds": 200.0, "worker_seconds": 200.0}}


def test_a_server_without_memory_receives_the_last_hours_again(watched):
    watched.start()
    watched.at(0).add("a", threads=1, gib=None)
    watched.at(3600).rows()
    watched.at(60 * 3600).rows()
    watched.usage.resend()
    rows = watched.rows()
    assert sorted(rows) == list(range(11, 61))
    assert rows[59]["thread_seconds"] == 3600.0


def test_the_end_of_a_scheduler_is_the_end_of_its_use(watched):
    watched.start()
    watched.at(0).add("a", threads=1, gib=None)
    watched.at(50).scheduler.read()
    watched.usage.read(BEGIN + 60.0, BEGIN + 50.0)
    watched.at(55).remove("a")
    (record,) = watched.scheduler.ledger.outboxes["usage"].records
    assert record.body["thread_seconds"] == 50.0


def test_collectors_that_fail_are_logged_once_and_left_behind(caplog):
    class Broken(Usage):
        def read(self, now, closed_at=None):
            raise RuntimeError("odd")

    class Unmakeable(Usage):
        def __init__(self, context):
            raise RuntimeError("no")

    watched = Watched()
    context = Context(watched.scheduler, {}, watched.scheduler.ledger)
    collectors = Collectors.create([Broken, Unmakeable, Usage], context)
    for _ in range(3):
        collectors.call("read", float(BEGIN), None)
    assert len(watched.scheduler.ledger.outboxes["usage"].records) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "Broken could not be called for read" in caplog.text
    assert "Unmakeable could not be made" in caplog.text


def test_receipts_know_what_settings_keep():
    receipt = Receipt({"send_code": False, "events_allow": [], "send_logs": True})
    sends = {name for name in receipt.describe() if receipt.sends(name)}
    assert sends == {"basic", "tasks", "dask_errors", "user_errors", "profiles", "logs"}
    assert not receipt.accept(["tasks", 7]) and not receipt.accept(None)
    assert {name for name in receipt.describe() if receipt.sends(name)} == {
        "basic", "dask_errors", "tasks"
    }  # fmt: skip
    assert receipt.accept(["tasks", "logs", "code"]) and not receipt.sends("code")
    assert not receipt.accept(["logs", "tasks", "code"])
