"""Lists of any length arrive as DataFrames, and the server streams them in bounded memory."""

import gzip
import json
import subprocess
import threading
import urllib.request
import uuid

import pytest
from accounts import cluster_id
from conftest import settings_for
from processes import GalvoServer, dask_environment
from stores import member

REPORTS, SPANS, CELLS = 20, 10, 5000
NOW = 1_795_000_000.0

SCRIPT = """
import galvo, json, sys


def fine_metrics(cluster):
    return galvo.export(f"clusters/{cluster}/fine-metrics", unit="seconds").to_arrow()


small, large = sys.argv[1:]
for _ in range(5):
    assert fine_metrics(small).num_rows > 0
print("measure", flush=True)
sys.stdin.readline()
table = fine_metrics(large)
frame = table.to_pandas()
print(json.dumps({
    "bytes": table.nbytes,
    "rows": len(frame),
    "sum": float(frame["value"].sum()),
    "spans": frame["span.id"].nunique(),
    "functions": frame["function"].nunique(),
    "type": str(frame["value"].dtype),
}))
"""


class Resident:
    """The largest growth of a process's memory while it was open."""

    def __init__(self, process):
        self._status = f"/proc/{process.popen.pid}/status"
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self.before = self.most = self._bytes()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._thread.join()

    @property
    def grown(self):
        return self.most - self.before

    def _look(self):
        while not self._stopped.wait(0.01):
            self.most = max(self.most, self._bytes())

    def _bytes(self):
        with open(self._status) as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def report(scheduler, sequence, metrics):
    totals = dict.fromkeys(
        "tasks tasks_succeeded tasks_erred errors compute_seconds transfer_seconds thread_seconds"
        " bytes workers peak_workers peak_threads".split(),
        0,
    )
    sizes = {"workers": 0, "threads": 0, "memory_used_bytes": 0}
    return {
        "version": 1,
        "scheduler_id": scheduler,
        "sequence": sequence,
        "sent_at": NOW + sequence,
        "interval_seconds": 600,
        "cluster": {"started_at": NOW, **sizes, "totals": totals},
        "fine_metrics": metrics,
    }


def send(galvo, body):
    request = urllib.request.Request(
        galvo.address + "/api/v1/reports",
        gzip.compress(json.dumps(body).encode(), 1),
        {
            "Authorization": f"Bearer {galvo.token}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        },
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        assert response.status == 200


def send_reports(galvo, scheduler, count):
    """Returns the number of a new cluster that sent this many reports."""
    for sequence in range(1, count + 1):
        metrics = [
            {
                "span_id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{sequence} {span}")),
                "cells": [
                    ["execute", f"function-{cell}", "thread-cpu", "seconds", cell / 8]
                    for cell in range(CELLS)
                ],
            }
            for span in range(SPANS)
        ]
        send(galvo, report(scheduler, sequence, metrics))
    found = galvo.query(
        "query ($id: ID!) { cluster(id: $id) { number } }", id=cluster_id(galvo, scheduler)
    )
    return found["cluster"]["number"]


@pytest.mark.parametrize("python", ["newest"], indirect=True)
def test_a_million_rows_are_a_data_frame(processes, python):
    server = GalvoServer(processes).start()
    galvo = member(server, "frames")
    settings = settings_for(galvo.address, galvo.token)
    small = send_reports(galvo, "Scheduler-small", REPORTS // 10)
    large = send_reports(galvo, "Scheduler-large", REPORTS)

    # The memory used for receiving reports must not hide that used for exporting.
    server.stop()
    server.start()

    exporting = subprocess.Popen(
        [python, "-c", SCRIPT, str(small), str(large)],
        env=dask_environment(processes.directory, settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    # The first exports are not part of the measurement: each thread of the server keeps some memory
    # for later use, however long an export is.
    assert exporting.stdout.readline() == "measure\n"
    with Resident(server.process) as resident:
        measured = json.loads(exporting.communicate("go\n", timeout=300)[0])
    assert exporting.returncode == 0
    size = measured.pop("bytes")
    assert measured == {
        "rows": REPORTS * SPANS * CELLS,
        # Eighths are exact in floating point.
        "sum": REPORTS * SPANS * sum(range(CELLS)) / 8,
        "spans": REPORTS * SPANS,
        "functions": CELLS,
        "type": "float64",
    }
    assert measured["rows"] == 1_000_000
    # The server buffers nothing: ten times as many rows take hardly more memory.
    assert size > 100 << 20, f"{size >> 20} MiB"
    assert resident.grown < 64 << 20, f"{resident.grown >> 20} MiB more"
