"""The client of ``client.py`` with further commands."""

import contextlib
import io
import json
import sys
import time

import client
import marked
import spanned


class StudyCommands(client.Commands):
    def study(self, workload, **options):
        """Runs a workload that returns its result, and holds its futures."""
        module = spanned if hasattr(spanned, workload) else marked
        outcome = getattr(module, workload)(self.client, **options)
        self.held.append(outcome.pop("held"))
        return outcome

    def dask_spans(self, tags):
        async def fetch():
            return await self.client.scheduler.dask_spans(tags=tags)

        return json.loads(self.client.sync(fetch))

    def dask_metrics(self):
        """Returns the fine metrics of all work until now, once workers have sent them.

        They do so with heartbeats, and not on closing: measurements since the last heartbeat are
        lost, for Dask, too.
        """
        requested_at = time.time()
        while True:
            fetched = self.client.sync(self.client.scheduler.dask_metrics)
            if fetched["complete_until"] > requested_at:
                return fetched["metrics"]
            if time.time() > requested_at + 30:
                raise TimeoutError("not all workers have sent a heartbeat")
            time.sleep(0.05)

    def dask_plugins(self):
        return self.client.sync(self.client.scheduler.dask_plugins)

    def dry_run(self):
        """Returns what a dry run prints, and the exact report that the command prints."""
        import galvo
        from galvo.command import main

        shown, report = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(shown):
            galvo.register(dry_run=True)
        with contextlib.redirect_stdout(report):
            assert main(["payload", self.client.scheduler.address, "--json"]) == 0
        return shown.getvalue(), report.getvalue()


if __name__ == "__main__":
    client.Commands = StudyCommands
    client.main(sys.argv[1])
