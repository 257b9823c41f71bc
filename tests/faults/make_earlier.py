"""Creates the stores of an earlier release for `test_upgrades.py`, with that release:

    GALVO_BIN=galvo-of-then FAULTS_SEED=1 GALVO_EARLIER=tests/faults/earlier pytest
    tests/faults/make_earlier.py

Its name excludes it from the tests. The release's responses are stored beside the stores, because a
later release must give the same responses.
"""

import contextlib
import gzip
import json
import os
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from databases import postgres_bin
from ledger import CLUSTERS, LISTS, clusters

TARGET = Path(os.environ.get("GALVO_EARLIER", ""))

OTHERS = [
    "{ viewer { account { slug name } user { name } } }",
    """{ viewer { account { clusters(first: 100) { nodes {
      schedulerId name address startedAt closeReason dropped { computations taskGroups errors }
      workers(first: 10) { nodes { name address host threads memoryLimit startedAt } }
      functions { prefix tasks } } } } } }""",
    """{ viewer { account { errorGroups(first: 100) { nodes { type title origin firstSeenAt
    lastSeenAt status } } } } }""",
]


def questions(server):
    yield CLUSTERS, {}
    for rows in clusters(server).values():
        for field, selection in LISTS.values():
            page = f"list: {field}(first: 100) {{ totalCount nodes {{ {selection} }} }}"
            query = f"query ($id: ID!) {{ cluster(id: $id) {{ {page} }} }}"
            yield query, {"id": rows[0]["id"]}
    for query in OTHERS:
        yield query, {}


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_make(store, server, make_fleet, outcome, postgres, tmp_path, database_url):
    fleet = make_fleet(server, size=3)
    fleet.wait_for_progress(12)
    fleet.settle()
    outcome.judge(fleet, server)
    answers = []
    for query, variables in questions(server):
        try:
            data = server.query(query, **variables)
        except AssertionError as error:
            print(f"left out, because the release does not answer it: {error}")
            continue
        answers.append({"query": query, "variables": variables, "data": data})
    TARGET.mkdir(exist_ok=True)
    path = TARGET / "says.json"
    record = json.loads(path.read_text()) if path.exists() else {"answers": {}, "tokens": {}}
    record["answers"][store] = answers
    record["tokens"][store] = server.token
    record["made_at"] = time.time()
    server.stop()
    if store == "sqlite":
        with contextlib.closing(sqlite3.connect(tmp_path / "galvo.db")) as connection:
            (record["steps"],) = connection.execute(
                "SELECT count(*) FROM seaql_migrations"
            ).fetchone()
            connection.execute("VACUUM INTO ?", [str(tmp_path / "packed.db")])
        content, name = (tmp_path / "packed.db").read_bytes(), "galvo.db.gz"
    else:
        command = [postgres_bin() / "pg_dump", "--no-owner", "--no-privileges", "-d", database_url]
        content = subprocess.run(command, check=True, capture_output=True).stdout
        name = "galvo.sql.gz"
    (TARGET / name).write_bytes(gzip.compress(content, mtime=0))
    path.write_text(json.dumps(record, indent=1) + "\n")
