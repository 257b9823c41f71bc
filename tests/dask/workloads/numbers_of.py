"""Runs one case on a ``LocalCluster`` with nannies, and prints Dask's own numbers as JSON.

argv: CASE, and "tls" for encrypted comms or "clock=SECONDS" for a scheduler whose clock is off by
that amount. The scheduler counts by itself, without Galvo.
"""

import contextlib
import json
import logging
import os
import sys
import time

OFF = sum(float(one.partition("=")[2]) for one in sys.argv[1:] if one.startswith("clock="))
RIGHT = time.time
# Before Dask imports the function, and not in worker processes, whose clock is right.
if OFF and __name__ == "__main__":
    time.time = lambda: RIGHT() + OFF

import dask  # noqa: E402
import galvo  # noqa: E402
import psutil  # noqa: E402
from distributed import Client, LocalCluster, Security, wait  # noqa: E402


def slow(x, seconds):
    time.sleep(seconds)
    return x


def retire(client, cluster, numbers):
    """Each worker runs one task, and is retired right after it."""
    galvo.register(client)
    wait(client.map(slow, range(2), seconds=2.0, pure=False))
    numbers["computed"] = computed(cluster)
    cluster.scale(0)
    settle(cluster, 0)


def adaptive(client, cluster, numbers):
    """Workers start for tasks, and are removed when idle."""
    galvo.register(client)
    cluster.scale(0)
    settle(cluster, 0)
    cluster.adapt(minimum=0, maximum=2, interval="200ms", wait_count=1)
    wait(client.map(slow, range(6), seconds=0.8, pure=False), timeout=60)
    numbers["computed"] = computed(cluster)
    settle(cluster, 0)


def killed(client, cluster, numbers):
    """A worker dies in the middle of a task, which is not run again."""
    galvo.register(client)
    held = client.map(slow, range(2), seconds=60.0, pure=False)
    time.sleep(3.0)
    numbers["ran"] = 2 * 2.5  # at least
    with contextlib.suppress(Exception):
        client.run(os._exit, 1, nanny=False, on_error="ignore")
    client.cancel(held)
    time.sleep(0.5)


def churn(client, cluster, numbers):
    """Tasks of 27 functions, some longer than 15 s, while a worker dies and others retire."""
    galvo.register(client)
    cluster.scheduler.allowed_failures = 10
    cluster.scale(4)
    client.wait_for_workers(4)
    numbers["long_tasks"] = 2
    held = [client.submit(slow, n, 17.0, key=f"long-{n}") for n in range(2)]
    time.sleep(1.0)
    busy = {address for address, keys in client.processing().items() if keys}
    (idle, doomed) = sorted(set(cluster.scheduler.workers) - busy)
    short = [
        client.submit(slow, n, 0.1, key=f"function{chr(97 + n % 26)}-{n}", workers=[idle, doomed])
        for n in range(104)
    ]
    time.sleep(1.5)
    with contextlib.suppress(Exception):
        client.run(os._exit, 1, workers=[doomed], nanny=False, on_error="ignore")
    failing = client.submit(lambda x: 1 / x, 0, key="failing-0")
    # The nanny starts another worker, at another address: the idle one runs what is left.
    wait([*short, failing])
    client.retire_workers([idle], close_workers=True)
    wait(held)
    numbers["computed"] = computed(cluster)
    numbers["computed_by_prefix"] = {
        name: prefix.all_durations.get("compute", 0.0)
        for name, prefix in cluster.scheduler.task_prefixes.items()
    }
    cluster.scale(0)
    settle(cluster, 0)


def late(client, cluster, numbers):
    """Half of the work is done before the registration."""
    wait(client.map(slow, range(8), seconds=0.5, pure=False))
    time.sleep(1.0)
    before = computed(cluster)
    numbers["unobserved_at_least"] = thread_seconds(cluster)
    galvo.register(client)
    numbers["unobserved_at_most"] = thread_seconds(cluster)
    wait(client.map(slow, range(8), seconds=0.5, pure=False))
    numbers["computed"] = computed(cluster) - before
    numbers["computed_in_all"] = computed(cluster)


def computations(client, cluster, numbers):
    """Two calls with one function, whose tasks share a task group; then one with another."""
    galvo.register(client)
    first = client.map(slow, range(200), seconds=0.0, pure=False)
    wait(first)
    second = client.map(slow, range(40), seconds=0.0, pure=False)
    wait(second)
    failing = client.submit(lambda x: 1 / x, 0, pure=False)
    wait(failing)
    numbers["computed"] = computed(cluster)
    numbers["tasks"] = [200, 40, 1]
    numbers["erred"] = [0, 0, 1]
    time.sleep(1.0)
    del first, failing
    time.sleep(1.0)


def running(client, cluster, numbers):
    """A task is running during the query."""
    galvo.register(client)
    held = client.map(slow, range(2), seconds=6.0, pure=False)
    time.sleep(4.5)
    query = """{ viewer { account { clusters(first: 100) { nodes {
        schedulerId usage { threadSeconds unobservedSeconds idleSeconds causes { cause seconds } }
    } } } } }"""
    nodes = galvo.graphql(query)["viewer"]["account"]["clusters"]["nodes"]
    numbers["during"] = next(n for n in nodes if n["schedulerId"] == cluster.scheduler.id)["usage"]
    wait(held)
    numbers["computed"] = computed(cluster)


def clock(client, cluster, numbers):
    """Some tasks with a scheduler clock that is off."""
    before = time.monotonic()
    galvo.register(client)
    wait(client.map(slow, range(6), seconds=0.5, pure=False))
    time.sleep(1.0)
    numbers["computed"] = computed(cluster)
    numbers["at_least"] = time.monotonic() - before
    numbers["now"] = time.time()


def computed(cluster):
    """Returns the seconds that Dask has counted for succeeded tasks."""
    groups = cluster.scheduler.task_prefixes.values()
    return sum(prefix.all_durations.get("compute", 0.0) for prefix in groups)


def thread_seconds(cluster):
    """Returns the integral of the number of threads until now."""
    history = list(cluster.scheduler.total_nthreads_history)
    ends = [at for at, _ in history[1:]] + [time.time()]
    return sum(threads * (end - at) for (at, threads), end in zip(history, ends))


def settle(cluster, workers):
    """Waits for a number of workers, and until no process of another one is left."""
    deadline = time.monotonic() + 60
    while {len(cluster.scheduler.workers), len(cluster.workers), processes()} != {workers}:
        assert time.monotonic() < deadline, "the workers do not leave"
        time.sleep(0.05)
    time.sleep(0.5)


def processes():
    """Returns the number of worker processes, which end some time after Dask has forgotten them."""
    number = 0
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            number += "spawn_main" in " ".join(child.cmdline())
    return number


def main(case, *more):
    security = Security.temporary() if "tls" in more else None
    dask.config.set({"distributed.scheduler.allowed-failures": 0})
    options = {"threads_per_worker": 1, "dashboard_address": ":0"}
    options.update(security=security, silence_logs=logging.CRITICAL)
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
        numbers = {"scheduler_id": cluster.scheduler.id}
        globals()[case](client, cluster, numbers)
    print(json.dumps(numbers), flush=True)
    os._exit(0)  # without waiting for the processes of a killed worker


if __name__ == "__main__":
    main(*sys.argv[1:])
