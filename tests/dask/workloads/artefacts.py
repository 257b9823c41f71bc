"""Creates files to import, and prints Dask's own data about the same work.

Run with a directory, it creates a performance report and a cluster dump in both formats there.
"""

import json
import sys
import time
from pathlib import Path

import dask
from distributed import Client, LocalCluster, get_worker, performance_report, wait

NUMBERS, WAITS = 20, 3


def square(number):
    time.sleep(0.02)
    return number * number


def total(*numbers):
    return sum(numbers)


def measure(reading):
    if reading == 3:
        raise ValueError(f"no station sends a reading of {reading}, password=sesame")
    return reading


def count_up():
    return sum(number for number in range(10_000))


def linger(number):
    end = time.time() + 0.6
    while time.time() < end:
        count_up()
    get_worker().log_event("scores", {"number": number})
    return number


def span(name):
    try:
        from distributed import span
    except ImportError:
        from distributed.spans import span
    return span(name)


def groups_of(dask_scheduler):
    return {
        name: {
            "prefix": group.prefix.name,
            "states": {state: n for state, n in group.states.items() if n},
            "tasks": len(group),
            "durations": dict(group.all_durations),
            "bytes": group.nbytes_total,
            "types": sorted(group.types),
            "start": group.start,
            "stop": group.stop,
            "dependencies": sorted(other.name for other in group.dependencies),
        }
        for name, group in dask_scheduler.task_groups.items()
    }


def scheduler_of(dask_scheduler):
    return {
        "address": dask_scheduler.address,
        "started": dask_scheduler.time_started,
        "clients": sorted(set(dask_scheduler.clients) - {"fire-and-forget"}),
        "workers": {
            state.address: {
                "id": state.server_id,
                "name": str(state.name),
                "threads": state.nthreads,
                "memory_limit": state.memory_limit,
            }
            for state in dask_scheduler.workers.values()
        },
    }


def logs_of(dask_worker):
    return [line for _, line in dask_worker.get_logs()]


def work(client, other):
    """Submits successful tasks, a failing one and one that depends on it, in a span and from two
    clients.
    """
    squares = client.map(square, range(NUMBERS))
    with span("readings"):
        readings = client.map(measure, range(4))
        late = client.submit(total, *readings)
    futures = [client.submit(total, *squares), *client.map(linger, range(WAITS))]
    futures.append(other.submit(square, 100, key="square-100"))
    wait([*squares, *futures[:-1], *readings, late])
    futures[-1].result()
    assert client.gather(futures[0]) == sum(n * n for n in range(NUMBERS))
    failed = readings[3]
    return [*squares, *futures, *readings, late], failed


def main(directory):
    settings = {
        "distributed.scheduler.dashboard.tasks.task-stream-length": 10_000,
        # The thread of coiled's gilknocker can abort an exiting process.
        "distributed.admin.system-monitor.gil.enabled": False,
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
        Client(cluster.scheduler_address, set_as_default=False) as other,
    ):
        client.wait_for_workers(2)
        started = time.time()
        # The code in this block is the code that the report shows.
        with performance_report(filename=str(directory / "report.html")):
            # Workers use their estimate of the scheduler's clock, and a report leaves out what
            # ended before it started by that estimate.
            time.sleep(1.0)
            futures, failed = work(client, other)
            # Workers add a second of their profile at once.
            time.sleep(2.2)
            # Creating the page takes its own time.
            lasted = time.time() - started
        stream = client.get_task_stream(start=started)
        for format in ("msgpack", "yaml"):
            client.dump_cluster_state(str(directory / "dump"), format=format)
        recorded = {
            "groups": client.run_on_scheduler(groups_of),
            "scheduler": client.run_on_scheduler(scheduler_of),
            "logs": client.run(logs_of),
            "failed": failed.key,
            "exception": repr(failed.exception()),
            "started": started,
            "lasted": lasted,
            "stream": [
                {
                    "key": str(one["key"]),
                    "worker": one["worker"],
                    "thread": one["thread"],
                    "status": one["status"],
                    "startstops": [dict(item) for item in one["startstops"]],
                }
                for one in stream
            ],
        }
        del futures
    (directory / "recorded.json").write_text(json.dumps(recorded))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
