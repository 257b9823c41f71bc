"""Imported files have the numbers that Dask counted, on the oldest, a middle and a new release."""

import json
import re
from datetime import datetime

import pytest
from accounts import ERRORS, TASK_GROUPS, close_to, everything
from conftest import EVERY_PYTHON, settings_for
from processes import WORKLOADS, python_named, run_to_end
from stores import member

CLUSTER = """
query ($id: ID!) { cluster(id: $id) {
  schedulerId state endedAt
  totals { tasks tasksSucceeded tasksErred errors computeSeconds transferSeconds }
  computations(first: 10) { nodes { state } }
  answers {
    finished { verdict headline confidence }
    exceptions { verdict headline value confidence }
  }
} }
"""

REPORT_IS_PART = (
    "The imported file holds a part of the work: a performance report does not contain the tasks"
    " that never ran."
)


class Files:
    """Files of one release of Dask, its own counts, and a server to import to."""

    def __init__(self, role, galvo, directory):
        self._directory = directory
        self._python = python_named(role.upper())
        self._galvo = member(galvo, f"counts-{role}")
        run_to_end([self._python, WORKLOADS / "files.py", directory], directory, {})
        self.expected = json.loads((directory / "counts.json").read_text(encoding="utf-8"))

    def imported(self, name):
        """Returns the cluster of a file, and the command's output."""
        settings = settings_for(self._galvo.address, self._galvo.token)
        command = [self._python, "-m", "galvo", "import", name]
        printed = run_to_end(command, self._directory, settings)
        number = re.search(r"cluster (\d+)", printed).group(1)
        return self._galvo.query(CLUSTER, id=number)["cluster"], " ".join(printed.split())

    def all(self, query, cluster):
        return everything(self._galvo, query, cluster["schedulerId"])

    def groups(self, cluster):
        return {
            group["name"]: {
                "keys": group["tasks"],
                "succeeded": group["tasksSucceeded"],
                "erred": group["tasksErred"],
                **{
                    action: sum(
                        spent["seconds"]
                        for spent in group["durations"]
                        if spent["action"] == action.upper()
                    )
                    for action in ("compute", "transfer")
                },
            }
            for group in self.all(TASK_GROUPS, cluster)
        }


@pytest.fixture(scope="module", params=EVERY_PYTHON)
def files(request, galvo, tmp_path_factory):
    return Files(request.param, galvo, tmp_path_factory.mktemp("files"))


def known_until(cluster):
    """Returns the answers' phrase for the end of a file's data."""
    ended = datetime.fromisoformat(cluster["endedAt"])
    return f"up to {ended:%Y-%m-%d %H:%M:%S} UTC; the time after is unknown."


def counted(groups):
    """Returns the witness's counts of groups in the form of a cluster's."""
    return {
        name: {
            **group,
            "compute": close_to(group["compute"]),
            "transfer": close_to(group["transfer"]),
        }
        for name, group in groups.items()
    }


def test_a_performance_report_counts_what_ran(files):
    expected = files.expected["files"]["groups"]
    cluster, printed = files.imported("report.html")
    assert files.groups(cluster) == counted(expected)
    totals = cluster["totals"]
    for name, key in (("tasks", "keys"), ("tasksSucceeded", "succeeded"), ("tasksErred", "erred")):
        assert totals[name] == sum(group[key] for group in expected.values())
    for name, key in (("computeSeconds", "compute"), ("transferSeconds", "transfer")):
        assert totals[name] == close_to(sum(group[key] for group in expected.values()))
    assert (totals["tasks"], totals["tasksErred"], totals["errors"]) == (37, 3, 3)
    # A report contains failures without reasons, so their origin is unknown.
    errors = files.all(ERRORS, cluster)
    assert [(error["origin"], error["message"]) for error in errors] == [("UNKNOWN", "")] * 3
    part = REPORT_IS_PART
    assert cluster["answers"]["exceptions"] == {
        "verdict": "BAD",
        "headline": f"3 exceptions, all of unknown cause, {known_until(cluster)} {part}",
        "value": 3.0,
        "confidence": "ESTIMATED",
    }
    assert cluster["answers"]["finished"] == {
        "verdict": "BAD",
        "headline": f"The last computation failed; 0 of 1 finished, {known_until(cluster)} {part}",
        "confidence": "ESTIMATED",
    }
    assert "it holds a part of the work" in printed
    assert "more than once" not in printed


@pytest.mark.parametrize("name", ["dump.msgpack.gz", "dump.yaml"])
def test_a_dump_counts_what_dask_had_not_forgotten(files, name):
    expected = files.expected["files"]
    kept = expected["kept"]
    cluster, printed = files.imported(name)
    found = {
        group["name"]: {
            "states": {state["state"].lower(): state["count"] for state in group["states"]},
            "durations": {
                spent["action"].lower().replace("_", "-"): close_to(spent["seconds"])
                for spent in group["durations"]
            },
        }
        for group in files.all(TASK_GROUPS, cluster)
    }
    assert found == kept
    tasks = sum(sum(group["states"].values()) for group in kept.values())
    assert cluster["totals"]["tasks"] == tasks == 25
    assert (cluster["totals"]["tasksSucceeded"], cluster["totals"]["tasksErred"]) == (21, 3)
    forgotten = expected["keys"] - tasks
    assert forgotten == 13
    part = f"holds a part of the work: Dask had forgotten {forgotten} tasks when it was written"
    assert f"it {part}" in printed
    assert cluster["answers"]["exceptions"] == {
        "verdict": "BAD",
        "headline": "3 exceptions, all of the computations' own code, "
        f"{known_until(cluster)} The imported file {part}.",
        "value": 3.0,
        "confidence": "ESTIMATED",
    }


def test_tasks_that_ran_twice_are_counted_as_they_ran(files):
    expected = files.expected["again"]
    cluster, printed = files.imported("again.html")
    assert files.groups(cluster) == counted(expected["groups"])
    (group,) = expected["groups"].values()
    # All of it is drawn, so nothing is reported as missing.
    assert group["succeeded"] == 8 + expected["lost"] > 8
    assert cluster["totals"]["tasks"] == 8
    assert cluster["totals"]["tasksSucceeded"] == group["succeeded"]
    again = f"{expected['lost']} of 8 tasks ran more than once"
    assert again in printed and f"each of {group['succeeded']} runs is counted" in printed
    assert "drawn" not in printed
    assert [row["state"] for row in cluster["computations"]["nodes"]] == ["FINISHED"]
    # The cluster may have computed more after the file was written.
    assert cluster["answers"]["finished"] == {
        "verdict": "UNKNOWN",
        "headline": f"The 1 computation finished, {known_until(cluster)} {REPORT_IS_PART}",
        "confidence": "ESTIMATED",
    }
