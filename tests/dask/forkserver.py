"""Python processes that begin with Dask's dependencies already imported.

The imports are most of the processor time of a short test. A server, one for each interpreter,
imports the dependencies once and forks for each process. A fork imports Dask and Galvo itself,
because both read the configuration of their process when they are imported.

The tests import this module. Run as a program, it is the server and has to work on the oldest
Python.
"""

import array
import atexit
import contextlib
import functools
import gc
import io
import json
import os
import queue
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import types

# The modules of these packages differ from process to process.
CONFIGURED = ("__main__", "dask", "distributed", "galvo", "sitecustomize")
MAX_MESSAGE = 1 << 17

# --- The server -----------------------------------------------------------------------------


def dependencies():
    """Returns the names of the modules that Dask's commands import, except Dask's own, in order."""
    program = (
        "import distributed.cli.dask_scheduler, distributed.cli.dask_worker, sys;"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": os.path.join(os.path.dirname(__file__), "workloads")}
    environment["MODULES_TO_MISS"] = "IPython"
    found = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [name for name in found.stdout.split() if name.partition(".")[0] not in CONFIGURED]


def serve(connection):
    """Answers requests until the tests end. Returns the request in each forked process."""
    for name in dependencies():
        # Some are names that another module adds.
        with contextlib.suppress(ImportError):
            __import__(name)
    assert "dask" not in sys.modules and threading.active_count() == 1
    gc.collect()
    gc.freeze()
    awake, waker = os.pipe()
    os.set_blocking(waker, False)
    os.set_blocking(awake, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    connection.send(b"{}")
    while True:
        ready, _, _ = select.select([connection, awake], [], [])
        if awake in ready:
            os.read(awake, 4096)
            send_exits(connection)
        if connection in ready:
            request, streams = receive(connection)
            if request is None:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                for descriptor in (awake, waker, *streams):
                    os.close(descriptor)
                connection.close()
                return request
            for stream in streams:
                os.close(stream)
            connection.send(json.dumps({"started": pid}).encode())


def receive(connection):
    size = array.array("i").itemsize
    message, ancillary, _, _ = connection.recvmsg(MAX_MESSAGE, socket.CMSG_LEN(3 * size))
    streams = array.array("i")
    for _, _, data in ancillary:
        streams.frombytes(data)
    return (json.loads(message) if message else None), list(streams)


def send_exits(connection):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        connection.send(json.dumps({"ended": pid, "code": code}).encode())


def run(request):
    """Runs a module or a file as ``python -m MODULE`` and ``python FILE`` do."""
    os.setsid()
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    # Unbuffered, as PYTHONUNBUFFERED=1 has it.
    for number, name, errors in [(1, "stdout", "strict"), (2, "stderr", "backslashreplace")]:
        raw = os.fdopen(number, "wb", buffering=0, closefd=False)
        stream = io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    # The first is the directory of this program.
    sys.path[:1] = paths
    if "numpy" in sys.modules:  # the state of its generator is that of the server
        sys.modules["numpy"].random.seed()
    sys.modules.pop("sitecustomize", None)
    import sitecustomize  # noqa: F401

    main = sys.modules["__main__"] = types.ModuleType("__main__")
    program, *arguments = request["arguments"]
    if program == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = arguments
        runpy._run_module_as_main(arguments[0])
    else:
        sys.path.insert(0, os.path.dirname(program))
        sys.argv = [program, *arguments]
        main.__file__ = program
        with open(program, "rb") as file:
            code = compile(file.read(), program, "exec")
        exec(code, main.__dict__)


# --- The tests' side -------------------------------------------------------------------------


class ForkServer:
    """A server of one interpreter, which ends with the tests."""

    def __init__(self, python, certificates):
        self._lock = threading.Lock()
        self._started = queue.Queue()
        self._ended = threading.Condition()
        self._codes = {}
        self._connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GALVO_", "DASK_", "PYTHON", "SSL_"))
        }
        # A thread would not survive a fork.
        environment["OPENBLAS_NUM_THREADS"] = "1"
        # Tornado makes its contexts for TLS when it is imported.
        if certificates is not None:
            environment["SSL_CERT_FILE"] = certificates
        self._process = subprocess.Popen(
            [python, __file__, str(other.fileno())],
            env=environment,
            stdin=subprocess.DEVNULL,
            pass_fds=[other.fileno()],
            start_new_session=True,
        )
        other.close()
        atexit.register(self._connection.close)
        if not self._connection.recv(MAX_MESSAGE):
            raise AssertionError(f"the fork server of {python} ended at its start")
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while message := self._connection.recv(MAX_MESSAGE):
            event = json.loads(message)
            if "started" in event:
                self._started.put(event["started"])
            else:
                with self._ended:
                    self._codes[event["ended"]] = event["code"]
                    self._ended.notify_all()

    def start(self, request, streams):
        descriptors = array.array("i", [stream.fileno() for stream in streams])
        with self._lock:
            self._connection.sendmsg(
                [json.dumps(request).encode()],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)],
            )
            return ForkedProcess(self, self._started.get(timeout=60))

    def code(self, pid, seconds):
        """Returns the exit code of a process, or None if it still runs after the time."""
        with self._ended:
            self._ended.wait_for(lambda: pid in self._codes, seconds)
            return self._codes.get(pid)


class ForkedProcess:
    """A process of the server, with the methods of ``subprocess.Popen`` that the tests use."""

    stdin = stdout = None

    def __init__(self, server, pid):
        self._server = server
        self.pid = pid

    @property
    def returncode(self):
        return self.poll()

    def poll(self):
        return self._server.code(self.pid, 0)

    def wait(self, timeout=None):
        code = self._server.code(self.pid, timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return code


server_of = functools.cache(ForkServer)


def fork(arguments, directory, environment, stdin, stdout, stderr):
    """Starts ``python -m MODULE ARGUMENT...`` or ``python FILE ARGUMENT...``.

    The streams are files, or as for ``subprocess.Popen``: DEVNULL for the input, PIPE for both.
    """
    python, *arguments = arguments
    request = {"arguments": arguments, "directory": str(directory), "environment": environment}
    server = server_of(python, environment.get("SSL_CERT_FILE"))
    with contextlib.ExitStack() as stack:
        ours = {}
        if stdin == subprocess.PIPE:
            theirs, write = os.pipe()
            stdin, ours["stdin"] = (
                stack.enter_context(os.fdopen(theirs, "rb")),
                os.fdopen(write, "wb"),
            )
        elif stdin == subprocess.DEVNULL:
            stdin = stack.enter_context(open(os.devnull, "rb"))
        if stdout == subprocess.PIPE:
            read, theirs = os.pipe()
            stdout, ours["stdout"] = (
                stack.enter_context(os.fdopen(theirs, "wb")),
                os.fdopen(read, "rb"),
            )
        process = server.start(request, [stdin, stdout, stderr])
    for name, stream in ours.items():
        setattr(process, name, stream)
    return process


if __name__ == "__main__":
    run(serve(socket.socket(fileno=int(sys.argv[1]))))
