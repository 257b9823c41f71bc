"""Clusters with an observer in their scheduler, and Galvo's data about their workers.

``workloads/observer.py`` provides Dask's own account.
"""

import os
import shutil
import subprocess
import uuid
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from accounts import everything, seconds
from conftest import settings_for
from processes import WORKLOADS, Client, DaskCluster, dask_environment, wait_until

WORKERS = """
query ($id: ID!, $after: String) { cluster(id: $id) {
list: workers(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes {
    daskId number name address host threads memoryLimit startedAt endedAt
    environment { python executable os osRelease machine packages { name version } }
    end { at kind processingKeys processing lostResults lastMemory lastMemoryShare lastSeenAt }
  }
} } }
"""

LOGS = """
query ($id: ID!, $after: String) { cluster(id: $id) {
list: logs(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes { at source worker workerId level logger message repeated }
} } }
"""

EVENTS = """
query ($id: ID!, $after: String) { cluster(id: $id) {
list: events(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes { at topic workerId data }
} } }
"""


class ObservedCluster:
    """A scheduler that reports to Galvo and is observed. The test starts the workers."""

    def __init__(self, processes, python, address, token, settings=None):
        self.processes = processes
        self.python = python
        self.dask = DaskCluster(
            processes,
            python,
            preloads=[WORKLOADS / "observer.py", "galvo"],
            settings={**settings_for(address, token), **(settings or {})},
            workers=0,
        )

    def add_worker(self, name, threads=1, memory="1GiB", nanny=False):
        arguments = [self.python, "-m", "distributed.cli.dask_worker"]
        arguments += ["--scheduler-file", self.dask.scheduler_file, "--name", name]
        arguments += ["--nthreads", threads, "--memory-limit", memory, "--no-dashboard"]
        arguments += ["--nanny" if nanny else "--no-nanny"]
        environment = dask_environment(self.processes.directory, {})
        process = self.processes.start(f"worker-{name}", arguments, environment)
        self.dask.workers.append(process)
        return process

    def client(self, python=None):
        """Starts a client, once all workers have joined."""
        client = self.processes.start(
            "client",
            [python or self.python, WORKLOADS / "errands.py", self.dask.scheduler_file],
            dask_environment(self.processes.directory, {}),
            kind=Client,
        )
        client.call("wait_for_workers", count=len(self.dask.workers))
        return client


def observe(client, condition, what):
    """Returns the observer's data once it meets the condition."""
    observed = None

    def look():
        nonlocal observed
        observed = client.call("observed")
        return condition(observed)

    wait_until(look, what, 40)
    return observed


def ended(name):
    return lambda observed: worker_named(observed, name)["ended"] is not None


def worker_named(observed, name):
    """Returns the latest worker with that name."""
    return [worker for worker in observed["workers"] if worker["name"] == name][-1]


def workers_of(galvo, observed):
    """Returns Galvo's data about workers, in the order they joined."""
    return [
        {**node, "started": seconds(node["startedAt"]), "ended": seconds(node["endedAt"])}
        for node in everything(galvo, WORKERS, observed["scheduler_id"])
    ]


def environment_of(versions, executable=None):
    host = versions["host"]
    return {
        "python": host["python"],
        "executable": executable,
        "os": host["OS"],
        "osRelease": host["OS-release"],
        "machine": host["machine"],
        "packages": dict(versions["packages"]),
    }


def plain_environment(environment):
    packages = {package["name"]: package["version"] for package in environment["packages"]}
    return {**environment, "packages": packages}


def assert_intervals(galvo, observed):
    """Asserts that Galvo has the same workers, each with the same start and end."""
    found = workers_of(galvo, observed)
    keys = ("daskId", "name", "address", "host", "threads", "memoryLimit")
    assert [{key: worker[key] for key in keys} for worker in found] == [
        {
            "daskId": worker["id"],
            "name": worker["name"],
            "address": worker["address"],
            "host": worker["host"],
            "threads": worker["threads"],
            "memoryLimit": worker["limit"],
        }
        for worker in observed["workers"]
    ]
    assert [worker["number"] for worker in found] == [*range(1, len(found) + 1)]
    for mine, theirs in zip(found, observed["workers"], strict=True):
        # The hooks of two plugins run one after the other.
        assert mine["started"] == near(theirs["started"])
        assert mine["ended"] == near(theirs["ended"])
        assert (mine["end"] is None) == (theirs["ended"] is None)
        if mine["end"] is not None:
            assert mine["end"]["at"] == mine["endedAt"]
    return found


def near(time):
    return None if time is None else pytest.approx(time, rel=0, abs=0.25)


@contextmanager
def postgres_database():
    """Yields the URL of an empty database on PostgreSQL."""
    admin = os.environ.get("GALVO_TEST_DATABASE_URL")
    assert admin, "GALVO_TEST_DATABASE_URL is not set: scripts/with-services.sh sets it"
    candidates = [shutil.which("psql"), *Path("/usr/lib/postgresql").glob("*/bin/psql")]
    psql = next((candidate for candidate in candidates if candidate), None)
    assert psql, "psql is missing: install PostgreSQL's client"
    name = f"galvo_dask_{uuid.uuid4().hex}"

    def run_sql(statement):
        command = [psql, "--no-psqlrc", "--quiet", "--dbname", admin, "--command", statement]
        subprocess.run(command, check=True)

    run_sql(f"CREATE DATABASE {name}")
    try:
        yield urlsplit(admin)._replace(path=f"/{name}").geturl()
    finally:
        run_sql(f"DROP DATABASE {name} WITH (FORCE)")
