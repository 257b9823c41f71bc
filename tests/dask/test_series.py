"""Time series and totals of task groups, compared with Dask's own numbers."""

import math
import shutil
import time

import pytest
from accounts import assert_agreement, cluster_id, seconds
from observed import ObservedCluster, observe, worker_named
from processes import python_named, wait_until

SERIES = """
query ($id: ID!, $metrics: [SampleMetric!]!, $own: [SampleMetric!]!, $from: DateTime) {
  cluster(id: $id) {
    series(metrics: $metrics, from: $from, bucketSeconds: 1) { ...points }
    workers(first: 100) { nodes {
      daskId
      series(metrics: $own, from: $from, bucketSeconds: 1) { ...points }
    } }
  }
}
fragment points on Series { metric unit bucketSeconds points { at value min max } }
"""

USAGE = """
query ($id: ID!) { cluster(id: $id) {
  usage { spilledBytes tasks bytes workers computeSeconds }
} }
"""

COUNTS = ("WORKERS", "THREADS", "TASKS_PROCESSING", "TASKS_NO_WORKER", "TASKS_MEMORY")
MEMORY = ("MEMORY_PROCESS", "MEMORY_MANAGED", "MEMORY_UNMANAGED", "MEMORY_SPILLED")
DISK = ("DISK_FREE", "DISK_TOTAL")
METRICS = (*COUNTS, "MEMORY_LIMIT", *MEMORY, *DISK)
OWN = (*MEMORY, "TASKS_EXECUTING", *DISK)
# The largest delay of a measurement between two samples of the observer.
SLACK = 0.2


def series_of(galvo, observed):
    """Returns the points by metric, of the cluster and of each worker."""
    id_ = cluster_id(galvo, observed["scheduler_id"])
    found = galvo.query(SERIES, id=id_, metrics=METRICS, own=OWN)["cluster"]
    workers = {node["daskId"]: by_metric(node["series"]) for node in found["workers"]["nodes"]}
    return by_metric(found["series"]), workers


def by_metric(series):
    assert all(one["bucketSeconds"] == 1 for one in series)
    return {
        one["metric"]: [{**point, "at": seconds(point["at"])} for point in one["points"]]
        for one in series
    }


def assert_seen(points, samples, what, exact):
    """Asserts that each point consists of values observed within its second."""
    assert points, what
    for point in points:
        begin, end = point["at"] - SLACK, point["at"] + 1 + SLACK
        seen = {value for at, value in samples if begin <= at < end}
        if not seen:
            continue  # before the first sample
        assert point["min"] <= point["value"] <= point["max"]
        for value in (point["min"], point["max"]):
            if exact:
                assert value in seen, (what, point, sorted(seen))
            else:
                assert min(seen) <= value <= max(seen), (what, point, min(seen), max(seen))


def assert_series(galvo, client, observed):
    samples = client.call("look", at="samples")
    cluster, workers = series_of(galvo, observed)
    for metric in (*COUNTS, "MEMORY_LIMIT", *MEMORY):
        seen = [(s["at"], s["cluster"][metric]) for s in samples if metric in s["cluster"]]
        # Sums over workers may be observed between two workers' heartbeats.
        exact = metric in ("WORKERS", "THREADS", "MEMORY_LIMIT")
        assert_seen(cluster[metric], seen, metric, exact)
    assert len(workers) == len(observed["workers"])
    for id_, series in workers.items():
        for metric in (*MEMORY, "TASKS_EXECUTING"):
            seen = [(s["at"], s["workers"][id_][metric]) for s in samples if id_ in s["workers"]]
            exact = metric in ("MEMORY_PROCESS", "TASKS_EXECUTING")
            assert_seen(series[metric], seen, (id_, metric), exact)
    return samples, cluster, workers


def test_series(galvo, python, processes):
    """Memory, threads and tasks equal Dask's own values in the same second."""
    dask = ObservedCluster(processes, python, galvo.address, galvo.token)
    dask.add_worker("one", threads=2)
    dask.add_worker("two", memory="2GiB")
    client = dask.client()
    observed = client.call("observed")
    addresses = [worker_named(observed, name)["address"] for name in ("one", "two")]
    client.call("trouble", workload="ballasts", workers=addresses[:1], megabytes=60, count=2)
    client.call("sleep", seconds=1.5)
    starts = [str(processes.directory / f"started-{number}") for number in range(5)]
    end = processes.directory / "end"
    client.call(
        "trouble",
        workload="occupation",
        workers=[addresses[0], addresses[0], addresses[0], addresses[1], addresses[1]],
        starts=starts,
        end=str(end),
        words="busy",
    )
    client.call("sleep", seconds=2.5)
    busy = client.call("look", at="samples")[-1]
    end.touch()
    client.call("wait_for_held")
    client.call("let_go")
    client.call("sleep", seconds=2.5)

    def reported():
        found = series_of(galvo, observed)[0]["TASKS_PROCESSING"]
        return found and found[-1]["at"] > busy["at"] + 1 and found[-1]["max"] == 0

    wait_until(reported, "Galvo has measured what came last")
    samples, cluster, workers = assert_series(galvo, client, observed)

    # It also had the values that the workload causes.
    (during,) = [p for p in cluster["TASKS_PROCESSING"] if p["at"] == math.floor(busy["at"]) - 1]
    assert (during["min"], during["value"], during["max"]) == (5, 5, 5)
    assert busy["cluster"]["TASKS_PROCESSING"] == 5
    one, two = (worker_named(observed, name)["id"] for name in ("one", "two"))
    assert max(point["max"] for point in workers[one]["TASKS_EXECUTING"]) == 2
    assert max(point["max"] for point in workers[two]["TASKS_EXECUTING"]) == 1
    assert {p["value"] for p in cluster["WORKERS"] if p["at"] > samples[-1]["at"] - 3} == {2}
    assert cluster["THREADS"][-1]["value"] == 3
    assert cluster["MEMORY_LIMIT"][-1]["value"] == 3 * 2**30
    managed = [point["max"] for point in workers[one]["MEMORY_MANAGED"]]
    assert max(managed) >= 2 * 60 * 2**20 > managed[-1]
    # Without measurements there is no point.
    seen = [point["at"] for point in cluster["WORKERS"]]
    assert seen == sorted(set(seen)) and all(at == int(at) for at in seen)
    assert_disk(processes, cluster, workers)


def assert_disk(processes, cluster, workers):
    """Dask does not report disks, so the plugin's worker part measures them."""
    total = shutil.disk_usage(processes.directory).total
    free = shutil.disk_usage(processes.directory).free
    for series in (cluster, *workers.values()):
        assert {point["value"] for point in series["DISK_TOTAL"]} == {total}
        for point in series["DISK_FREE"]:
            # Others use the disk, too.
            assert 0 < point["value"] < total
            assert point["value"] == pytest.approx(free, abs=5 * 2**30)


def test_spilling(galvo, python, processes):
    """Results that do not fit are spilled: visible while on disk, and summed up as usage."""
    dask = ObservedCluster(processes, python, galvo.address, galvo.token)
    dask.add_worker("small", memory="384MiB")
    client = dask.client()
    observed = client.call("observed")
    address = worker_named(observed, "small")["address"]
    client.call("trouble", workload="ballasts", workers=[address], megabytes=40, count=10)
    held = 10 * 40 * 2**20

    def spilled(observed):
        written = bytes_spilled(observed)
        return written > 0 and written

    observed = observe(client, spilled, "Dask has written results to disk")
    client.call("sleep", seconds=2)  # until the worker has nothing more to spill or to report
    last = client.call("look", at="samples")[-1]["cluster"]["MEMORY_SPILLED"]
    assert 0 < last <= held

    def reported():
        cluster, _ = series_of(galvo, observed)
        return [point["max"] for point in cluster["MEMORY_SPILLED"]][-1:] == [last]

    wait_until(reported, "Galvo has measured what is on disk")
    _, cluster, workers = assert_series(galvo, client, observed)
    (own,) = workers.values()
    assert own["MEMORY_SPILLED"][-1]["max"] == cluster["MEMORY_SPILLED"][-1]["max"] == last

    id_ = cluster_id(galvo, observed["scheduler_id"])

    def used():
        usage = galvo.query(USAGE, id=id_)["cluster"]["usage"]
        # A worker may report its last write only after it is visible on disk.
        return usage["spilledBytes"] == bytes_spilled(client.call("observed")) and usage

    usage = wait_until(used, "Galvo says that as many bytes were spilled as Dask does")
    assert (usage["tasks"], usage["workers"]) == (10, 1)
    (group,) = client.call("dask_report")["groups"]
    assert usage["bytes"] == group["bytes"] >= held


def bytes_spilled(observed):
    return sum(
        metric["value"]
        for metric in observed["metrics"]
        if metric["labels"][-2:] == ["disk-write", "bytes"]
    )


def test_arrays(galvo, python, processes):
    """Durations, bytes and counts of typical array operations, with P2P transfers."""
    report = run(galvo, python, processes, "arrays")
    prefixes = report["prefixes"]
    assert {"rechunk-transfer", "rechunk-p2p"} & set(prefixes), sorted(prefixes)
    assert sum(group["bytes"] for group in report["groups"]) > 1_000_000


def test_dataframe_shuffle(galvo, processes):
    """The same for a shuffle."""
    report = run(galvo, python_named("NEWEST"), processes, "dataframes")
    prefixes = report["prefixes"]
    assert {"shuffle-transfer", "shuffle-barrier", "p2pshuffle"} <= set(prefixes)
    assert prefixes["shuffle-transfer"]["state_counts"]["memory"] == 8


def run(galvo, python, processes, workload):
    """Runs a workload, and compares while its results are held and after they are forgotten."""
    dask = ObservedCluster(processes, python, galvo.address, galvo.token)
    dask.add_worker("one")
    dask.add_worker("two")
    client = dask.client()
    client.call("trouble", workload=workload)
    report = settled(client)
    assert_agreement(galvo, report)
    client.call("release")
    assert_agreement(galvo, client.call("dask_report"))
    return report


def settled(client):
    """Returns Dask's numbers once they no longer change: tasks are forgotten with a delay."""
    report, before = client.call("dask_report"), None
    while before is None or report["groups"] != before["groups"]:
        time.sleep(0.5)
        report, before = client.call("dask_report"), report
    return report
