"""PostgreSQL and Redis servers owned by one test, which may do anything to them.

PostgreSQL flushes its commits, as in production.
"""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

from processes import clean_environment, free_port, wait_until

PASSWORD = "only-for-this-test"
USER = "galvo"  # may not use the connections reserved for superusers
SUPERUSER = "postgres"


def postgres_bin():
    """Returns the server's binaries, which Debian keeps off PATH."""
    for directory in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (directory / "initdb").exists():
            return directory
    found = shutil.which("initdb")
    assert found, "PostgreSQL's server binaries are missing: scripts/test.sh installs them"
    return Path(found).parent


def as_postgres():
    """Returns a command prefix for a non-root user, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, cwd="/", **options
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


class Postgres:
    """A PostgreSQL server with a fixed port."""

    def __init__(self, processes, directory, settings=None):
        self._processes = processes
        self.directory = directory
        self.settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": 60,
            "shared_buffers": "32MB",
            "wal_level": "replica",
            "hot_standby": "on",
            "synchronous_commit": "on",
            "fsync": "on",
            **(settings or {}),
        }
        self.port = free_port()
        self.process = None

    @classmethod
    def made_from(cls, template, processes, directory, settings=None):
        """Creates one with an empty data directory."""
        run(*as_postgres(), "cp", "-a", template, directory)
        return cls(processes, directory, settings)

    def start(self, seconds=60.0):
        options = [
            word for item in self.settings.items() for word in ("-c", "=".join(map(str, item)))
        ]
        command = [*as_postgres(), postgres_bin() / "postgres", "-D", self.directory]
        deadline = time.monotonic() + seconds
        while True:
            self.process = self._processes.start(
                "postgres", [*command, "-p", self.port, *options], clean_environment()
            )
            while self.process.is_running():
                assert time.monotonic() < deadline, (
                    f"PostgreSQL does not start: {self.process.log()}"
                )
                with contextlib.suppress(OSError, DatabaseError):
                    with self.session(SUPERUSER) as session:
                        session.run("SELECT 1")
                        return self
                time.sleep(0.05)
            # Its children may outlive it for a moment, and hold its memory.
            time.sleep(0.2)

    def make_database(self, name="galvo", tablespace=None):
        where = f" TABLESPACE {tablespace}" if tablespace else ""
        with self.session(SUPERUSER) as session:
            session.run(f"CREATE DATABASE {name} OWNER {USER}{where}")
        return self.url(name)

    def url(self, name="galvo", port=None):
        return f"postgres://{USER}:{PASSWORD}@127.0.0.1:{port or self.port}/{name}?sslmode=disable"

    def session(self, user=USER, database="postgres"):
        return PgSession(self.port, user, database)

    def stop(self, how):
        """Stops it: `fast` ends sessions and writes everything, `immediate` leaves recovery to the
        next start.
        """
        self.process.send({"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[how])
        self.process.wait(30)

    def kill(self):
        """Sends SIGKILL; the next start recovers from the log."""
        self.process.send(signal.SIGKILL)
        self.process.wait(10)

    def make_standby(self, directory):
        """Creates a synchronous standby: commits wait until it has them, too."""
        run(
            *[
                *as_postgres(),
                postgres_bin() / "pg_basebackup",
                "-D",
                directory,
                "-R",
                "-X",
                "stream",
            ],
            *[
                "--checkpoint=fast",
                "-d",
                f"postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{self.port}/",
            ],
        )
        standby = Postgres(self._processes, directory, self.settings)
        standby.start()
        with self.session(SUPERUSER) as session:
            session.run("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
            session.run("SELECT pg_reload_conf()")

            def is_followed():
                states = session.run("SELECT sync_state FROM pg_stat_replication")
                return states == [["quorum"]]

            wait_until(is_followed, "the standby follows")
        return standby

    def promote(self):
        with self.session(SUPERUSER) as session:
            session.run("ALTER SYSTEM RESET synchronous_standby_names")
            session.run("SELECT pg_reload_conf()")
            session.run("SELECT pg_promote()")


def make_template(directory):
    """Creates an empty data directory with both users, as a template."""
    password = directory.parent / "password"
    password.write_text(PASSWORD)
    if os.geteuid() == 0:
        # The directories of tests are accessible to their owner only.
        for parent in directory.parents:
            if not parent.stat().st_mode & 1:
                parent.chmod(parent.stat().st_mode | 0o111)
        shutil.chown(password, "postgres")
        shutil.chown(directory.parent, "postgres")
    run(
        *[*as_postgres(), postgres_bin() / "initdb", "-D", directory, "-U", SUPERUSER],
        *["--encoding=UTF8", "--locale=C", "--auth=password", f"--pwfile={password}", "--no-sync"],
        *["--no-instructions"],
    )
    statement = f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'\n"
    command = [*as_postgres(), postgres_bin() / "postgres", "--single", "-D", directory, "postgres"]
    run(*command, input=statement)
    return directory


class DatabaseError(Exception):
    """An error response of PostgreSQL."""


class PgSession:
    """A connection that runs statements in sequence, and holds their locks until it ends."""

    def __init__(self, port, user, database):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._read = self._socket.makefile("rb")
        words = b"".join(word.encode() + b"\0" for word in ("user", user, "database", database, ""))
        body = struct.pack("!i", 196608) + words
        self._socket.sendall(struct.pack("!i", len(body) + 4) + body)
        try:
            self._until_ready()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._read.close()
        self._socket.close()

    def run(self, statement):
        """Returns the rows, as texts."""
        self._send(b"Q", statement.encode() + b"\0")
        return self._until_ready()

    def _send(self, kind, body):
        self._socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def _until_ready(self):
        rows, error = [], None
        while True:
            head = self._read.read(5)
            if len(head) < 5:
                raise OSError("the connection ended")
            kind, length = struct.unpack("!ci", head)
            body = self._read.read(length - 4)
            if kind == b"R" and body[:4] == b"\0\0\0\3":
                self._send(b"p", PASSWORD.encode() + b"\0")
            elif kind == b"E":
                fields = dict((f[:1], f[1:].decode()) for f in body.split(b"\0") if f)
                error = DatabaseError(fields.get(b"M"), fields.get(b"C"))
                if fields.get(b"S") == "FATAL":
                    raise error
            elif kind == b"D":
                rows.append(_row(body))
            elif kind == b"Z":
                if error is not None:
                    raise error
                return rows


def _row(body):
    (count,), at, row = struct.unpack_from("!h", body), 2, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, at)
        at += 4
        row.append(None if length < 0 else body[at : at + length].decode())
        at += max(length, 0)
    return row


class Redis:
    """A Redis server with a fixed port."""

    def __init__(self, processes, directory):
        self._processes, self._directory = processes, directory
        self.port = free_port()
        self.process = None

    def start(self):
        configuration = self._directory / "redis.conf"
        lines = ["bind 127.0.0.1", f"port {self.port}", f"requirepass {PASSWORD}", 'save ""']
        configuration.write_text("\n".join([*lines, f"dir {self._directory}", ""]))
        self.process = self._processes.start(
            "redis", ["redis-server", configuration], clean_environment()
        )
        self.process.wait_for_log("Ready to accept connections")
        return self

    def kill(self):
        self.process.send(signal.SIGKILL)
        self.process.wait(10)

    def url(self, port=None):
        return f"redis://:{PASSWORD}@127.0.0.1:{port or self.port}/"


@contextlib.contextmanager
def small_disk(directory, megabytes, owner=None):
    """Mounts a small file system. ``fill`` and ``empty`` make it full and not full."""
    directory.mkdir()
    as_root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    run(*as_root, "mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=1777", "tmpfs", directory)
    try:
        if owner and os.geteuid() == 0:
            shutil.chown(directory, owner, owner)
            directory.chmod(0o700)
        yield directory
    finally:
        run(*as_root, "umount", "--lazy", directory)


def fill(directory):
    """Uses up the remaining space of the file system."""
    with (directory / "ballast").open("ab", buffering=0) as ballast:
        with contextlib.suppress(OSError):
            while True:
                ballast.write(bytes(4096))


def empty(directory):
    (directory / "ballast").unlink()
