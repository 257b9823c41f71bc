"""Outcomes that Dask itself tells only in part."""

import pytest
from accounts import ERRORS, assert_agreement, assert_galvo_says, close_to, dask_says, everything
from conftest import settings_for


def start_reporting_cluster(start_cluster, python, galvo, **options):
    settings = {**settings_for(galvo.address, galvo.token), **options.pop("settings", {})}
    return start_cluster(python, preloads=["galvo"], settings=settings, **options)


def test_killed_worker(galvo, python, start_cluster):
    dask = start_reporting_cluster(
        start_cluster,
        python,
        galvo,
        workers=1,
        nanny=True,
        settings={"distributed.scheduler.allowed-failures": 1},
    )
    client = dask.client()
    killed = client.call("run", workload="lethal")
    assert killed["type"] == "KilledWorker"

    report = client.call("dask_report")
    # Dask's own list of errors leaves the text of this one out; its exception has it.
    (error,) = report["errors"]
    assert (error["key"], error["message"], error["traceback"]) == (killed["key"], "", "")
    error["message"] = killed["message"]
    error["type"] = killed["type"]
    error["workers"] = [killed["worker"]]
    assert report["workers"] >= 2
    assert_agreement(galvo, report)

    (error,) = everything(galvo, ERRORS, report["scheduler_id"])
    assert error["message"] == killed["message"]
    assert error["traceback"] == ""


def test_group_that_is_used_again(galvo, python, start_cluster):
    """A function whose earlier results are still held adds to the same group of Dask's."""
    client = start_reporting_cluster(start_cluster, python, galvo).client()
    client.call("run", workload="squares", first=0, count=4)
    before = client.call("dask_report")
    assert_agreement(galvo, before)
    client.call("run", workload="squares", first=4, count=6)
    after = client.call("dask_report")
    (group,) = after["groups"]
    assert group["tasks"] == 10
    # Dask ascribes the group to the first computation only, which then seems to go on.
    _, second = after["computations"]
    assert second["groups"] == []
    expected = dask_says(after)
    expected["computations"] = {
        **dask_says(before)["computations"],
        second["id"]: {
            "start": close_to(second["start"]),
            "stop": close_to(group["stop"]),
            "state": "FINISHED",
            "groups": ["square"],
        },
    }
    assert_galvo_says(expected, galvo, after)


def test_blame_for_an_earlier_error(galvo, python, start_cluster):
    """A computation that only fails because of what another one left behind."""
    client = start_reporting_cluster(start_cluster, python, galvo).client()
    client.call("run", workload="failure_then_need")
    report = client.call("dask_report")
    first, second = report["computations"]
    assert [report["groups"][place]["name"] for place in second["groups"]] == ["summarise"]
    expected = dask_says(report)
    # Dask knows no end of what never ran.
    expected["computations"][second["id"]] |= {
        "state": "ERRED",
        "stop": pytest.approx(second["start"], abs=0.5),
    }
    assert_galvo_says(expected, galvo, report)
