"""Fixtures for fault tests: separate servers, a seeded random generator, and a results file.

``FAULTS_SEED`` repeats a run, ``FAULTS_LENGTH`` makes it longer, and ``FAULTS_RESULTS`` names the
file to which outcomes are appended, one line of JSON each.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "dask"))

from processes import Processes

from databases import Postgres, Redis, make_template
from ledger import judge
from reporters import Fleet
from servers import Server
from wires import Wire

STORES = ["sqlite", "postgres"]
SEED = "FAULTS_SEED"


def pytest_configure(config):
    # SIGTERM does not tear down fixtures, and processes would remain.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Parallel test processes get it from their parent.
    os.environ.setdefault(SEED, str(random.SystemRandom().randrange(1_000_000)))


def pytest_report_header(config):
    return f"{SEED}={os.environ[SEED]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for owner in item.funcargs.values():
            if isinstance(owner, Processes):
                for name, log in owner.logs():
                    report.sections.append((f"end of {name}'s log", log[-4000:]))
    return report


@pytest.fixture
def dice(request):
    return random.Random(f"{os.environ[SEED]} {request.node.name}")


@pytest.fixture
def length():
    """The factor for repetitions and waiting times."""
    return float(os.environ.get("FAULTS_LENGTH", "1"))


@pytest.fixture
def processes(tmp_path):
    processes = Processes(tmp_path)
    yield processes
    processes.kill_all()


@pytest.fixture(scope="session")
def postgres_template(tmp_path_factory):
    return make_template(tmp_path_factory.mktemp("postgres") / "template")


@pytest.fixture
def make_postgres(postgres_template, processes, tmp_path):
    """Starts a PostgreSQL server that ends with the test."""

    def make(**settings):
        directory = postgres_template.parent / f"{tmp_path.name}-{time.monotonic_ns()}"
        return Postgres.made_from(postgres_template, processes, directory, settings).start()

    yield make
    processes.kill_all()
    for directory in postgres_template.parent.glob(f"{tmp_path.name}-*"):
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def postgres(make_postgres):
    return make_postgres()


@pytest.fixture
def make_redis(processes, tmp_path):
    return lambda: Redis(processes, tmp_path).start()


@pytest.fixture
def make_wire():
    """Starts a network that ends with the test."""
    wires = []

    def make(*targets, **options):
        wires.append(Wire(*targets, **options))
        return wires[-1]

    yield make
    for wire in wires:
        wire.close()


@pytest.fixture
def make_server(processes):
    def make(database_url, port=0, environment=None, **settings):
        settings = {name.replace("_", "-"): value for name, value in settings.items()}
        return Server(processes, database_url, settings, environment, port)

    return make


@pytest.fixture(params=STORES)
def store(request):
    return request.param


@pytest.fixture
def database_url(request, store, tmp_path):
    """Returns the URL of an empty store."""
    if store == "sqlite":
        return f"sqlite://{tmp_path}/galvo.db?mode=rwc"
    return request.getfixturevalue("postgres").make_database()


@pytest.fixture
def server(make_server, database_url):
    return make_server(database_url).start()


@pytest.fixture
def make_fleet(dice):
    """Starts reporters that end with the test."""
    fleets = []

    def make(server, **options):
        fleets.append(Fleet(server, dice, **options).start())
        return fleets[-1]

    yield make
    for fleet in fleets:
        for reporter in fleet.reporters:
            reporter.ask_to_stop()


class Outcome:
    """Records the outcome of a fault."""

    def __init__(self, store):
        self._store = store

    def judge(self, fleet, server):
        """Asserts that all acknowledged reports are stored exactly once, and none partially."""
        verdict = judge(fleet, server)
        assert not verdict.differences, str(verdict)
        assert verdict.lost == 0 and verdict.acknowledged > 0
        return verdict

    def write(self, fault, verdict, recovery=None, store=None, note=""):
        """Writes a row of results. ``recovery`` is in seconds."""
        row = {
            "fault": fault,
            "store": store or self._store,
            "acknowledged": verdict.acknowledged,
            "facts": verdict.facts,
            "lost": verdict.lost,
            "recovery_seconds": recovery,
            "note": note,
        }
        print(json.dumps(row))
        if results := os.environ.get("FAULTS_RESULTS"):
            with open(results, "a") as file:
                file.write(json.dumps(row) + "\n")


@pytest.fixture
def outcome(request):
    named = "store" in request.fixturenames
    return Outcome(request.getfixturevalue("store") if named else "postgres")
