"""Replays the fuzzing corpus of imported files."""

import importlib.util
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[2] / "fuzz"
CORPUS = sorted((FUZZ / "corpus" / "importer").iterdir())
spec = importlib.util.spec_from_file_location("importer", FUZZ / "fuzz_targets" / "importer.py")
importer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(importer)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_what_was_found_holds(path, tmp_path):
    # The result does not depend on the name of a file.
    copy = tmp_path / "some.file"
    copy.write_bytes(path.read_bytes())
    importer.try_file(copy)
