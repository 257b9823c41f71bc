"""A server that never responds, or does not exist, must not affect computations."""

import json
import signal
import subprocess
import time

import pytest
from accounts import ERRORS, cluster, cluster_id, everything
from conftest import settings_for
from processes import (
    WORKLOADS,
    GalvoServer,
    dask_environment,
    free_port,
    run_to_end,
    wait_until,
)
from proxy import HungServer

PRELOAD = "/api/v2/analytics/preload"
STARTED = WORKLOADS / "started.py"

# Other buffered data has separate bounds, which these tests do not reach.
ERRORS_ALONE = {"galvo.logs.transmit": False, "galvo.events.allow": []}

# The plugin buffers this many errors; the excess is dropped, and counted.
MOST_ERRORS = 1_000


@pytest.fixture
def hung_server():
    server = HungServer()
    yield server
    server.close()


class Trouble:
    """A server with a fault, until the fault is repaired."""

    def __init__(self, kind, galvo, start_proxy):
        self.kind, self._galvo, self._start_proxy = kind, galvo, start_proxy
        self._port = free_port()
        self.address = f"http://127.0.0.1:{self._port}"
        self.token = "nonsense" if kind == "wrong token" else galvo.token
        self.proxy = None
        if kind != "down":
            self.proxy = start_proxy(galvo.port, self._port)
            self.proxy.hung = kind == "hanging"
            self.proxy.delay = 1.5 if kind == "slow" else 0.0

    def is_felt(self):
        return self.kind in ("down", "slow") or self.proxy.waiting

    def mend(self):
        if self.proxy is None:
            self.proxy = self._start_proxy(self._galvo.port, self._port)
        self.proxy.hung, self.proxy.delay = False, 0.0


@pytest.fixture(params=["down", "hanging", "slow", "wrong token"])
def trouble(request, galvo, start_proxy):
    return Trouble(request.param, galvo, start_proxy)


def preload_of(way, address, python, directory):
    """Returns the scheduler's preload argument, creating the file if needed."""
    if way == "address":
        return address + PRELOAD
    if way == "package":
        return "galvo"
    file = directory / "galvo_preload.py"
    subprocess.run(
        [python, "-m", "galvo", "preload", file, "--server", address],
        check=True,
        env=dask_environment(directory, {}),
        stdout=subprocess.DEVNULL,
    )
    return file


def scheduler_id(dask):
    return json.loads(dask.scheduler_file.read_text())["id"]


@pytest.mark.parametrize("way", ["package", "file"])
def test_dask_starts_whatever_the_server_does(
    way, trouble, galvo, python, start_cluster, processes
):
    preload = preload_of(way, trouble.address, python, processes.directory)
    settings = settings_for(trouble.address, trouble.token)
    if way == "file":  # which contains the server's address
        del settings["galvo.server"]
    dask = start_cluster(python, preloads=[preload, STARTED], settings=settings, workers=0)
    dask.scheduler.wait_for_log("Dask has started")
    wait_until(trouble.is_felt, "it is felt")
    if trouble.kind == "wrong token":
        dask.scheduler.wait_for_log("did not accept a report: 401")
        assert cluster_id(galvo, scheduler_id(dask)) is None
    else:
        trouble.mend()
        wait_until(lambda: cluster_id(galvo, scheduler_id(dask)), "it reports")
    assert "Traceback" not in dask.scheduler.log()
    dask.scheduler.send(signal.SIGTERM)
    assert dask.scheduler.wait(10) == 0


@pytest.mark.parametrize("kind", ["down", "hanging", "slow", "wrong token"])
def test_a_configured_local_cluster_starts(kind, galvo, start_proxy, python, processes):
    """Dask's configuration applies to clusters in a user's own program."""
    trouble = Trouble(kind, galvo, start_proxy)
    script = processes.directory / "script.py"
    script.write_text(
        "from dask.distributed import Client, LocalCluster\n"
        "with LocalCluster(n_workers=1, processes=False, dashboard_address=':0') as cluster:\n"
        "    with Client(cluster) as client:\n"
        "        print(client.submit(sum, [1, 2]).result())\n"
    )
    settings = settings_for(trouble.address, trouble.token)
    settings["distributed.scheduler.preload"] = "['galvo']"
    assert run_to_end([python, script], processes.directory, settings).split() == ["3"]
    assert trouble.is_felt()


# The oldest release retries for a minute without a server.
@pytest.mark.parametrize(
    "kind, python",
    [
        *[("down", "newest"), ("hanging", "newest"), ("hanging", "oldest"), ("slow", "newest")],
        *[("slow", "oldest"), ("wrong token", "newest"), ("wrong token", "oldest")],
    ],
    indirect=["python"],
)
def test_dask_waits_for_a_preload_by_address(
    kind, galvo, start_proxy, python, start_cluster, processes
):
    """Dask downloads the plugin itself, without a timeout: the documents warn of this."""
    trouble = Trouble(kind, galvo, start_proxy)
    settings = settings_for(trouble.address, trouble.token)
    preload = preload_of("address", trouble.address, python, processes.directory)
    dask = start_cluster(python, preloads=[preload, STARTED], settings=settings, workers=0)
    if kind == "down":
        assert dask.scheduler.wait(30) != 0
        assert "Connection refused" in dask.scheduler.log()
        return
    if kind == "hanging":
        wait_until(trouble.is_felt, "it downloads")
        assert dask.scheduler.is_running() and "Dask has started" not in dask.scheduler.log()
        trouble.mend()
    dask.scheduler.wait_for_log("Dask has started")
    if kind == "wrong token":  # the download needs none
        dask.scheduler.wait_for_log("did not accept a report: 401")
        assert cluster_id(galvo, scheduler_id(dask)) is None
    else:
        wait_until(lambda: cluster_id(galvo, scheduler_id(dask)), "it reports")


def test_registering_reports_what_is_wrong(trouble, galvo, python, start_cluster):
    dask = start_cluster(python, workers=1)
    client = dask.client(settings=settings_for(trouble.address, trouble.token))
    outcome, messages = client.call("try_to_register")
    if trouble.kind == "wrong token":
        assert outcome == "RequestRefused"
        assert "401" in messages and "galvo.token (DASK_GALVO__TOKEN)" in messages
        # Correcting the token is sufficient.
        outcome, messages = client.call("try_to_register", token=galvo.token)
    elif trouble.kind in ("down", "hanging"):
        assert outcome is None and trouble.address in messages[0]
        trouble.mend()
        wait_until(lambda: cluster_id(galvo, scheduler_id(dask)), "it reports")
        outcome, messages = client.call("try_to_register")
    assert messages == []
    found = galvo.query(NUMBER, id=cluster_id(galvo, scheduler_id(dask)))["cluster"]
    assert outcome == found["number"]
    client.call("run", workload="squares", first=0, count=4)


NUMBER = "query ($id: ID!) { cluster(id: $id) { number } }"


def test_registering_with_coiled_fails_for_the_client_alone(
    galvo, start_proxy, python, start_cluster
):
    trouble = Trouble("down", galvo, start_proxy)
    dask = start_cluster(python, workers=1)
    settings = {"coiled.server": trouble.address, "coiled.token": trouble.token}
    client = dask.client(settings=settings)
    outcome, messages = client.call("try_to_register", package="coiled")
    assert outcome is not None and messages
    client.call("run", workload="squares", first=0, count=4)


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

    # Buffered data is sent once the server is available, with the number of dropped items.
    galvo.start()
    report = client.call("dask_report")
    scheduler_id = report["scheduler_id"]
    # Nothing can be reported before the client has exchanged its token.
    # A closing scheduler on a busy machine has no time for all that it holds.
    wait_until(lambda: stored_errors(galvo, scheduler_id) == MOST_ERRORS, "it reports", 90)
    client.call("shutdown")
    assert dask.scheduler.wait(30) == 0
    found = cluster(galvo, scheduler_id)
    assert found["state"] == "CLOSED"
    assert found["totals"]["errors"] == found["totals"]["tasksErred"] == failed
    assert found["dropped"] == {"computations": 0, "taskGroups": 0, "errors": failed - MOST_ERRORS}
    kept = {error["message"] for error in everything(galvo, ERRORS, scheduler_id)}
    # Dask lists the newest first.
    assert kept == {error["message"] for error in report["errors"][:MOST_ERRORS]}


def stored_errors(galvo, scheduler_id):
    """Returns the number of stored errors of a cluster. None before its first report."""
    id_ = cluster_id(galvo, scheduler_id)
    if id_ is None:
        return None
    query = "query Errors($id: ID!) { cluster(id: $id) { errors(first: 1) { totalCount } } }"
    found = galvo.query(query, id=id_)
    return found["cluster"]["errors"]["totalCount"]


def assert_unnoticed(client):
    """Asserts that the same work takes as long with the plugin as without, on the same cluster."""

    def run(first, count):
        seconds = client.call("run", workload="numbers", first=first, count=count)["seconds"]
        client.call("release")
        return seconds

    run(0, 200)
    alone = run(1_000, 1_500)
    client.call("register_with_galvo")
    # Other load on the machine varies; a cost of the plugin would occur each time.
    assert any(run(first, 1_500) <= 1.5 * alone + 2 for first in (3_000, 5_000, 7_000))


def assert_bounded(client):
    """Asserts that the plugin's buffers stop growing. Returns the number of failed tasks."""
    failed, footprints = 0, []
    for _ in range(2):
        client.call("run", workload="failures", first=failed, count=MOST_ERRORS + 200)
        client.call("release")
        failed += MOST_ERRORS + 200
        footprints.append(client.call("footprint"))
    # It must buffer something, or there would be nothing to limit.
    assert footprints[0] > MOST_ERRORS * 500
    # Samples are buffered, too, and their number depends on the time. Unbounded errors would more
    # than double the size.
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
        # A report is in flight.
        wait_until(lambda: hung_server.connections, "the plugin reports")
    else:
        dask.scheduler.wait_for_log("did not accept a report")

    ended = time.time()
    if end == "SIGTERM":
        dask.scheduler.send(signal.SIGTERM)
    else:
        client.begin("shutdown")
    # After the scheduler's end, a Python process on a busy machine takes some seconds to exit.
    assert dask.scheduler.wait(30) == 0
    assert dask.scheduler.logged_at("End scheduler") - ended < 5
