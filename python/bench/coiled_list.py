"""Measures how long the ``coiled`` client takes to list 10,000 clusters, page by page.

The reference is the same client reading the same pages from a server that has nothing but them.
Both take turns. The store is SQLite; one cluster was reported, and the others are copies of its
rows. The client runs in a separate process, which lists several times.
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from results import result

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/dask"))
from processes import GalvoServer, Processes, clean_environment

SLOWEST = 1.5
PAGE = 100
HOUR, MINUTE = 3_600_000, 60_000
LIST_PATH = "/api/v2/analytics/default/clusters/list"
USER_PATHS = ("/api/v2/user/me", "/api/v2/user/me/memberships")

PAGES = """
import json, sys
from aiohttp import web

pages = {path: text.encode() for path, text in json.load(open(sys.argv[1])).items()}

async def answer(request):
    return web.Response(body=pages[request.path_qs], content_type="application/json")

async def serve():
    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print("listening on", runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

import asyncio
asyncio.run(serve())
"""

CLIENT = """
import sys, time
import coiled.analytics

for _ in range(int(sys.argv[1])):
    begun = time.perf_counter()
    listed = coiled.analytics.list_clusters(since=None)
    print(len(listed), time.perf_counter() - begun, flush=True)
"""


def report(now):
    """Returns a report of a cluster with an hour that has a cost."""
    totals = {"tasks": 12_345, "tasks_succeeded": 12_000, "tasks_erred": 4, "errors": 5}
    totals |= {"compute_seconds": 123.5, "transfer_seconds": 3.25, "thread_seconds": 480.5}
    totals |= {"bytes": 9_000_000_000, "workers": 4, "peak_workers": 4, "peak_threads": 16}
    cluster = {"started_at": now - 3_600, "workers": 4, "threads": 16, "name": "nightly"}
    cluster |= {"memory_used_bytes": 123_456_789, "memory_limit_bytes": 64_000_000_000}
    cluster |= {"address": "tcp://10.0.0.1:8786", "dashboard_url": "http://10.0.0.1:8787/status"}
    usage = {"hour": int(now // 3_600) - 1, "thread_seconds": 3_600, "worker_seconds": 900}
    usage |= {"memory_gib_seconds": 7_200, "compute_seconds": 3_600, "transfer_seconds": 1.5}
    usage |= {"tasks": 100, "tasks_erred": 1, "retries": 2, "errors": 1, "bytes": 1_000}
    usage |= {"spilled_bytes": 10, "workers": 1, "functions": []}
    head = {"version": 1, "scheduler_id": "Scheduler-0", "sequence": 1, "sent_at": now}
    return head | {
        "interval_seconds": 15.0,
        "cluster": {**cluster, "totals": totals},
        "usage": [usage],
    }


def request_text(server, path, body=None):
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(server.address + path, body, headers)
    with urllib.request.urlopen(request) as response:
        return response.read().decode()


def copy_rows(store, number):
    """Copies the cluster's rows with its hour, each copy a minute older than the previous one."""
    with sqlite3.connect(store) as database:
        rows = {}
        for table in ("clusters", "usage_hours"):
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            values = database.execute(f"SELECT * FROM {table}").fetchone()
            rows[table] = dict(zip(columns, values, strict=True))

        def insert(table, changes):
            row = rows[table] | changes
            placeholders = ", ".join("?" * len(row))
            database.execute(
                f"INSERT INTO {table} ({', '.join(row)}) VALUES ({placeholders})",
                list(row.values()),
            )

        first = rows["clusters"]
        for copy in range(1, number):
            started, cluster = first["started_at"] - copy * MINUTE, first["id"] - copy * 1_000
            closed = {"status": "closed", "closed_at": started + HOUR, "ended_key": started + HOUR}
            identity = {"id": cluster, "scheduler_id": f"Scheduler-{copy}", "started_at": started}
            insert("clusters", identity | closed)
            insert("usage_hours", {"cluster_id": cluster, "hour": started // HOUR})
    database.close()


def measure_lists(python, address, token, number, clusters, home):
    """Returns the seconds that each of several lists took."""
    environment = {**clean_environment(), "HOME": str(home)}
    environment |= {"DASK_COILED__SERVER": address, "DASK_COILED__TOKEN": token}
    outcome = subprocess.run(
        [python, "-c", CLIENT, str(number)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    lines = [line.split() for line in outcome.stdout.splitlines() if line[:1].isdigit()]
    assert [int(length) for length, _ in lines] == [clusters] * number
    # The first list also looks up the user.
    return [float(seconds) for _, seconds in lines[1:]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clusters", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--python", default=os.environ.get("GALVO_TEST_PYTHON_COILED"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        processes = Processes(home)
        try:
            measure(options, home, processes)
        finally:
            processes.kill_all()


def measure(options, home, processes):
    # Listing this often uses up a minute's cost quota within seconds.
    server = GalvoServer(processes, settings={"GALVO_QUERY_COST_PER_MINUTE": "1000000000"}).start()
    request_text(server, "/api/v1/reports", json.dumps(report(time.time())).encode())
    server.stop()
    copy_rows(server.store, options.clusters)
    server.start()
    offsets = range(0, options.clusters + PAGE, PAGE)
    paths = [*USER_PATHS, *(f"{LIST_PATH}?limit={PAGE}&offset={offset}" for offset in offsets)]
    pages = home / "pages.json"
    pages.write_text(json.dumps({path: request_text(server, path) for path in paths}))
    arguments = [options.python, "-c", PAGES, pages]
    static = processes.start("pages", arguments, clean_environment())
    port = static.wait_for_log(r"^listening on (\d+)$").group(1)
    seconds = {"galvo": [], "pages": []}
    for _ in range(options.rounds):
        for name, address in (("pages", f"http://127.0.0.1:{port}"), ("galvo", server.address)):
            token = server.token
            seconds[name] += measure_lists(
                options.python, address, token, 4, options.clusters, home
            )
    galvo, static = (statistics.median(seconds[name]) for name in ("galvo", "pages"))
    result(
        f"coiled client lists {options.clusters:,} clusters, {PAGE} a page, SQLite",
        f"{galvo:.2f} s (median of {len(seconds['galvo'])}, longest {max(seconds['galvo']):.2f})",
        f"{static:.2f} s for the same pages from a server that has nothing else",
        galvo / static,
        f"<= {SLOWEST}",
        galvo / static <= SLOWEST,
    )


if __name__ == "__main__":
    main()
