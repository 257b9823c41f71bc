import asyncio
import atexit
import logging
import os
import threading
import time

import dask
import pytest
from distributed import Client, LocalCluster
from fake_api import TOKEN as API_TOKEN
from fake_api import FakeApi
from fake_galvo import TOKEN, FakeGalvo, HungServer

from galvo.client import transport
from galvo.client.remembered import MEMORY


def pytest_sessionfinish(session, exitstatus):
    session.config.exit_status = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """Ends the process after what runs at its exit, without the interpreter's finalization.

    There CPython 3.9 may wait forever for one of Dask's daemon threads to take the interpreter's
    lock after it has ended all of them.
    """
    status = getattr(config, "exit_status", None)
    if status is not None:
        atexit._run_exitfuncs()
        config.get_terminal_writer().flush()
        os._exit(status)


@pytest.fixture
def galvo():
    server = FakeGalvo()
    yield server
    server.close()
    assert server.invalid == []


@pytest.fixture
def hung():
    server = HungServer()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def plain_configuration(monkeypatch):
    """Isolates tests from the settings of the machine."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    settings = {"galvo": {}, "coiled": {}, "distributed.scheduler.worker-saturation": 1.1}
    with dask.config.set(settings):
        yield
    MEMORY.forget()


@pytest.fixture(autouse=True)
def propagated_logs(monkeypatch):
    """Older releases of Dask do not propagate their loggers' messages to pytest."""
    monkeypatch.setattr(logging.getLogger("distributed"), "propagate", True)


@pytest.fixture
def configured(galvo, plain_configuration):
    """Dask's configuration names the fake server."""
    with dask.config.set({"galvo.server": galvo.address, "galvo.token": TOKEN}):
        yield galvo


@pytest.fixture
def cluster():
    with local_cluster() as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        yield client


def local_cluster(**kwargs):
    settings = {"n_workers": 1, "threads_per_worker": 2, "processes": False}
    settings.update(kwargs)
    return LocalCluster(dashboard_address=":0", **settings)


def on_loop(cluster, function):
    """Runs the function on the scheduler's event loop, and returns its result."""
    result, done = [], threading.Event()

    def call():
        try:
            result.append(function())
        finally:
            done.set()

    cluster.scheduler.loop.add_callback(call)
    assert done.wait(10)
    return result[0]


def wait_until(condition, timeout=15):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "what was waited for has not happened"
        time.sleep(0.01)


async def reached(condition, timeout=15):
    """Waits for the condition while the event loop goes on."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "what was waited for has not happened"
        await asyncio.sleep(0.01)


@pytest.fixture
def api(plain_configuration):
    """A server with preset responses, which Dask's configuration names."""
    fake = FakeApi()
    with dask.config.set({"galvo.server": fake.address, "galvo.token": API_TOKEN}):
        yield fake
    fake.close()


@pytest.fixture
def impatient(monkeypatch):
    """Retries have almost no delay."""
    monkeypatch.setattr(transport, "FIRST_PAUSE_SECONDS", 0.001)
