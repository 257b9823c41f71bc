"""Tasks, and workloads made of them.

Clients, schedulers and workers can all import this module, so tasks travel as names: bytecode must
not, where the versions of Python differ.

A workload gets the client and returns the futures that keep its results, or what became of them.
"""

import os
import signal
import time
from pathlib import Path

import dask
import dask.array
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
    """Fails until it has been called so many times; the attempts are counted in a file."""
    with open(attempts, "a") as file:
        file.write(".")
    made = Path(attempts).stat().st_size
    if made < needed:
        raise OSError(f"attempt {made} of {needed}")
    time.sleep(0.02)
    return made


def glance(number):
    time.sleep(0.005)
    return [number] * 100


def kill_worker():
    os.kill(os.getpid(), signal.SIGKILL)


def outlast(started, end):
    """Makes one file and runs until another one appears."""
    Path(started).touch()
    while not Path(end).exists():
        time.sleep(0.05)


def wait_until_forgotten(client, prefix=""):
    """Waits until the scheduler knows no tasks of this prefix, or none at all."""
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
    """A task that fails, and others that need its result, as one graph."""
    bad = dask.delayed(fail, pure=True)(reading)
    summaries = [dask.delayed(summarise, pure=True)(bad, station) for station in range(stations)]
    return client.compute([bad, *summaries])


def mixture(client, attempts):
    """A bit of everything. Each part is waited for, so that it is a computation of its own."""
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

    x = dask.array.arange(40_000, chunks=5_000).reshape(200, 200)
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


def lethal(client):
    """A task that takes its worker along, as often as Dask lets it."""
    future = client.submit(kill_worker)
    wait(future, timeout=60)
    exception = future.exception()
    return {
        "held": [future],
        "key": future.key,
        "message": str(exception),
        "type": type(exception).__name__,
        "worker": exception.last_worker.address,
    }


def failure_of(client, reading, stations):
    held = failure(client, reading, stations)
    wait(held, timeout=60)
    return held


def failure_then_need(client):
    """A task that needs one that has failed already."""
    bad = client.submit(fail, 1)
    wait(bad, timeout=60)
    summary = client.submit(summarise, bad, 1)
    wait(summary, timeout=60)
    return [bad, summary]


def waves(client, until):
    """Keeps something of every kind happening until a file appears. Holds the last results."""

    def wave(first):
        held = failure(client, first, stations=1)
        held += client.map(square, range(first, first + 4))
        wait(held, timeout=60)
        client.gather(client.map(glance, range(first, first + 6)))
        wait_until_forgotten(client, "glance")
        return held

    first, held = 0, []
    while not Path(until).exists():
        # Groups that are still known would be used again, which Dask accounts for differently.
        held.clear()
        wait_until_forgotten(client)
        held = wave(first)
        first += 6
        time.sleep(0.1)
    return held


def failures(client, first, count):
    """Very many errors, forgotten at once."""
    wait(client.map(fail, range(first, first + count)), timeout=120)


def numbers(client, first, count):
    """Very many tasks that do next to nothing, forgotten at once."""
    expected = [str(number) for number in range(first, first + count)]
    assert client.gather(client.map(str, range(first, first + count))) == expected


def endless(client, started, end):
    """Something short, and a task that nothing but a file ends."""
    held = client.map(square, range(4))
    wait(held, timeout=60)
    held.append(client.submit(outlast, started, end))
    return held
