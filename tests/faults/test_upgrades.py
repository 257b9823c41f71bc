"""Newer releases on stores of earlier ones: forward with all data, and beside replicas that still
run.
"""

import contextlib
import gzip
import json
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

from clocks import Clock
from databases import USER, postgres_bin

EARLIER = Path(__file__).parent / "earlier"

PG_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, column_default
FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2
"""
PG_INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
PG_CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2
"""
SQLITE_SCHEMA = """
SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2
"""


def restore(store, tmp_path, postgres):
    """A store as an earlier release left it. Returns its address."""
    if store == "sqlite":
        with (
            gzip.open(EARLIER / "galvo.db.gz") as packed,
            (tmp_path / "galvo.db").open("wb") as file,
        ):
            shutil.copyfileobj(packed, file)
        return f"sqlite://{tmp_path}/galvo.db?mode=rwc"
    url = postgres.make_database()
    with gzip.open(EARLIER / "galvo.sql.gz") as packed:
        command = [
            postgres_bin() / "psql",
            "--no-psqlrc",
            "--quiet",
            "--set=ON_ERROR_STOP=1",
            "-d",
            url,
        ]
        subprocess.run(command, input=packed.read(), check=True, stdout=subprocess.DEVNULL)
    return url


def schema(store, tmp_path, postgres, name="galvo"):
    """What a store consists of, without the partitions, which follow the calendar."""
    if store == "sqlite":
        with contextlib.closing(sqlite3.connect(tmp_path / f"{name}.db")) as connection:
            return connection.execute(SQLITE_SCHEMA).fetchall()
    with postgres.session(USER, name) as session:
        parts = session.run(
            "SELECT relname FROM pg_class WHERE relispartition AND relkind IN ('r', 'p') ORDER BY 1"
        )
        parts = [part for (part,) in parts if not part.endswith("_default")]
        rows = [*session.run(PG_COLUMNS), *session.run(PG_INDEXES), *session.run(PG_CONSTRAINTS)]
    return [row for row in rows if not any(part in str(row) for part in parts)]


def test_forward(store, request, tmp_path, make_server, make_fleet, outcome):
    """A store of an earlier release comes to the same schema as an empty one, and reads as it did
    there.
    """
    postgres = request.getfixturevalue("postgres") if store == "postgres" else None
    url = restore(store, tmp_path, postgres)
    earlier = schema(store, tmp_path, postgres)
    says = json.loads((EARLIER / "says.json").read_text())
    # What it holds would be deleted by its age some day.
    clock = Clock(tmp_path)
    clock.set(says["made_at"] - time.time())
    server = make_server(url, environment=clock.environment)
    server.token = says["tokens"][store]
    server.start()
    assert server.token == says["tokens"][store], "a store with data was taken for an empty one"
    for question in says["answers"][store]:
        assert server.query(question["query"], **question["variables"]) == question["data"]

    if store == "sqlite":
        empty = f"sqlite://{tmp_path}/empty.db?mode=rwc"
    else:
        empty = postgres.make_database("empty")
    make_server(empty).start().stop()
    assert schema(store, tmp_path, postgres) == schema(store, tmp_path, postgres, "empty")
    assert schema(store, tmp_path, postgres) != earlier

    fleet = make_fleet(server, clocks=(lambda: time.time() + clock.offset,))
    fleet.wait_for_progress(5)
    fleet.settle()
    same = len(says["answers"][store])
    note = f"from the schema of {says['steps']} steps; {same} answers are the same"
    outcome.write("upgrade of a store with data", outcome.judge(fleet, server), note=note)


def test_a_newer_schema_under_load(
    postgres, make_redis, make_wire, make_server, make_fleet, outcome
):
    """What a newer release may do to the schema while this one serves: this one does not notice.

    Columns that may be null or have a default are added to all tables, tables and indexes are made.
    Replicas of this release go on, and one that has to start again starts.
    """
    redis = make_redis()
    url, bus = postgres.make_database(), {"GALVO_REDIS_URL": redis.url()}
    first = make_server(url, environment=bus).start()
    second = make_server(url, environment=bus).start()
    second.token = first.token
    proxy = make_wire(first.port, second.port, rotate=True)
    fleet = make_fleet(first, size=6, port=proxy.port)
    fleet.wait_for_progress(5)
    with postgres.session(database="galvo") as session:
        tables = session.run(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1"
        )
        # As a step of a migration does: it waits for a moment at the most, and tries again.
        session.run("SET lock_timeout = '2s'")
        for (table,) in tables:
            session.run(f'ALTER TABLE "{table}" ADD COLUMN of_next_release text')
            session.run(
                f'ALTER TABLE "{table}" ADD COLUMN counted_by_next bigint NOT NULL DEFAULT 0'
            )
        session.run(
            "CREATE TABLE of_next_release"
            " (account_id uuid, id bigint, PRIMARY KEY (account_id, id))"
        )
        session.run("CREATE INDEX CONCURRENTLY next_idx ON spans (account_id, of_next_release)")
        session.run("INSERT INTO seaql_migrations VALUES ('m20990101_000001_of_next_release', 1)")
    fleet.wait_for_progress(5)
    second.kill()
    second.start()
    fleet.wait_for_progress(5)
    fleet.settle()
    statuses = [answer.status for answer in fleet.answers()]
    # Those without an answer are of the replica that was killed.
    assert set(statuses) <= {200, None}
    note = f"{len(tables)} tables changed under {len(statuses)} reports, none was refused"
    verdict = outcome.judge(fleet, second)
    outcome.write("schema of the next release under load", verdict, note=note)
