"""The answer to why a cluster is still running, from its scheduler's present state."""

import pytest
from accounts import cluster_id
from conftest import settings_for
from processes import wait_until

WHY = """
query ($id: ID!) { cluster(id: $id) { state answers {
  finished { verdict value share }
  whyRunning { verdict headline value unit confidence evidence { label value unit } }
} } }
"""


def test_why_a_cluster_is_running(galvo, python, start_cluster, processes):
    dask = start_cluster(
        python, preloads=["galvo"], settings=settings_for(galvo.address, galvo.token)
    )
    client = dask.client()
    scheduler = client.call("dask_report")["scheduler_id"]
    id_ = wait_until(lambda: cluster_id(galvo, scheduler), "the cluster is known")

    def answered(value, unit, results):
        """Returns the answers, once the reports contain these values."""

        def look():
            answers = galvo.query(WHY, id=id_)["cluster"]["answers"]
            why = answers["whyRunning"]
            evidence = {row["label"]: row["value"] for row in why["evidence"]}
            actual = (why["value"], why["unit"], evidence.get("Results in memory"))
            return answers if actual == (value, unit, results) else None

        answers = wait_until(look, f"the answer is {value} {unit}")
        assert answers["whyRunning"]["confidence"] == "MEASURED"
        return answers

    # One endless task, and four results.
    started, end = processes.directory / "started", processes.directory / "end"
    client.call("run", workload="endless", started=str(started), end=str(end))
    wait_until(started.exists, "the endless task runs")
    answers = answered(1, "tasks", results=4)
    assert answers["whyRunning"]["headline"] == "It works: 1 task is processed by its 2 workers."
    assert answers["finished"] == {"verdict": "NOTICE", "value": 1, "share": 0.5}

    # All is done, and the client holds five results.
    end.touch()
    client.call("wait_for_held")
    answers = answered(5, "results", results=5)
    assert answers["whyRunning"]["headline"].startswith("1 client holds 5 results in its memory; ")
    assert answers["finished"] == {"verdict": "GOOD", "value": 2, "share": 1}

    client.call("shutdown")
    assert dask.scheduler.wait(15) == 0
    found = galvo.query(WHY, id=id_)["cluster"]
    answer = found["answers"]["whyRunning"]
    assert (found["state"], answer["unit"]) == ("CLOSED", "seconds")
    assert answer["headline"].startswith("It is not running: it closed at ")
    assert answer["value"] == pytest.approx(0, abs=30)
