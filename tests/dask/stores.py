"""Stores of servers: creating empty ones, and searching them for texts."""

import contextlib
import copy
import os
import shutil
import sqlite3
import subprocess
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import invariants
from processes import REPOSITORY, clean_environment

STORES = ["sqlite", "postgres"]


@contextlib.contextmanager
def empty_store(kind):
    """Yields the URL of an empty database; None for a file of the server's own."""
    if kind == "sqlite":
        yield None
        return
    admin = os.environ.get("GALVO_TEST_DATABASE_URL")
    assert admin, "GALVO_TEST_DATABASE_URL is not set: scripts/with-services.sh starts PostgreSQL"
    name = f"galvo_dask_{uuid.uuid4().hex}"
    run_sql(admin, f"CREATE DATABASE {name}")
    yield urlsplit(admin)._replace(path=f"/{name}").geturl()
    run_sql(admin, f"DROP DATABASE {name} WITH (FORCE)")


def run_sql(url, statement):
    """Returns the lines of PostgreSQL's output."""
    candidates = [shutil.which("psql"), *Path("/usr/lib/postgresql").glob("*/bin/psql")]
    psql = next((candidate for candidate in candidates if candidate), None)
    assert psql, "psql is missing: install PostgreSQL's client"
    command = [psql, "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--dbname", url]
    done = subprocess.run(
        [*command, "--command", statement], check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


def rows(galvo, statement):
    """Returns the first column of a statement's result."""
    if not galvo.database_url.startswith("sqlite:"):
        return run_sql(galvo.database_url, statement)
    with contextlib.closing(sqlite3.connect(galvo.store)) as store:
        return [str(row[0]) for row in store.execute(statement)]


def texts_in_store(galvo, texts):
    """Returns which of these alphanumeric texts the store contains unencrypted."""
    if galvo.database_url.startswith("sqlite:"):
        files = [Path(f"{galvo.store}{suffix}") for suffix in ("", "-wal")]
        held = b"".join(file.read_bytes() for file in files if file.exists())
        assert b"SQLite format 3" in held
        return {text for text in texts if text.encode() in held}
    tables = run_sql(
        galvo.database_url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    )
    assert "log_lines" in tables
    # All columns of a row as one text, in which bytes are hexadecimal.
    statements = [f'SELECT t::text FROM "{table}" t' for table in tables]
    whole = "\n".join(run_sql(galvo.database_url, " UNION ALL ".join(statements)))
    return {t for t in texts if t in whole or t.encode().hex() in whole}


def member(galvo, account, user="ada", new=True):
    """Returns the same server with the token of a new user, in a new account by default."""
    if new:
        command_line(galvo, "account", "create", account)
    command_line(galvo, "user", "create", user, "--account", account, "--role", "owner")
    scopes = ["--scope", "ingest", "--scope", "read", "--scope", "admin"]
    token = command_line(
        galvo, "token", "create", "--user", user, "--account", account, *scopes
    ).split()[-1]
    seen = copy.copy(galvo)
    seen.token = token
    invariants.watch(seen)
    return seen


def command_line(galvo, *arguments):
    binary = os.environ.get("GALVO_BIN", REPOSITORY / "target/debug/galvo")
    environment = {**clean_environment(), "GALVO_DATABASE_URL": galvo.database_url}
    command = [binary, *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout
