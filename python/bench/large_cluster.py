"""A scheduler with hundreds of workers that exist only in its state, and simulated activity.

    DASK_GALVO__SERVER=http://127.0.0.1:8000 DASK_GALVO__TOKEN=… python large_cluster.py

reports such a cluster to a server until the input ends.
"""

import argparse
import asyncio
import logging
import random
import sys
import threading
import time
import uuid

import dask
from distributed import Scheduler
from distributed.scheduler import Computation

from galvo.plugin import CoiledTelemetry, read_settings

WORKERS, GROUPS, PREFIXES, COMPUTATIONS, SPANS = 500, 2000, 120, 100, 200
TASKS_PER_GROUP, FINISHED_PER_REPORT = 10, 3
ACTIVITIES = (
    ("thread-cpu", "seconds"), ("thread-noncpu", "seconds"), ("deserialize", "seconds"),
    ("disk-read", "seconds"), ("disk-read", "bytes"), ("executor", "seconds"), ("other", "seconds"),
)  # fmt: skip
REST = (("gather-dep", "network", "seconds"), ("gather-dep", "deserialize", "seconds"),
        ("get-data", "serialize", "seconds"), ("get-data", "network", "seconds"))  # fmt: skip


class Comm:
    """The part of a worker's connection that the scheduler needs to accept the worker."""

    async def write(self, message):
        pass


class LargeCluster:
    """A scheduler with workers, tasks, computations and spans, and their simulated activity."""

    def __init__(self, scheduler, seed, workers=WORKERS):
        self.scheduler = scheduler
        self.workers = workers
        self.random = random.Random(seed)
        self.addresses = []
        self.groups = []  # of each: its tasks
        self.spans = [str(uuid.UUID(int=self.random.getrandbits(128))) for _ in range(SPANS)]
        self._next_host = 0

    async def add_workers(self):
        # The connections have no reader.
        self.scheduler.handle_worker = _nothing
        for number in range(self.workers):
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


async def report(workers):
    """Reports the cluster until the input of this process ends."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        cluster = LargeCluster(scheduler, 1, workers)
        # There are no worker processes to reach.
        plugin = CoiledTelemetry({**read_settings(), "worker_plugin": False})
        scheduler.add_plugin(plugin, name=plugin.name)
        await plugin.start(scheduler)
        await cluster.add_workers()
        cluster.add_tasks()
        while not ended.is_set():
            cluster.advance(range(3))
            cluster.heartbeats(cluster.addresses)
            await asyncio.sleep(5)


def configure():
    """Turns off what the scheduler would do with workers that do not exist."""
    logging.getLogger("distributed").setLevel(logging.ERROR)
    dask.config.set(
        {
            "distributed.scheduler.work-stealing": False,
            "distributed.scheduler.active-memory-manager.start": False,
        }
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=WORKERS)
    options = parser.parse_args()
    configure()
    asyncio.run(report(options.workers))


if __name__ == "__main__":
    main()
