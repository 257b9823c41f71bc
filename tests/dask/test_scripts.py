"""Programs that end without closing their cluster, which Dask then does at interpreter exit."""

import re

import pytest
from accounts import COMPUTATIONS, ERRORS, cluster, everything
from conftest import settings_for
from processes import WORKLOADS, dask_environment, python_named

# Since Python 3.12 an exiting interpreter starts no threads.
ROLES = ["NEWEST", "OLDEST", "OTHER"]


def run(galvo, processes, python, *arguments):
    """Returns Galvo's data about the program's cluster, after the program has ended by itself."""
    settings = {
        **settings_for(galvo.address, galvo.token),
        # With this interval, the first report is the only one before the last.
        "galvo.computation.interval": "60s",
        "galvo.events.interval": "60s",
    }
    environment = dask_environment(processes.directory, settings)
    script = [python, WORKLOADS / "script.py", *arguments]
    process = processes.start("script", script, environment)
    code = process.wait(60)
    log = process.log()
    assert "galvo" not in "\n".join(re.findall(r".* - (?:WARNING|ERROR) - .*", log)), log
    scheduler_id = re.search(r"^Scheduler-\S+$", log, re.MULTILINE).group()
    return code, scheduler_id


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("end", ["quiet", "exception"])
@pytest.mark.parametrize("role", ROLES)
def test_program_that_does_not_close_its_cluster(galvo, processes, role, end, workers):
    code, scheduler_id = run(galvo, processes, python_named(role), workers, end)
    assert code == (1 if end == "exception" else 0)
    found = cluster(galvo, scheduler_id)
    assert (found["state"], found["now"]) == ("CLOSED", None)
    counts = ("tasks", "tasksSucceeded", "tasksErred", "errors", "workers", "peakThreads")
    assert [found["totals"][name] for name in counts] == [21, 20, 1, 1, 1, 2]
    computations = everything(galvo, COMPUTATIONS, scheduler_id)
    assert sorted(
        (computation["state"], *(group["name"] for group in computation["taskGroups"]["nodes"]))
        for computation in computations
    ) == [("ERRED", "fail"), ("FINISHED", "square")]
    (error,) = everything(galvo, ERRORS, scheduler_id)
    assert error["message"] == "ValueError('no station sends a reading of 17')"


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("role", ["NEWEST", "OLDEST"])
def test_interrupted_computation(galvo, processes, role, workers):
    """An interrupted computation is reported as such, and the next one with its own outcome."""
    code, scheduler_id = run(galvo, processes, python_named(role), workers, "interruption")
    assert code == 0
    found = cluster(galvo, scheduler_id)
    assert found["state"] == "CLOSED" and found["totals"]["tasks"] == 81
    assert 20 < found["totals"]["tasksSucceeded"] < 80
    erred, finished, cancelled = everything(galvo, COMPUTATIONS, scheduler_id)
    states = [computation["state"] for computation in (erred, finished, cancelled)]
    assert states == ["ERRED", "FINISHED", "CANCELLED"]
    assert cancelled["startedAt"] < cancelled["endedAt"] < finished["startedAt"]
