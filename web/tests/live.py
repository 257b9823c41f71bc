"""A Dask cluster that a test of the dashboard commands.

    DASK_GALVO__SERVER=http://127.0.0.1:8000 DASK_GALVO__TOKEN=… python web/tests/live.py

Each line of input is a command, and is answered with a line of JSON. The cluster closes at the end of the input.
"""

import json
import os
import sys
import tempfile
import time
from collections import Counter

import dask
import galvo
from distributed import Client, LocalCluster, wait
from distributed.diagnostics.plugin import SchedulerPlugin
from seed import exhaust_memory, parse_row

# Answers must not be mixed with the output of libraries.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def count_up(number):
    time.sleep(0.05)
    return number + 1


class Witness(SchedulerPlugin):
    """Dask's own numbers, counted independently of Galvo's plugin."""

    def __init__(self):
        self.succeeded, self.erred, self.compute = Counter(), Counter(), Counter()

    def transition(self, key, start, finish, *args, startstops=(), **kwargs):
        prefix = dask.utils.key_split(key)
        if (start, finish) == ("processing", "memory"):
            self.succeeded[prefix] += 1
            # The durations of Dask's task groups have no failed attempts either.
            for item in startstops:
                if item["action"] == "compute":
                    self.compute[prefix] += item["stop"] - item["start"]
        elif (start, finish) == ("processing", "erred"):
            self.erred[prefix] += 1


class Commands:
    def __init__(self, cluster, client):
        self.cluster, self.client, self.witness = cluster, client, Witness()
        cluster.scheduler.add_plugin(self.witness, name="witness")

    def register(self):
        galvo.register(self.client)

    def work(self):
        wait(self.client.map(count_up, range(40), pure=False))

    def fail(self):
        wait(self.client.submit(parse_row, 3))

    def kill(self):
        """Ends the process of a worker with the task that it runs."""
        wait(self.client.submit(exhaust_memory, 0))

    def numbers(self):
        """Returns the numbers of succeeded and failed tasks and the compute seconds, by function."""
        prefixes = {*self.witness.succeeded, *self.witness.erred}
        return {
            prefix: {
                "succeeded": self.witness.succeeded[prefix],
                "erred": self.witness.erred[prefix],
                "compute": self.witness.compute[prefix],
            }
            for prefix in prefixes
        }


def main():
    dask.config.set({"galvo.computation.interval": "1s"})
    # The first death of its worker fails a task.
    dask.config.set({"distributed.scheduler.allowed-failures": 0})
    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "512MiB"}
    with (
        LocalCluster(name="first", dashboard_address=None, processes=True, **settings) as cluster,
        Client(cluster) as client,
    ):
        commands = Commands(cluster, client)
        for line in sys.stdin:
            print(json.dumps(getattr(commands, line.strip())()), file=ANSWERS, flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        dask.config.set({"temporary-directory": directory})
        main()
