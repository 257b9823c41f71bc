"""Tasks that fail, kill workers and consume memory, and workloads made of them.

A workload gets the client, and returns the futures that hold its results, or its result.
"""

import logging
import os
import signal
import time
from pathlib import Path

import dask
import dask.array
import tasks
from distributed import get_worker, wait

logger = logging.getLogger("turbine")


def occupy(started, end, words):
    """Logs a line, and runs until a file appears."""
    logger.warning(words)
    tasks.outlast(started, end)


def devour():
    eaten = []
    while True:
        eaten.append(bytearray(b"\1" * 20_000_000))
        time.sleep(0.02)


def kill_worker(words):
    logger.warning(words)
    time.sleep(0.3)  # log lines are sent immediately, but not in no time
    os.kill(os.getpid(), signal.SIGKILL)


def log_in(user, password):
    raise ConnectionError(f"{user} cannot log in: password={password}")


def announce(topic, number, password):
    get_worker().log_event(topic, {"number": number, "password": password})
    logger.warning("password=%s is what number %d logs in with", password, number)
    return number


def break_worker():
    """Makes the worker's state machine fail, like a defect in Dask."""
    worker = get_worker()
    worker.loop.add_callback(worker.handle_stimulus, None)
    time.sleep(30)


def ballast(megabytes, number):
    return os.urandom(megabytes * 2**20)


def occupation(client, workers, starts, end, words):
    """Submits an endless task for each of these files, each on a specific worker."""
    return [
        client.submit(occupy, started, end, words, workers=[address], pure=False)
        for address, started in zip(workers, starts)
    ]


def single_result(client, worker):
    held = client.submit(tasks.square, 12, workers=[worker])
    wait(held, timeout=60)
    return held


def gluttony(client, worker):
    return client.submit(devour, workers=[worker])


def lethal(client, words):
    future = client.submit(kill_worker, words)
    wait(future, timeout=120)
    exception = future.exception()
    return {
        "held": future,
        "key": future.key,
        "message": str(exception),
        "type": type(exception).__name__,
        "worker": exception.last_worker.address,
    }


def failings(client, attempts, reading, password):
    """Runs errors with and without retries, and one with a secret in its message."""
    held = tasks.failure(client, reading, stations=3)
    names = [str(Path(attempts) / name) for name in ("succeeds", "fails")]
    held.append(client.submit(tasks.succeed_at_last, names[0], 3, retries=5, key="patient"))
    held.append(client.submit(tasks.succeed_at_last, names[1], 99, retries=2, key="hopeless"))
    held.append(client.submit(log_in, "ada", password, key="log-in"))
    wait(held, timeout=60)
    return held


def announcements(client, topics, count, password):
    for topic in topics:
        futures = [
            client.submit(announce, topic, number, password, pure=False) for number in range(count)
        ]
        wait(futures, timeout=60)
        client.log_event(topic, {"number": count, "by": "client"})
    client.log_event(topics, {"number": count + 1})


def breakage(client, worker):
    return client.submit(break_worker, workers=[worker], retries=0)


def ballasts(client, workers, megabytes, count):
    held = []
    for number in range(count):
        worker = workers[number % len(workers)]
        held.append(client.submit(ballast, megabytes, number, workers=[worker]))
        wait(held, timeout=60)
    return held


def arrays(client):
    """Runs typical array operations, and a rechunking between workers."""
    x = dask.array.arange(90_000, chunks=7_500).reshape(300, 300)
    y = (x @ x.T).mean(axis=0).persist()
    wait(y, timeout=60)
    moved = dask.array.random.random((400, 400), chunks=(400, 20))
    with dask.config.set({"array.rechunk.method": "p2p", "optimization.fuse.active": False}):
        z = moved.rechunk((20, 400)).sum(axis=1).persist()
        wait(z, timeout=60)
    return [y, z]


def dataframes(client):
    """Runs a shuffle between workers, and an aggregation of its result."""
    import dask.dataframe
    import pandas

    frame = pandas.DataFrame({"name": range(4_000), "value": [n % 37 for n in range(4_000)]})
    with dask.config.set({"dataframe.shuffle.method": "p2p"}):
        shuffled = dask.dataframe.from_pandas(frame, npartitions=8).shuffle("value").persist()
        wait(shuffled, timeout=60)
        sums = shuffled.groupby("value").name.sum().compute()
    assert sums.sum() == sum(range(4_000))
    return shuffled
