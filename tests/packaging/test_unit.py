"""The systemd unit: valid, confined, and with settings that the server accepts."""

import json
import os
import re
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest
from conftest import REPOSITORY
from processes import Processes, clean_environment

SYSTEMD = REPOSITORY / "docker" / "systemd"
UNIT = (SYSTEMD / "galvo.service").read_text(encoding="utf-8")
# The exposure level of `systemd-analyze security`, times ten: 0 is best, 100 worst. A service
# without any measures has about 95.
EXPOSURE = 12


def setting(name):
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


@pytest.fixture
def unit(tmp_path, galvo_bin):
    """The unit with the program at its place here, since the documented one is not installed."""
    (command,) = setting("ExecStart")
    program, *arguments = command.split()
    assert (program, arguments) == ("/usr/local/bin/galvo", ["serve"])
    file = tmp_path / "galvo.service"
    file.write_text(UNIT.replace(program, str(galvo_bin)))
    return file


def run(*arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, **options)


def test_the_unit_is_valid(unit):
    done = run("systemd-analyze", "verify", "--man=no", unit)
    assert (done.returncode, done.stderr) == (0, "")
    # It would complain about an unknown setting.
    unit.write_text(unit.read_text().replace("ProtectHome=", "ProtectHomes="))
    assert "ProtectHomes" in run("systemd-analyze", "verify", "--man=no", unit).stderr


def test_the_unit_is_confined(unit):
    rating = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    done = run(*rating, f"--threshold={EXPOSURE}", unit)
    assert done.returncode == 0, done.stdout
    unit.write_text(unit.read_text().replace("SystemCallFilter=@system-service", ""))
    assert run(*rating, f"--threshold={EXPOSURE}", unit).returncode != 0
    assert setting("User") == ["galvo"] and setting("NoNewPrivileges") == ["yes"]


def test_the_user_of_the_unit_exists(tmp_path):
    (tmp_path / "etc").mkdir()
    file = SYSTEMD / "galvo.sysusers"
    done = run("systemd-sysusers", f"--root={tmp_path}", file)
    assert done.returncode == 0, done.stderr
    (user,) = (tmp_path / "etc" / "passwd").read_text().splitlines()
    name, _, number, _, _, home, shell = user.split(":")
    assert [name] == setting("User") == setting("Group")
    assert 0 < int(number) < 1000
    (directory,) = setting("StateDirectory")
    assert home == f"/var/lib/{directory}" == setting("WorkingDirectory")[0]
    assert shell.endswith("/nologin")


def environment_file(text):
    """Returns the variables of a file for ``EnvironmentFile=``."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("which", ["as it is", "with everything"])
def test_the_server_accepts_the_settings(which, tmp_path, galvo_bin):
    text = (SYSTEMD / "galvo.env").read_text(encoding="utf-8")
    if which == "with everything":
        text = re.sub(r"^#(?=GALVO_)", "", text, flags=re.MULTILINE)
    variables = environment_file(text)
    assert len(variables) == (1 if which == "as it is" else 6)
    done = run(
        *[galvo_bin, "doctor", "--json"],
        env={**clean_environment(), **variables},
        cwd=tmp_path,
    )
    checks = json.loads(done.stdout)["checks"]
    settings = [check for check in checks if check["check"] == "settings"]
    assert [check["verdict"] for check in settings] == ["ok"], settings


def test_the_server_runs_as_the_unit_starts_it(tmp_path, galvo_bin):
    """The command, in the directory, with the mask and the signal of the unit."""
    (listen,) = re.findall(
        r"^GALVO_LISTEN=(.*)$", (SYSTEMD / "galvo.env").read_text(), re.MULTILINE
    )
    assert listen == "127.0.0.1:8000"
    processes = Processes(tmp_path)
    try:
        (mask,) = setting("UMask")
        assert (mask, setting("KillSignal")) == ("0077", [])
        umask = ["sh", "-c", f'umask {mask}; exec "$@"', "sh"]
        environment = {**clean_environment(), "GALVO_LISTEN": "127.0.0.1:0"}
        server = processes.start("galvo", [*umask, galvo_bin, "serve"], environment)
        address = server.wait_for_log(r"^listening on (http\S+)$").group(1)
        with urllib.request.urlopen(f"{address}/readyz", timeout=10) as response:
            assert response.status == 200
        database = tmp_path / "galvo.db"
        assert database.stat().st_mode & 0o777 == 0o600
        ready = run(galvo_bin, "ready", env={**environment, "GALVO_LISTEN": address[7:]})
        assert ready.returncode == 0, ready.stderr
        server.send(signal.SIGTERM)
        assert server.wait(30) == 0
        (seconds,) = setting("TimeoutStopSec")
        assert int(seconds) > 20
    finally:
        processes.kill_all()


def system_calls(name):
    """Returns the system calls of a set of systemd, or the one of that name."""
    if not name.startswith("@"):
        return {name}
    listed = run("systemd-analyze", "syscall-filter", name).stdout
    calls = set()
    for word in re.findall(r"^ +([@a-z_0-9-]+)", listed, re.MULTILINE):
        calls |= system_calls(word)
    assert calls, f"{name} is empty"
    return calls


def test_the_server_makes_the_system_calls_that_the_unit_allows(tmp_path, galvo_bin):
    permitted = set()
    for line in setting("SystemCallFilter"):
        calls = set().union(*map(system_calls, line.lstrip("~").split()))
        permitted = permitted - calls if line.startswith("~") else permitted | calls
    assert setting("MemoryDenyWriteExecute") == ["yes"]
    processes = Processes(tmp_path)
    try:
        environment = {**clean_environment(), "GALVO_LISTEN": "127.0.0.1:0"}
        tracer = ["strace", "-f", "-qq", "-o", tmp_path / "calls"]
        server = processes.start("galvo", [*tracer, galvo_bin, "serve", "--bootstrap"], environment)
        address = server.wait_for_log(r"^listening on (http\S+)$").group(1)
        token = server.wait_for_log(r"^token: +(\S+)").group(1)
        report = (REPOSITORY / "fuzz/corpus/report/everything.json").read_bytes()
        query = b'{"query": "{ viewer { account { clusters { nodes { name } } } } }"}'
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        for path, body in [("/api/v1/reports", report), ("/graphql", query), ("/metrics", None)]:
            request = urllib.request.Request(address + path, body, headers)
            with urllib.request.urlopen(request, timeout=60) as response:
                assert response.status == 200
        # Not the tracer, which would leave its program alone.
        (traced,) = (
            Path(f"/proc/{server.popen.pid}/task/{server.popen.pid}/children").read_text().split()
        )
        os.kill(int(traced), signal.SIGTERM)
        assert server.wait(60) == 0
    finally:
        processes.kill_all()
    traced = (tmp_path / "calls").read_text(errors="replace")
    made = set(re.findall(r"^\d+ +([a-z_0-9]+)\(", traced, re.MULTILINE))
    assert {"openat", "accept4", "mmap"} <= made
    # SQLite gives its files to the owner of the database, if it runs as root.
    assert made - permitted <= ({"fchown"} if os.geteuid() == 0 else set())
    mapped = re.findall(r"^\d+ +(?:mmap|mprotect)\(.*", traced, re.MULTILINE)
    assert mapped and not [one for one in mapped if "PROT_WRITE" in one and "PROT_EXEC" in one]


def test_wrong_settings_end_without_a_restart(tmp_path, galvo_bin):
    done = run(
        *[galvo_bin, "serve"],
        env={**clean_environment(), "GALVO_LISTEN": "everywhere"},
        cwd=tmp_path,
    )
    assert [str(done.returncode)] == setting("RestartPreventExitStatus")


def test_the_server_notifies_systemd_when_it_is_ready_and_when_it_stops(tmp_path, galvo_bin):
    assert setting("Type") == ["notify"]
    processes = Processes(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
        notifications.bind(str(tmp_path / "notify"))
        notifications.settimeout(60)
        environment = {
            **clean_environment(),
            "GALVO_LISTEN": "127.0.0.1:0",
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
        }
        try:
            server = processes.start("galvo", [galvo_bin, "serve"], environment)
            assert notifications.recv(100).split() == [b"READY=1"]
            address = server.wait_for_log(r"^listening on (http\S+)$").group(1)
            with urllib.request.urlopen(f"{address}/readyz", timeout=10) as response:
                assert response.status == 200
            server.send(signal.SIGTERM)
            assert notifications.recv(100).split() == [b"STOPPING=1"]
            assert server.wait(30) == 0
        finally:
            processes.kill_all()
