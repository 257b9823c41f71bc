"""Measures the first view of a cluster's page: its bytes, and the server's processor time for it.

The cluster has eight hours of samples. The figure is the page as clients should request it: series
as columns, compressed. The reference has the same values as objects, and no compression.
"""

import argparse
import gzip
import json
import math
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from processor_time import processor_seconds
from results import result

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/dask"))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests/faults"))
from load import report
from processes import GalvoServer, Processes

ROOT = Path(__file__).parents[2]
OPERATIONS = ROOT / "tests/dask/operations"
DOCUMENTS = ("cluster_header", "cluster_comparison_answers", "cluster_lanes", "cluster_marks")
COLUMNS = "columns { startedAt stepSeconds values min max }"
POINTS = "points { at value min max }"
HOURS, INTERVAL, SAMPLES = 8, 15, 200
METRICS = (
    "workers threads memory_process_bytes memory_managed_bytes memory_unmanaged_bytes"
    " memory_spilled_bytes memory_limit_bytes cpu_cores network_read_bytes_per_second"
    " network_write_bytes_per_second disk_read_bytes_per_second disk_write_bytes_per_second"
    " gil_contention_min gil_contention gil_contention_max event_loop_seconds"
    " event_loop_seconds_max scheduler_cpu_cores scheduler_event_loop_seconds tasks_processing"
    " tasks_waiting tasks_queued tasks_no_worker tasks_memory tasks_erred"
).split()


def reports(now):
    """Yields the reports of a cluster with samples until now."""
    times = [now - at for at in range(HOURS * 3_600, 0, -INTERVAL)]
    for number, first in enumerate(range(0, len(times), SAMPLES), 1):
        body = json.loads(report(1, number))
        body["cluster"]["started_at"] = times[0]
        body["sent_at"] = now
        body["samples"] = [
            {"at": at, "metrics": {name: value(name, at) for name in METRICS}}
            for at in times[first : first + SAMPLES]
        ]
        yield json.dumps(body).encode()


def value(name, at):
    """Returns a value that changes like a measurement."""
    wave = 1 + math.sin(at / 700 + len(name)) + 0.2 * math.sin(at / 31 * len(name))
    if name.endswith("_bytes"):
        return round(1e9 * abs(wave))
    if name.startswith(("tasks_", "workers", "threads")):
        return round(50 * abs(wave))
    return abs(wave) / 3


def send(server, path, body, **headers):
    request = urllib.request.Request(
        f"{server.address}{path}",
        body,
        {
            "Authorization": f"Bearer {server.token}",
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read(), response.headers.get("Content-Encoding")


def view(server, documents, cluster, encoding):
    """Returns the responses of the page, and the number of bytes that were received."""
    answers, received = {}, 0
    for name, text in documents.items():
        body = json.dumps({"query": text, "variables": {"id": cluster}}).encode()
        data, coding = send(server, "/graphql", body, Accept_Encoding=encoding)
        assert (coding or "identity") == encoding, (name, coding)
        received += len(data)
        answer = json.loads(gzip.decompress(data) if coding else data)
        assert "errors" not in answer, answer["errors"]
        answers[name] = answer["data"]["cluster"]
    return answers, received


def measure(server, documents, cluster, encoding, rounds):
    """Returns the responses, their bytes, and the processor time of a view."""
    answers, received = view(server, documents, cluster, encoding)
    before = processor_seconds(server.process.popen.pid)
    for _ in range(rounds):
        view(server, documents, cluster, encoding)
    seconds = processor_seconds(server.process.popen.pid) - before
    return answers, received, 1e3 * seconds / rounds


def values_of(series):
    """Returns the values of each metric, of points or of columns."""
    if "columns" in series[0]:
        return {row["metric"]: row["columns"]["values"] for row in series}
    return {row["metric"]: [point["value"] for point in row["points"]] for row in series}


def publish(server, rounds):
    for body in reports(time.time()):
        send(server, "/api/v1/reports", body)
    documents = {
        name: " ".join((OPERATIONS / f"{name}.graphql").read_text().split()) for name in DOCUMENTS
    }
    assert COLUMNS in documents["cluster_lanes"]
    objects = {name: text.replace(COLUMNS, POINTS) for name, text in documents.items()}
    before, plain, slow = measure(server, objects, "1", "identity", rounds)
    after, compressed, fast = measure(server, documents, "1", "gzip", rounds)
    lanes = values_of(after["cluster_lanes"]["series"])
    known_points = {metric: [v for v in row if v is not None] for metric, row in lanes.items()}
    # Columns have a place for each interval, points only for those with a value.
    assert known_points == values_of(before["cluster_lanes"]["series"])
    points = sum(map(len, known_points.values()))
    title = f"first view of a cluster's page, {len(known_points)} series of {points:,} points"
    result(
        f"{title}: size",
        f"{compressed / 1e3:.0f} kB as columns, compressed",
        f"{plain / 1e3:.0f} kB as objects",
        compressed / plain,
    )
    result(
        f"{title}: processor time",
        f"{fast:.1f} ms of the server",
        f"{slow:.1f} ms as objects, without compression",
        fast / slow,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        processes = Processes(Path(directory))
        settings = {
            "GALVO_QUERY_COST_PER_MINUTE": "1000000000",
            "GALVO_QUERY_COST_PER_MINUTE_OF_ADDRESS": "1000000000",
        }
        try:
            publish(GalvoServer(processes, settings=settings).start(), options.rounds)
        finally:
            processes.kill_all()


if __name__ == "__main__":
    main()
