"""Outcomes of tasks that Dask itself reports only in part."""

import pytest
from accounts import (
    ERRORS,
    assert_agreement,
    assert_galvo_has,
    cluster,
    cluster_id,
    dask_values,
    everything,
    moment,
)
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
    # Dask's own list of errors lacks the text of this one; its exception has it.
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
    query = "query ($id: ID!) { cluster(id: $id) { lostAttempts { prefix attempts workers } } }"
    id_ = cluster_id(galvo, report["scheduler_id"])

    def lost():
        return galvo.query(query, id=id_)["cluster"]["lostAttempts"]

    # The cause of an end is only known after some seconds.
    expected = [{"prefix": "kill_worker", "attempts": killed["attempts"], "workers": 2}]
    wait_until(lambda: lost() == expected, f"{expected} and not {lost()}", 20)


def test_group_that_is_used_again(galvo, python, start_cluster):
    """A function whose earlier results are still held adds to the same Dask group."""
    client = start_reporting_cluster(start_cluster, python, galvo).client()
    client.call("run", workload="squares", first=0, count=4)
    before = client.call("dask_report")
    assert_agreement(galvo, before)
    client.call("run", workload="squares", first=4, count=6)
    after = client.call("dask_report")
    (group,) = after["groups"]
    assert group["tasks"] == 10
    # Dask assigns the group to the first computation only, which then seems to continue.
    _, second = after["computations"]
    assert second["groups"] == []
    expected = dask_values(after)
    ((first, alone),) = dask_values(before)["computations"].items()
    # Of a shared group, each computation has the tasks that it submitted.
    assert (alone["tasks"], alone["states"]) == (4, {"MEMORY": 4})
    expected["computations"] = {
        first: alone,
        second["id"]: {
            "start": moment(second["start"]),
            "stop": moment(group["stop"]),
            "state": "FINISHED",
            "groups": ["square"],
            "tasks": 6,
            "states": {"MEMORY": 6},
        },
    }
    assert_galvo_has(expected, galvo, after)


def test_results_lost_with_a_worker(galvo, python, start_cluster):
    """Tasks that Dask runs again count again, as they do in Dask."""
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

    # The client may not know yet that it holds fewer results, so it cannot wait for them.
    wait_until(lost_and_found, "Dask computes again what was lost")
    report = client.call("dask_report")
    assert report["workers_now"] == 1
    assert report["groups"][0]["tasks"] == 8
    assert_agreement(galvo, report)


def test_restart(galvo, python, start_cluster):
    """Dask forgets everything at a client's restart; Galvo's totals remain."""
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
    assert_galvo_has(dask_values(both), galvo, after)


def add(one, other):
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}


def test_registration_when_there_are_results(galvo, python, start_cluster):
    """Everything that Dask still knows when the plugin starts is reported as if the plugin had been
    there.
    """
    client = start_cluster(python).client(settings=settings_for(galvo.address, galvo.token))
    client.call("run", workload="squares", first=0, count=4)
    client.call("register_with_galvo")
    assert_agreement(galvo, client.call("dask_report"))


COUNTS = """
query ($id: ID!) { cluster(id: $id) {
  totals { tasks tasksSucceeded tasksErred errors workers computeSeconds }
  usage { tasks tasksErred errors workers computeSeconds }
  errors(first: 100) { totalCount }
  taskGroups(first: 100) { nodes { name tasks tasksSucceeded tasksErred } }
  computations(first: 100) { nodes { daskId state taskGroups(first: 100) { nodes { name } } } }
  functions { prefix tasks tasksErred computeSeconds }
  spans(first: 100) { nodes { totals { tasks } } }
} }
"""


def test_registering_again_goes_on(galvo, python, start_cluster):
    """Nothing reported is lost or duplicated, and unobserved work counts once."""
    client = start_cluster(python).client(settings=settings_for(galvo.address, galvo.token))

    def counts():
        # Everything has been reported after two more reports.
        report = client.call("dask_report")
        for _ in range(2):
            since = last_seen(galvo, report)
            wait_until(
                lambda since=since: last_seen(galvo, report) > since, "the next report arrives"
            )
        return galvo.query(COUNTS, id=cluster_id(galvo, report["scheduler_id"]))["cluster"]

    def sums(counts):
        names = ("tasks", "tasksErred", "errors", "workers")
        tasks = {}  # of all groups of a name, because Dask may have forgotten one in between
        for group in counts["taskGroups"]["nodes"]:
            tasks[group["name"]] = tasks.get(group["name"], 0) + group["tasks"]
        return [counts["usage"][name] for name in names], tasks

    client.call("register_with_galvo")
    client.call("run", workload="squares", first=0, count=8)
    client.call("run", workload="failures", first=0, count=3)
    client.call("run", workload="failure", reading=3, stations=0)
    client.call("wait_for_held")
    before = counts()
    assert sums(before) == ([8, 4, 4, 2], {"fail": 4, "square": 8})
    client.call("unregister_galvo")
    client.call("register_with_galvo")
    assert counts() == before
    client.call("run", workload="squares", first=8, count=5)
    after = counts()
    assert sums(after) == ([13, 4, 4, 2], {"fail": 4, "square": 13})
    client.call("unregister_galvo")
    client.call("run", workload="squares", first=13, count=4)
    client.call("run", workload="failure", reading=4, stations=0)
    client.call("wait_for_held")
    client.call("register_with_galvo")
    last = counts()
    assert sums(last) == ([17, 5, 5, 2], {"fail": 5, "square": 17})
    assert [last["totals"][name] for name in ("tasksSucceeded", "errors")] == [17, 5]
    assert last["errors"]["totalCount"] == 5
    seconds = last["usage"]["computeSeconds"]
    assert seconds == pytest.approx(last["totals"]["computeSeconds"], abs=1e-5)
    computations = client.call("dask_report")["computations"]
    of_galvo = [node["daskId"] for node in last["computations"]["nodes"]]
    assert sorted(of_galvo) == sorted(computation["id"] for computation in computations)


def last_seen(galvo, report):
    found = cluster(galvo, report["scheduler_id"])
    return found["lastSeenAt"] if found else ""


def test_blame_for_an_earlier_error(galvo, python, start_cluster):
    """A computation that fails only because of an earlier one's error."""
    client = start_reporting_cluster(start_cluster, python, galvo).client()
    client.call("run", workload="failure_then_need")
    report = client.call("dask_report")
    _, second = report["computations"]
    assert [report["groups"][place]["name"] for place in second["groups"]] == ["summarise"]
    expected = dask_values(report)
    # Dask has no end time of tasks that never ran.
    expected["computations"][second["id"]] |= {
        "state": "ERRED",
        "stop": pytest.approx(second["start"], rel=0, abs=0.5),
    }
    assert_galvo_has(expected, galvo, report)
