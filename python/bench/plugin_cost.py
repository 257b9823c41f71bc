"""Measures the plugin's cost: a scheduler's CPU time for tiny tasks, with and without it.

In each round two clusters that differ only in the plugin take turns with slices of the same tasks,
so that other load on the machine affects both. The time is that of the whole scheduler process,
from before the first slice until after the last, reports included.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from distributed import Client, wait
from processor_time import processor_seconds
from responder import Responder
from results import result

import galvo

LARGEST_RATIO = 1.05


def increment(x):
    return x + 1


class Cluster:
    """A scheduler, one worker with one thread, and a client, each in its own process."""

    def __init__(self, directory, name):
        self._file = Path(directory) / f"{name}.json"
        self._processes = []
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        for role, *options in (
            ("scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1"),
            ("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard"),
        ):
            with open(Path(directory) / f"{name}-{role}.log", "wb") as log:
                command = [sys.executable, "-m", "dask", role, "--scheduler-file", self._file]
                self._processes.append(
                    subprocess.Popen(
                        [*command, *options],
                        cwd=directory,
                        env=environment,
                        stdout=log,
                        stderr=log,
                    )
                )
            while role == "scheduler" and not self._file.exists():
                time.sleep(0.05)
        self.client = Client(scheduler_file=str(self._file), set_as_default=False)
        self.client.wait_for_workers(1)

    def run(self, tasks):
        futures = self.client.map(increment, range(tasks), pure=False)
        with self.client.as_current():
            wait(futures)
        for future in futures:
            future.release()

    def processor_seconds(self):
        """Returns the CPU seconds of the scheduler and of the worker, over all their threads."""
        return tuple(processor_seconds(process.pid) for process in self._processes)

    def close(self):
        self.client.close()
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                # A worker that has lost its scheduler may try to reach it forever.
                process.kill()
                process.wait()


def measure(directory, number, tasks, slices, server):
    """Returns the CPU seconds of both schedulers and workers: without the plugin, and with it."""
    with contextlib.ExitStack() as stack:
        clusters = []
        for name in ("without", "with"):
            clusters.append(Cluster(directory, f"{number}-{name}"))
            stack.callback(clusters[-1].close)
        galvo.register(
            clusters[1].client,
            server=server,
            token="a-token-of-this-benchmark",
            # The responder exchanges no tokens.
            ship_token=True,
        )
        for cluster in clusters:
            cluster.run(tasks // slices)  # one-time costs are no cost of tasks
        before = [cluster.processor_seconds() for cluster in clusters]
        for i in range(slices):
            # The order A, B, B, A, A, B … gives both the same mean position.
            for cluster in clusters if i % 2 == 0 else clusters[::-1]:
                cluster.run(tasks // slices)
        after = [cluster.processor_seconds() for cluster in clusters]
    return [
        tuple(late - early for early, late in zip(*times, strict=True))
        for times in zip(before, after, strict=True)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--slices", type=int, default=10)
    options = parser.parse_args()

    rounds = []
    with tempfile.TemporaryDirectory() as directory, Responder() as responder:
        for number in range(options.rounds):
            rounds.append(
                measure(directory, number, options.tasks, options.slices, responder.address)
            )
            (without, _), (with_plugin, _) = rounds[-1]
            print(
                f"  round {number + 1}: scheduler {without:.2f} s without,"
                f" {with_plugin:.2f} s with, ratio {with_plugin / without:.3f}",
                flush=True,
            )
        reports = len(responder.reports())
    if reports < options.rounds:
        sys.exit("the plugin has sent no reports")
    for process, aim in ((0, LARGEST_RATIO), (1, None)):
        seconds = [(round_[0][process], round_[1][process]) for round_ in rounds]
        ratios = [with_plugin / without for without, with_plugin in seconds]
        ratio = statistics.median(ratios)
        result(
            f"plugin cost, {('scheduler', 'worker')[process]}, {options.tasks:,} tasks",
            f"{statistics.median(s[1] for s in seconds):.2f} s processor"
            f" (ratios {min(ratios):.3f} to {max(ratios):.3f}, {len(rounds)} rounds)",
            f"{statistics.median(s[0] for s in seconds):.2f} s without the plugin",
            ratio,
            "" if aim is None else f"<= {aim}",
            None if aim is None else ratio <= aim,
        )


if __name__ == "__main__":
    main()
