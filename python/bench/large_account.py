"""Measures how long the Overview, the list of clusters and its facets take in a large account.

The account has 100,000 clusters of 200 users in a year. One cluster was reported by a real Dask
program; the others are copies of its rows, which the database makes. ``web/bench/large_account.js``
opens the pages in a browser, notes their requests, and repeats them without the browser's work.
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import uuid
from contextlib import closing
from pathlib import Path

from processor_time import processor_seconds
from results import result

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/dask"))
from processes import GalvoServer, Processes, clean_environment

ROOT = Path(__file__).parents[2]
PASSWORD = "correct horse battery staple"
YEAR, HOUR = 365 * 86_400_000, 3_600_000
SLOWEST = 1.0
SLOWEST_FACETS = 0.3
# One in this many clusters has rows of these tables.
DETAILED = 10
DETAILS = {
    "computations": ("started_at", "stopped_at"),
    "task_groups": ("first_seen_at", "started_at", "stopped_at"),
    "computation_task_groups": (),
    "spans": ("enqueued_at", "started_at", "stopped_at"),
    "workers": ("first_seen_at", "started_at", "last_seen_at", "ended_at"),
}

WORKLOAD = """
import sys, time
import dask
from distributed import Client, LocalCluster, span

if __name__ == "__main__":
    dask.config.set({"distributed.scheduler.preload": ["galvo"]})
    size = {"n_workers": 2, "threads_per_worker": 2, "processes": False}
    with LocalCluster(**size, dashboard_address=":0") as cluster:
        with Client(cluster) as client:
            for name in ("load", "clean", "fit"):
                with span(name):
                    client.gather(client.map(lambda n: time.sleep(0.05), range(8), pure=False))
            time.sleep(2)
"""

LIST = """{ viewer { account { clusters(first: 100) {
    totalCount nodes { number name state startedAt user { name } totals { tasks errors } }
    FACETS } } } }"""
FACETS = """facets { states { state count } users { values { user { name } count } valueCount }
    tags { values { tag { key value } count } valueCount } flags { kind count } }"""
# Each cluster has a tag, one in seven has another one, and one in fifty has an active flag.
TAGS_AND_FLAGS = """
    INSERT INTO cluster_tags (account_id, cluster_id, key, value)
        SELECT account_id, id, 'team', 'team-' || (id % 20) FROM clusters;
    INSERT INTO cluster_tags (account_id, cluster_id, key, value)
        SELECT account_id, id, 'nightly', '' FROM clusters WHERE id % 7 = 0;
    INSERT INTO cluster_flags (account_id, cluster_id, id, kind, since, ended_key, threshold, value)
        SELECT account_id, id, account_id, 'spilling', started_at, 9223372036854775807, 0.05, 0.5
        FROM clusters WHERE id % 50 = 0
"""


class Sqlite:
    name = "SQLite"

    def __init__(self, processes):
        self.path = processes.directory / "galvo.db"
        self.url = None

    def run(self, script):
        with closing(sqlite3.connect(self.path, isolation_level=None)) as database:
            database.executescript(f"BEGIN; {script}; COMMIT; ANALYZE")

    def processes(self):
        """Returns the processes of the database beside the server."""
        return []

    def columns(self, table):
        with closing(sqlite3.connect(self.path)) as database:
            return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


class Postgres:
    name = "PostgreSQL"

    def __init__(self, _):
        server, _ = os.environ["GALVO_TEST_DATABASE_URL"].rsplit("/", 1)
        name = f"bench_{uuid.uuid4().hex[:8]}"
        self.url = f"{server}/{name}"
        self._psql(f"{server}/postgres", f"CREATE DATABASE {name}")

    def run(self, script):
        self._psql(self.url, f"BEGIN; {script}; COMMIT; VACUUM ANALYZE;")

    def processes(self):
        pids = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        return [int(pid) for pid in self._psql(self.url, pids).split()]

    def columns(self, table):
        select = f"SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass"
        where = "AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        return self._psql(self.url, f"{select} {where}").split()

    def _psql(self, url, script):
        options = ["-qAtX", "-v", "ON_ERROR_STOP=1"]
        result = subprocess.run(
            ["psql", *options, url], input=script, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        return result.stdout


def copies(store, table, changes, where="TRUE"):
    """Returns the statement that copies the rows of the reported cluster, with other values in some
    columns."""
    columns = store.columns(table)
    values = [changes.get(column, f"model.{column}") for column in columns]
    # Without a limit, SQLite may read rows that the statement adds.
    first = f"SELECT * FROM {table} LIMIT 1000"
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} "
        "FROM bench_numbers "
        "JOIN bench_members ON ordinal = n % (SELECT count(*) FROM bench_members) "
        f"CROSS JOIN ({first}) AS model WHERE {where}"
    )


def script(store, clusters):
    """Returns the statements that make an account with so many clusters of the one in it."""
    spacing = YEAR // clusters

    def shifted(*columns):
        return {column: f"model.{column} - n * {spacing}" for column in columns}

    cluster_id_change = {"cluster_id": "model.cluster_id + n"}
    cluster_changes = {
        "id": "model.id + n",
        "scheduler_id": "'Scheduler-' || n",
        "name": "'pipeline-' || (n % 50)",
        "user_id": "bench_members.id",
        "total_errors": "CASE WHEN n % 10 = 0 THEN n % 7 ELSE 0 END",
        "total_compute_seconds": "model.total_compute_seconds * (n % 97 + 1) / 50",
        "total_tasks": "model.total_tasks + n % 1009",
        "duration_ms": "model.duration_ms + (n * 7919) % 86400000",
    }
    cluster_changes |= shifted(
        "reported_at", "first_seen_at", "last_seen_at", "started_at", "closed_at", "ended_key"
    )
    hours = cluster_id_change | {"hour": f"model.hour - n * {spacing} / {HOUR}", "folded": "TRUE"}
    days = ", ".join(
        {
            "account_id": "hours.account_id",
            "day": "hour / 24",
            "user_id": "clusters.user_id",
            "clusters": "count(DISTINCT cluster_id)",
            "is_cut": "FALSE",
        }.get(column, f"CAST(sum(hours.{column}) AS bigint)")
        for column in store.columns("usage_days")
    )
    statements = [
        "CREATE TABLE bench_numbers (n bigint PRIMARY KEY)",
        "INSERT INTO bench_numbers WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL "
        f"SELECT n + 1 FROM numbers WHERE n < {clusters - 1}) SELECT n FROM numbers",
        "CREATE TABLE bench_members AS SELECT row_number() OVER (ORDER BY name) - 1 AS ordinal, id "
        "FROM users WHERE name LIKE 'user-%'",
        copies(store, "clusters", cluster_changes),
        copies(store, "usage_hours", hours),
        *(
            copies(store, table, cluster_id_change | shifted(*times), f"n % {DETAILED} = 0")
            for table, times in DETAILS.items()
        ),
        "DELETE FROM usage_days",
        f"INSERT INTO usage_days SELECT {days} FROM usage_hours AS hours JOIN clusters "
        "ON clusters.account_id = hours.account_id AND clusters.id = cluster_id "
        "GROUP BY hours.account_id, hour / 24, clusters.user_id",
        "DROP TABLE bench_numbers",
        "DROP TABLE bench_members",
    ]
    return "; ".join(statements)


def galvo(server, *arguments, stdin=""):
    command, environment = [server.program, *arguments], server.environment
    result = subprocess.run(
        command, input=stdin, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{arguments}: {result.stderr}"


def fill(server, store, processes, options):
    server.start()
    workload = processes.directory / "workload.py"
    workload.write_text(WORKLOAD)
    environment = clean_environment() | {
        "DASK_GALVO__SERVER": server.address,
        "DASK_GALVO__TOKEN": server.token,
    }
    subprocess.run([sys.executable, workload], env=environment, check=True)
    server.stop()
    for number in range(options.users):
        galvo(server, "user", "create", f"user-{number}", "--account", "default")
    galvo(server, "user", "password", "admin", stdin=PASSWORD + "\n")
    store.run(script(store, options.clusters))


def measure(store_type, options):
    with tempfile.TemporaryDirectory() as directory:
        processes = Processes(Path(directory))
        try:
            store = store_type(processes)
            settings = {
                "GALVO_QUERY_COST_PER_MINUTE": "1000000000",
                "GALVO_QUERY_COST_PER_MINUTE_OF_ADDRESS": "1000000000",
            }
            server = GalvoServer(processes, store.url, settings)
            fill(server, store, processes, options)
            server.start()
            publish(store, server, options)
            server.stop()
            store.run(TAGS_AND_FLAGS)
            server.start()
            publish_facets(store, server, options)
            server.stop()
        finally:
            processes.kill_all()


def publish(store, server, options):
    environment = clean_environment() | {"GALVO_URL": server.address, "GALVO_PASSWORD": PASSWORD}
    driver = subprocess.Popen(
        ["node", ROOT / "web/bench/large_account.js", str(options.rounds)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with driver:
        pid = server.process.popen.pid
        for line in driver.stdout:
            event = json.loads(line)
            if event["event"] == "ready":
                seconds_used = processor_seconds(pid)
                driver.stdin.write("\n")
                driver.stdin.flush()
                continue
            seconds_used = (processor_seconds(pid) - seconds_used) / options.rounds
            seconds = statistics.median(event["seconds"])
            longest = f"{event['longest']} ({event['longest_seconds']:.3f} s)"
            result(
                f"{event['page']} of {options.clusters:,} clusters, {store.name}",
                f"{seconds:.3f} s for {event['requests']} requests, {seconds_used:.3f} s of the "
                f"server's processor time; the longest is {longest}",
                target=f"<= {SLOWEST:.0f} s",
                is_met=seconds <= SLOWEST,
            )
    assert driver.returncode == 0, "the browser failed"


def processor_time(store, server, query, rounds):
    """Returns the processor time of a query on the server and the database, and the list."""

    def seconds_used():
        pids = [server.process.popen.pid, *store.processes()]
        return sum(processor_seconds(pid) for pid in pids if Path(f"/proc/{pid}").exists())

    server.query(query)
    before = seconds_used()
    for _ in range(rounds):
        answer = server.query(query)
    return (seconds_used() - before) / rounds, answer["viewer"]["account"]["clusters"]


def publish_facets(store, server, options):
    plain, _ = processor_time(store, server, LIST.replace("FACETS", ""), options.rounds)
    with_facets, clusters = processor_time(
        store, server, LIST.replace("FACETS", FACETS), options.rounds
    )
    facets = clusters["facets"]
    assert sum(state["count"] for state in facets["states"]) == clusters["totalCount"], facets
    assert facets["tags"]["valueCount"] == 21 and len(facets["flags"]) == 1, facets
    result(
        f"A list of 100 of {options.clusters:,} clusters with facets, {store.name}",
        f"{with_facets:.3f} s of processor time on the server and the database",
        f"{plain:.3f} s for the list without facets",
        with_facets / plain,
        target=f"<= {SLOWEST_FACETS} s",
        is_met=with_facets <= SLOWEST_FACETS,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clusters", type=int, default=100_000)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for store in (Sqlite, Postgres):
        measure(store, options)


if __name__ == "__main__":
    main()
