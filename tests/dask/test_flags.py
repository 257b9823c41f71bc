"""Flags of real clusters."""

from accounts import cluster_id
from observed import ObservedCluster, observe
from processes import python_named, wait_until

FLAGS = """
query ($id: ID!) { cluster(id: $id) { flags {
  nodes { kind value until packages errorGroup { type } }
} } }
"""
FAILURES = 12
# A round every 25 seconds, the next run of the jobs, and a report before.
NOTICED_WITHIN = 60.0


def test_flags(galvo, processes):
    """Failing tasks, and a client with another Python; both flags end when the causes end."""
    python = python_named("NEWEST")
    dask = ObservedCluster(processes, python, galvo.address, galvo.token)
    dask.add_worker("one")
    client = dask.client()
    stranger = dask.client(python_named("OTHER"))
    observed = observe(client, lambda o: len(o["clients"]) == 2, "both clients are known")
    client.call("run", workload="failures", first=0, count=FAILURES)
    id_ = wait_until(lambda: cluster_id(galvo, observed["scheduler_id"]), "the cluster is known")

    def flags():
        nodes = galvo.query(FLAGS, id=id_)["cluster"]["flags"]["nodes"]
        return {node.pop("kind"): node for node in nodes}

    def noticed(*kinds):
        return wait_until(
            lambda: (found := flags()) and all(kind in found for kind in kinds) and found,
            f"{kinds} are noticed",
            NOTICED_WITHIN,
        )

    found = noticed("MANY_FAILURES", "VERSION_MISMATCH")
    failures, versions = found["MANY_FAILURES"], found["VERSION_MISMATCH"]
    assert (failures["value"], failures["until"]) == (FAILURES, None)
    assert failures["errorGroup"]["type"] == "ValueError"
    assert versions["until"] is None
    assert versions["packages"] == differing(observed)
    assert versions["value"] == len(versions["packages"])
    assert "python" in versions["packages"]

    stranger.kill()
    wait_until(lambda: flags()["VERSION_MISMATCH"]["until"], "the stranger is gone", NOTICED_WITHIN)
    assert flags()["MANY_FAILURES"]["until"] is None


def differing(observed):
    """Returns the packages that Dask compares when a client connects, with differing versions."""
    compared = {"cloudpickle", "dask", "distributed", "lz4", "msgpack", "numpy", "pandas"}
    compared |= {"toolz", "tornado"}
    processes = [observed["versions"], *observed["clients"].values()]
    processes += [worker["versions"] for worker in observed["workers"]]
    found = []
    for name in sorted(compared | {"python"}):
        versions = {
            process["host"]["python"] if name == "python" else process["packages"].get(name)
            for process in processes
        }
        if len(versions - {None}) > 1:
            found.append(name)
    return found
