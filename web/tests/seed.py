"""Fills a running server with real Dask clusters, for looking at the dashboard.

    DASK_GALVO__SERVER=http://127.0.0.1:8000 DASK_GALVO__TOKEN=… python web/tests/seed.py [SECONDS | bad]

The clusters: one that closed well, one of the same name later with a failing function, spilling, spans, a task
that logs more than its worker may send, and workers that die, several small ones, and with SECONDS one that keeps
running for so long. The clusters of the first name note the code of computations and have profiles.
"""

import logging
import os
import signal
import sys
import tempfile
import time

import dask
import numpy
from distributed import Client, LocalCluster, wait
from distributed import span as dask_span

MIB = 2**20


def repeat(seconds, compute):
    """Repeats a computation for so long, so that a run is alike on every machine."""
    end = time.monotonic() + seconds
    while True:
        result = compute()
        if time.monotonic() >= end:
            return result


def read_part(number, megabytes):
    time.sleep(0.15)
    return numpy.arange(megabytes * MIB // 8, dtype="float64") + number


def clean(part):
    return repeat(0.3, lambda: numpy.sqrt(numpy.abs(part)) + numpy.sin(part))


def join(left, right):
    return repeat(0.2, lambda: left[: right.size] + right[: left.size])


def add_powers(part):
    total = part
    for power in range(2, 6):
        total = total + part / power
    return total


def add_features(part):
    return repeat(0.7, lambda: add_powers(part))


def measure(part):
    return repeat(0.1, lambda: float(part.sum()))


def summarize(sums):
    return sum(sums)


def count_up(number):
    """Holds the GIL, as pure Python code does."""
    total = 0
    for value in range(10_000):
        total += value * number
    return total


def python_loop(number):
    return repeat(2.0, lambda: count_up(number))


def parse_row(number):
    if number % 7 == 3:
        raise ValueError(f"row {number} has 3 columns, 4 expected")
    return number


def log_lines(lines):
    """Logs faster than a worker may send: 200 lines in ten seconds."""
    for line in range(lines):
        logging.getLogger("distributed.worker").info("row group %d of %d", line, lines)


def exhaust_memory(number):
    """Ends its process, as the operating system's memory killer does."""
    os.kill(os.getpid(), signal.SIGKILL)


def cluster(name, workers, threads, memory):
    """Starts a cluster whose scheduler reports."""
    dask.config.set({"galvo.computation.interval": "1s", "distributed.worker.memory.target": 0.4})
    # The others show a page without a profile.
    dask.config.set(
        {"galvo.profile.transmit": name == "features-daily", "galvo.profile.interval": "5s"}
    )
    return LocalCluster(
        name=name,
        n_workers=workers,
        threads_per_worker=threads,
        memory_limit=memory,
        dashboard_address=None,
        processes=True,
        scheduler_kwargs={"preload": ["galvo"]},
    )


def pipeline(client, parts, megabytes):
    dask.config.set({"distributed.diagnostics.computations.nframes": 2})
    with dask_span("features-daily"):
        with dask_span("load"):
            read = client.map(read_part, range(parts), megabytes=megabytes, pure=False)
            cleaned = client.map(clean, read)
            wait(cleaned)
        with dask_span("join"):
            joined = client.map(join, cleaned, cleaned[1:] + cleaned[:1])
            wait(joined)
        with dask_span("features"):
            featured = client.map(add_features, joined)
            total = client.submit(summarize, client.map(measure, featured))
            wait(total)
    return total


def pipelines(client, parts, megabytes):
    end = time.monotonic() + float(os.environ.get("FEATURES_SECONDS", "0"))
    pipeline(client, parts, megabytes).result()
    while time.monotonic() < end:
        wait(client.map(python_loop, range(24), pure=False))
        pipeline(client, parts, megabytes).result()


def good_run():
    with cluster("features-daily", 3, 2, "1GiB") as local, Client(local) as client:
        pipelines(client, 24, 16)
        time.sleep(3)


def bad_run():
    # The first death of its worker fails a task, so that each ends one worker only.
    dask.config.set({"distributed.scheduler.allowed-failures": 0})
    with cluster("features-daily", 3, 2, "450MiB") as local, Client(local) as client:
        pipelines(client, 30, 24)
        wait(client.submit(log_lines, 500))
        wait(client.map(python_loop, range(36)))
        wait(client.map(parse_row, range(40)))
        for number in range(2):
            wait(client.submit(exhaust_memory, number, retries=0))
            wait(
                client.map(clean, client.map(read_part, range(12), megabytes=8, pure=False)),
                timeout=60,
            )
        client.log_event("release", {"version": "2026.11.1", "step": "deploy"})
        time.sleep(4)


def small_run(name, tasks):
    dask.config.set({"distributed.diagnostics.computations.nframes": 0})
    with cluster(name, 1, 2, "512MiB") as local, Client(local) as client:
        wait(client.map(python_loop, range(tasks)))
        time.sleep(1.5)


def live_run(seconds):
    end = time.monotonic() + seconds
    with cluster("notebook", 2, 2, "1GiB") as local, Client(local) as client:
        while time.monotonic() < end:
            parts = client.map(read_part, range(8), megabytes=8, pure=False)
            client.submit(summarize, client.map(measure, client.map(clean, parts))).result()
            client.submit(log_lines, 1, pure=False).result()
            time.sleep(4)


def main():
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        dask.config.set({"temporary-directory": directory})
        if sys.argv[1:] == ["bad"]:
            bad_run()
        elif len(sys.argv) > 1:
            live_run(float(sys.argv[1]))
        else:
            good_run()
            for name in ("sensor-hourly", "adhoc-lidar", "sim-mesh"):
                small_run(name, 4)
            bad_run()


if __name__ == "__main__":
    # Functions of a module keep their source lines in tracebacks, those of `__main__` do not.
    import seed

    seed.main()
