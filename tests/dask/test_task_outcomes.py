"""Outcomes that Dask itself tells only in part."""

import pytest
from accounts import ERRORS, assert_agreement, assert_galvo_says, dask_says, everything, moment
from conftest import settings_for
from processes import wait_until


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
    client.call("wait_for_workers", count=1)

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
            "start": moment(second["start"]),
            "stop": moment(group["stop"]),
            "state": "FINISHED",
            "groups": ["square"],
        },
    }
    assert_galvo_says(expected, galvo, after)


def test_results_lost_with_a_worker(galvo, python, start_cluster):
    """Tasks that Dask runs once more count once more, as they do with Dask."""
    dask = start_reporting_cluster(start_cluster, python, galvo)
    client = dask.client()
    client.call("run", workload="squares", first=0, count=8)
    assert_agreement(galvo, client.call("dask_report"))
    dask.workers[0].kill()

    def lost_and_found():
        report = client.call("dask_report")
        (group,) = report["groups"]
        counts = report["prefixes"]["square"]["state_counts"]
        return counts["memory"] > 8 and group["states"]["memory"] == 8

    # The client may not have heard yet that it holds less than it did, so it cannot wait for it.
    wait_until(lost_and_found, "Dask computes again what was lost")
    report = client.call("dask_report")
    assert report["workers_now"] == 1
    assert report["groups"][0]["tasks"] == 8
    assert_agreement(galvo, report)


def test_restart(galvo, python, start_cluster):
    """Dask forgets everything when it is restarted by a client; it has happened all the same."""
    client = start_reporting_cluster(start_cluster, python, galvo, nanny=True).client()
    client.call("run", workload="failure_of", reading=1, stations=1)
    client.call("run", workload="squares", first=0, count=4)
    before = client.call("dask_report")
    client.call("restart")
    client.call("run", workload="squares", first=4, count=3)
    after = client.call("dask_report")
    assert after["errors"] == [] and len(after["computations"]) == 1

    both = {**after, "prefixes": {**before["prefixes"], **after["prefixes"]}}
    both["prefixes"]["square"] = {
        kind: add(before["prefixes"]["square"][kind], after["prefixes"]["square"][kind])
        for kind in ("state_counts", "durations")
    }
    both["computations"] = before["computations"] + after["computations"]
    both["errors"] = before["errors"]
    assert_galvo_says(dask_says(both), galvo, after)


def add(one, other):
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}


def test_registration_when_there_are_results(galvo, python, start_cluster):
    """What Dask still knows when the plugin arrives is told as if it had always been there."""
    client = start_cluster(python).client(settings=settings_for(galvo.address, galvo.token))
    client.call("run", workload="squares", first=0, count=4)
    client.call("register_with_galvo")
    assert_agreement(galvo, client.call("dask_report"))


def test_blame_for_an_earlier_error(galvo, python, start_cluster):
    """A computation that only fails because of what another one left behind."""
    client = start_reporting_cluster(start_cluster, python, galvo).client()
    client.call("run", workload="failure_then_need")
    report = client.call("dask_report")
    _, second = report["computations"]
    assert [report["groups"][place]["name"] for place in second["groups"]] == ["summarise"]
    expected = dask_says(report)
    # Dask knows no end of what never ran.
    expected["computations"][second["id"]] |= {
        "state": "ERRED",
        "stop": pytest.approx(second["start"], rel=0, abs=0.5),
    }
    assert_galvo_says(expected, galvo, report)
