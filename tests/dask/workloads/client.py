"""A client that executes commands: one command per line of input, one response per line of output.

Both are JSON: ``{"command": "release", "arguments": {}}`` is answered with ``null``.
"""

import json
import os
import sys
import time
import warnings

# Responses must not be mixed with the output of libraries.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import tasks  # noqa: E402
from distributed import Client, wait  # noqa: E402


class Commands:
    def __init__(self, client):
        self.client = client
        self.held = []

    def register_with_galvo(self):
        import galvo

        galvo.register()

    def try_to_register(self, package="galvo", **arguments):
        """Returns the number and the warnings, or the name of an exception and its message."""
        import galvo

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if package == "galvo":
                    number = galvo.register(**arguments).number
                else:
                    number = self.register_with_coiled()
            except Exception as error:
                return [type(error).__name__, str(error)]
        return [number, [str(one.message) for one in caught if "galvo" in str(one.message)]]

    def unregister_galvo(self):
        # Not all releases of Dask offer this to clients.
        self.client.run_on_scheduler(
            lambda dask_scheduler: dask_scheduler.remove_plugin(name="galvo")
        )

    def register_with_coiled(self):
        import coiled.analytics

        coiled.analytics.register()

    def wait_for_workers(self, count):
        self.client.wait_for_workers(count, timeout=60)

    def run(self, workload, **options):
        """Runs a workload, holds its futures, and returns its duration and result."""
        begun = time.perf_counter()
        outcome = getattr(tasks, workload)(self.client, **options)
        seconds = time.perf_counter() - begun
        if not isinstance(outcome, dict):
            outcome = {"held": outcome}
        self.held.append(outcome.pop("held"))
        return {"seconds": seconds, **outcome}

    def wait_for_held(self):
        wait(self.held, timeout=60)

    def restart(self):
        self.client.restart(timeout=60)

    def release(self):
        self.held.clear()
        tasks.wait_until_forgotten(self.client)

    def dask_report(self):
        report = json.loads(self.client.sync(self.client.scheduler.dask_report))
        return {**report, "dashboard": self.client.dashboard_link}

    def idle(self):
        """Returns the scheduler's identifier, and the start of its idleness."""
        return self.client.run_on_scheduler(
            lambda dask_scheduler: [dask_scheduler.id, dask_scheduler.idle_since]
        )

    def footprint(self):
        return self.client.sync(self.client.scheduler.galvo_footprint)

    def shutdown(self):
        self.client.shutdown()


def main(scheduler_file):
    with Client(scheduler_file=scheduler_file, timeout=60) as client:
        commands = Commands(client)
        for line in sys.stdin:
            order = json.loads(line)
            answer = getattr(commands, order["command"])(**order["arguments"])
            print(json.dumps(answer), file=ANSWERS, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
