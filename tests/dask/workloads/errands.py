"""The client of ``client.py``, which also has the workloads of ``trouble.py``."""

import json
import sys
import time

import client
import trouble


class Errands(client.Commands):
    def trouble(self, workload, **options):
        outcome = getattr(trouble, workload)(self.client, **options)
        if not isinstance(outcome, dict):
            outcome = {"held": outcome}
        self.held.append(outcome.pop("held"))
        return outcome

    def let_go(self):
        """Cancels endless tasks."""
        for futures in self.held:
            self.client.cancel(futures)
        self.held.clear()

    def retire(self, worker):
        self.client.retire_workers([worker])

    def observed(self):
        return json.loads(self.client.sync(self.client.scheduler.observed))

    def sleep(self, seconds):
        time.sleep(seconds)

    def look(self, at, **arguments):
        """Returns the response of the observer's handler with that name."""
        ask = getattr(self.client.scheduler, f"observed_{at}")
        return json.loads(self.client.sync(ask, **arguments))


if __name__ == "__main__":
    client.Commands = Errands
    client.main(sys.argv[1])
