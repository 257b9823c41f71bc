"""Numbers of clusters with joining, leaving and dying workers, compared with Dask's and each other.

``invariants.py`` checks all of these clusters, too, after each test.
"""

import json
import time
from datetime import datetime

import pytest
from accounts import cluster_id
from conftest import settings_for
from processes import WORKLOADS, run_to_end, wait_until

CLUSTER = """
query ($id: ID!) { cluster(id: $id) {
  state startedAt endedAt lastSeenAt durationSeconds
  totals { tasks computeSeconds threadSeconds }
  usage {
    threadSeconds unobservedSeconds computeSeconds idleSeconds utilization
    causes { cause seconds } costs { amount causes { cause amount } }
  }
  functionActivity(first: 20) {
    startedAt stepSeconds functions { prefix threads computeSeconds } otherThreads computeSeconds
  }
  computations(first: 10) { nodes { state totals {
    tasks tasksSucceeded tasksErred includesOtherComputations states { state count }
  } } }
} }
"""


def run(galvo, python, tmp_path, case, *more):
    """Returns Dask's own numbers, and Galvo's of the same cluster after it has closed.

    The threads of functions over time have the compute time that Dask counted as their integral.
    """
    printed = run_to_end(
        [python, WORKLOADS / "numbers_of.py", case, *more],
        tmp_path,
        {**settings_for(galvo.address, galvo.token), "galvo.idle.timeout": "0"},
    )
    numbers = json.loads(printed.splitlines()[-1])

    def closed():
        id_ = cluster_id(galvo, numbers["scheduler_id"])
        found = id_ and galvo.query(CLUSTER, id=id_)["cluster"]
        return found if found and found["state"] == "CLOSED" else None

    cluster = wait_until(closed, "the cluster closes")
    activity, computed = cluster["functionActivity"], numbers.get("computed", 0.0)
    assert integral(activity) == pytest.approx(computed, rel=0.02, abs=0.02), (cluster, printed)
    return numbers, cluster


def integral(activity):
    """Returns the thread-seconds of all functions, which are the sum of what is shown."""
    step = activity["stepSeconds"]
    for function in activity["functions"]:
        shown = step * sum(function["threads"])
        assert shown == pytest.approx(function["computeSeconds"], rel=1e-5)
    columns = [function["threads"] for function in activity["functions"]]
    total = step * sum(map(sum, [*columns, activity["otherThreads"]]))
    assert total == pytest.approx(activity["computeSeconds"], rel=1e-5)
    return activity["computeSeconds"]


def causes(usage):
    return {row["cause"]: row["seconds"] for row in usage["causes"]}


@pytest.mark.parametrize("comms", [(), ("tls",)], ids=["tcp", "tls"])
@pytest.mark.parametrize("case", ["retire", "adaptive"])
def test_the_last_task_of_a_worker_that_retires_is_no_idle_time(
    galvo, every_python, tmp_path, case, comms
):
    numbers, cluster = run(galvo, every_python, tmp_path, case, *comms)
    usage, spent = cluster["usage"], causes(cluster["usage"])
    assert usage["computeSeconds"] == pytest.approx(numbers["computed"], abs=0.01)
    # All task metrics have arrived exactly once, by heartbeats or after them.
    busy = spent["CPU"] + spent["WAITING"]
    assert busy == pytest.approx(numbers["computed"], abs=0.3)
    observed = usage["threadSeconds"] - usage["unobservedSeconds"]
    assert usage["idleSeconds"] <= observed - numbers["computed"] + 0.05


def test_the_time_of_a_task_that_went_down_with_its_worker_is_not_idle(
    galvo, every_python, tmp_path
):
    numbers, cluster = run(galvo, every_python, tmp_path, "killed")
    usage, spent = cluster["usage"], causes(cluster["usage"])
    assert usage["computeSeconds"] == 0
    assert spent["UNACCOUNTED"] >= numbers["ran"]
    observed = usage["threadSeconds"] - usage["unobservedSeconds"]
    assert usage["idleSeconds"] <= observed - numbers["ran"] + 0.05


def test_threads_by_function_while_workers_die_and_retire(galvo, every_python, tmp_path):
    numbers, cluster = run(galvo, every_python, tmp_path, "churn")
    activity, by_prefix = cluster["functionActivity"], numbers["computed_by_prefix"]
    assert cluster["totals"]["computeSeconds"] == pytest.approx(numbers["computed"], abs=0.01)
    functions = {function["prefix"]: function for function in activity["functions"]}
    assert 10 < len(functions) <= 20 < len(by_prefix)
    assert sum(activity["otherThreads"]) > 0
    for prefix, function in functions.items():
        assert function["computeSeconds"] <= by_prefix[prefix] + 0.02
    # It is named although it comes after all others. Its tasks ran for longer than an interval.
    long = functions["long"]
    assert long["computeSeconds"] == pytest.approx(by_prefix["long"], rel=0.01)
    width = activity["stepSeconds"] // 15
    assert len(long["threads"]) >= 2 / width
    assert max(long["threads"]) <= numbers["long_tasks"] + 0.01


def test_what_was_done_before_a_cluster_was_registered_is_neither_busy_nor_idle(
    galvo, every_python, tmp_path
):
    numbers, cluster = run(galvo, every_python, tmp_path, "late")
    usage = cluster["usage"]
    # The plugin takes a moment to arrive.
    least, most = numbers["unobserved_at_least"], numbers["unobserved_at_most"]
    assert least <= usage["unobservedSeconds"] <= most
    assert usage["computeSeconds"] == pytest.approx(numbers["computed"], abs=0.01)
    assert cluster["totals"]["computeSeconds"] == pytest.approx(
        numbers["computed_in_all"], abs=0.01
    )
    observed = usage["threadSeconds"] - usage["unobservedSeconds"]
    assert usage["utilization"] == pytest.approx(numbers["computed"] / observed, abs=0.01)
    (cost,) = usage["costs"]
    apart = {row["cause"]: row["amount"] for row in cost["causes"]}["UNOBSERVED"]
    share = usage["unobservedSeconds"] / usage["threadSeconds"]
    assert apart == pytest.approx(cost["amount"] * share, rel=0.001)


def test_a_computation_counts_the_tasks_that_it_submitted(galvo, every_python, tmp_path):
    numbers, cluster = run(galvo, every_python, tmp_path, "computations")
    totals = [node["totals"] for node in reversed(cluster["computations"]["nodes"])]
    assert [int(one["tasks"]) for one in totals] == numbers["tasks"]
    assert [int(one["tasksErred"]) for one in totals] == numbers["erred"]
    succeeded = [tasks - erred for tasks, erred in zip(numbers["tasks"], numbers["erred"])]
    assert [int(one["tasksSucceeded"]) for one in totals] == succeeded
    assert not any(one["includesOtherComputations"] for one in totals)
    # The first futures were released, the second ones were not.
    states = [{s["state"]: int(s["count"]) for s in one["states"]} for one in totals]
    assert states[0] == {"FORGOTTEN": 200}


def test_the_time_of_a_task_that_runs_is_not_idle(galvo, every_python, tmp_path):
    numbers, cluster = run(galvo, every_python, tmp_path, "running")
    during = numbers["during"]
    observed = during["threadSeconds"] - during["unobservedSeconds"]
    assert causes(during)["UNACCOUNTED"] >= 2 * 2.0
    assert during["idleSeconds"] <= observed - 2 * 2.0
    spent = causes(cluster["usage"])
    assert spent["CPU"] + spent["WAITING"] == pytest.approx(numbers["computed"], abs=0.3)


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_scheduler_whose_clock_is_off_tells_the_same_numbers(
    galvo, every_python, tmp_path, hours
):
    began = time.monotonic()
    numbers, cluster = run(galvo, every_python, tmp_path, "clock", f"clock={3600 * hours}")
    took = time.monotonic() - began
    started, ended, seen = (
        datetime.fromisoformat(cluster[field]).timestamp()
        for field in ("startedAt", "endedAt", "lastSeenAt")
    )
    assert numbers["at_least"] <= cluster["durationSeconds"] <= took
    assert ended - started == pytest.approx(cluster["durationSeconds"], abs=0.01)
    # The cluster's own times are those of its clock; the time of the last report is the server's.
    assert started < numbers["now"] < ended + 0.01
    assert abs(seen - time.time()) < took
    assert int(cluster["totals"]["tasks"]) == 6
    usage, spent = cluster["usage"], causes(cluster["usage"])
    assert usage["computeSeconds"] == pytest.approx(numbers["computed"], abs=0.01)
    assert spent["CPU"] + spent["WAITING"] == pytest.approx(numbers["computed"], abs=0.3)
    assert [node["state"] for node in cluster["computations"]["nodes"]] == ["FINISHED"]
