"""The ways in which a scheduler starts to report, each with a comparison with Dask's data."""

import itertools
import json
import re
import signal
import subprocess
import time
import urllib.request

import pytest
from accounts import assert_agreement, cluster, dask_values, seconds
from conftest import REPORT_INTERVAL, settings_for
from processes import REPOSITORY, python_named
from proxy import REPORTS

PRELOAD = "/api/v2/analytics/preload"
# Packages that can be imported on the test machine, but not on every scheduler.
ABSENT_PACKAGES = "coiled galvo aiohttp requests"


def test_the_server_offers_the_plugin_of_this_repository(galvo):
    # Otherwise the other tests would silently test the plugin with which the server was built.
    with urllib.request.urlopen(galvo.address + PRELOAD, timeout=10) as response:
        source = response.read().decode()
    files = (REPOSITORY / "python/src/galvo/plugin").glob("*.py")
    first, _, rest = source.partition("\n")
    sources = json.loads(first[len("SOURCES = ") :])
    assert sources == {file.stem: file.read_text() for file in files}
    assert rest == sources["bundle"]


def test_preload_from_the_server(galvo, python, start_cluster, processes):
    dask = start_cluster(
        python,
        preloads=[galvo.address + PRELOAD],
        # The plugin reports to the server that it came from.
        settings={"galvo.token": galvo.token, "galvo.computation.interval": REPORT_INTERVAL},
        miss=ABSENT_PACKAGES,
    )
    assert_reported(galvo, dask, dask.client(), processes)


def test_preload_of_the_package(galvo, python, start_cluster, processes):
    dask = start_cluster(
        python, preloads=["galvo"], settings=settings_for(galvo.address, galvo.token), miss="coiled"
    )
    # After a signal, newer releases of Dask report a reason for closing.
    assert_reported(galvo, dask, dask.client(), processes, end="SIGTERM")


def test_galvo_register(galvo, python, start_cluster, processes):
    dask = start_cluster(python, miss=ABSENT_PACKAGES)
    settings = settings_for(galvo.address, galvo.token)
    client = dask.client(settings=settings, miss="coiled aiohttp requests")
    client.call("register_with_galvo")
    assert_reported(galvo, dask, client, processes)


def test_coiled_register(galvo, python, start_cluster, start_proxy, processes):
    proxy = start_proxy(galvo.port)
    dask = start_cluster(python, miss=ABSENT_PACKAGES)
    client = dask.client(settings=coiled_settings(proxy.address, galvo.token))
    client.call("register_with_coiled")
    # The plugin reports to the server from which the client got it.
    assert_reported(galvo, dask, client, processes)
    assert {path for _, path in proxy.requests} == {
        "/api/v2/user/me",
        "/api/v2/user/me/memberships",
        PRELOAD,
        # From the scheduler: the client ships its own token.
        "/api/v1/scheduler-tokens",
        REPORTS,
    }


@pytest.mark.parametrize("package", ["galvo", "coiled"])
def test_client_of_another_python(package, galvo, start_cluster, processes):
    """A client's data is pickled by its own version of Python; a scheduler may have another."""
    assert python_version("OTHER") != python_version("NEWEST")
    dask = start_cluster(python_named("OTHER"), miss=ABSENT_PACKAGES)
    settings = {
        "galvo": settings_for(galvo.address, galvo.token),
        "coiled": coiled_settings(galvo.address, galvo.token),
    }
    client = dask.client(python=python_named("NEWEST"), settings=settings[package])
    client.call(f"register_with_{package}")
    assert_reported(galvo, dask, client, processes)


def python_version(role):
    command = [python_named(role), "-c", "import sys; print(sys.version_info[:2])"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def coiled_settings(server, token):
    return {
        "coiled.server": server,
        "coiled.token": token,
        "coiled.analytics.computation.interval": REPORT_INTERVAL,
    }


def assert_reported(galvo, dask, client, processes, end="shutdown"):
    """Runs a mixture; compares while results are held, after they are forgotten, and at the end."""
    client.call("run", workload="mixture", attempts=str(processes.directory / "attempts"))
    held = client.call("dask_report")
    assert_mixture(held)
    assert_agreement(galvo, held)

    client.call("release")
    forgotten = client.call("dask_report")
    for group in forgotten["groups"]:
        assert {state for state, count in group["states"].items() if count} == {"forgotten"}
    # Only states have changed since; Dask's counts must not decrease.
    assert dask_values(forgotten)["totals"] == dask_values(held)["totals"]
    assert_agreement(galvo, forgotten)

    requested_at = time.time()
    if end == "SIGTERM":
        dask.scheduler.send(signal.SIGTERM)
    else:
        client.call("shutdown")
    assert dask.scheduler.wait(10) == 0
    assert_agreement(galvo, forgotten, closed=True)
    assert_ended(galvo, dask, forgotten, requested_at)


def assert_mixture(report):
    """Asserts that Dask did everything that the workload should do, so that comparing is
    meaningful.
    """
    tasks, erred = {}, 0
    for group in report["groups"]:
        tasks[group["prefix"]] = tasks.get(group["prefix"], 0) + group["tasks"]
        erred += group["erred"]
    expected = {
        "square": 16, "add": 15, "fail": 1, "summarise": 3, "succeed_at_last": 1, "glance": 15,
        "list": 1,
    }  # fmt: skip
    assert expected.items() <= tasks.items()
    assert erred == 1
    (error,) = report["errors"]
    assert error["message"] == "ValueError('no station sends a reading of 1000000000.0')"
    assert 'raise ValueError(f"no station sends' in error["traceback"]
    assert report["prefixes"]["summarise"]["state_counts"]["erred"] == 3
    assert report["prefixes"]["succeed_at_last"]["state_counts"]["processing"] == 3
    assert len(report["computations"]) >= 9
    assert len([group for group in report["groups"] if group["prefix"] == "glance"]) == 3
    assert "numpy.ndarray" in {name for group in report["groups"] for name in group["types"]}
    # Durations must exceed possible clock differences.
    assert report["prefixes"]["square"]["durations"]["compute"] > 16 * 0.02
    assert report["prefixes"]["add"]["durations"]["transfer"] > 0


def assert_ended(galvo, dask, report, requested_at):
    found = cluster(galvo, report["scheduler_id"])
    ended = seconds(found["endedAt"])
    assert requested_at <= ended <= time.time()
    # Dask only logs the reason, if at all.
    reason = re.search(r"Closing scheduler\. Reason: (.+)", dask.scheduler.log())
    reason = reason and reason.group(1).strip()
    assert found["closeReason"] == (None if reason == "unknown" else reason)
    history = [*report["threads_history"], (ended, 0)]
    thread_seconds = sum(
        threads * (until - since) for (since, threads), (until, _) in itertools.pairwise(history)
    )
    assert found["totals"]["threadSeconds"] == pytest.approx(thread_seconds, abs=0.2)
