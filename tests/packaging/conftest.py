"""Fixtures of the tests of packages, which ``scripts/packages.sh`` runs."""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

REPOSITORY = Path(__file__).parents[2]
VERSION = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["workspace"]["package"]["version"]
sys.path.insert(0, str(REPOSITORY / "tests" / "dask"))


def pytest_configure():
    missing = [name for name in ("GALVO_BIN",) if name not in os.environ]
    assert not missing, f"{missing} are not set: run scripts/packages.sh"


@pytest.fixture(scope="session")
def galvo_bin():
    """The server's program."""
    return Path(os.environ["GALVO_BIN"]).resolve(strict=True)


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    """A directory with the sources as an archive has them, without git."""
    directory = tmp_path_factory.mktemp("sources")
    (directory / "galvo").mkdir()
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    pack = ["tar", "--create", "--null", "--files-from=-", "--file", directory / "galvo.tar"]
    subprocess.run(pack, cwd=REPOSITORY, input=names, check=True)
    unpack = ["tar", "--extract", "--file", directory / "galvo.tar"]
    subprocess.run(unpack, cwd=directory / "galvo", check=True)
    (directory / "galvo.tar").unlink()
    return directory


def lay_out(version, directory, galvo_bin, sources=REPOSITORY, umask=-1, **variables):
    """Runs the script that lays a release of the sources out, with a program of the server."""
    return subprocess.run(
        [sources / "scripts" / "release.sh", version, directory],
        env={**os.environ, "GALVO_SERVER_BIN": str(galvo_bin), **variables},
        umask=umask,
        stderr=subprocess.PIPE,
        text=True,
        timeout=1800,
    )


@pytest.fixture(scope="session")
def release(tmp_path_factory, galvo_bin):
    """The directory of a release, which all workers share."""
    directory = tmp_path_factory.getbasetemp().parent / "release"
    with open(f"{directory}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            made = tmp_path_factory.mktemp("release")
            done = lay_out(VERSION, made, galvo_bin)
            assert done.returncode == 0, done.stderr
            made.rename(directory)
    return directory


def blocks(document, language):
    """Returns the blocks of a language in a page of the documentation."""
    return blocks_in((REPOSITORY / "docs" / document).read_text(encoding="utf-8"), language)


def blocks_in(text, language):
    """Returns the blocks of a language in a text in Markdown."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
