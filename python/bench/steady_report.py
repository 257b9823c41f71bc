"""Measures a steady report of a large cluster: its size, and how long it blocks the event loop.

A real scheduler with the real plugin has workers that exist only in the scheduler's state. Between
two reports all of them send a heartbeat, and a few computations progress. Everything that the event
loop runs is timed, and the plugin's parts are separated from the rest.

Times are CPU times of the event loop's thread, so that other load on the machine does not add to
them. The reference, measured before every report, is to write 500 x 14 numbers as JSON.
"""

import argparse
import asyncio
import functools
import gc
import gzip
import json
import logging
import math
import random
import statistics
import sys
import time
import uuid
from asyncio import events

import dask
from distributed import Scheduler
from distributed.scheduler import Computation
from responder import Responder
from results import result

from galvo.plugin import CoiledTelemetry, collector, courier, ledger, read_settings, samples

LARGEST_BYTES, LONGEST_MILLISECONDS = 250_000, 10.0
WORKERS, GROUPS, PREFIXES, COMPUTATIONS, SPANS = 500, 2000, 120, 100, 200
TASKS_PER_GROUP, FINISHED_PER_REPORT = 10, 3
WARM_UP_SECONDS = 70.0
ACTIVITIES = (
    ("thread-cpu", "seconds"), ("thread-noncpu", "seconds"), ("deserialize", "seconds"),
    ("disk-read", "seconds"), ("disk-read", "bytes"), ("executor", "seconds"), ("other", "seconds"),
)  # fmt: skip
REST = (("gather-dep", "network", "seconds"), ("gather-dep", "deserialize", "seconds"),
        ("get-data", "serialize", "seconds"), ("get-data", "network", "seconds"))  # fmt: skip
# The functions through which the event loop enters the plugin, apart from Dask's hooks.
ENTRANCES = (
    (CoiledTelemetry, "_tick"), (CoiledTelemetry, "_delivered"), (courier.Courier, "_message"),
    (courier.Courier, "_settle"), (ledger.Ledger, "build"),
    (ledger.Ledger, "look_round"), (ledger.Ledger, "read_touched"), (samples.Samples, "_go_on"),
)  # fmt: skip


class Clock:
    """Times the steps of the event loop, and the plugin's parts in them."""

    def __init__(self):
        self.steps = []  # CPU and wall milliseconds of those with a part of the plugin
        self.parts = {}  # the longest by name
        self._inside = self._own = False

    def watch(self):
        for kind, name in ENTRANCES:
            setattr(kind, name, self._timed(kind.__name__ + "." + name, getattr(kind, name)))
        call_one = collector.Collectors.call_one

        def call_timed(collectors, one, method, *arguments):
            self._inside = True
            timed = method == "read"
            called = self._timed(type(one).__name__ + ".read", call_one) if timed else call_one
            called(collectors, one, method, *arguments)

        collector.Collectors.call_one = call_timed
        run = events.Handle._run

        def run_timed(handle):
            self._inside = self._own = False
            wall, processor = time.perf_counter(), time.thread_time()
            run(handle)
            if self._inside and not self._own:
                self.steps.append(
                    (1e3 * (time.thread_time() - processor), 1e3 * (time.perf_counter() - wall))
                )

        events.Handle._run = run_timed

    def _timed(self, name, function):
        @functools.wraps(function)
        def timed(*args, **kwargs):
            self._inside = True
            begun = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent = 1e3 * (time.thread_time() - begun)
                self.parts.setdefault(name, []).append(spent)

        return timed

    def leave_out(self):
        """Marks the present step as part of the benchmark itself."""
        self._own = True

    def clear(self):
        self.steps.clear()
        self.parts.clear()


class Comm:
    """The part of a worker's connection that the scheduler needs to accept the worker."""

    async def write(self, message):
        pass


class LargeCluster:
    """A scheduler with workers, tasks, computations and spans, and their simulated activity."""

    def __init__(self, scheduler, seed):
        self.scheduler = scheduler
        self.random = random.Random(seed)
        self.addresses = []
        self.groups = []  # of each: its tasks
        self.spans = [str(uuid.UUID(int=self.random.getrandbits(128))) for _ in range(SPANS)]
        self._next_host = 0

    async def add_workers(self):
        # Nobody reads from these connections.
        self.scheduler.handle_worker = _nothing
        for number in range(WORKERS):
            # Four workers on each machine.
            host = number // 4
            address = f"tcp://10.0.{host // 250}.{host % 250 + 1}:{40000 + number % 4}"
            id_ = uuid.UUID(int=self.random.getrandbits(128), version=4)
            await self.scheduler.add_worker(
                Comm(),
                address=address,
                status="running",
                server_id=f"Worker-{id_}",
                nthreads=4,
                name=f"worker-{number}",
                resolve_address=False,
                now=time.time(),
                resources={},
                memory_limit=16 * 2**30,
                metrics=self.metrics(),
                services={"dashboard": 8790},
                local_directory="/tmp/dask-scratch-space",
                versions=VERSIONS,
                nanny=address.replace(":4", ":5"),
                extra={},
                stimulus_id="add-worker",
            )
            self.addresses.append(address)

    def add_tasks(self):
        scheduler, spans = self.scheduler, self.scheduler.extensions["spans"]
        workers = list(scheduler.workers.values())
        per_computation, per_span = GROUPS // COMPUTATIONS, GROUPS // SPANS
        for number in range(GROUPS):
            if number % per_computation == 0:
                scheduler.computations.append(Computation())
            prefix = f"{WORDS[number % len(WORDS)]}-{PREFIX_WORDS[number % PREFIXES]}"
            group = f"{prefix}-{self.random.getrandbits(128):032x}"
            tasks = []
            for i in range(TASKS_PER_GROUP):
                ts = scheduler.new_task((group, i), None, "released", scheduler.computations[-1])
                scheduler.task_prefixes[ts.prefix.name]._groups.setdefault(ts.group)
                ts.group.add(ts)
                tasks.append(ts)
            span_id = self.spans[number // per_span]
            spans._ensure_span((f"span {number // per_span}",), (span_id,))
            tasks[0].group.span_id = span_id
            spans.spans[span_id].groups.add(tasks[0].group)
            if number % per_computation:
                tasks[0].add_dependency(self.groups[-1][0])
            self.groups.append(tasks)
            for ts in tasks:
                self._finish(ts)
            self._measure(tasks[0])
            for ws in self.random.sample(workers, 2):
                ts = self.random.choice(tasks)
                ws.processing.add(ts)

    def heartbeats(self, addresses):
        for address in addresses:
            self.scheduler.heartbeat_worker(
                address=address, resolve_address=False, metrics=self.metrics()
            )

    def advance(self, computations):
        """Completes a few tasks of each group of these computations."""
        per_computation = GROUPS // COMPUTATIONS
        for computation in computations:
            first = computation * per_computation
            for tasks in self.groups[first : first + per_computation]:
                for ts in self.random.sample(tasks, FINISHED_PER_REPORT):
                    self._transition(ts, "processing")
                    self._finish(ts)
                self._transition(tasks[0], "processing")  # the group continues
                self._measure(tasks[0])
        self.scheduler.log_event("progress", {"step": self.random.random()})

    def metrics(self):
        r = self.random.random
        digests = {key: r() for key in REST}
        return {
            "task_counts": {"memory": int(40 * r()), "ready": int(9 * r()), "executing": 4},
            "bandwidth": {"total": 1e8 * r(), "workers": {}, "types": {}},
            "digests_total_since_heartbeat": {"tick-duration": 0.5, "latency": r() / 50, **digests},
            "managed_bytes": int(4e9 * r()),
            "spilled_bytes": {"memory": int(1e9 * r()), "disk": int(1e9 * r())},
            "transfer": {"incoming_bytes": 0, "incoming_count": 0, "incoming_count_total": 9},
            "event_loop_interval": 0.02 + r() / 100,
            "cpu": 400 * r(),
            "memory": int(12e9 * r()),
            "time": time.time(),
            "host_net_io": {"read_bps": 1e8 * r(), "write_bps": 1e8 * r()},
            "host_disk_io": {"read_bps": 1e7 * r(), "write_bps": 1e7 * r()},
            "gil_contention": r() / 4,
            "num_fds": 40,
            # The metric that the plugin's worker part adds.
            "galvo": {
                "disk_free_bytes": int(1e11 * r()),
                "disk_total_bytes": 10**11,
                "executable": "/opt/conda/bin/python",
            },
        }

    def _finish(self, ts):
        self._transition(ts, "memory")
        group, now = ts.group, time.time()
        for action, share in (("compute", 1.0), ("transfer", 0.1)):
            seconds = share * self.random.random()
            group.add_duration(action, now - seconds, now)
        group.update_nbytes(int(1e7 * self.random.random()))
        group.add_type("pandas.core.frame.DataFrame")

    def _transition(self, ts, finish):
        start, ts.state = ts.state, finish
        for plugin in list(self.scheduler.plugins.values()):
            plugin.transition(ts.key, start, finish, stimulus_id="s")

    def _measure(self, ts):
        """Adds the worker's fine performance metrics of a task."""
        span_id, prefix = ts.group.span_id, ts.prefix.name
        data = {
            ("execute", span_id, prefix, activity, unit): self.random.random()
            for activity, unit in ACTIVITIES
        }
        self.scheduler.extensions["spans"].heartbeat(None, data)
        for (context, _, *other), value in data.items():
            self.scheduler.cumulative_worker_metrics[(context, *other)] += value


async def _nothing(*_):
    pass


WORDS = "read-parquet blockwise getitem assign merge shuffle-transfer sum-chunk mean-agg".split()
PREFIX_WORDS = [f"step{number}" for number in range(PREFIXES)]
VERSIONS = {
    "host": {"python": "3.11.7.final.0", "OS": "Linux", "OS-release": "6.1", "machine": "x86_64"},
    "packages": {name: "1.2.3" for name in "dask distributed msgpack cloudpickle numpy".split()},
}


def reference_milliseconds(numbers):
    begun = time.thread_time()
    text = json.dumps(numbers)
    return 1e3 * (time.thread_time() - begun), text


async def measure(options, clock, responder):
    settings = read_settings(responder.address, "a-token-of-this-benchmark")
    # There are no worker processes to reach.
    settings.update(worker_plugin=False, interval_seconds=options.interval)
    numbers = [[random.random() for _ in range(14)] for _ in range(WORKERS)]
    references = []
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        cluster = LargeCluster(scheduler, options.seed)
        plugin = CoiledTelemetry(settings)
        scheduler.add_plugin(plugin, name=plugin.name)
        await plugin.start(scheduler)
        await cluster.add_workers()
        clock.leave_out()
        cluster.add_tasks()
        clock.clear()

        async def interval(computations):
            """Spreads heartbeats over the time until the next report has been accepted."""
            count = len(responder.reports())
            clock.leave_out()
            cluster.advance(computations)
            pieces = max(1, int(options.interval / 0.25))
            for piece in range(pieces):
                clock.leave_out()
                cluster.heartbeats(cluster.addresses[piece::pieces])
                await asyncio.sleep(options.interval / pieces * 0.95)
            while len(await asyncio.to_thread(responder.reports)) == count:
                await asyncio.sleep(0.1)

        # The first reports contain everything. The steady state begins once all spans have settled.
        for _ in range(math.ceil(WARM_UP_SECONDS / options.interval)):
            await interval(range(options.active))
        first, first_reports = list(clock.steps), len(responder.reports())
        first_parts = {name: max(spent) for name, spent in clock.parts.items()}
        clock.clear()
        steady = []  # the steps of each report
        for _ in range(options.reports):
            references.append(reference_milliseconds(numbers)[0])
            clock.steps.clear()
            await interval(range(options.active))
            steady.append(list(clock.steps))
        parts = {name: list(spent) for name, spent in clock.parts.items()}
        reports = responder.reports()
    early, late = reports[:first_reports], reports[first_reports:]
    return first, first_parts, steady, parts, early, late, references


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=12)
    parser.add_argument("--interval", type=float, default=15.0, help="seconds between reports")
    parser.add_argument("--active", type=int, default=3, help="computations that are going on")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    logging.getLogger("distributed").setLevel(logging.ERROR)
    dask.config.set(
        {
            "distributed.scheduler.work-stealing": False,
            "distributed.scheduler.active-memory-manager.start": False,
        }
    )
    # As `dask scheduler` does.
    gc.set_threshold(*(3 * threshold for threshold in gc.get_threshold()))
    clock = Clock()
    clock.watch()
    with Responder(options.interval) as responder:
        first, first_parts, steady, parts, early, late, references = asyncio.run(
            measure(options, clock, responder)
        )
    if len(late) < options.reports:
        sys.exit("the plugin has sent too few reports")

    numbers = json.dumps([[random.random() for _ in range(14)] for _ in range(WORKERS)])
    numbers = len(gzip.compress(numbers.encode(), 6))
    sizes = [report["compressed"] for report in late]
    size = max(sizes)
    what = f"steady report, {WORKERS} workers, {GROUPS:,} task groups"
    result(
        f"{what}: size",
        f"{size / 1e3:.0f} kB compressed (median {statistics.median(sizes) / 1e3:.0f},"
        f" {statistics.median(r['plain'] for r in late) / 1e3:.0f} kB plain, {len(late)} reports)",
        f"{numbers / 1e3:.0f} kB for {WORKERS} x 14 numbers as JSON",
        size / numbers,
        f"<= {LARGEST_BYTES / 1e3:.0f} kB",
        size <= LARGEST_BYTES,
    )
    per_report = [max(steps) for steps in steady]
    longest, median = max(per_report)[0], statistics.median(step[0] for step in per_report)
    together = statistics.median(sum(step[0] for step in steps) for steps in steady)
    reference = statistics.median(references)
    result(
        f"{what}: longest hold of the event loop",
        f"{longest:.1f} ms processor (median {median:.1f}, wall median"
        f" {statistics.median(step[1] for step in per_report):.1f};"
        f" all steps of a report together {together:.1f})",
        f"{reference:.1f} ms for json.dumps of {WORKERS} x 14 numbers",
        longest / reference,
        f"<= {LONGEST_MILLISECONDS:g} ms",
        longest <= LONGEST_MILLISECONDS,
    )
    result(
        f"{what}: the first reports",
        f"{max(r['compressed'] for r in early) / 1e3:.0f} kB compressed at most,"
        f" {sum(r['compressed'] for r in early) / 1e3:.0f} kB in {len(early)} reports,"
        f" holding the event loop for {max(step[0] for step in first):.0f} ms at most",
    )
    print("  milliseconds of the event loop by part: median, longest, longest of the first reports")
    for name, spent in sorted(parts.items(), key=lambda part: -max(part[1])):
        print(
            f"    {name:28} {statistics.median(spent):7.2f} {max(spent):7.2f}"
            f" {first_parts.get(name, 0.0):8.1f}"
        )
    print("  bytes and items of the last report, before compression")
    for name, (length, items) in sorted(late[-1]["sections"].items(), key=lambda s: -s[1][0]):
        if length > 2:
            print(f"    {name:28} {length:9,} {items:6,}")


if __name__ == "__main__":
    main()
