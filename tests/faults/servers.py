"""The server under test, with operations for faults: kill, stop, restart, probe."""

import contextlib
import json
import os
import re
import signal
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass

from processes import KEY, REPOSITORY, clean_environment, wait_until


@dataclass
class Health:
    """The result of a probe."""

    status: int | None
    seconds: float
    body: dict


class Server:
    """``galvo serve`` on a store. It keeps its port on a restart.

    ``settings`` are flags without their dashes; ``environment`` is added to a clean one.
    """

    def __init__(self, processes, database_url, settings=None, environment=None, port=0):
        self._processes = processes
        self.database_url = database_url
        self.settings = {"min-report-interval": 0.5, "reports-per-second": 1_000_000}
        self.settings |= settings or {}
        self.environment = environment or {}
        self.port = port
        self.token = None
        self.process = None

    def start(self, seconds=30.0):
        binary = os.environ.get("GALVO_BIN", REPOSITORY / "target/debug/galvo")
        arguments = [binary, "serve", "--bootstrap", "--listen", f"127.0.0.1:{self.port}"]
        arguments += [f"--{name}={value}" for name, value in self.settings.items()]
        environment = {
            **clean_environment(),
            "GALVO_DATABASE_URL": self.database_url,
            "GALVO_SECRET_KEY": KEY,
            "GALVO_LOG": "info,galvo::store::core::connect=warn",
            **self.environment,
        }
        self.process = self._processes.start("galvo", arguments, environment)
        address = r"^listening on http://127\.0\.0\.1:(\d+)$"
        self.port = int(self.process.wait_for_log(address, seconds).group(1))
        self.process.wait_for_log(r"dask scheduler --preload")
        token = re.search(r"^token: +(\S+)", self.process.log(), re.MULTILINE)
        if token is not None:  # only an empty store gets one
            self.token = token.group(1)
        return self

    def kill(self):
        """Kills it, like `kill -9`."""
        self.process.send(signal.SIGKILL)
        assert self.process.wait(10) == -signal.SIGKILL

    def request_stop(self):
        self.process.send(signal.SIGTERM)

    def stop(self, seconds=25):
        self.request_stop()
        assert self.process.wait(seconds) == 0

    def probe(self, path, patience=20.0):
        """Sends a request without credentials, like a health probe."""
        began = time.monotonic()
        try:
            answer = urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=patience)
            status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        except OSError:
            status, text = None, b"{}"
        return Health(status, time.monotonic() - began, json.loads(text or b"{}"))

    def is_ready(self):
        return self.probe("/readyz").status == 200

    def wait_until_ready(self, seconds=60.0):
        """Waits until it is ready, and returns the seconds."""
        began = time.monotonic()
        wait_until(self.is_ready, "the server is ready", seconds)
        return time.monotonic() - began

    def query(self, text, **variables):
        """Returns the data of a GraphQL response."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql",
            json.dumps({"query": text, "variables": variables}).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.code}: {error.read().decode()}") from None
        assert "errors" not in answer, answer["errors"]
        return answer["data"]

    def memory(self):
        """Returns the present and the peak resident memory, in bytes."""
        with open(f"/proc/{self.process.popen.pid}/status") as status:
            text = status.read()
        sizes = {name: int(size) << 10 for name, size in re.findall(r"(Vm\w+):\s+(\d+) kB", text)}
        return sizes["VmRSS"], sizes["VmHWM"]


@contextlib.contextmanager
def probing(server, every=0.25):
    """Probes the health continuously. Yields lists of times and results by path."""
    stop, probes = threading.Event(), {"/healthz": [], "/readyz": []}

    def record(path):
        while not stop.wait(every):
            health = server.probe(path)
            probes[path].append((time.monotonic(), health))

    threads = [threading.Thread(target=record, args=(path,), daemon=True) for path in probes]
    for thread in threads:
        thread.start()
    try:
        yield probes
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
