"""The processes of a test: Galvo servers, Dask schedulers, workers and clients."""

import contextlib
import datetime
import json
import os
import queue
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import invariants
from forkserver import fork

WORKLOADS = Path(__file__).parent / "workloads"
REPOSITORY = Path(__file__).parents[2]


def free_port():
    """Returns a port on which nothing listens, for a program that begins to listen later.

    It is below those that the system gives to connections, which could take it in the meantime.
    """
    dice = random.SystemRandom()
    while True:
        port = dice.randrange(10_000, 32_768)
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port


def wait_until(condition, what, seconds=60.0):
    """Returns the condition's value, once that is true."""
    deadline = time.monotonic() + seconds
    while not (outcome := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} seconds: {what}"
        time.sleep(0.05)
    return outcome


def exit_code(code, log):
    """Returns the exit code of a Python process, with a tolerance for older releases.

    At exit they unwind daemon threads, and sometimes one of them is in C++ code that does not allow
    it: glibc then aborts the process.
    """
    if code == -signal.SIGABRT and log.endswith("FATAL: exception not rethrown\n"):
        return 0
    return code


def is_forked(arguments, environment):
    """Returns true for what the tests start most: Dask's schedulers and workers, and the workloads.

    A fork has frames of the fork server below its own, which code that is noted may have as well.
    """
    if arguments[1] == "-m":
        return arguments[2].startswith("distributed.cli.")
    notes_code = "DASK_DISTRIBUTED__DIAGNOSTICS__COMPUTATIONS__NFRAMES" in environment
    return Path(arguments[1]).parent == WORKLOADS and not notes_code


def start_process(arguments, directory, environment, stdin, stdout, stderr):
    """Starts a process in its own process group, with the interface of ``subprocess.Popen``."""
    arguments = [str(argument) for argument in arguments]
    if len(arguments) > 1 and is_forked(arguments, environment):
        return fork(arguments, directory, environment, stdin, stdout, stderr)
    return subprocess.Popen(
        arguments,
        cwd=directory,
        env=environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def run_to_end(arguments, directory, settings):
    """Returns the output of a Python process with Dask, which must succeed."""
    environment = dask_environment(directory, settings)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = start_process(
            arguments, directory, environment, subprocess.DEVNULL, output, errors
        )
        try:
            code = process.wait(180)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            output.seek(0)
            errors.seek(0)
            log = errors.read().decode(errors="replace")
            # pytest shows it if the test fails.
            print(log[-6000:], file=sys.stderr)
        assert exit_code(code, log) == 0, log[-3000:]
        return output.read().decode()


class Process:
    """A child process in its own process group, with a log of its output."""

    def __init__(self, name, arguments, directory, environment, **streams):
        self.name = name
        self._log = directory / f"{name}.log"
        streams = {"stdin": subprocess.DEVNULL, "stdout": None, **streams}
        with self._log.open("wb") as log:
            stdout = streams["stdout"] or log
            self.popen = start_process(
                arguments, directory, environment, streams["stdin"], stdout, log
            )

    def log(self):
        return self._log.read_text(errors="replace")

    def wait_for_log(self, pattern, seconds=60.0):
        def look():
            found = re.search(pattern, self.log(), re.MULTILINE)
            assert found or self.is_running(), f"{self.name} ended with {self.popen.returncode}"
            return found

        return wait_until(look, f"{self.name} logs {pattern!r}", seconds)

    def logged_at(self, message):
        """Returns the Unix time of a message in Dask's log format."""
        (found,) = re.findall(rf"^(\S+ \S+) - \S+ - \w+ - {message}$", self.log(), re.MULTILINE)
        return datetime.datetime.strptime(found, "%Y-%m-%d %H:%M:%S,%f").timestamp()

    def is_running(self):
        return self.popen.poll() is None

    def wait(self, seconds):
        """Waits for it, and returns its exit code."""
        try:
            code = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {seconds:g} seconds") from None
        return exit_code(code, self.log())

    def send(self, signal_number):
        os.kill(self.popen.pid, signal_number)

    def kill(self):
        """Kills it and all its children."""
        # Its children keep its number in use as that of their group. Without any, a new process may
        # have the number.
        if self.popen.poll() is not None and Path(f"/proc/{self.popen.pid}").exists():
            return
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.popen.wait()


class Processes:
    """Starts processes that end with the test or another owner."""

    def __init__(self, directory):
        self.directory = directory
        self._started = []

    def start(self, name, arguments, environment, kind=Process, **streams):
        name = f"{len(self._started)}-{name}"
        process = kind(name, arguments, self.directory, environment, **streams)
        self._started.append(process)
        return process

    def kill_all(self):
        for process in reversed(self._started):
            process.kill()

    def logs(self):
        return [(process.name, process.log()) for process in self._started]


def clean_environment():
    """Returns the environment without anything that configures Galvo, Dask or proxies."""
    ignored = re.compile(r"GALVO_|DASK_|COILED_|.*_proxy$", re.IGNORECASE)
    return {name: value for name, value in os.environ.items() if not ignored.match(name)}


# The key of servers without a key file.
KEY = "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU"


class GalvoServer:
    """``galvo serve`` on a separate store. It keeps its port on a restart."""

    def __init__(self, processes, database_url=None, settings=None):
        self._processes = processes
        self._settings = settings or {}
        self.store = processes.directory / "galvo.db"
        self.database_url = database_url or f"sqlite://{self.store}?mode=rwc"
        self.port = 0
        self.token = None
        self.process = None

    @property
    def program(self):
        return os.environ.get("GALVO_BIN", REPOSITORY / "target/debug/galvo")

    @property
    def environment(self):
        """The environment of the server, and of commands on its store."""
        environment = {**clean_environment(), **self._settings}
        environment["GALVO_DATABASE_URL"] = self.database_url
        if not self.database_url.startswith("sqlite:"):  # which has a key file beside it
            environment["GALVO_SECRET_KEY"] = KEY
        return environment

    def start(self):
        arguments = [self.program, "serve", "--bootstrap", "--listen", f"127.0.0.1:{self.port}"]
        arguments += ["--min-report-interval", "0.5"]
        self.process = self._processes.start("galvo", arguments, self.environment)
        address = r"^listening on http://127\.0\.0\.1:(\d+)$"
        self.port = int(self.process.wait_for_log(address).group(1))
        # The last line of the start; the token is printed before.
        self.process.wait_for_log(r"dask scheduler --preload")
        token = re.search(r"^token: +(\S+)", self.process.log(), re.MULTILINE)
        if token is not None:  # only an empty store gets one
            self.token = token.group(1)
            invariants.watch(self)
        return self

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def stop(self):
        self.process.send(signal.SIGTERM)
        assert self.process.wait(10) == 0

    def query(self, text, **variables):
        """Returns the data of a GraphQL response."""
        request = invariants.request(self, text, variables)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.code}: {error.read().decode()}") from None
        assert "errors" not in answer, answer["errors"]
        return answer["data"]


class Client(Process):
    """A Dask client in a separate process, see ``workloads/client.py``."""

    def __init__(self, *arguments):
        super().__init__(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._answers = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with self.popen.stdout as answers:
            for line in answers:
                self._answers.put(json.loads(line))
        self._answers.put(EOFError)

    def begin(self, command, **arguments):
        order = json.dumps({"command": command, "arguments": arguments})
        self.popen.stdin.write(order.encode() + b"\n")
        self.popen.stdin.flush()

    def answer(self, seconds=90.0):
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"{self.name} does not answer") from None
        assert answer is not EOFError, f"{self.name} ended instead of answering"
        return answer

    def call(self, command, **arguments):
        self.begin(command, **arguments)
        return self.answer()


class DaskCluster:
    """``dask scheduler`` and ``dask worker`` processes of one Python environment."""

    def __init__(
        self,
        processes,
        python,
        *,
        preloads=(),
        arguments=(),
        settings=None,
        worker_settings=None,
        workers=2,
        nanny=False,
        worker_arguments=(),
        miss="",
    ):
        self._processes = processes
        self.python = python
        directory = processes.directory
        memory = {
            # Dask's history limits must not limit the comparison.
            "distributed.diagnostics.computations.max-history": 5000,
            "distributed.diagnostics.erred-tasks.max-history": 5000,
            # The thread of coiled's gilknocker can abort an exiting process.
            "distributed.admin.system-monitor.gil.enabled": False,
        }
        self.scheduler_file = directory / f"scheduler-{id(self)}.json"
        self.scheduler = processes.start(
            "scheduler",
            [
                *[python, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"],
                # The HTTP server without Dask's own pages, whose imports double the time of a
                # start. The clusters that programs and notebooks start have them.
                *["--port", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"],
                *["--scheduler-file", self.scheduler_file],
                *[f"--preload={preload}" for preload in (WORKLOADS / "witness.py", *preloads)],
                *arguments,
            ],
            dask_environment(directory, {**memory, **(settings or {})}, miss),
        )
        self.workers = [
            processes.start(
                "worker",
                [
                    *[python, "-m", "distributed.cli.dask_worker"],
                    *["--scheduler-file", self.scheduler_file, "--nthreads", "1"],
                    *["--memory-limit", "1GiB", "--no-dashboard"],
                    "--nanny" if nanny else "--no-nanny",
                    *worker_arguments,
                ],
                dask_environment(directory, worker_settings or {}),
            )
            for _ in range(workers)
        ]

    def client(self, python=None, settings=None, miss=""):
        """Starts a client, once the cluster is complete."""
        client = self._processes.start(
            "client",
            [python or self.python, WORKLOADS / "client.py", self.scheduler_file],
            dask_environment(self._processes.directory, settings or {}, miss),
            kind=Client,
        )
        client.call("wait_for_workers", count=len(self.workers))
        return client


def dask_environment(directory, settings, miss=""):
    """Returns the environment of a Dask process: only these settings, none of the machine's."""
    variables = {
        "DASK_" + name.upper().replace(".", "__").replace("-", "_"): str(value)
        for name, value in settings.items()
    }
    return {
        **clean_environment(),
        **variables,
        "HOME": str(directory),
        "DASK_CONFIG": str(directory / "dask"),
        "DASK_ROOT_CONFIG": str(directory / "dask"),
        "DASK_TEMPORARY_DIRECTORY": str(directory),
        # A scheduler's plugins must work with Dask's dependencies only. The oldest Dask imports
        # IPython where a coiled client has brought it, which takes as long as all the rest.
        "MODULES_TO_MISS": f"IPython {miss}",
        "PYTHONPATH": str(WORKLOADS),
        "PYTHONUNBUFFERED": "1",
        # The machine is shared, and numpy's computations here are small.
        "OPENBLAS_NUM_THREADS": "1",
    }


def python_named(role):
    """Returns an interpreter that ``scripts/python-envs.sh`` creates."""
    name = f"GALVO_TEST_PYTHON_{role}"
    assert name in os.environ, f'{name} is not set: eval "$(scripts/python-envs.sh)"'
    return os.environ[name]


assert sys.version_info >= (3, 11), "the tests themselves need a current Python"
