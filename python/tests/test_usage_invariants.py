"""Invariants of the calculation of thread time, over generated histories of clusters.

A history is drawn step by step: workers are added, retire (their last metrics arrive after their
last heartbeat, before or after Dask has removed them), die (nothing arrives), and compute tasks of
seconds to hours, some of which fail; heartbeats and reads happen at any time; the plugin is
registered early, late, or replaced in the middle. The same history is integrated exactly, hour by
hour, for comparison.
"""

import random
from collections import defaultdict
from types import SimpleNamespace

import pytest
from stand_ins import Scheduler

from galvo.plugin.collector import Context
from galvo.plugin.sections import LARGEST_LIMITS
from galvo.plugin.usage import EXECUTE, Usage

HOUR = 3600
BEGIN = 472_222 * HOUR
CPU, FAILED = ("thread-cpu", "seconds"), ("failed", "seconds")
EXACT = 1e-6


class Task(float):
    """A task, represented by its start time. Two tasks may have the same start time."""

    __eq__, __hash__ = object.__eq__, object.__hash__


class Worker:
    def __init__(self, address, threads, now):
        self.address, self.state = address, SimpleNamespace(
            nthreads=threads, memory_limit=0, last_seen=now, executing={}, metrics={}
        )  # fmt: skip
        self.running = self.state.processing = []
        self.measured = defaultdict(float)  # and not reported yet


class World:
    """A cluster whose threads are integrated exactly, and a plugin that observes it."""

    def __init__(self, seed, deaths):
        self.random, self.deaths = random.Random(seed), deaths
        self.scheduler = Scheduler()
        self.scheduler.workers = {}
        self.scheduler.total_nthreads_history = [(float(BEGIN), 0)]
        self.metrics = self.scheduler.cumulative_worker_metrics = {}
        self.now = BEGIN + self.random.uniform(0, HOUR)
        self.scheduler.clock = self.now
        self.workers, self.named = {}, 0
        self.grown = defaultdict(float)
        self.usage, self.registered_at = None, None
        # The true values of each hour since registration, and the plugin's values.
        self.offered, self.busy = defaultdict(float), defaultdict(float)
        self.computed = defaultdict(float)
        self.reported = {}

    def register(self):
        ledger = self.scheduler.ledger
        self.context = Context(self.scheduler, {}, ledger)
        self.registered_at = self.now
        self.usage = Usage(self.context)

    def replace(self):
        """Replaces the plugin by another one, which continues from its state."""
        self.read()
        late, state = self.context.last_metrics, self.usage.export_state()
        self.context = Context(self.scheduler, {}, self.scheduler.ledger)
        self.context.last_metrics = dict(late)
        self.usage = Usage(self.context)
        self.usage.import_state(state)

    def integrate(self, start, stop, threads, sums):
        start = max(start, self.registered_at if self.registered_at is not None else stop)
        while start < stop:
            end = min(stop, (start // HOUR + 1) * HOUR)
            sums[int(start // HOUR)] += threads * (end - start)
            start = end

    def pass_time(self, seconds):
        threads = sum(worker.state.nthreads for worker in self.workers.values())
        self.integrate(self.now, self.now + seconds, threads, self.offered)
        self.now += seconds
        self.scheduler.clock = self.now

    def count_threads(self):
        threads = sum(worker.state.nthreads for worker in self.workers.values())
        self.scheduler.total_nthreads_history.append((self.now, threads))

    def join(self):
        self.named += 1
        worker = Worker(f"tcp://w:{self.named}", self.random.randint(1, 4), self.now)
        self.workers[worker.address] = worker
        self.scheduler.workers[worker.address] = worker.state
        self.count_threads()
        if self.usage is not None:
            self.usage.worker_added(worker.address)

    def begin(self, worker):
        if len(worker.running) < worker.state.nthreads:
            worker.running.append(Task(self.now))

    def finish(self, worker):
        if not worker.running:
            return
        start = worker.running.pop(self.random.randrange(len(worker.running)))
        failed = self.random.random() < 0.2
        worker.measured[FAILED if failed else CPU] += self.now - start
        self.integrate(start, self.now, 1, self.busy)
        if not failed:
            self.integrate(start, self.now, 1, self.computed)
        if self.usage is not None:
            ran = [{"action": "compute", "start": start, "stop": self.now}]
            self.usage.record_run(None if failed else "f", ran)
            if not failed:
                self.grown["f"] += self.now - start

    def heartbeat(self, worker):
        for (activity, unit), seconds in worker.measured.items():
            key = ("execute", "f", activity, unit)
            self.metrics[key] = self.metrics.get(key, 0.0) + seconds
        worker.measured.clear()
        worker.state.last_seen = self.now
        worker.state.executing = {start: self.now - start for start in worker.running}

    def hand_over(self, worker):
        if self.usage is None:
            return
        for (activity, unit), seconds in worker.measured.items():
            key = ("execute", "f", activity, unit)
            late = self.context.last_metrics
            late[key] = late.get(key, 0.0) + seconds
        worker.measured.clear()
        self.context.on_last_metrics(worker.address)

    def leave(self, worker, dies):
        if not dies:
            while worker.running:
                self.finish(worker)
        before = self.random.random() < 0.5
        if not dies and before:
            self.hand_over(worker)
        for start in worker.running:  # a thread that died was not idle until then
            self.integrate(start, self.now, 1, self.busy)
        del self.workers[worker.address], self.scheduler.workers[worker.address]
        self.count_threads()
        worker.state.processing = {}  # the state in which plugins see it
        if self.usage is not None:
            self.usage.worker_removed(worker.address)
        if not dies and not before:
            self.hand_over(worker)

    def read(self):
        if self.usage is None:
            return
        grown, self.grown = self.grown, defaultdict(float)
        for prefix, seconds in grown.items():
            self.usage._add_growth(prefix, (0, 1, 0, seconds, 0.0, 0, 0))
        self.usage.read(self.now)
        while self.scheduler.ledger.outboxes["usage"].records:
            report = self.scheduler.ledger.build(LARGEST_LIMITS)
            self.scheduler.ledger.acknowledge(report, report.sequence)
            self.reported.update({body["hour"]: body for _, body in report.items["usage"]})
        self.check()

    def check(self):
        """Asserts the invariants that hold at any moment, also with tasks in progress."""
        running = defaultdict(float)
        for worker in self.workers.values():
            for start in worker.running:
                self.integrate(start, self.now, 1, running)
        for hour, row in self.reported.items():
            observed = row.get("observed_seconds", row["thread_seconds"])
            assert observed == pytest.approx(self.offered[hour], abs=1e-3), hour
            assert observed <= row["thread_seconds"] + EXACT
            busy, idle = sum(row[name] for name in EXECUTE), row.get("idle_seconds", 0.0)
            assert idle + max(busy, row["compute_seconds"]) <= observed + 1e-3, (hour, row)
            # No busy time is reported as idle. Metrics are one sum over all tasks, so that missing
            # ones shift hours a little.
            truly_idle = self.offered[hour] - self.busy[hour] - running[hour]
            slack = 1e-3 + (0.02 if self.deaths else 0.01) * self.offered[hour]
            assert idle <= truly_idle + slack, (hour, idle, truly_idle)
            for function in row["functions"]:
                assert function["compute_seconds"] <= row["compute_seconds"] + EXACT

    def step(self):
        workers = list(self.workers.values())
        worker = self.random.choice(workers) if workers else None
        step = self.random.choices(
            ["join", "begin", "finish", "heartbeat", "leave", "read", "wait", "register"],
            [2, 6, 5, 6, 1, 4, 3, 1],
        )[0]
        if step == "wait":
            self.pass_time(self.random.choice([0.0, 0.5, 60.0, 900.0, 5000.0]))
        elif step == "join":
            self.join()
        elif step == "read":
            self.read()
        elif step == "register":
            self.register() if self.usage is None else self.replace()
        elif worker is not None and step == "leave":
            self.leave(worker, self.deaths and self.random.random() < 0.5)
        elif worker is not None:
            getattr(self, step)(worker)
        self.pass_time(self.random.uniform(0.0, 30.0))


@pytest.mark.parametrize("seed", range(40))
def test_parts_of_thread_time_add_up_whatever_a_cluster_does(seed):
    world = World(seed, deaths=True)
    for _ in range(150):
        world.step()
    world.read()
    world.check()


@pytest.mark.parametrize("seed", range(40))
def test_thread_time_is_exact_once_all_workers_have_reported(seed):
    world = World(seed, deaths=False)
    world.register()
    for _ in range(100):
        world.step()
    for worker in list(world.workers.values()):
        while worker.running:
            world.finish(worker)
        world.heartbeat(worker)
    world.read()
    sums = defaultdict(float)
    for hour, row in world.reported.items():
        sums["busy"] += sum(row[name] for name in EXECUTE)
        sums["computed"] += row["compute_seconds"]
        sums["idle"] += row.get("idle_seconds", 0.0)
        assert row["compute_seconds"] == pytest.approx(world.computed[hour], abs=1e-3), hour
    assert sums["busy"] == pytest.approx(sum(world.busy.values()), abs=1e-2)
    assert sums["computed"] == pytest.approx(sum(world.computed.values()), abs=1e-2)
    idle = sum(world.offered.values()) - sum(world.busy.values())
    assert sums["idle"] <= idle + 1e-2
