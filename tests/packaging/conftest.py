"""Fixtures of the tests of packages, which ``scripts/packages.sh`` runs."""

import os
import re
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


def blocks(document, language):
    """Returns the blocks of a language in a page of the documentation."""
    text = (REPOSITORY / "docs" / document).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
