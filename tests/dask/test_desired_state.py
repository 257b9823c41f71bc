"""Stopping a cluster through Galvo."""

from accounts import COMPUTATIONS, cluster, cluster_id, everything, galvo_values, seconds
from conftest import settings_for
from processes import wait_until

STOP = """
mutation ($id: ID!) {
  setDesiredState(cluster: $id, state: STOPPED, reason: "too dear") {
    cluster { state desiredState }
  }
}
"""


def test_stop_through_galvo(galvo, python, start_cluster, processes):
    settings = settings_for(galvo.address, galvo.token)
    dask = start_cluster(python, preloads=["galvo"], settings=settings)
    client = dask.client()
    started, end = processes.directory / "started", processes.directory / "end"
    client.call("run", workload="endless", started=str(started), end=str(end))
    wait_until(started.exists, "the endless task runs")
    report = client.call("dask_report")
    id_ = wait_until(lambda: cluster_id(galvo, report["scheduler_id"]), "the cluster is known")

    def states():
        return [group["states"] for group in galvo_values(galvo, report["scheduler_id"])["groups"]]

    wait_until(lambda: states() == [{"PROCESSING": 1}, {"MEMORY": 4}], "Galvo knows what runs")
    last_report = seconds(cluster(galvo, report["scheduler_id"])["lastSeenAt"])

    answer = galvo.query(STOP, id=id_)
    assert answer["setDesiredState"]["cluster"] == {"state": "CLOSING", "desiredState": "STOPPED"}
    assert dask.scheduler.wait(10) == 0
    # A worker stays until its task's thread is done, and may crash if that ends late.
    end.touch()
    for worker in dask.workers:
        worker.wait(10)

    found = cluster(galvo, report["scheduler_id"])
    assert (found["state"], found["desiredState"]) == ("CLOSED", "STOPPED")
    assert found["closeReason"] == "requested through Galvo by admin: too dear"
    assert last_report <= seconds(found["endedAt"]) <= last_report + 10
    unfinished, finished = everything(galvo, COMPUTATIONS, report["scheduler_id"])
    assert (unfinished["state"], finished["state"]) == ("CANCELLED", "FINISHED")
    assert unfinished["endedAt"] == found["endedAt"]
