"""Tests of the file written by ``galvo preload``, which runs where only Dask is installed."""

import ast
import asyncio
import logging
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import dask
import pytest
from conftest import wait_until

from galvo import preload
from galvo.command import main
from galvo.command.preload import preload_text

PLUGIN = """
async def dask_setup(scheduler):
    scheduler.started.append(__name__)
"""


class Server:
    """Answers each request with the next of the given answers; the last one is repeated."""

    def __init__(self, *answers):
        self.answers, self.paths = list(answers), []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.paths.append(self.path)
                left = server.answers
                answer = left.pop(0) if len(left) > 1 else left[0]
                answer(self)

            def log_message(self, *_):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()


def answer(text=PLUGIN, status=200, length=None, **headers):
    def send(handler):
        body = text.encode()
        handler.send_response_only(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    return send


def drip(handler):
    handler.send_response_only(200)
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b"#")
        time.sleep(0.02)


@pytest.fixture
def start(monkeypatch):
    """Starts a server, and a scheduler with the file at its address; returns both."""
    monkeypatch.setattr(preload, "SHORTEST_PAUSE", 0.01)
    servers = []

    def run(*answers, until, settings=None):
        server = Server(*answers)
        servers.append(server)
        scheduler = SimpleNamespace(started=[])

        async def main():
            begun = time.monotonic()
            await preload.dask_setup(scheduler)
            assert time.monotonic() - begun < 0.5
            while not until(server, scheduler):
                await asyncio.sleep(0.01)
                assert time.monotonic() - begun < 60
            await preload.dask_teardown(scheduler)

        with dask.config.set(settings or {"galvo.server": server.address + "/"}):
            asyncio.run(main())
        return server, scheduler

    yield run
    for server in servers:
        server.close()


def has_started(server, scheduler):
    return scheduler.started


@pytest.mark.parametrize(
    "wrong",
    [
        answer("no", 503),
        answer("<html>sign in</html>"),
        answer("x = 1\n"),
        answer(PLUGIN, length=len(PLUGIN) + 1),
        answer("raise RuntimeError('broken')"),
        answer("", 302, Location="/elsewhere"),
        drip,
    ],
    ids=["busy", "page", "text", "cut off", "broken", "redirect", "drip"],
)
def test_it_is_tried_again_until_it_is_there(wrong, start, caplog, monkeypatch):
    # On a busy machine a good answer takes longer than the one that never ends should.
    monkeypatch.setattr(preload, "WHOLE_SECONDS", 1.5 if wrong is drip else 20.0)
    with caplog.at_level(logging.INFO, "distributed.galvo"):
        server, scheduler = start(wrong, wrong, wrong, answer(), until=has_started)
    assert server.paths == [preload.PATH] * 4
    assert scheduler.started == [server.address + preload.PATH]
    (warning,) = caplog.records  # and once
    assert warning.levelno == logging.WARNING and server.address in warning.getMessage()


def test_what_is_too_large_is_not_read(start, monkeypatch):
    monkeypatch.setattr(preload, "LARGEST_BYTES", 100)
    server, scheduler = start(answer("#" * 1000), answer(), until=has_started)
    assert len(server.paths) == 2 and len(scheduler.started) == 1


def test_the_search_ends_with_the_scheduler(start):
    server, scheduler = start(answer("no", 503), until=lambda server, _: len(server.paths) >= 2)
    wait_until(lambda: not [t for t in threading.enumerate() if t.name == "galvo-preload"])
    request_count = len(server.paths)
    time.sleep(0.1)
    assert len(server.paths) == request_count and scheduler.started == []


@pytest.mark.parametrize(
    "settings, expected_log",
    [
        ({"galvo.disabled": True}, ""),
        ({"coiled.analytics.disabled": "yes"}, ""),
        ({"galvo.server": None}, "galvo.server"),
    ],
)
def test_where_nothing_is_to_be_reported_nothing_is_fetched(settings, expected_log, start, caplog):
    start(answer(), until=lambda *_: True, settings=settings)
    assert expected_log in caplog.text
    assert not [t for t in threading.enumerate() if t.name == "galvo-preload"]


def test_the_file_needs_nothing_but_dask_and_an_old_python(capsys):
    assert main(["preload", "-", "--server", "https://galvo.example/"]) == 0
    text = capsys.readouterr().out
    tree = ast.parse(text, feature_version=(3, 8))
    assert "SERVER: Optional[str] = 'https://galvo.example'\n" in text
    imported = {
        name.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
    }
    assert imported == {
        *[
            "asyncio",
            "contextlib",
            "dask",
            "http",
            "logging",
            "ipaddress",
            "random",
            "threading",
            "time",
            "urllib",
        ]
    }


def test_the_file_is_written_to_the_given_path(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with dask.config.set({"galvo.server": "galvo.example:8000", "galvo.token": "seal-2f1c9d7a40"}):
        assert main(["preload"]) == 0
        assert main(["preload", "other.py"]) == 0
    written = (tmp_path / "galvo_preload.py").read_text()
    assert written == (tmp_path / "other.py").read_text() == preload_text("galvo.example:8000")
    assert "'https://galvo.example:8000'" in written and "seal-2f1c9d7a40" not in written
    assert "dask scheduler --preload galvo_preload.py" in capsys.readouterr().out
    for name in ("galvo.py", "galvo-preload.py", "preload.txt"):
        assert main(["preload", name]) == 2
        assert not (tmp_path / name).exists()
    assert main(["preload", "-", "--server", "https://me:secret@galvo.example"]) == 2
