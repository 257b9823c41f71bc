"""``galvo up`` and ``galvo down``, with a stand-in for the server's program."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import stat
import subprocess
import sys
import webbrowser
from pathlib import Path

import dask
import pytest
import yaml
from fake_program import FIRST, LATER
from test_login import home  # noqa: F401

from galvo import local_server
from galvo.command import main
from galvo.local_server import LocalServer, data_directory

PROGRAM = Path(__file__).parent / "fake_program.py"


@pytest.fixture
def shown(monkeypatch):
    """The pages that a browser opened."""
    pages = []
    monkeypatch.setattr(webbrowser, "open", lambda page: pages.append(page) or True)
    return pages


@pytest.fixture
def local(tmp_path, monkeypatch, home, shown):  # noqa: F811
    """The server of this test, which ends with it."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION", "CI"):
        monkeypatch.delenv(name, raising=False)
    # The stand-in runs with this Python.
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PROGRAM}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("GALVO_SERVER_BIN", str(program))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "the data?"))
    # Another process of the tests may use the port that is tried first.
    monkeypatch.setattr(local_server, "PORT", free_port())
    server = LocalServer()
    yield server
    server.stop()


def free_port():
    """Returns a port on which nothing listens, below those that the system gives to connections."""
    while True:
        port = random.randrange(10_000, 32_768)
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port


@pytest.fixture
def up(local, capsys):
    """Runs the command, and returns its status, stdout and stderr."""

    def up(*arguments, command="up"):
        status = main([command, *arguments])
        printed = capsys.readouterr()
        assert FIRST not in printed.out + printed.err and LATER not in printed.out + printed.err
        return status, printed.out, printed.err

    return up


def kept(home):  # noqa: F811
    return yaml.safe_load((home / "galvo.yaml").read_text())["galvo"]


def configure(server, token):
    """Sets what a process that starts now would read from Dask's configuration."""
    return dask.config.set({"galvo.server": server, "galvo.token": token})


def test_one_command_starts_a_server_and_configures_dask(up, local, home):  # noqa: F811
    status, out, err = up("--detach")
    assert (status, err) == (0, "")
    running = local.running()
    assert f"Galvo runs at {running.address} (process {running.process_id})." in out
    assert str(local.directory) in out and local.directory.is_absolute()
    assert stat.S_IMODE(local.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(local.log.stat().st_mode) == 0o600
    assert kept(home) == {"server": running.address, "account": "default", "token": FIRST}
    assert stat.S_IMODE((home / "galvo.yaml").stat().st_mode) == 0o600
    # Nothing keeps the token but that file.
    files = [file for file in local.directory.iterdir() if FIRST.encode() in file.read_bytes()]
    assert files == []


def test_a_second_call_finds_the_first(up, local, home):  # noqa: F811
    up("--detach")
    running = local.running()
    before = (home / "galvo.yaml").stat().st_mtime_ns
    status, out, err = up()
    assert (status, err) == (0, "")
    assert f"Galvo runs already at {running.address} (process {running.process_id})." in out
    assert "Dask is configured for it." in out
    assert (home / "galvo.yaml").stat().st_mtime_ns == before
    assert local.running() == running


def test_a_lost_token_is_replaced(up, local, home):  # noqa: F811
    up("--detach")
    (home / "galvo.yaml").unlink()
    with configure(local.running().address, "otter-revoked"):
        assert up()[0] == 0
    assert kept(home)["token"] == LATER


def test_another_server_stays_configured(up, local, home):  # noqa: F811
    home.mkdir()
    (home / "galvo.yaml").write_text("galvo:\n  server: https://galvo.example\n  token: t-1\n")
    with configure("https://galvo.example", "t-1"):
        status, out, _ = up("--detach")
        assert status == 0
        assert "Dask stays configured for another server, https://galvo.example" in out
        assert "galvo up --replace" in out
        assert kept(home) == {"server": "https://galvo.example", "token": "t-1"}
        assert up("--replace")[0] == 0
    assert kept(home)["server"] == local.running().address
    assert kept(home)["token"] == LATER


def test_an_address_of_its_own_is_no_other_server(up, local, home):  # noqa: F811
    """The server may get another port than the last time."""
    up("--detach")
    old = local.running().address
    assert up(command="down")[0] == 0
    with socket.socket() as taken, configure(old, FIRST):
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", int(old.rpartition(":")[2])))
        taken.listen()
        assert up("--detach")[0] == 0
    new = local.running().address
    assert new != old and kept(home)["server"] == new


def test_the_port_stays_the_same(up, local):
    up("--detach")
    first = local.running()
    assert up(command="down")[1] == f"The server, process {first.process_id}, is stopped.\n"
    assert local.running() is None
    assert up(command="down")[1] == "There is no server to stop.\n"
    up("--detach")
    assert local.running().address == first.address


def test_the_reason_of_a_failed_start_is_shown(up, local, monkeypatch, home):  # noqa: F811
    monkeypatch.setenv("GALVO_LOG", "nonsense")
    status, out, err = up("--detach")
    assert (status, out) == (1, "")
    reason = "GALVO_LOG: no level is called nonsense"
    assert err == f"galvo: the server did not start: {reason}\n"
    assert local.running() is None and not home.exists()


def test_a_server_that_was_started_otherwise_is_named(up, local):
    up("--detach")
    process_id = local.running().process_id
    (local.directory / "server.json").write_text(json.dumps({"process_id": 1}))
    status, out, err = up()
    assert (status, out) == (1, "")
    assert f"the process {process_id} uses {local.database}" in err


def test_browsers_open_where_there_are_any(up, local, shown, monkeypatch):
    monkeypatch.setenv("FAKE_SIGN_IN", "/sign-in/once/abc")
    monkeypatch.setenv("DISPLAY", ":0")
    _, out, _ = up("--detach")
    address = local.running().address
    # The first time, it is the page that the server names.
    assert shown == [f"{address}/sign-in/once/abc"]
    assert "password" not in out
    up()
    assert shown[1:] == [f"{address}/"]
    up("--no-browser")
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")
    up()
    monkeypatch.delenv("SSH_CONNECTION")
    monkeypatch.delenv("DISPLAY")
    if sys.platform.startswith("linux"):
        assert f"In a browser: {address}/" in up()[1]
    assert len(shown) == 2


def test_without_a_page_for_it_a_password_is_set_first(up, local):
    _, out, _ = up("--detach")
    assert f"GALVO_DATABASE_URL='{local.database_url}' galvo user password admin" in out
    assert "%20data%3F/galvo/galvo.db?mode=rwc" in local.database_url


def test_the_program_is_needed(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("GALVO_SERVER_BIN", str(tmp_path / "nothing"))
    assert main(["up"]) == 2
    assert "GALVO_SERVER_BIN names no program" in capsys.readouterr().err
    monkeypatch.delenv("GALVO_SERVER_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "galvo")])
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    assert main(["up"]) == 2
    assert "pip install 'galvo[server]'" in capsys.readouterr().err
    assert main(["--account", "team", "up"]) == 2


def test_data_is_where_the_specification_says(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert data_directory() == Path("/data/galvo")
    # It says that relative paths are ignored.
    for invalid in ("", "data"):
        monkeypatch.setenv("XDG_DATA_HOME", invalid)
        assert data_directory() == Path.home() / ".local/share/galvo"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_in_the_foreground_the_server_ends_with_the_command(number, local, tmp_path):
    command = subprocess.Popen(
        [sys.executable, "-u", "-m", "galvo", "up"],
        env={**os.environ, "DASK_CONFIG": str(tmp_path / "dask")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = []
    while not lines or lines[-1] != "Ctrl-C stops it.\n":
        lines.append(command.stdout.readline())
        assert lines[-1], command.stderr.read()
    (address,) = re.findall(r"^Galvo runs at (\S+) ", lines[0])
    running = local.running()
    assert running.address == address
    # A terminal sends Ctrl-C to its whole group, and a second signal would end the server at once.
    assert os.getpgid(running.process_id) != os.getpgid(command.pid)
    command.send_signal(number)
    out, err = command.communicate(timeout=60)
    assert (out, err, command.returncode) == ("", "", 0)
    assert local.running() is None
