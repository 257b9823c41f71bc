"""Tests of the samples of workers, the scheduler and the cluster."""

import asyncio
import json
import math
from collections import Counter
from operator import add
from types import SimpleNamespace

import pytest
from conftest import local_cluster, on_loop, wait_until
from distributed import Client, Event

from galvo.plugin.collector import Context
from galvo.plugin.ledger import Ledger
from galvo.plugin.samples import Samples, measure_worker

pytestmark = pytest.mark.filterwarnings("error::FutureWarning", "error::DeprecationWarning:galvo")
STATES = "released waiting no-worker queued processing memory erred forgotten".split()

METRICS = {
    "task_counts": {"memory": 54, "released": 34, "ready": 38, "executing": 1},
    "managed_bytes": 980,
    "spilled_bytes": {"memory": 400, "disk": 100},
    "event_loop_interval": 0.02,
    "cpu": 150.0,
    "memory": 1000,
    "time": 1795199679.5,
    "host_net_io": {"read_bps": 10.5, "write_bps": 20.5},
    "host_disk_io": {"read_bps": 30.5, "write_bps": 40.5},
    "num_fds": 22,
}
OLD_METRICS = {
    "executing": 1,
    "in_memory": 54,
    "ready": 38,
    "in_flight": 2,
    "spilled_nbytes": {"memory": 400, "disk": 100},
    "event_loop_interval": 0.02,
    "cpu": 150.0,
    "memory": 1000,
    "read_bytes": 10.5,
    "write_bytes": 20.5,
    "read_bytes_disk": 30.5,
    "write_bytes_disk": 40.5,
}
MEASURED = {
    "memory_process_bytes": 1000, "memory_managed_bytes": 500, "memory_unmanaged_bytes": 500,
    "memory_spilled_bytes": 100, "memory_limit_bytes": 4000, "cpu_cores": 1.5,
    "event_loop_seconds": 0.02, "network_read_bytes_per_second": 10.5,
    "network_write_bytes_per_second": 20.5, "disk_read_bytes_per_second": 30.5,
    "disk_write_bytes_per_second": 40.5, "tasks_memory": 54, "tasks_executing": 1,
    "tasks_ready": 38, "tasks_in_flight": 0,
}  # fmt: skip


# ------------------------------------------------------------------------------ with stand-ins


def make_worker(n=1, metrics=METRICS, **changes):
    """Returns a stand-in of a WorkerState."""
    fields = {
        "address": f"tcp://10.0.0.{n}:4000", "nthreads": 2, "memory_limit": 4000, "nbytes": 900,
        "last_seen": 1_700_000_000.0, "processing": set(), "metrics": {**metrics, **changes},
    }  # fmt: skip
    return SimpleNamespace(**fields)


class StandIn:
    """A scheduler with its own clock, and the collector that observes it."""

    def __init__(self, *workers, interval=15.0):
        self.clock = 1_700_000_000.0
        self.scheduler = SimpleNamespace(
            workers={state.address: state for state in workers},
            task_prefixes={},
            task_groups={},
            unrunnable=set(),
            queued=set(),
        )
        self.ledger = Ledger(1, now=lambda: self.clock)
        self.context = Context(self.scheduler, {"interval_seconds": interval}, self.ledger)
        self.context.workers = {state.address: "id of " + state.address for state in workers}
        self.collector = Samples(self.context)

    def read(self, seconds=0.0, heartbeats=True):
        """Returns the new samples after this many seconds: of the cluster, and by worker."""
        self.clock += seconds
        if heartbeats:
            for state in self.scheduler.workers.values():
                state.last_seen = self.clock
        self.collector.read(self.clock)
        return self.take()

    def take(self):
        bodies = [body for _, body in self.context.outboxes["samples"].take(100_000)]
        json.dumps(bodies, allow_nan=False)
        cluster = [body for body in bodies if "worker_id" not in body]
        return cluster, {body["worker_id"]: body for body in bodies if "worker_id" in body}


def test_a_sample_of_a_worker():
    worker = make_worker()
    assert measure_worker(worker) == MEASURED
    worker.metrics["gil_contention"] = 0.25
    worker.metrics["galvo"] = {"disk_total_bytes": 9, "disk_free_bytes": 3, "executable": "/py"}
    assert measure_worker(worker) == {
        **MEASURED, "gil_contention": 0.25, "disk_total_bytes": 9, "disk_free_bytes": 3,
    }  # fmt: skip


def test_a_sample_of_a_worker_of_an_older_release():
    assert measure_worker(make_worker(metrics=OLD_METRICS)) == {**MEASURED, "tasks_in_flight": 2}


def test_what_dask_does_not_give_is_absent():
    assert measure_worker(make_worker(metrics={})) == {"memory_limit_bytes": 4000}
    unlimited = make_worker(metrics={"task_counts": {}})
    unlimited.memory_limit = 0
    assert measure_worker(unlimited) == {
        "tasks_memory": 0, "tasks_executing": 0, "tasks_ready": 0, "tasks_in_flight": 0,
    }  # fmt: skip
    odd = {
        "memory": None, "cpu": math.nan, "event_loop_interval": math.inf, "gil_contention": "0",
        "host_net_io": {"read_bps": "1"}, "host_disk_io": {}, "galvo": {},
        "spilled_bytes": {"memory": None, "disk": 7}, "task_counts": {"memory": 3},
    }  # fmt: skip
    assert measure_worker(make_worker(metrics=odd)) == {
        "memory_limit_bytes": 4000, "memory_spilled_bytes": 7, "tasks_memory": 3,
        "tasks_executing": 0, "tasks_ready": 0, "tasks_in_flight": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("nbytes", "managed"), [(0, 0), (300, 0), (400, 0), (900, 500), (1400, 1000), (9000, 1000)]
)
def test_managed_memory_is_within_that_of_the_process(nbytes, managed):
    worker = make_worker()
    worker.nbytes = nbytes
    metrics = measure_worker(worker)
    assert metrics["memory_managed_bytes"] == managed
    assert metrics["memory_unmanaged_bytes"] == 1000 - managed


def test_a_sample_of_the_cluster():
    workers = [
        make_worker(1, memory=1000, cpu=50.0, event_loop_interval=0.02, gil_contention=0.1),
        make_worker(2, memory=2000, cpu=25.0, event_loop_interval=0.04, gil_contention=0.5),
        make_worker(3, memory=3000, cpu=0.0, event_loop_interval=0.09),
    ]
    there = StandIn(*workers)
    workers[0].processing = {1, 2, 3}
    there.scheduler.queued = {1, 2}
    there.scheduler.unrunnable = {1}
    counts = dict.fromkeys(STATES, 0)
    there.scheduler.task_prefixes = {
        "x": SimpleNamespace(states={**counts, "waiting": 1, "memory": 2, "forgotten": 9}),
        "y": SimpleNamespace(states={**counts, "memory": 4, "erred": 8, "released": 16}),
    }
    recent = {"cpu": 12.5, "memory": 123, "time": 1.0}
    there.scheduler.monitor = SimpleNamespace(recent=lambda: recent)
    there.scheduler._tick_interval_observed = 0.021
    (sample,), _ = there.read()
    assert sample == {
        "at": 1_700_000_000.0,
        "metrics": {
            "workers": 3, "threads": 6, "memory_limit_bytes": 12_000,
            "memory_process_bytes": 6000, "memory_managed_bytes": 1500,
            "memory_unmanaged_bytes": 4500, "memory_spilled_bytes": 300, "cpu_cores": 0.75,
            "network_read_bytes_per_second": 31.5, "network_write_bytes_per_second": 61.5,
            "disk_read_bytes_per_second": 91.5, "disk_write_bytes_per_second": 121.5,
            "gil_contention_min": 0.1, "gil_contention": 0.3, "gil_contention_max": 0.5,
            "event_loop_seconds_min": 0.02, "event_loop_seconds": 0.04,
            "event_loop_seconds_max": 0.09, "scheduler_cpu_cores": 0.125,
            "scheduler_memory_bytes": 123, "scheduler_event_loop_seconds": 0.021,
            "tasks_processing": 3, "tasks_waiting": 1, "tasks_queued": 2, "tasks_no_worker": 1,
            "tasks_memory": 6, "tasks_erred": 8, "tasks_released": 16,
        },
    }  # fmt: skip


def test_a_cluster_without_workers():
    (sample,), workers = StandIn().read()
    assert sample["metrics"] == {
        "workers": 0, "threads": 0, "tasks_processing": 0, "tasks_waiting": 0, "tasks_queued": 0,
        "tasks_no_worker": 0, "tasks_memory": 0, "tasks_erred": 0, "tasks_released": 0,
    }  # fmt: skip
    assert workers == {}


def test_the_oldest_releases_queue_nothing():
    there = StandIn()
    del there.scheduler.queued
    (sample,), _ = there.read()
    assert "tasks_queued" not in sample["metrics"]


def test_a_memory_limit_only_where_every_worker_has_one():
    one, two = make_worker(1), make_worker(2)
    two.memory_limit = 0
    (sample,), workers = StandIn(one, two).read()
    assert "memory_limit_bytes" not in sample["metrics"]
    assert ["memory_limit_bytes" in w["metrics"] for w in workers.values()] == [True, False]


def test_a_host_is_counted_once_by_the_worker_seen_last():
    one, two, three = make_worker(1), make_worker(1), make_worker(2)
    two.address = "tcp://10.0.0.1:5000"
    one.metrics["host_net_io"] = {"read_bps": 100.0, "write_bps": 1.0}
    two.metrics["host_net_io"] = {"read_bps": 200.0, "write_bps": 2.0}
    there = StandIn(one, two, three)
    one.last_seen = there.clock - 1
    two.last_seen = there.clock - 2
    (sample,), _ = there.read(heartbeats=False)
    assert sample["metrics"]["network_read_bytes_per_second"] == 110.5
    two.last_seen = there.clock
    (sample,), _ = there.read(5, heartbeats=False)
    assert sample["metrics"]["network_read_bytes_per_second"] == 210.5
    assert sample["metrics"]["disk_read_bytes_per_second"] == 61.0
    for state in (one, two, three):
        there.collector.worker_removed(state.address)
    assert there.collector._hosts == {}


def test_the_fullest_disk():
    disks = [{"disk_free_bytes": 50, "disk_total_bytes": 100}, {}]
    disks += [{"disk_free_bytes": 60, "disk_total_bytes": 1000}]
    disks += [{"disk_free_bytes": 500, "disk_total_bytes": 600}]
    workers = [make_worker(n, galvo=disk) for n, disk in enumerate(disks, 1)]
    (sample,), _ = StandIn(*workers, make_worker(9)).read()
    assert sample["metrics"]["disk_free_bytes"] == 60
    assert sample["metrics"]["disk_total_bytes"] == 1000


def test_silent_workers_are_not_measured():
    one, two = make_worker(1), make_worker(2)
    there = StandIn(one, two)
    there.read()
    two.last_seen = there.clock + 61
    (sample,), workers = there.read(61, heartbeats=False)
    assert list(workers) == ["id of tcp://10.0.0.2:4000"]
    assert sample["metrics"]["workers"] == 2
    assert sample["metrics"]["cpu_cores"] == 1.5


def test_workers_that_have_not_sent_anything_yet():
    (sample,), workers = StandIn(make_worker(1, metrics={})).read()
    assert workers == {}
    assert sample["metrics"]["workers"] == 1
    assert "cpu_cores" not in sample["metrics"]


def test_samples_follow_reports_but_not_each_of_a_series():
    there = StandIn(make_worker())
    assert len(there.read()[0]) == 1
    assert there.read(0.1) == ([], {})
    assert there.read(0.2) == ([], {})
    cluster, workers = there.read(0.2)
    assert len(cluster) == len(workers) == 1
    assert {cluster[0]["at"], *[w["at"] for w in workers.values()]} == {there.clock}
    assert len(there.read(-100)[0]) == 1  # the clock was set back
    assert there.read(0.1) == ([], {})


def test_the_more_workers_the_fewer_samples_of_each():
    there = StandIn(*(make_worker(n) for n in range(100)))
    taken = [there.read(0.5) for _ in range(9)]
    assert [len(cluster) for cluster, _ in taken] == [1] * 9
    assert [len(workers) for _, workers in taken] == [100, 0, 0, 0] * 2 + [100]


def test_workers_that_nobody_knows_are_left_out():
    there = StandIn(make_worker(1), make_worker(2))
    del there.context.workers["tcp://10.0.0.1:4000"]
    cluster, workers = there.read()
    assert list(workers) == ["id of tcp://10.0.0.2:4000"]
    assert cluster[0]["metrics"]["cpu_cores"] == 3.0


def test_unsent_samples_are_bounded():
    there = StandIn(*(make_worker(n) for n in range(100)))
    outbox = there.context.outboxes["samples"]
    outbox.most = 500
    for _ in range(10):
        there.clock += 15
        for state in there.scheduler.workers.values():
            state.last_seen = there.clock
        there.collector.read(there.clock)
    assert len(outbox.records) == 500
    assert outbox.dropped == 10 * 101 - 500
    cluster, _ = there.take()
    assert [sample["at"] for sample in cluster] == [there.clock - 45 + 15 * n for n in range(4)]


def test_sampling_goes_on_while_no_report_is_made():
    async def watch():
        there = StandIn(interval=0.05)
        await there.collector.start()
        for _ in range(4):
            there.clock += 15
            await asyncio.sleep(0.08)
        there.collector.close()
        before, _ = there.take()
        there.clock += 15
        await asyncio.sleep(0.1)
        return before, there.take()[0]

    before, after = asyncio.run(watch())
    assert len(before) == 4
    assert after == []


def test_no_sample_is_made_between_reports_that_come_in_time():
    there = StandIn()
    there.read(15)
    there.clock += 7
    there.collector._sample_if_due()
    assert there.take() == ([], {})
    there.clock += 7
    there.collector._sample_if_due()
    assert len(there.take()[0]) == 1


# ---------------------------------------------------------------------------------- with Dask


def sample_of(cluster):
    """Returns a sample, and Dask's own values at the same moment."""

    def take():
        scheduler = cluster.scheduler
        ledger = Ledger(1)
        context = Context(scheduler, {"interval_seconds": 0.5}, ledger)
        context.workers = {address: address for address in scheduler.workers}
        Samples(context).read(ledger.now())
        samples = [body for _, body in ledger.outboxes["samples"].take(1000)]
        json.dumps(samples, allow_nan=False)
        states = Counter(ts.state for ts in scheduler.tasks.values())
        workers = {
            address: (state.memory, dict(state.metrics), state.memory_limit)
            for address, state in scheduler.workers.items()
        }
        return samples, states, workers, scheduler.memory, scheduler.monitor.recent()

    return on_loop(cluster, take)


def check(cluster):
    """Compares a sample with Dask's own values; returns the metrics of the cluster."""
    (sample, *own), states, workers, memory, recent = sample_of(cluster)
    assert [body["worker_id"] for body in own] == list(workers)
    for body in own:
        of_dask, metrics, limit = workers[body["worker_id"]]
        measured = body["metrics"]
        assert body["at"] == sample["at"]
        assert measured.pop("memory_process_bytes") == of_dask.process
        assert measured.pop("memory_managed_bytes") == of_dask.managed
        assert measured.pop("memory_unmanaged_bytes") == of_dask.unmanaged
        assert measured.pop("memory_spilled_bytes") == of_dask.spilled
        assert measured.pop("memory_limit_bytes") == limit
        assert measured.pop("cpu_cores") == metrics["cpu"] / 100
        assert measured.pop("event_loop_seconds") == metrics["event_loop_interval"]
        network, disk = metrics["host_net_io"], metrics.get("host_disk_io", {})
        assert measured.pop("network_read_bytes_per_second") == network["read_bps"]
        assert measured.pop("network_write_bytes_per_second") == network["write_bps"]
        assert measured.pop("disk_read_bytes_per_second", None) == disk.get("read_bps")
        assert measured.pop("disk_write_bytes_per_second", None) == disk.get("write_bps")
        for name in ("memory", "executing", "ready"):
            assert measured.pop("tasks_" + name) == metrics["task_counts"].get(name, 0)
        assert measured.pop("tasks_in_flight") == metrics["task_counts"].get("flight", 0)
        assert measured.pop("gil_contention", None) == metrics.get("gil_contention")
        assert measured == {}
    metrics = sample["metrics"]
    assert metrics["workers"] == len(workers)
    assert metrics["threads"] == cluster.scheduler.total_nthreads
    assert metrics["memory_process_bytes"] == memory.process
    assert metrics["memory_managed_bytes"] == memory.managed
    assert metrics["memory_unmanaged_bytes"] == memory.unmanaged
    assert metrics["memory_spilled_bytes"] == memory.spilled
    assert metrics["memory_limit_bytes"] == sum(limit for _, _, limit in workers.values())
    assert metrics["cpu_cores"] == pytest.approx(
        sum(own["cpu"] for _, own, _ in workers.values()) / 100
    )
    # All workers are on one host.
    assert metrics["network_read_bytes_per_second"] in [
        own["host_net_io"]["read_bps"] for _, own, _ in workers.values()
    ]
    assert metrics["scheduler_cpu_cores"] == recent["cpu"] / 100
    assert metrics["scheduler_memory_bytes"] == recent["memory"]
    assert 0 < metrics["scheduler_event_loop_seconds"] < 10
    for state in ("processing", "waiting", "queued", "memory", "erred", "released", "no-worker"):
        assert metrics["tasks_" + state.replace("-", "_")] == states[state], state
    return metrics


def test_samples_agree_with_dask():
    with local_cluster(n_workers=2, protocol="tcp://", memory_limit="1GiB") as cluster:
        with Client(cluster) as client:
            check(cluster)
            event = Event("go", client=client)

            def wait_for(x):
                Event("go").wait(20)
                return bytes(10_000)

            def fail(x):
                raise ValueError(x)

            results = client.map(bytes, [10**6] * 3, pure=False)
            client.gather(results)
            waiting = client.map(wait_for, range(40), pure=False)
            after = client.map(add, waiting[:5], waiting[5:10], pure=False)
            failing = client.submit(fail, 1, workers=list(cluster.scheduler.workers)[:1])
            nowhere = client.submit(add, 1, 2, workers=["tcp://10.9.9.9:1"], key="nowhere")
            states = cluster.scheduler.tasks
            wait_until(lambda: len(states) == 50 and states["nowhere"].state == "no-worker")
            metrics = check(cluster)
            assert metrics["tasks_no_worker"] == 1
            assert metrics["tasks_memory"] == 3
            assert metrics["tasks_waiting"] == 5
            assert metrics["tasks_processing"] + metrics["tasks_queued"] >= 40
            event.set()
            wait_until(lambda: failing.status == "error")
            client.gather([*waiting, *after])
            # Data is reported at once, memory with the next heartbeat.
            wait_until(lambda: check(cluster)["memory_managed_bytes"] >= 3_400_000)
            metrics = check(cluster)
            assert (metrics["tasks_erred"], metrics["tasks_memory"]) == (1, 48)
            nowhere.cancel()
            client.restart(wait_for_workers=False)
            wait_until(lambda: not states)
            (sample, *_), *_ = sample_of(cluster)
            assert sample["metrics"]["tasks_memory"] == sample["metrics"]["tasks_erred"] == 0
