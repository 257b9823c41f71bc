"""A program with its own cluster that it never closes: ``script.py threads|processes END``.

It prints its scheduler. Its tasks end after the first report, so the last one contains them.
"""

import os
import signal
import sys
import threading
import time
from contextlib import suppress

import dask
import galvo
import tasks
from distributed import Client, LocalCluster, wait


def compute(client):
    """Computes squares, and returns a failed task."""
    squares = client.map(tasks.square, range(20))
    wait(squares)
    failed = client.submit(tasks.fail, 17)
    wait(failed)
    return failed


def interrupt(scheduler):
    """Interrupts a partly finished computation like a user, and runs another one."""
    # Shells start background processes with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def lose_patience():
        while not any(group.states["memory"] for group in list(scheduler.task_groups.values())):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    with suppress(KeyboardInterrupt):
        threading.Thread(target=lose_patience, daemon=True).start()
        dask.compute([dask.delayed(time.sleep)(0.5 + number / 1000) for number in range(60)])
    time.sleep(1)  # running tasks finish


def main(workers, end):
    cluster = LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=workers == "processes",
        dashboard_address="127.0.0.1:0",
    )
    client = Client(cluster)
    galvo.register()
    print(cluster.scheduler.id, flush=True)
    if end == "interruption":
        interrupt(cluster.scheduler)
    failed = compute(client)
    if end == "exception":
        failed.result()


if __name__ == "__main__":
    main(*sys.argv[1:])
