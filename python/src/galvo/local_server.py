"""A server on this machine for its user alone, with its data in the user's directory."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import quote, urlsplit

from galvo.client.errors import GalvoError

PORT = 8000
# A first start creates the database, on a slow disk as well.
START_SECONDS = 120.0
# The server lets requests finish for 20 seconds.
STOP_SECONDS = 40.0
POLL_SECONDS = 0.05
# The account and the user that the server creates in an empty database.
ACCOUNT, USER = "default", "admin"


class RunningServer(NamedTuple):
    """A running server."""

    address: str
    process_id: int


class StartedServer(NamedTuple):
    """A server that this process has just started."""

    running: RunningServer
    process: subprocess.Popen[bytes]
    # The token of the first user, if the database was empty.
    token: str | None
    # The page to sign in, if the server names one.
    sign_in: str | None


class LocalServer:
    """The server whose data is in a directory. Several processes may look at it."""

    def __init__(self, directory: Path | None = None):
        self.directory = data_directory() if directory is None else directory
        self.database = self.directory / "galvo.db"
        self.log = self.directory / "server.log"
        self._state_path = self.directory / "server.json"

    @property
    def database_url(self) -> str:
        return f"sqlite://{quote(str(self.database))}?mode=rwc"

    def running(self) -> RunningServer | None:
        """Returns the running server; None if there is none.

        Raises GalvoError if a server uses the database that was not started here.
        """
        process_id = self._lock_holder()
        if process_id is None:
            return None
        address = self.last_address
        if address is None or self._read_state().get("process_id") != process_id:
            raise GalvoError(
                f"the process {process_id} uses {self.database}, and `galvo up` did not start it:"
                " stop it first"
            )
        return RunningServer(address, process_id)

    @property
    def last_address(self) -> str | None:
        """The address of the last server with this directory, running or not."""
        address = self._read_state().get("address")
        return address if isinstance(address, str) else None

    def start(self, program: Path, environment: dict[str, str], port: int | None) -> StartedServer:
        """Starts a server and returns once it listens.

        It does not get the signals of this terminal. Raises GalvoError with the end of its log if
        it ends instead.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        listen = f"127.0.0.1:{self._free_port() if port is None else port}"
        command = [str(program), "serve", "--bootstrap", "--listen", listen]
        command += ["--database-url", self.database_url]
        # The output contains the token, so it goes to a file without a name. A pipe would break if
        # this process ended before the server.
        with tempfile.TemporaryFile() as output, _open_private(self.log) as log:
            log_position = log.tell()
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                # Otherwise Ctrl-C would send it a first signal, and this process a second one,
                # which ends it at once.
                start_new_session=True,
            )
            try:
                text = self._wait_for_start(process, output, log_position)
            except BaseException:
                process.terminate()
                process.wait()
                raise
        address = _find_value(r"^listening on (\S+)$", text)
        assert address is not None
        running = RunningServer(address, process.pid)
        self._write_state({"address": address, "process_id": process.pid})
        token, sign_in = (
            _find_value(r"^token: +(\S+)", text),
            _find_value(r"^sign in: +(\S+)", text),
        )
        return StartedServer(running, process, token, sign_in)

    def create_token(self, program: Path, environment: dict[str, str], label: str) -> str:
        """Returns a new token of the first user. Raises GalvoError with the program's reason."""
        command = [str(program), "token", "create", "--user", USER, "--account", ACCOUNT]
        for scope in ("ingest", "read", "admin"):
            command += ["--scope", scope]
        command += ["--label", label, "--database-url", self.database_url]
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            reason = result.stderr.strip().splitlines()[-1:] or ["no reason is known"]
            raise GalvoError(f"no token could be created: {reason[0].removeprefix('galvo: ')}")
        return result.stdout.strip()

    def stop(self) -> int | None:
        """Stops the running server. Returns its process identifier; None if there is none."""
        process_id = self._lock_holder()
        if process_id is None:
            return None
        os.kill(process_id, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while self._lock_holder() is not None:
            if time.monotonic() > deadline:
                raise GalvoError(f"the server, process {process_id}, does not stop")
            time.sleep(POLL_SECONDS)
        return process_id

    def _lock_holder(self) -> int | None:
        """Returns the process that holds the lock of the database; None if there is none."""
        with (
            contextlib.suppress(FileNotFoundError),
            Path(f"{self.database}.lock").open("rb") as file,
        ):
            try:
                # A server that starts at this moment tries again for two seconds.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                # The server writes its number after it has taken the lock.
                return int(text) if text.isdigit() else self._retry_lock_holder()
        return None

    def _retry_lock_holder(self) -> int | None:
        time.sleep(POLL_SECONDS)
        return self._lock_holder()

    def _wait_for_start(
        self, process: subprocess.Popen[bytes], output: IO[bytes], log_position: int
    ) -> str:
        deadline = time.monotonic() + START_SECONDS
        while True:
            has_ended = process.poll() is not None
            output.seek(0)
            text = output.read().decode(errors="replace")
            # The lines about signing in precede this one.
            if re.search(r"^connect Dask:$", text, re.MULTILINE):
                return text
            if has_ended:
                raise GalvoError(f"the server did not start: {self._failure_reason(log_position)}")
            if time.monotonic() > deadline:
                raise GalvoError(f"the server did not start in time: see {self.log}")
            time.sleep(POLL_SECONDS)

    def _failure_reason(self, log_position: int) -> str:
        with self.log.open("rb") as log:
            log.seek(log_position)
            lines = log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("galvo: ") if lines else f"see {self.log}"

    def _free_port(self) -> int:
        """Returns the port of the last server if it is free, or 8000, or else 0."""
        last_port = urlsplit(self.last_address or "").port
        for port in (last_port, PORT):
            if port is not None and _is_free(port):
                return port
        return 0

    def _read_state(self) -> dict[str, object]:
        try:
            state = json.loads(self._state_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def _write_state(self, state: dict[str, object]) -> None:
        temporary_file = self._state_path.with_suffix(".part")
        temporary_file.write_text(json.dumps(state), encoding="utf-8")
        os.replace(temporary_file, self._state_path)


def data_directory() -> Path:
    """Returns the directory of this user's data: ``$XDG_DATA_HOME/galvo``, as an absolute path."""
    base = os.environ.get("XDG_DATA_HOME", "")
    # The specification ignores relative paths.
    root = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share"
    return root / "galvo"


def _open_private(path: Path) -> IO[bytes]:
    """Opens a file that only its owner can read, at its end."""
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
    file.seek(0, os.SEEK_END)
    return file


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        # The server sets this option, too: a port with ended connections only is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _find_value(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1) if match else None
