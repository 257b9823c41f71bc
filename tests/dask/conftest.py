"""Fixtures with real processes: a Galvo server, and Dask's command line in several environments.

``scripts/test.sh`` sets the variables: GALVO_BIN, GALVO_TEST_PYTHON_OLDEST, _MIDDLE, _NEWEST and
_OTHER, and GALVO_TEST_DATABASE_URL.
"""

import signal

import invariants
import pytest
from processes import DaskCluster, GalvoServer, Processes, python_named
from proxy import Proxy

PYTHONS = ["newest", "oldest"]
EVERY_PYTHON = ["newest", "middle", "oldest"]
REPORT_INTERVAL = "0.5s"


def pytest_configure():
    # SIGTERM does not tear down fixtures, and processes would remain.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for owner in item.funcargs.values():
            if isinstance(owner, Processes):
                for name, log in owner.logs():
                    report.sections.append((f"end of {name}'s log", log[-6000:]))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    outcome = yield
    # Before any fixture ends the processes of the test.
    invariants.check_all()
    return outcome


@pytest.fixture(scope="session")
def lasting_processes(tmp_path_factory):
    processes = Processes(tmp_path_factory.mktemp("galvo"))
    yield processes
    processes.kill_all()


@pytest.fixture(scope="session")
def galvo(lasting_processes):
    """The server that all tests share unless they disrupt it."""
    return GalvoServer(lasting_processes).start()


@pytest.fixture
def processes(tmp_path):
    processes = Processes(tmp_path)
    yield processes
    processes.kill_all()


@pytest.fixture(params=PYTHONS)
def python(request):
    """The interpreter of an environment: the newest Dask and the oldest supported one."""
    return python_named(request.param.upper())


@pytest.fixture(params=EVERY_PYTHON)
def every_python(request):
    """The same with a release in between, for tests that depend on Dask's internal protocol."""
    return python_named(request.param.upper())


@pytest.fixture
def start_cluster(processes):
    """Starts a Dask cluster that ends with the test."""

    def start(python, **options):
        return DaskCluster(processes, python, **options)

    return start


@pytest.fixture
def start_proxy():
    """Starts a proxy in front of a port of this machine."""
    proxies = []

    def start(port, listen=0):
        proxies.append(Proxy(port, listen))
        return proxies[-1]

    yield start
    for proxy in proxies:
        proxy.close()


def settings_for(server, token):
    return {
        "galvo.server": server,
        "galvo.token": token,
        "galvo.computation.interval": REPORT_INTERVAL,
    }
