"""The wheels of a release, installed in environments of their own."""

import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, VERSION
from processes import clean_environment

sys.path.insert(0, str(REPOSITORY / "python" / "server"))
from build_hook import platform_of

# A program of a user: twelve tasks, of which one fails.
WORKLOAD = """
from dask.distributed import Client, LocalCluster, wait
import galvo

if __name__ == "__main__":
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False)
    with cluster, Client(cluster) as client:
        galvo.register()
        wait(client.map(lambda number: 1 / number, range(12)))
"""


@pytest.fixture(scope="session")
def wheels(release):
    """The wheels by name."""
    found = {path.name.split("-")[0]: path for path in release.glob("*.whl")}
    assert set(found) == {"galvo", "galvo_server"}
    return found


def test_one_wheel_is_python_alone_and_the_other_the_program(wheels, galvo_bin):
    assert wheels["galvo"].name == f"galvo-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheels["galvo"]) as wheel:
        names = wheel.namelist()
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        assert wheel.read(entry_points).decode().split() == [
            "[console_scripts]",
            "galvo",
            "=",
            "galvo.command:main",
        ]
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        assert "Requires-Dist: galvo-server; extra == 'server'" in wheel.read(metadata).decode()
    assert {name.split("/")[0] for name in names} == {"galvo", f"galvo-{VERSION}.dist-info"}
    assert all(name.endswith((".py", "py.typed")) for name in names if name.startswith("galvo/"))
    machine = os.uname().machine
    name = rf"galvo_server-{re.escape(VERSION)}-py3-none-manylinux_2_\d+_{machine}\.whl"
    assert re.fullmatch(name, wheels["galvo_server"].name)
    with zipfile.ZipFile(wheels["galvo_server"]) as wheel:
        files = {entry.filename: entry for entry in wheel.infolist()}
        program = files.pop(f"galvo_server-{VERSION}.data/scripts/galvo-server")
        assert stat.S_IMODE(program.external_attr >> 16) == 0o755
        assert {name.split("/")[0] for name in files} == {f"galvo_server-{VERSION}.dist-info"}


def test_the_platform_is_that_of_the_needed_symbols(tmp_path):
    """A program that needs nothing new, and one that needs a library that not every system has."""
    source = tmp_path / "program.c"
    source.write_text("int main(void) { return 0; }\n")
    program = tmp_path / "program"
    subprocess.run(["cc", "-o", program, source], check=True)
    symbols = subprocess.run(["objdump", "-T", program], capture_output=True, text=True, check=True)
    newest = max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", symbols.stdout))
    assert platform_of(program) == f"manylinux_2_{newest}_{os.uname().machine}"
    library = tmp_path / "libgalvotest.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    command = ["cc", "-o", program, source, "-Wl,--no-as-needed", library, f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(command, check=True)
    with pytest.raises(ValueError, match=r"libgalvotest\.so"):
        platform_of(program)


class Home:
    """An environment of Python and the directories of a user."""

    def __init__(self, directory, python):
        self.directory = directory
        self.python = directory / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "venv", directory / "venv"], check=True)

    def install(self, *packages):
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages], check=True, timeout=300)

    def run(self, *command, **variables):
        program, *arguments = command
        return subprocess.run(
            [self.python.parent / program, *arguments],
            cwd=self.directory,
            env={
                **clean_environment(),
                "HOME": str(self.directory),
                "XDG_DATA_HOME": str(self.directory / "data"),
                "PATH": f"{self.python.parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
                **variables,
            },
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.mark.parametrize("which", ["FIRST", "LAST"])
def test_two_wheels_are_all_that_a_laptop_needs(which, wheels, tmp_path):
    home = Home(tmp_path, os.environ[f"GALVO_TEST_PYTHON_{which}"])
    home.install(wheels["galvo"])
    # Without the program, its commands say where it is to be had.
    done = home.run("galvo", "serve")
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'galvo[server]'" in done.stderr
    home.install("--no-deps", wheels["galvo_server"])
    done = home.run("galvo", "schema")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (REPOSITORY / "schema.graphql").read_text(encoding="utf-8")
    try:
        done = home.run("galvo", "up", "--detach", "--port", "0")
        assert (done.returncode, done.stderr) == (0, "")
        (address,) = re.findall(r"^Galvo runs at (http://127\.0\.0\.1:\d+) ", done.stdout)
        assert (tmp_path / "data" / "galvo" / "galvo.db").is_file()
        kept = tmp_path / ".config" / "dask" / "galvo.yaml"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert yaml.safe_load(kept.read_text())["galvo"]["server"] == address
        again = home.run("galvo", "up")
        assert (again.returncode, again.stderr) == (0, "")
        assert f"Galvo runs already at {address} " in again.stdout
        (tmp_path / "workload.py").write_text(WORKLOAD)
        done = home.run("python", "workload.py")
        assert done.returncode == 0, done.stderr
        done = home.run("galvo", "clusters", "--json")
        assert (done.returncode, done.stderr) == (0, "")
        (cluster,) = json.loads(done.stdout)
        totals = cluster["totals"]
        assert (totals["tasks"], totals["tasksErred"], cluster["state"]) == (12, 1, "CLOSED")
        # A command of the server, on the same database.
        url = f"sqlite://{tmp_path}/data/galvo/galvo.db"
        users = home.run("galvo", "user", "list", GALVO_DATABASE_URL=url, GALVO_LOG="warn")
        assert users.returncode == 0 and "admin" in users.stdout, users.stderr
        # A lost configuration is written again, with a new token.
        token = yaml.safe_load(kept.read_text())["galvo"]["token"]
        kept.unlink()
        assert home.run("galvo", "up").returncode == 0
        assert yaml.safe_load(kept.read_text())["galvo"]["token"] != token
        assert home.run("galvo", "clusters").returncode == 0
    finally:
        stopped = home.run("galvo", "down")
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert re.fullmatch(r"The server, process \d+, is stopped\.\n", stopped.stdout)


def test_the_program_is_the_one_of_the_tests(wheels, tmp_path, galvo_bin):
    with zipfile.ZipFile(wheels["galvo_server"]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("/galvo-server"))
        program = Path(wheel.extract(name, tmp_path))
    program.chmod(0o755)
    versions = [
        subprocess.run([one, "--version"], capture_output=True, text=True, check=True).stdout
        for one in (program, galvo_bin)
    ]
    assert versions[0] == versions[1]
