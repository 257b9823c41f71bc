"""Reports the clusters of an invented team: eight weeks of them, and those that live now.

    DASK_GALVO__SERVER=… TEAM_TOKENS="ines=… okan=…" python web/tests/team.py [SECONDS]

For pictures of the dashboard only. No Dask runs: the reports are made up, and sent as the plugin
sends its own, with times of the past. The same day has the same clusters in each run. With
SECONDS, it reports only the live clusters, every few seconds for so long.
"""

import datetime
import json
import os
import random
import sys
import time
import urllib.error
import urllib.request
import uuid
from typing import NamedTuple

GIB = 2**30
HOUR = 3600
# Twice the days that the Overview shows, so that it has something to compare with.
DAYS = 56
INTERVAL = 5
# A server that is busy takes a report later.
ATTEMPTS = 10


class Work(NamedTuple):
    """A kind of cluster, and how the occupied time of its threads divides."""

    name: str
    user: str
    workers: int
    threads: int
    gib: int
    # Hours of the day (UTC), and the chance of a run on a weekday and at the weekend.
    starts: tuple
    chance: tuple
    # The usual life in hours, and the share of it with work.
    hours: float
    busy: float
    # CPU, waiting, serialization, spill, overhead; the rest is failed attempts.
    shares: tuple
    functions: tuple
    computations: int
    error: tuple = ()
    # The chance that a run has errors.
    fails: float = 0


EVERY, WEEKDAYS, SELDOM = (1, 1), (0.85, 0), (0.4, 0.15)
STATION_ERROR = ("RuntimeError", "the station has no depth", "read_station", "backfill/stations.py")
MEMORY_ERROR = ("MemoryError", "Unable to allocate 7.45 GiB", "regrid", "era5/regrid.py")
VALUE_ERROR = ("ValueError", "mesh has 3 disconnected parts", "check_mesh", "sim/mesh.py")
# fmt: off
TEAM = (
    Work("features-daily", "batch-bot", 24, 4, 16, (2,), EVERY, 0.6, 0.84,
         (0.55, 0.28, 0.06, 0.06, 0.04), ("read-parquet", "clean", "join", "add_features"), 6),
    Work("nightly-embeddings", "batch-bot", 48, 2, 8, (21,), EVERY, 2.6, 0.9,
         (0.72, 0.18, 0.04, 0, 0.05), ("load_batch", "embed", "store"), 4),
    Work("sensor-hourly", "batch-bot", 8, 4, 8, (6, 12), EVERY, 0.25, 0.88,
         (0.7, 0.2, 0.03, 0, 0.06), ("fetch", "parse", "aggregate"), 2),
    Work("era5-regrid", "ines", 40, 4, 16, (8,), WEEKDAYS, 4, 0.84,
         (0.5, 0.33, 0.07, 0.07, 0.02), ("open_dataset", "regrid", "write-zarr"), 3,
         MEMORY_ERROR, 0.2),
    Work("notebook", "ines", 8, 4, 8, (13,), SELDOM, 1.4, 0.4,
         (0.55, 0.36, 0.04, 0, 0.04), ("read-parquet", "groupby", "mean"), 7),
    Work("tuning-sweep", "priya", 16, 8, 32, (9,), WEEKDAYS, 5.5, 0.52,
         (0.5, 0.42, 0.02, 0, 0.05), ("fit", "score"), 12),
    Work("sensor-backfill", "teodor", 64, 2, 8, (10,), (0.6, 0), 2.8, 0.74,
         (0.42, 0.46, 0.05, 0.01, 0.05), ("read_station", "resample", "write"), 3,
         STATION_ERROR, 0.6),
    Work("adhoc-lidar", "teodor", 8, 4, 16, (15,), SELDOM, 3, 0.3,
         (0.6, 0.3, 0.05, 0, 0.04), ("read_tile", "classify"), 3),
    Work("notebook", "okan", 32, 4, 16, (9,), (0.5, 0.2), 5, 0.25,
         (0.55, 0.38, 0.03, 0, 0.03), ("read-csv", "merge", "value-counts"), 8),
    Work("coastline", "mara", 12, 4, 16, (11,), (0.5, 0), 2.6, 0.66,
         (0.62, 0.25, 0.06, 0.02, 0.04), ("read_tile", "simplify", "union"), 4),
    Work("sim-mesh", "lena", 20, 4, 8, (10,), (0.35, 0), 2.2, 0.72,
         (0.68, 0.2, 0.05, 0.01, 0.03), ("split_mesh", "solve", "check_mesh"), 3,
         VALUE_ERROR, 0.25),
    Work("qc-dashboard", "lena", 4, 2, 4, (7,), (0.7, 0), 9.5, 0.31,
         (0.55, 0.35, 0.03, 0, 0.06), ("read-parquet", "quantile"), 60),
    Work("review", "hanne", 8, 2, 8, (14,), (0.15, 0), 1.5, 0.5,
         (0.6, 0.3, 0.04, 0, 0.05), ("load", "compare"), 5),
    Work("notebook", "yusuf", 6, 4, 8, (12,), (0.3, 0), 1.8, 0.34,
         (0.5, 0.4, 0.05, 0, 0.04), ("read-parquet", "plot_data"), 3),
)
# fmt: on

# Name, user, hours since the start, and hours since the last work. Those with work have 0.
LIVE = (
    ("era5-regrid", "ines", 3.4, 0),
    ("sensor-backfill", "teodor", 1.7, 0),
    ("nightly-embeddings", "batch-bot", 2, 0),
    ("notebook", "okan", 6.2, 3.2),
    ("tuning-sweep", "priya", 4.8, 1.8),
    ("adhoc-lidar", "teodor", 22.7, 19.4),
)


class Run:
    """One cluster: its work, its life and its computations."""

    def __init__(self, work, start, end, idle_from=None):
        self.work, self.start, self.end = work, start, end
        self.identity = f"{work.name} {work.user} {start:.0f}"
        self.random = random.Random(self.identity)
        last = idle_from or end
        # Gaps between the computations make up for the share without work.
        count = max(1, round(work.computations * self.random.uniform(0.7, 1.2)))
        step = (last - start - 30) / count
        share = min(1, work.busy * self.random.uniform(0.92, 1.08) / 0.92)
        self.computations = [
            (start + 30 + at * step, start + 30 + (at + share) * step) for at in range(count)
        ]
        self.density = self.random.uniform(0.88, 0.96)
        self.failed = self.random.randint(1, 14) if self.random.random() < work.fails else 0

    def id(self, *words):
        """Returns a UUID of version 7 that is the same in each run."""
        bits = uuid.uuid5(uuid.NAMESPACE_OID, " ".join(map(str, (self.identity, *words)))).int
        head = int(self.start * 1000) << 80 | 7 << 76 | 2 << 62
        return str(uuid.UUID(int=head | bits & (0xFFF << 64) | bits & (2**62 - 1)))

    def worked(self, begin, end):
        return sum(max(0, min(end, stop) - max(begin, start)) for start, stop in self.computations)

    def hour(self, hour, until):
        """Returns the usage in an hour of the clock."""
        begin, end = max(self.start + 20, hour * HOUR), min(until, (hour + 1) * HOUR)
        lasted, size = max(0, end - begin), self.work.workers * self.work.threads
        occupied = self.worked(begin, end) * size * self.density
        cpu, waiting, serialize, spill, overhead = (occupied * share for share in self.work.shares)
        compute = cpu + waiting
        tasks = round(compute / 8)
        part = 1 / len(self.work.functions)
        return {
            "hour": hour,
            "thread_seconds": lasted * size,
            "worker_seconds": lasted * self.work.workers,
            "memory_gib_seconds": lasted * self.work.workers * self.work.gib,
            "compute_seconds": compute,
            "transfer_seconds": compute * 0.05,
            "cpu_seconds": cpu,
            "noncpu_seconds": waiting,
            "serialize_seconds": serialize,
            "spill_seconds": spill,
            "overhead_seconds": overhead,
            "failed_seconds": occupied - compute - serialize - spill - overhead,
            "idle_seconds": lasted * size - occupied,
            "tasks": tasks,
            "tasks_erred": self.failed if self.has_errors(hour, until) else 0,
            "errors": self.failed if self.has_errors(hour, until) else 0,
            "retries": 0,
            "bytes": tasks * 15 * 2**20,
            "spilled_bytes": int(spill * 80 * 2**20),
            "workers": self.work.workers if hour == self.start // HOUR else 0,
            "functions": [
                {
                    "prefix": name,
                    "compute_seconds": compute * part,
                    "transfer_seconds": compute * part * 0.05,
                    "tasks": round(tasks * part),
                    "tasks_erred": 0,
                    "bytes": round(tasks * part) * 15 * 2**20,
                }
                for name in self.work.functions
            ],
        }

    def has_errors(self, hour, until):
        failed_at = self.computations[-1][1]
        return self.failed > 0 and failed_at <= until and hour == failed_at // HOUR

    def task_groups(self, until):
        work, size = self.work, self.work.workers * self.work.threads
        for at, (begin, end) in enumerate(self.computations):
            if begin > until:
                return
            done = min(end, until)
            compute = (done - begin) * size * self.density * sum(work.shares[:2])
            compute /= len(work.functions)
            is_last = at == len(self.computations) - 1 and end <= until
            total = round(compute / 8 * (end - begin) / max(1, done - begin)) + 1
            finished = total if end <= until else round(compute / 8)
            for name in work.functions:
                erred = min(self.failed, finished) if is_last and name in work.error else 0
                yield (
                    at,
                    {
                        "id": self.id(at, name),
                        "name": f"{name}-{uuid.uuid5(uuid.NAMESPACE_OID, self.id(at, name)).hex}",
                        "prefix": name,
                        "first_seen_at": begin,
                        "started_at": begin,
                        "stopped_at": done,
                        "states": {
                            "memory": finished - erred,
                            "erred": erred,
                            "processing": total - finished,
                        },
                        "tasks": total,
                        "tasks_succeeded": finished - erred,
                        "tasks_erred": erred,
                        "tasks_blamed": 0,
                        "durations": {"compute": compute, "transfer": compute * 0.05},
                        "bytes": finished * 15 * 2**20,
                        "types": ["pandas.core.frame.DataFrame"],
                    },
                )

    def samples(self, until):
        workers, first = self.work.workers, self.start + 20
        size, limit = workers * self.work.threads, workers * self.work.gib * GIB
        step = max(15, (self.end - self.start) / 60)
        times = [first + number * step for number in range(int((until - first) / step) + 1)]
        for at in [*times, until]:
            noise = random.Random(f"{self.identity} {at:.0f}").uniform(0.72, 1)
            busy = noise if any(begin <= at < end for begin, end in self.computations) else 0
            yield {
                "at": at,
                "metrics": {
                    "workers": workers,
                    "threads": size,
                    "tasks_processing": round(size * busy),
                    "tasks_memory": round(size * (busy or 1.7)),
                    "cpu_cores": size * busy * self.work.shares[0],
                    "memory_process_bytes": self.memory(busy),
                    "memory_limit_bytes": limit,
                },
            }

    def memory(self, busy):
        return round(self.work.workers * self.work.gib * GIB * (0.12 + 0.6 * busy))

    def errors(self, until):
        if not self.failed or self.computations[-1][1] > until:
            return
        kind, message, function, file = self.work.error
        at = self.computations[-1][1]
        place = f'  File "/home/{self.work.user}/{file}", line 84, in {function}'
        for number in range(self.failed):
            yield {
                "id": self.id("error", number),
                "at": at,
                "key": f"{function}-{number}",
                "task_group_id": self.id(len(self.computations) - 1, function),
                "computation_id": self.id(len(self.computations) - 1),
                "type": kind,
                "message": f"{kind}({message!r})",
                "traceback": f"{place}\n    raise {kind}({message!r})\n",
            }

    def report(self, until, is_final):
        work, size = self.work, self.work.workers * self.work.threads
        hours = range(int(self.start // HOUR), int(until // HOUR) + 1)
        usage = [self.hour(hour, until) for hour in hours]
        groups = list(self.task_groups(until))
        errors = list(self.errors(until))
        is_busy = any(begin <= until < end for begin, end in self.computations)
        ended = [end for _, end in self.computations if end <= until]
        workers = [
            {
                "id": self.id("worker", number),
                "name": f"worker-{number}",
                "address": f"tcp://10.0.{number // 250}.{number % 250}:40000",
                "threads": work.threads,
                "memory_limit_bytes": work.gib * GIB,
                "started_at": self.start + 20,
                **({"ended_at": until, "end": "closed"} if is_final else {}),
            }
            for number in range(work.workers)
        ]
        return {
            "version": 1,
            "scheduler_id": f"Scheduler-{self.id('scheduler')}",
            "sequence": int(until * 1000),
            "sent_at": until,
            "interval_seconds": INTERVAL,
            "final": is_final,
            "cluster": {
                "name": work.name,
                "started_at": self.start,
                "closed_at": until if is_final else None,
                "idle_since": None if is_busy else max(ended),
                "workers": 0 if is_final else work.workers,
                "threads": 0 if is_final else size,
                "memory_limit_bytes": work.workers * work.gib * GIB,
                "memory_used_bytes": self.memory(0.7 if is_busy else 0),
                "totals": {
                    "tasks": sum(group["tasks"] for _, group in groups),
                    "tasks_succeeded": sum(group["tasks_succeeded"] for _, group in groups),
                    "tasks_erred": sum(group["tasks_erred"] for _, group in groups),
                    "errors": len(errors),
                    "compute_seconds": sum(hour["compute_seconds"] for hour in usage),
                    "transfer_seconds": sum(hour["transfer_seconds"] for hour in usage),
                    "thread_seconds": sum(hour["thread_seconds"] for hour in usage),
                    "bytes": sum(group["bytes"] for _, group in groups),
                    "workers": work.workers,
                    "peak_workers": work.workers,
                    "peak_threads": size,
                },
            },
            "computations": [
                {
                    "id": self.id(at),
                    "started_at": begin,
                    "stopped_at": end if end <= until else None,
                    "state": self.state(
                        end, until, [group for number, group in groups if number == at]
                    ),
                    "task_group_ids": [group["id"] for number, group in groups if number == at],
                }
                for at, (begin, end) in enumerate(self.computations)
                if begin <= until
            ],
            "task_groups": [group for _, group in groups],
            "errors": errors,
            "workers": workers,
            "clients": [
                {
                    "id": f"Client-{self.id('client')}",
                    "connected_at": self.start,
                    "disconnected_at": until if is_final else None,
                }
            ],
            "thread_history": [{"at": self.start + 20, "threads": size}],
            "samples": list(self.samples(until)),
            "usage": usage,
        }

    @staticmethod
    def state(end, until, groups):
        if end > until:
            return "running"
        return "erred" if any(group["tasks_erred"] for group in groups) else "finished"


def past_runs(now):
    """Returns the clusters of the last days that have ended, the oldest first."""
    today = datetime.datetime.fromtimestamp(now // (24 * HOUR) * 24 * HOUR, datetime.UTC)
    runs = []
    for ago in range(DAYS):
        day = today - datetime.timedelta(days=ago)
        dice = random.Random(f"{day:%j}")
        for work in TEAM:
            for hour in work.starts:
                happens = dice.random() < work.chance[day.weekday() >= 5]
                start = day.timestamp() + hour * HOUR + dice.uniform(0, 3000)
                end = start + work.hours * HOUR * dice.uniform(0.75, 1.25)
                # Those who work by hand forget their cluster now and then.
                forgotten = dice.random() < 0.25 and work.busy < 0.55
                tail = HOUR * dice.uniform(1.5, 9) if forgotten else 0
                if happens and end + tail < now - 600:
                    runs.append(Run(work, start, end + tail, end))
    return sorted(runs, key=lambda run: run.start)


def live_runs(now):
    for name, user, started, idle in LIVE:
        work = next(work for work in TEAM if (work.name, work.user) == (name, user))
        start = now - started * HOUR
        if idle:
            yield Run(work, start, now, now - idle * HOUR)
        else:
            # Without a gap between its computations, it has work at any time.
            yield Run(work._replace(busy=1), start, now + 2 * HOUR)


def send(run, until, is_final, tokens):
    request = urllib.request.Request(
        f"{os.environ['DASK_GALVO__SERVER']}/api/v1/reports",
        json.dumps(run.report(until, is_final)).encode(),
        {"Authorization": f"Bearer {tokens[run.work.user]}", "Content-Type": "application/json"},
    )
    for _ in range(ATTEMPTS):
        try:
            urllib.request.urlopen(request, timeout=30).close()
            return
        except urllib.error.HTTPError as refusal:
            problem = f"{refusal.code} {refusal.read().decode()}"
            if refusal.code not in (429, 503):
                break
        except OSError as failure:
            problem = str(failure)
        time.sleep(INTERVAL)
    sys.exit(f"{run.identity}: {problem}")


def main():
    tokens = dict(pair.split("=", 1) for pair in os.environ["TEAM_TOKENS"].split())
    now = time.time()
    if len(sys.argv) == 1:
        runs = past_runs(now)
        # A scheduler that is killed sends no last report.
        killed = [run for run in runs if run.work.user == "yusuf"][-1]
        for run in runs:
            send(run, run.end, run is not killed, tokens)
        return
    runs, end = list(live_runs(now)), now + float(sys.argv[1])
    while time.time() < end:
        for run in runs:
            send(run, time.time(), False, tokens)
        time.sleep(INTERVAL)


if __name__ == "__main__":
    main()
