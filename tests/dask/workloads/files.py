"""Creates files to import, and counts Dask's activity with its own plugin.

Run with a directory, it creates a performance report and a cluster dump in both formats there, of
work that Dask has forgotten in part, and another report with tasks that ran twice, because their
worker was killed.
"""

import contextlib
import json
import logging
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

from distributed import Client, LocalCluster, SchedulerPlugin, performance_report, wait


class Witness(SchedulerPlugin):
    """Counts runs of tasks as the scheduler observes them."""

    name = "witness"

    def __init__(self, scheduler):
        self._scheduler = scheduler
        self.keys = set()
        self.groups = defaultdict(
            lambda: {"keys": set(), "succeeded": 0, "erred": 0, "compute": 0.0, "transfer": 0.0}
        )

    def transition(self, key, start, finish, *args, startstops=None, **kwargs):
        self.keys.add(key)
        if start != "processing" or finish not in ("memory", "erred"):
            return
        group = self.groups[self._scheduler.tasks[key].group_key]
        group["keys"].add(key)
        group["succeeded" if finish == "memory" else "erred"] += 1
        for spent in startstops or () if finish == "memory" else ():
            if spent["action"] in ("compute", "transfer"):
                group[spent["action"]] += spent["stop"] - spent["start"]

    def counts(self):
        return {name: {**group, "keys": len(group["keys"])} for name, group in self.groups.items()}


def größe(number):
    time.sleep(0.02)
    return number


def add(*numbers):
    return sum(numbers)


def fail(number):
    raise ValueError(f"ungültig: {number}")


def open_cluster():
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
    )
    client = Client(cluster)
    client.wait_for_workers(2)
    scheduler = cluster.scheduler
    witness = Witness(scheduler)

    async def watch():
        scheduler.add_plugin(witness, name=witness.name)

    cluster.sync(watch)
    return cluster, client, witness


def begin():
    # A report leaves out what ended before it started by a worker's estimate of the clock.
    time.sleep(0.5)


def write_files(directory):
    cluster, client, witness = open_cluster()
    with cluster, client:
        with performance_report(filename=str(directory / "report.html")):
            begin()
            # Dask forgets released tasks and their groups.
            early = client.map(größe, range(12), key="early")
            forgotten = client.submit(add, *early, key="sum-early")
            assert forgotten.result() == sum(range(12))
            del early, forgotten
            deadline = time.monotonic() + 30
            while cluster.scheduler.tasks:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            kept = client.map(größe, range(20))
            failed = client.map(fail, range(3))
            blamed = client.submit(add, failed[0], 1)
            odd = client.submit(add, 2, 3, key=("tüp", 1))
            wait([*kept, *failed, blamed, odd])
        for format in ("msgpack", "yaml"):
            client.dump_cluster_state(str(directory / "dump"), format=format)
        scheduler = cluster.scheduler
        return {
            "groups": witness.counts(),
            "keys": len(witness.keys),
            "kept": {
                name: {
                    "states": {state: n for state, n in group.states.items() if n},
                    "durations": dict(group.all_durations),
                }
                for name, group in scheduler.task_groups.items()
            },
        }


def write_report_of_lost_results(directory):
    cluster, client, witness = open_cluster()
    with cluster, client:
        with performance_report(filename=str(directory / "again.html")):
            begin()
            futures = client.map(größe, range(8))
            wait(futures)
            lost, has = next((worker, keys) for worker, keys in client.has_what().items() if keys)
            with contextlib.suppress(Exception):  # it is gone before it can respond
                client.run(lambda: os._exit(1), workers=[lost])
            deadline = time.monotonic() + 60
            while witness.counts()["größe"]["succeeded"] < len(futures) + len(has):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            wait(futures)
        return {"groups": witness.counts(), "lost": len(has)}


if __name__ == "__main__":
    target = Path(sys.argv[1])
    counts = {"files": write_files(target), "again": write_report_of_lost_results(target)}
    (target / "counts.json").write_text(json.dumps(counts), encoding="utf-8")
