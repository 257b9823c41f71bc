"""Tasks, and workloads made of them.

Clients, schedulers and workers can all import this module, so tasks are pickled by name: bytecode
must not be pickled between different versions of Python. A workload gets the client, and returns
the futures that hold its results, or its result.
"""

import os
import signal
import time
from pathlib import Path

import dask
from distributed import wait


def square(number):
    time.sleep(0.02)
    return number * number


def add(left, right):
    time.sleep(0.005)
    return left + right


def fail(reading):
    raise ValueError(f"no station sends a reading of {reading!r}")


def summarise(reading, station):
    return reading, station


def succeed_at_last(attempts, needed):
    """Fails until it has been called ``needed`` times; the attempts are counted in a file."""
    with open(attempts, "a") as file:
        file.write(".")
    attempt = Path(attempts).stat().st_size
    if attempt < needed:
        raise OSError(f"attempt {attempt} of {needed}")
    time.sleep(0.02)
    return attempt


def glance(number):
    time.sleep(0.005)
    return [number] * 100


def kill_worker():
    os.kill(os.getpid(), signal.SIGKILL)


def outlast(started, end):
    """Creates one file, and runs until another one appears."""
    Path(started).touch()
    while not Path(end).exists():
        time.sleep(0.05)


def wait_until_forgotten(client, prefix=""):
    """Waits until the scheduler has no tasks with this prefix, or none at all."""
    deadline = time.monotonic() + 30
    while any(key.startswith(prefix) for key in client.sync(client.scheduler.dask_tasks)):
        if time.monotonic() > deadline:
            raise TimeoutError("the scheduler does not forget tasks that nobody needs")
        time.sleep(0.02)


def squares(client, first, count):
    held = client.map(square, range(first, first + count))
    wait(held, timeout=60)
    return held


def failure(client, reading, stations):
    """Submits a task that fails, and others that need its result, as one graph."""
    bad = dask.delayed(fail, pure=True)(reading)
    summaries = [dask.delayed(summarise, pure=True)(bad, station) for station in range(stations)]
    return client.compute([bad, *summaries])


def mixture(client, attempts):
    """Runs tasks of every kind: successes, sums, arrays, failures, retries and scattered data.

    It waits for each part, so that each is a separate computation.
    """
    held = []

    def hold(*futures):
        wait(list(futures), timeout=60)
        held.extend(futures)

    def take_glances(first):
        client.gather(client.map(glance, range(first, first + 5)))
        wait_until_forgotten(client, "glance")

    hold(*client.map(square, range(16)))
    sums = list(held)
    while len(sums) > 1:
        sums = [dask.delayed(add, pure=True)(*pair) for pair in zip(sums[::2], sums[1::2])]
    hold(client.compute(sums[0]))
    assert held[-1].result() == sum(number * number for number in range(16))

    from dask import array  # not all environments have NumPy

    x = array.arange(40_000, chunks=5_000).reshape(200, 200)
    y = (x + x.T).sum(axis=0).persist()
    wait(y, timeout=60)
    held.append(y)
    assert y.sum().compute() == 2 * sum(range(40_000))

    take_glances(0)
    take_glances(5)

    hold(*failure(client, 1e9, stations=3))

    hold(client.submit(succeed_at_last, attempts, 3, retries=5))
    assert held[-1].result() == 3

    hold(*client.scatter([list(range(1_000))]))
    take_glances(10)
    return held


def nanny_status(dask_worker):
    return dask_worker.status.name


def lethal(client):
    """Submits a task that kills its worker, as often as Dask allows."""
    # A nanny whose worker dies at once takes it for one that cannot start, and ends.
    while {"running"} != set(client.run(nanny_status, nanny=True).values()):
        time.sleep(0.05)
    future = client.submit(kill_worker)
    wait(future, timeout=60)
    exception = future.exception()
    return {
        "held": [future],
        "key": future.key,
        "message": str(exception),
        "type": type(exception).__name__,
        "worker": exception.last_worker.address,
        # The number of attempts on workers that died, as Dask counts it.
        "attempts": client.run_on_scheduler(suspicious, future.key),
    }


def suspicious(key, dask_scheduler):
    return dask_scheduler.tasks[key].prefix.suspicious


def failure_of(client, reading, stations):
    held = failure(client, reading, stations)
    wait(held, timeout=60)
    return held


def failure_then_need(client):
    """Submits a task that needs one that has already failed."""
    bad = client.submit(fail, 1)
    wait(bad, timeout=60)
    summary = client.submit(summarise, bad, 1)
    wait(summary, timeout=60)
    return [bad, summary]


def waves(client, until):
    """Keeps activity of every kind running until a file appears. Holds the last results."""

    def wave(first):
        held = failure(client, first, stations=1)
        held += client.map(square, range(first, first + 4))
        wait(held, timeout=60)
        client.gather(client.map(glance, range(first, first + 6)))
        wait_until_forgotten(client, "glance")
        return held

    first, held = 0, []
    while not Path(until).exists():
        # Dask would reuse existing groups, and counts their tasks differently.
        held.clear()
        wait_until_forgotten(client)
        held = wave(first)
        first += 6
        time.sleep(0.1)
    return held


def failures(client, first, count):
    """Runs very many errors, which are forgotten at once."""
    wait(client.map(fail, range(first, first + count)), timeout=120)


def numbers(client, first, count):
    """Runs very many tiny tasks, which are forgotten at once."""
    expected = [str(number) for number in range(first, first + count)]
    assert client.gather(client.map(str, range(first, first + count))) == expected


def endless(client, started, end):
    """Runs something short, and a task that ends only when a file appears."""
    held = client.map(square, range(4))
    wait(held, timeout=60)
    held.append(client.submit(outlast, started, end))
    return held
