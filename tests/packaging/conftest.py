"""Fixtures of the tests of packages, which ``scripts/packages.sh`` runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
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


def blocks(document, language):
    """Returns the blocks of a language in a page of the documentation."""
    text = (REPOSITORY / "docs" / document).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
