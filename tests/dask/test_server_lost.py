"""A server that dies, or returns with another store, while clusters report to it."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from accounts import (
    assert_agreement,
    cluster,
    differences,
    galvo_values,
    reports_say,
)
from conftest import settings_for
from galvo.plugin.spool import write_spool_file
from processes import GalvoServer, run_to_end, wait_until


def test_a_script_that_ends_while_the_server_is_away(python, processes, start_cluster):
    """Unsent reports are spooled, and match Dask's data once they are sent."""
    galvo = GalvoServer(processes).start()
    galvo.stop()
    spool = processes.directory / "spool"
    settings = {**settings_for(galvo.address, galvo.token), "galvo.spool.directory": str(spool)}
    dask = start_cluster(python, preloads=["galvo"], settings=settings)
    client = dask.client()
    attempts = str(processes.directory / "attempts")
    client.call("run", workload="mixture", attempts=attempts)
    client.call("release")
    report = client.call("dask_report")
    client.call("shutdown")
    assert dask.scheduler.wait(10) == 0
    (file,) = spool.iterdir()
    assert galvo.token.encode() not in gzip.decompress(file.read_bytes())

    galvo.start()
    assert cluster(galvo, report["scheduler_id"]) is None
    sent = run_to_end([python, "-m", "galvo", "spool", "send"], processes.directory, settings)
    assert sent == f"Sent {file}.\n" and list(spool.iterdir()) == []
    assert_agreement(galvo, report, closed=True)


def test_a_kept_report_of_too_many_rows_is_sent_in_parts(processes, tmp_path):
    """The server stores at most 20,000 links of computations and task groups at once."""
    galvo = GalvoServer(processes).start()
    settings = {
        **settings_for(galvo.address, galvo.token),
        "galvo.spool.directory": str(tmp_path),
    }
    groups = [str(uuid.uuid4()) for _ in range(5_000)]
    computations = [
        {"id": str(uuid.uuid4()), "started_at": 1e9, "state": "finished", "task_group_ids": groups}
        for _ in range(6)
    ]
    counts = "tasks_succeeded tasks_erred errors bytes workers peak_workers peak_threads tasks"
    times = "compute_seconds transfer_seconds thread_seconds"
    totals = dict.fromkeys(f"{counts} {times}".split(), 0)
    closed_at = time.time()
    report = {
        "version": 1,
        "scheduler_id": "Scheduler-large",
        "sequence": 2,
        "base": 1,
        "sent_at": closed_at,
        "interval_seconds": 5.0,
        "final": True,
        "cluster": {
            "name": "large",
            "started_at": closed_at - 60,
            "closed_at": closed_at,
            "close_reason": "done",
            "workers": 0,
            "threads": 0,
            "memory_used_bytes": 0,
            "totals": totals,
        },
        "computations": computations,
        "task_groups": [],
        "errors": [],
    }
    # The last live report has earlier states of the same cluster and computations.
    live = {
        **report,
        **{"sequence": 1, "base": None, "final": False},
        "cluster": {**report["cluster"], "closed_at": None, "close_reason": None},
        "computations": [
            {**computation, "state": "running", "task_group_ids": []}
            for computation in computations
        ],
    }
    request = urllib.request.Request(
        f"{galvo.address}/api/v1/reports",
        json.dumps(live).encode(),
        {"Authorization": f"Bearer {galvo.token}", "Content-Type": "application/json"},
    )
    assert urllib.request.urlopen(request).status == 200
    head = {
        "server": galvo.address,
        "account": None,
        "scheduler_id": report["scheduler_id"],
        "closed_at": closed_at,
        "reports": 1,
    }
    path = write_spool_file(str(tmp_path), head, [json.dumps(report)])
    sent = run_to_end([sys.executable, "-m", "galvo", "spool", "send"], tmp_path, settings)
    assert sent == f"Sent {path}.\n"
    (found,) = galvo.query(
        """{ viewer { account { clusters { nodes {
             name state computations { nodes { state } }
           } } } } }"""
    )["viewer"]["account"]["clusters"]["nodes"]
    finished = {"nodes": [{"state": "FINISHED"}] * 6}
    assert found == {"name": "large", "state": "CLOSED", "computations": finished}


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request):
    """Yields the URL of an empty database; None for a file of the server's own."""
    if request.param == "sqlite":
        yield None
        return
    admin = os.environ.get("GALVO_TEST_DATABASE_URL")
    assert admin, (
        "GALVO_TEST_DATABASE_URL is not set: what PostgreSQL keeps when the server dies must be"
        " tested, too, and scripts/with-services.sh starts one"
    )
    name = f"galvo_dask_{uuid.uuid4().hex}"
    run_sql(admin, f"CREATE DATABASE {name}")
    yield urlsplit(admin)._replace(path=f"/{name}").geturl()
    run_sql(admin, f"DROP DATABASE {name} WITH (FORCE)")


def run_sql(url, statement):
    candidates = [shutil.which("psql"), *Path("/usr/lib/postgresql").glob("*/bin/psql")]
    psql = next((candidate for candidate in candidates if candidate), None)
    assert psql, "psql is missing: install PostgreSQL's client"
    command = [psql, "--no-psqlrc", "--quiet", "--dbname", url, "--command", statement]
    subprocess.run(command, check=True)


def test_server_killed_in_mid_run(processes, start_cluster, start_proxy, python, database_url):
    """Acknowledged data survives kill -9, and the rest arrives after the restart."""
    galvo = GalvoServer(processes, database_url).start()
    proxy = start_proxy(galvo.port)
    settings = settings_for(proxy.address, galvo.token)
    dask = start_cluster(python, preloads=["galvo"], settings=settings)
    client = dask.client()
    stop = processes.directory / "stop"
    client.begin("run", workload="waves", until=str(stop))

    kill_server(galvo, proxy, "on_answered")
    assert_kept(galvo, proxy)
    kill_server(galvo, proxy, "on_sent")
    assert_kept(galvo, proxy)

    stop.touch()
    client.answer()
    report = client.call("dask_report")
    assert len(report["errors"]) > 3 and len(report["computations"]) > 5
    assert_agreement(galvo, report)
    assert dask.scheduler.is_running()


def kill_server(galvo, proxy, moment):
    """Kills the server right after it has received, or answered, a report with new data."""
    seen = len(proxy.exchanges)

    def kill(exchange):
        report = exchange.report
        if report["errors"] and report["task_groups"] and report["computations"]:
            proxy.shut = True
            galvo.process.send(signal.SIGKILL)
            setattr(proxy, moment, lambda exchange: None)

    # Further reports must arrive and change rows first, or nothing could be lost.
    wait_until(lambda: len(proxy.exchanges) > seen + 3, "reports arrive", seconds=60)
    setattr(proxy, moment, kill)
    assert galvo.process.wait(60) == -signal.SIGKILL


def assert_kept(galvo, proxy):
    """Restarts the server, and compares before the plugin reconnects."""
    galvo.start()
    scheduler_id = proxy.exchanges[-1].report["scheduler_id"]
    found = galvo_values(galvo, scheduler_id)
    # A report without a response may be stored completely, or not at all.
    acknowledged = [exchange.report for exchange in proxy.exchanges if exchange.acknowledged]
    sent = [*acknowledged, proxy.exchanges[-1].report]
    expected, alternative = reports_say(acknowledged), reports_say(sent)
    if found != alternative:
        different = list(differences(found, expected))
        assert not different, "\n".join(different)
    proxy.shut = False


def test_token_unknown_to_a_new_server(processes, start_cluster, start_proxy, python):
    """A scheduler whose token is not accepted continues to compute, and logs one warning."""
    galvo = GalvoServer(processes).start()
    proxy = start_proxy(galvo.port)
    settings = settings_for(proxy.address, galvo.token)
    dask = start_cluster(python, preloads=["galvo"], settings=settings)
    client = dask.client()
    client.call("run", workload="squares", first=0, count=4)
    assert_agreement(galvo, client.call("dask_report"))

    galvo.stop()
    for file in galvo.store.parent.glob("galvo.db*"):
        file.unlink()
    galvo.start()
    wait_until(lambda: refused(proxy), "a report is refused", seconds=30)
    client.call("run", workload="squares", first=4, count=4)
    assert client.call("dask_report")["groups"][0]["states"]["memory"] == 8
    client.call("shutdown")
    assert dask.scheduler.wait(10) == 0

    # After a refusal the plugin waits for a minute. Its last report is refused as well.
    assert len(refused(proxy)) >= 2
    assert cluster(galvo, proxy.exchanges[0].report["scheduler_id"]) is None
    assert dask.scheduler.log().count("did not accept a report: 401") == 1


def refused(proxy):
    return [exchange for exchange in proxy.exchanges if exchange.status == 401]


def test_store_restored_from_an_older_copy(processes, start_cluster, start_proxy, python):
    """A server that has lost acknowledged data gets everything that the scheduler still knows.

    It has also lost the tokens issued since, so the scheduler reports with the user's token.
    """
    galvo = GalvoServer(processes).start()
    galvo.stop()
    copy = processes.directory / "copy.db"
    shutil.copy(galvo.store, copy)
    galvo.start()
    proxy = start_proxy(galvo.port)
    settings = {**settings_for(proxy.address, galvo.token), "galvo.ship_token": True}
    dask = start_cluster(python, preloads=["galvo"], settings=settings)
    client = dask.client()
    client.call("run", workload="squares", first=0, count=4)
    report = client.call("dask_report")
    assert_agreement(galvo, report)

    proxy.shut = True
    galvo.stop()
    for file in galvo.store.parent.glob("galvo.db*"):
        file.unlink()
    shutil.copy(copy, galvo.store)
    galvo.start()
    assert cluster(galvo, report["scheduler_id"]) is None
    proxy.shut = False
    assert_agreement(galvo, report)
