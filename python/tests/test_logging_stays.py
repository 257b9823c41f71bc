"""Tests that ``logging`` output of programs is unchanged by the plugin, which reads it
nevertheless.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("logging_programs.py")
TRACEBACK = """it failed
Traceback (most recent call last):
  File "%s", line %d, in exceptions
    raise ValueError("no")
ValueError: no"""
LINE = 1 + SCRIPT.read_text().split("\n").index('        raise ValueError("no")')
OF_DASK = ("distributed.some", "distributed.client", "tornado.application")
ATTRIBUTES = (
    "args created exc_info exc_text filename funcName levelname levelno lineno module msecs msg "
    "name pathname process processName relativeCreated %sstack_info "
    # Python 3.12 added the name of the asyncio task.
    + ("taskName " if sys.version_info >= (3, 12) else "")
    + "thread threadName"
)
# By program: the output of Python and Dask, and the lines that are read.
EXPECTED = {
    "without_handlers": (
        ["a warning", "WARNING:root:of the root", "ERROR:mine:an error"],
        ["a warning", "of the root", "an error"],
    ),
    "basic_config_afterwards": (
        ["INFO|mine|an info", "WARNING|mine|a warning", "distributed.some: of Dask"],
        ["a warning", "of Dask"],
    ),
    "basic_config_before": (["WARNING|mine|a warning"], ["a warning"]),
    "basic_config_by_force": (["first one", "second two"], ["one", "two"]),
    "configured_by_a_dict": (["mine: a warning"], ["a warning"]),
    "handlers_of_its_own": (["kept to itself", "passed on"], ["passed on"]),
    "exceptions": ((TRACEBACK % (SCRIPT, LINE)).split("\n"), [TRACEBACK % (SCRIPT, LINE)]),
    "captured_warnings": (
        ["f.py:1: UserWarning: not captured", "py.warnings"],
        ["f.py:2: UserWarning: captured\n", "f.py:3: UserWarning: configured\n"],
    ),
    "attributes_of_records": ([ATTRIBUTES % "request ", ATTRIBUTES % ""], ["one", "two"]),
    "filters": (
        ["one", "two swordfish", "three ***", "five", "six ***"],
        ["one", "two swordfish", "three ***", "five"],
    ),
    "nested_lines": (
        ["outer", *[f"distributed.inner: {i}" for i in range(5)], "distributed.client: outer"],
        ["outer", "0", "1", "2", "3", "4"],
    ),
    "disabled": ([], []),
    "factories": (["before", "***", "after"], ["before", "***"]),
    "dask_without_handlers": (
        [
            "warning of distributed.some",
            "error of distributed.some",
            "warning of distributed.client",
            "error of distributed.client",
            "error of tornado.application",
            "of a child",
            "of a child, too",
        ],
        [
            "info of distributed.some",
            "warning of distributed.some",
            "error of distributed.some",
            "warning of distributed.client",
            "error of distributed.client",
            "error of tornado.application",
        ],
    ),
    "dask_with_its_handlers": (
        [
            "distributed.some: info of distributed.some",
            *[f"{n}: error of {n}" for n in OF_DASK],
        ],
        ["info of distributed.some", *[f"error of {n}" for n in OF_DASK]],
    ),
    "without_a_last_resort": ([], ["a warning"]),
    "threads": ([str(i) for i in range(8)], [str(i) for i in range(8)]),
    "removed": (["with it", "without it"] * 3, ["with it"] * 3),
}


@pytest.fixture(scope="module")
def observed():
    environment = {**os.environ, "DASK_DISTRIBUTED__ADMIN__LOG_FORMAT": "%(name)s: %(message)s"}
    done = subprocess.run(
        [sys.executable, SCRIPT], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_program_is_known(observed):
    assert set(observed) == set(EXPECTED)


@pytest.mark.parametrize("program", EXPECTED)
def test_what_a_program_prints(program, observed):
    printed, read = EXPECTED[program]
    results = [[stderr.splitlines(), lines] for stderr, lines in observed[program]]
    if program in ("nested_lines", "threads"):  # in any order
        printed, read = sorted(printed), sorted(read)
        results = [[sorted(stderr), sorted(lines)] for stderr, lines in results]
    (without, _), in_worker, in_scheduler, (with_both, read_by_both) = results
    assert without == with_both == printed
    assert in_worker == in_scheduler == [printed, read]
    # A worker and a scheduler in one process each report each line, to their own cluster.
    assert sorted(read_by_both) == sorted(2 * read)
