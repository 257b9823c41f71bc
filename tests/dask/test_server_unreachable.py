"""A server that never answers, or is not there, must not be felt by those who compute."""

import signal

import pytest
from accounts import ERRORS, cluster, everything
from conftest import settings_for
from processes import GalvoServer, wait_until
from proxy import HungServer, free_port

# What else is kept for later has bounds of its own, which these tests do not reach.
ERRORS_ALONE = {"galvo.logs.transmit": False, "galvo.events.allow": []}

# The plugin keeps so many for later; what is more than that is dropped, and counted.
MOST_ERRORS = 1_000


@pytest.fixture
def hung_server():
    server = HungServer()
    yield server
    server.close()


def test_computing_with_a_hung_server(python, start_cluster, hung_server):
    dask = start_cluster(python)
    client = dask.client(settings={**settings_for(hung_server.address, "token"), **ERRORS_ALONE})
    assert_unnoticed(client)
    assert hung_server.connections
    assert_bounded(client)


def test_computing_without_a_server(python, start_cluster, processes):
    galvo = GalvoServer(processes).start()
    galvo.stop()
    dask = start_cluster(python)
    client = dask.client(settings={**settings_for(galvo.address, galvo.token), **ERRORS_ALONE})
    assert_unnoticed(client)
    dask.scheduler.wait_for_log("did not accept a report")
    failed = assert_bounded(client)

    # What was kept is told when the server is there at last, and how much was not.
    galvo.start()
    report = client.call("dask_report")
    scheduler_id = report["scheduler_id"]
    client.call("shutdown")
    assert dask.scheduler.wait(5) == 0
    found = cluster(galvo, scheduler_id)
    assert found["state"] == "CLOSED"
    assert found["totals"]["errors"] == found["totals"]["tasksErred"] == failed
    assert found["dropped"] == {"computations": 0, "taskGroups": 0, "errors": failed - MOST_ERRORS}
    kept = {error["message"] for error in everything(galvo, ERRORS, scheduler_id)}
    # Dask lists the newest first.
    assert kept == {error["message"] for error in report["errors"][:MOST_ERRORS]}


def assert_unnoticed(client):
    """The same work takes as long with the plugin as it does without, on the same cluster."""

    def run(first, count):
        seconds = client.call("run", workload="numbers", first=first, count=count)["seconds"]
        client.call("release")
        return seconds

    run(0, 200)
    alone = run(1_000, 1_500)
    client.call("register_with_galvo")
    # What else the machine does passes; what the plugin took would be taken each time.
    assert any(run(first, 1_500) <= 1.5 * alone + 2 for first in (3_000, 5_000, 7_000))


def assert_bounded(client):
    """The plugin stops growing with what it cannot tell. Returns how many tasks failed."""
    failed, footprints = 0, []
    for _ in range(2):
        client.call("run", workload="failures", first=failed, count=MOST_ERRORS + 200)
        client.call("release")
        failed += MOST_ERRORS + 200
        footprints.append(client.call("footprint"))
    # It does keep something, or there would be nothing to limit.
    assert footprints[0] > MOST_ERRORS * 500
    # Samples wait, too, and the longer it took the more of them. Errors that were not let go of
    # would more than double it.
    assert footprints[1] < 1.5 * footprints[0]
    return failed


@pytest.mark.parametrize("server", ["hung", "absent"])
@pytest.mark.parametrize("end", ["SIGTERM", "shutdown"])
def test_end_of_a_cluster(server, end, python, start_cluster, hung_server):
    address = hung_server.address if server == "hung" else f"http://127.0.0.1:{free_port()}"
    settings = settings_for(address, "token")
    dask = start_cluster(python, preloads=["galvo"], settings=settings, workers=1)
    client = dask.client()
    if server == "hung":
        # A report is under way.
        wait_until(lambda: hung_server.connections, "the plugin reports")
    else:
        dask.scheduler.wait_for_log("did not accept a report")

    if end == "SIGTERM":
        dask.scheduler.send(signal.SIGTERM)
    else:
        client.begin("shutdown")
    assert dask.scheduler.wait(5) == 0
