"""Tests of excerpts of source, from a failing task to the error in a report."""

import importlib.util
import json
import linecache
import sys
import traceback

import pytest
from stand_ins import Scheduler

from galvo.plugin import excerpts
from galvo.plugin.collector import Context
from galvo.plugin.error_sources import ErrorSources
from galvo.plugin.excerpts import KEY, Excerpts
from galvo.plugin.ledger import Ledger
from galvo.plugin.sections import Record
from galvo.plugin.worker_side import TOPIC

SOURCE = """\
import json


def divide(number):
    # Before it.
    token = "hunter2hunter2hunter2"
    return number / 0
    # After it.


def parse(text):
    return json.loads(text)
"""


@pytest.fixture
def work(tmp_path):
    """A module of a user."""
    path = tmp_path / "work.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("work_of_excerpts", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def failed(function, *arguments):
    """Returns the traceback of a failing call, as Dask's workers write it."""
    try:
        function(*arguments)
    except Exception:
        return "".join(traceback.format_tb(sys.exc_info()[2]))
    raise AssertionError("it did not fail")


def test_five_lines_around_the_failing_one(work):
    own = Excerpts()
    excerpt = own.read_new(failed(work.divide, 1))
    lines = SOURCE.splitlines()
    assert excerpt == {
        "file": work.__file__, "line": 7, "first_line": 5, "lines": lines[4:9],
    }  # fmt: skip
    assert lines[6] == "    return number / 0"
    assert own.read_new(failed(work.divide, 2)) is None  # it was sent before
    # The innermost frame is in Python's library, the excerpt is of the caller.
    assert own.read_new(failed(work.parse, "{"))["line"] == 12


def test_nothing_is_read_for_an_excerpt(work):
    linecache.clearcache()
    found = failed(work.divide, 1)
    linecache.clearcache()
    assert Excerpts().read_new(found) is None
    namespace = {}
    exec("def f():\n    raise ValueError", namespace)  # such as a cell of a notebook
    own = Excerpts()
    excerpt = own.read_new(failed(namespace["f"]))
    assert excerpt is None or excerpt["file"] == __file__
    assert own.read_new("") is own.read_new("no traceback") is None


def test_a_process_remembers_a_bounded_number_of_places(work, monkeypatch):
    monkeypatch.setattr(excerpts, "MOST_LOCATIONS", 1)
    own = Excerpts()
    for function in (work.divide, work.parse, work.divide):
        assert own.read_new(failed(function, "{")) is not None


class Reporter:
    """The scheduler's side, with an error of each traceback."""

    def __init__(self, *tracebacks, **settings):
        self.scheduler = Scheduler()
        self.ledger = Ledger(1)
        self.context = Context(self.scheduler, settings, self.ledger)
        self.collector = ErrorSources(self.context)
        self.records = [
            Record(str(number), {"traceback": text}, settled=True)
            for number, text in enumerate(tracebacks)
        ]
        for record in self.records:
            record.data_class = "user_errors"
            self.ledger.outboxes["errors"].add(record)

    def read(self, *messages):
        for message in messages:
            self.collector.event(TOPIC, message, 0.0)
        self.collector.read(0.0)
        return [record.body.get("source") for record in self.records]


def test_errors_get_the_excerpt_of_their_failing_line(work):
    text = failed(work.divide, 1)
    excerpt = json.loads(json.dumps(Excerpts().read_new(text)))
    reporter = Reporter(text, text.replace("line 7", "line 8"), text)
    reporter.records[2].sent_characters = 10
    source, other, sent = reporter.read({KEY: excerpt})
    assert (source["line"], source["first_line"], source["file"]) == (7, 5, work.__file__)
    assert source["lines"][2] == "    return number / 0"
    assert "hunter2" not in json.dumps(source)
    # Another line, and an error that the server may have already.
    assert other is sent is None


@pytest.mark.parametrize(
    "message",
    [
        None,
        {KEY: 1},
        {KEY: {"file": "a.py", "line": 1, "first_line": 1, "lines": "x"}},
        {KEY: {"file": "a.py", "line": 1, "first_line": 2, "lines": ["x"]}},
        {KEY: {"file": "a.py", "line": 9, "first_line": 1, "lines": ["x"]}},
        {KEY: {"file": "a.py", "line": 1, "first_line": 1, "lines": ["x"] * 6}},
        {KEY: {"file": "a.py", "line": True, "first_line": 1, "lines": ["x"]}},
        {KEY: {"file": "a.py", "line": 1, "first_line": 1, "lines": [1]}},
    ],
)
def test_events_of_others_are_no_excerpts(message):
    assert Reporter('  File "a.py", line 1, in f\n').read(message) == [None]


def test_without_code_there_are_no_excerpts():
    excerpt = {"file": "a.py", "line": 1, "first_line": 1, "lines": ["x = 1"]}
    text = '  File "a.py", line 1, in f\n'
    reporter = Reporter(text)
    reporter.context.sends = lambda data_class: data_class != "code"
    assert reporter.read({KEY: excerpt}) == [None]
    assert Reporter(text).read({KEY: excerpt}) == [excerpt]
