"""The members of a cluster: their software, their lifetime, and how workers end."""

import signal
from pathlib import Path

import pytest
from accounts import cluster_id, everything, seconds
from observed import (
    ObservedCluster,
    assert_intervals,
    ended,
    environment_of,
    observe,
    plain_environment,
    worker_named,
    workers_of,
)
from processes import python_named, wait_until

ENVIRONMENTS = """
query ($id: ID!) { cluster(id: $id) {
  environment { ...what }
  environmentMismatches { name versions { role version processes } }
  clients { nodes { daskId connectedAt disconnectedAt environment { ...what } } }
} }
fragment what on Environment { python executable os osRelease machine packages { name version } }
"""

THREADS = """
query ($id: ID!, $after: String) { cluster(id: $id) {
list: threadHistory(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes { at threads }
} } }
"""

WORKER_LOGS = """
query ($id: ID!, $worker: ID!) { cluster(id: $id) {
  logs(workerId: $worker, last: 100) { nodes { at source worker level logger message } }
} }
"""


def test_environments(galvo, python, processes):
    """Galvo has Dask's own version data for every process, and the differences."""
    dask = ObservedCluster(processes, python, galvo.address, galvo.token)
    dask.add_worker("one")
    dask.add_worker("two")
    client = dask.client()
    foreign = python == python_named("NEWEST")
    if foreign:  # another Python with the same Dask
        dask.client(python_named("OTHER"))
    number = 2 if foreign else 1
    observed = observe(client, lambda o: len(o["clients"]) == number, "all the clients are known")

    def answer():
        id_ = cluster_id(galvo, observed["scheduler_id"])
        found = id_ and galvo.query(ENVIRONMENTS, id=id_)["cluster"]
        known = found and found["environment"] and len(found["clients"]["nodes"]) == number
        workers = known and workers_of(galvo, observed)
        # The environment arrives with a worker's heartbeat.
        complete = workers and all(
            w["environment"] and w["environment"]["executable"] for w in workers
        )
        # Queried again, because the parts of one response may precede and follow a report.
        return complete and (galvo.query(ENVIRONMENTS, id=id_)["cluster"], workers)

    found, workers = wait_until(answer, "Galvo knows what all of them run on")
    scheduler = environment_of(observed["versions"], observed["executable"])
    assert plain_environment(found["environment"]) == scheduler
    assert [plain_environment(worker["environment"]) for worker in workers] == [
        environment_of(worker["versions"], python) for worker in observed["workers"]
    ]
    assert {
        client["daskId"]: plain_environment(client["environment"])
        for client in found["clients"]["nodes"]
    } == {name: environment_of(versions) for name, versions in observed["clients"].items()}
    assert all(client["disconnectedAt"] is None for client in found["clients"]["nodes"])

    mismatches = {
        mismatch["name"]: {
            (version["role"], version["version"], version["processes"])
            for version in mismatch["versions"]
        }
        for mismatch in found["environmentMismatches"]
    }
    assert mismatches == mismatches_of(observed)
    assert ("python" in mismatches) == foreign


def mismatches_of(observed):
    """Returns the number of processes per version, for each package that differs."""
    processes = [("SCHEDULER", observed["versions"])]
    processes += [("WORKER", worker["versions"]) for worker in observed["workers"]]
    processes += [("CLIENT", versions) for versions in observed["clients"].values()]
    mismatches = {}
    for name in {name for _, versions in processes for name in versions["packages"]}:
        versions = [
            (role, versions["host"]["python"] if name == "python" else versions["packages"][name])
            for role, versions in processes
        ]
        if len({version for _, version in versions}) > 1:
            mismatches[name] = {(*pair, versions.count(pair)) for pair in versions}
    return mismatches


def test_how_workers_end(galvo, python, processes):
    dask = ObservedCluster(processes, python, galvo.address, galvo.token)
    steady, sent_away, closed, doomed, hungry = (
        dask.add_worker("steady", threads=2, memory="2GiB"),
        dask.add_worker("sent away"),
        dask.add_worker("closed", nanny=True),
        dask.add_worker("doomed", threads=2),
        dask.add_worker("hungry", memory="256MiB", nanny=True),
    )
    client = dask.client()
    observed = client.call("observed")
    address = {worker["name"]: worker["address"] for worker in observed["workers"]}
    assert len(address) == 5

    client.call("trouble", workload="gluttony", worker=address["hungry"])
    # A result that exists nowhere else, and more tasks than threads.
    client.call("trouble", workload="single_result", worker=address["doomed"])
    starts = [str(processes.directory / f"started-{number}") for number in range(3)]
    client.call(
        "trouble",
        workload="occupation",
        workers=[address["doomed"]] * 3,
        starts=starts,
        end=str(processes.directory / "never"),
        words="the last words of the doomed",
    )
    wait_until(lambda: count_files(starts) == 2, "the doomed worker runs tasks")
    keys = client.call("look", at="keys", address=address["doomed"])
    assert len(keys) == 3
    client.call("retire", worker=address["sent away"])
    closed.send(signal.SIGTERM)
    doomed.kill()
    for name in ("sent away", "closed", "doomed"):
        observed = observe(client, ended(name), f"the worker {name!r} leaves")
    observed = observe(
        client, lambda o: len(o["workers"]) == 6, "the nanny kills its worker and starts another"
    )
    first, second = (worker for worker in observed["workers"] if worker["name"] == "hungry")
    assert first["ended"] and not second["ended"] and first["id"] != second["id"]

    def all_have_left():
        found = workers_of(galvo, observed)
        return len(found) == 6 and sum(worker["end"] is not None for worker in found) == 4

    wait_until(all_have_left, "Galvo knows who has left")
    found = assert_intervals(galvo, observed)
    ends = {worker["daskId"]: worker["end"] for worker in found}
    kinds = {(worker["name"], worker["end"] and worker["end"]["kind"]) for worker in found}
    assert kinds == {
        ("steady", None),
        ("sent away", "RETIRED"),
        ("closed", "CLOSED"),
        ("doomed", "LOST"),
        ("hungry", "MEMORY"),
        ("hungry", None),
    }
    lost = ends[worker_named(observed, "doomed")["id"]]
    assert sorted(lost["processingKeys"]) == sorted(keys)
    assert (lost["processing"], lost["lostResults"]) == (3, 1)
    assert lost["lastMemoryShare"] == pytest.approx(lost["lastMemory"] / 2**30)
    assert seconds(lost["lastSeenAt"]) <= seconds(lost["at"])
    eaten = ends[first["id"]]
    assert [key.partition("-")[0] for key in eaten["processingKeys"]] == ["devour"]
    assert eaten["lostResults"] == 0
    if python == python_named("NEWEST"):  # nannies of newer releases report the amount
        assert 0.95 <= eaten["lastMemoryShare"] < 2
    for name in ("sent away", "closed"):
        end = ends[worker_named(observed, name)["id"]]
        assert (end["processing"], end["processingKeys"], end["lostResults"]) == (0, [], 0)

    assert_last_words(galvo, observed)
    assert_memory_in_logs(galvo, observed, first)

    client.call("let_go")
    client.call("shutdown")
    assert dask.dask.scheduler.wait(15) == 0
    found = wait_until(
        lambda: all(w["end"] for w in workers_of(galvo, observed)) and workers_of(galvo, observed),
        "all workers have ended",
    )
    late = {worker["name"]: worker["end"]["kind"] for worker in found}
    assert (late["steady"], late["hungry"]) == ("CLOSED", "CLOSED")
    history = everything(galvo, THREADS, observed["scheduler_id"])
    # If several workers leave within a millisecond, the last number is stored.
    dasks = {round(1000 * at): threads for at, threads in observed["threads_history"]}
    stored = [(round(1000 * seconds(change["at"])), change["threads"]) for change in history]
    assert stored[: len(dasks)] == list(dasks.items())
    assert steady.wait(15) == 0 and sent_away.wait(15) == 0 and hungry.wait(15) == 0


def count_files(paths):
    return sum(Path(path).exists() for path in paths)


def logs_of(galvo, observed, worker):
    id_ = cluster_id(galvo, observed["scheduler_id"])
    return galvo.query(WORKER_LOGS, id=id_, worker=worker["id"])["cluster"]["logs"]["nodes"]


def assert_last_words(galvo, observed):
    """Asserts that a worker's lines before its kill are stored, and found by its identifier."""
    doomed = worker_named(observed, "doomed")
    lines = logs_of(galvo, observed, doomed)
    assert {(line["source"], line["worker"]) for line in lines} == {("WORKER", doomed["address"])}
    words = [line for line in lines if line["message"] == "the last words of the doomed"]
    assert {(line["level"], line["logger"]) for line in words} == {("WARNING", "turbine")}
    for line in words:
        assert doomed["started"] < seconds(line["at"]) < doomed["ended"]


def assert_memory_in_logs(galvo, observed, worker):
    """Asserts that a nanny's line about its worker's memory belongs to that worker's log."""

    def find():
        return [
            line
            for line in logs_of(galvo, observed, worker)
            if line["source"] == "NANNY" and "memory budget" in line["message"]
        ]

    (line,) = wait_until(find, "the nanny logs a line about memory")
    assert (line["worker"], line["logger"]) == (worker["address"], "distributed.nanny.memory")
    assert line["level"] == "WARNING"
