"""Every bound of the plugin that omits data is in the documented table, with its test."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from galvo import plugin
from galvo.plugin.sections import MOST_UNSENT

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
SECTION = DOCUMENT.partition("\n## Omitted data\n")[2].partition("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in SECTION.splitlines()
    if line.startswith("| ") and not line.startswith("| limit")
]
BOUND = re.compile(r"(?:MOST|LARGEST)_\w+|\w+_PER_\w+")
# The first words of rows that no test can have.
UNTESTABLE = ["a process that is killed"]

# Bounds that omit no data, by module and name.
HARMLESS = {
    ("code", "MOST_CHARACTERS"): "forgets sent code, which is sent again if it recurs",
    ("code", "MOST_SNIPPETS"): "the same",
    ("events", "MOST_PENDING"): "events are read before the next report",
    ("inheritance", "MOST_STATES"): "of servers that nobody reports to any more",
    ("ledger", "MOST_ERRING_TASKS"): "removes tasks that are no longer erred",
    ("logs", "MOST_PENDING"): "lines are released before the next report",
    ("logs", "MOST_PROCESSES"): "forgets which processes the oldest lines came from",
    ("profiles", "MOST_FRAMES"): "prunes like MOST_NODES",
    ("proxy", "LARGEST_RESPONSE"): "of a response of the server",
    ("scrub", "MOST_KNOWN"): "of secrets known to this process",
    ("sections", "LARGEST_LIMITS"): "the rest is sent with the next report",
    ("sections", "MOST_REPORT_CHARACTERS"): "the same",
    ("spans", "LARGEST_INTEGER"): "no number of Dask's is larger",
    ("spans", "MOST_TEXTS"): "of a cache",
    ("spool", "MOST_EXPANSION"): "a larger file was not written by the plugin",
    ("usage", "MOST_ENDED"): "documented with the workers that may still answer",
    ("values", "LARGEST_INTEGER"): "documented as 64 bits",
}
# How a bound is written in the table, if it is not its number.
WRITTEN = {
    ("spool", "MOST_BYTES"): "256 MB",
    ("spool", "MOST_FILE_BYTES"): "64 MB",
    ("sections", "MOST_UNSENT"): "10,000 task groups",
    ("worker_side", "MOST_LINES"): "200 lines below `WARNING`, 200 warnings, 100 errors",
    ("samples", "WORKERS_PER_SECOND"): "50 samples of workers in a second",
    ("work", "TYPES_PER_GROUP"): "100 types of results",
    ("code", "FRAMES_PER_STACK"): "20 stacks of 20 frames",
}


def bounds():
    """Returns the bounds that the plugin's modules define, by module and name."""
    found = {}
    for module in pkgutil.iter_modules(plugin.__path__):
        one = importlib.import_module(f"{plugin.__name__}.{module.name}")
        source = Path(one.__file__).read_text(encoding="utf-8")
        for names in re.findall(r"^([A-Z][A-Z_, ]+?)(?:: [^=]+)? = ", source, re.MULTILINE):
            for name in names.split(", "):
                if BOUND.fullmatch(name):
                    found[module.name, name] = getattr(one, name)
    return found


def is_a_test(name):
    file, _, test = name.rpartition("::")
    if file.endswith(".py"):
        places = [ROOT / "python/tests" / file, ROOT / "tests/dask" / file]
        pattern = rf"^def {test}\("
    else:
        path = file.replace("::", "/")
        places = [
            ROOT / f"tests/it/{path}.rs",
            ROOT / f"tests/it/{path}/mod.rs",
            ROOT / f"api/src/domain/{path}/tests.rs",
        ]
        pattern = rf"^(?:async )?fn {test}\(\)"
    texts = [place.read_text(encoding="utf-8") for place in places if place.exists()]
    return any(re.search(pattern, text, re.MULTILINE) for text in texts)


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:40] for row in ROWS])
def test_each_row_states_where_it_is_reported_and_has_a_test(row):
    cause, omitted, reported, tests = row
    assert cause and omitted and reported
    if any(cause.startswith(begin) for begin in UNTESTABLE):
        return
    named = re.findall(r"`([^`]+)`", tests)
    assert named, "no test"
    assert [name for name in named if not is_a_test(name)] == []


def test_no_row_and_no_test_is_found_by_accident():
    assert len(ROWS) > 20
    assert not is_a_test("test_spool.py::test_nothing") and not is_a_test("retention::nothing")


def test_every_bound_is_documented():
    causes, found = "\n".join(row[0] for row in ROWS), bounds()
    assert len(found) > 30 and MOST_UNSENT["task_groups"] == 10_000
    missing = []
    for key in found.keys() - HARMLESS.keys():
        written = WRITTEN[key] if key in WRITTEN else f"{found[key]:,}"
        if not re.search(rf"(?<![\d,]){re.escape(written)}(?![\d,]*\d)", causes):
            missing.append((key, written))
    assert missing == []
    assert [key for key in (*HARMLESS, *WRITTEN) if key not in found] == []
