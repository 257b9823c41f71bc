"""Newer releases on stores of earlier ones: migrated with all data, and beside running replicas."""

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
    """Restores a store as an earlier release left it, and returns its URL."""
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
    """Returns the schema of a store without the partitions, which follow the calendar."""
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
    """A migrated store has the same schema as an empty one, and the same responses as before."""
    postgres = request.getfixturevalue("postgres") if store == "postgres" else None
    url = restore(store, tmp_path, postgres)
    earlier = schema(store, tmp_path, postgres)
    says = json.loads((EARLIER / "says.json").read_text())
    # Its data would expire by its age some day.
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
    """A newer release's schema changes do not affect this one.

    Nullable columns and columns with a default are added to all tables, and tables and indexes are
    created. Replicas of this release continue, and one that restarts succeeds.
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
        # Like a migration step: it waits briefly for a lock, and retries.
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
    # Those without a response belong to the killed replica.
    assert set(statuses) <= {200, None}
    note = f"{len(tables)} tables changed under {len(statuses)} reports, none was refused"
    verdict = outcome.judge(fleet, second)
    outcome.write("schema of the next release under load", verdict, note=note)
