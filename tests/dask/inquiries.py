"""Clusters whose client queries Galvo about them with the Python package."""

import re
import subprocess

from conftest import settings_for
from observed import ObservedCluster
from processes import WORKLOADS, Client, dask_environment, wait_until
from stores import member

ANNOUNCED = 65  # of each of two topics, which together exceed a page
TOPICS = ["scores", "other"]


class Inquiry:
    """A cluster whose client queries Galvo about it, alone in its account."""

    def __init__(self, processes, python, galvo, name):
        galvo = member(galvo, re.sub(r"\W+", "-", name)[-40:].strip("-_"))
        self.galvo, self.processes, self.python = galvo, processes, python
        self.settings = settings_for(galvo.address, galvo.token)
        self.dask = ObservedCluster(processes, python, galvo.address, galvo.token)
        for name in ("first", "second"):
            self.dask.add_worker(name)
        self.client = processes.start(
            "client",
            [python, WORKLOADS / "analyst.py", self.dask.dask.scheduler_file],
            dask_environment(processes.directory, self.settings),
            kind=Client,
        )
        self.client.call("wait_for_workers", count=2)

    def work(self):
        """Runs failing tasks with retries, events, and a successful computation."""
        directory = self.processes.directory
        options = {"attempts": str(directory), "reading": 1e9, "password": "sesame"}
        self.client.call("trouble", workload="failings", **options)
        self.client.call("run", workload="squares", first=0, count=10)
        self.before = self.client.call("dask_report")
        self.announce(TOPICS, ANNOUNCED)
        self.report = self.client.call("dask_report")
        return self

    def announce(self, topics, count):
        """Runs tasks that log an event and a line of their worker's log."""
        options = {"topics": topics, "count": count, "password": "x"}
        self.client.call("trouble", workload="announcements", **options)

    def wait_for_row(self):
        """Returns the cluster's row, once Galvo has everything that Dask knows."""

        prefixes = self.report["prefixes"].values()
        done = sum(prefix["state_counts"].get("memory", 0) for prefix in prefixes)
        expected = (done, len(self.report["errors"]))

        def look():
            for row in self.call_function("list_clusters"):
                totals = row["totals"]
                if (totals["tasksSucceeded"], totals["errors"]) == expected:
                    return row

        row = wait_until(look, "Galvo knows of all tasks")
        # An event with both topics is stored under each.
        events = sum(len(self.events(topic)) for topic in TOPICS)
        wait_until(
            lambda: len(self.call_function("list_events", mine=True, topics=TOPICS)) == events,
            "Galvo knows of all events",
        )
        return row

    def events(self, topic):
        return self.client.call("look", at="events", topic=topic)

    def call_function(self, function, **arguments):
        answer = self.client.call("call_function", function=function, **arguments)
        assert answer["warnings"] == []
        return answer["rows"]

    def start(self, *arguments):
        """Starts ``python -m galvo`` with this cluster's settings."""
        command = [self.python, "-m", "galvo", *map(str, arguments)]
        environment = dask_environment(self.processes.directory, self.settings)
        return self.processes.start(arguments[0], command, environment)

    def run(self, *arguments, token=None):
        """Runs ``python -m galvo`` to its end, with another token if given."""
        settings = {**self.settings, "galvo.token": token or self.galvo.token}
        return subprocess.run(
            [self.python, "-m", "galvo", *map(str, arguments)],
            env=dask_environment(self.processes.directory, settings),
            cwd=self.processes.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
