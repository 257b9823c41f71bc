import os
import pickle
import sys
from types import SimpleNamespace

import distributed
import pytest
from distributed.scheduler import KilledWorker, WorkerState

from galvo.plugin.errors import TYPES_OF_DASK, class_of_error, describe_error, redact_text


def test_an_exception_of_a_task():
    error = describe_error(
        {
            "exception_text": "ValueError('no')",
            "traceback_text": "  File",
            "worker": "tcp://1.2.3.4:5",
            "exception": SimpleNamespace(),
        }
    )
    assert error == {
        "type": "ValueError",
        "message": "ValueError('no')",
        "traceback": "  File",
        "worker": "tcp://1.2.3.4:5",
        "origin": "user",
    }


@pytest.mark.parametrize(
    "text, kind",
    [
        ("KeyError('x')", "KeyError"),
        ("requests.exceptions.HTTPError(404)", "HTTPError"),
        ("Fehlärm()", "Fehlärm"),
        ("<Odd object at 0x7f>", None),
        ("something went wrong", None),
        ("", None),
        (None, None),
    ],
)
def test_the_class_of_an_exception_is_given_only_when_it_shows(text, kind):
    assert describe_error({"exception_text": text})["type"] == kind


def test_a_killed_worker_is_described_by_its_own_text():
    worker = WorkerState.__new__(WorkerState)
    worker.address = "tcp://1.2.3.4:5"
    killed = KilledWorker("task-1", worker, 3)
    error = describe_error({"exception": pickle.dumps(killed), "worker": "tcp://1.2.3.4:5"})
    assert error["type"] == "KilledWorker" and error["traceback"] == ""
    assert error["origin"] == "dask"
    assert error["message"] == str(killed)
    assert "task-1" in error["message"] and "tcp://1.2.3.4:5" in error["message"]


def test_an_exception_of_the_scheduler_that_cannot_be_read():
    error = describe_error({"exception": b"not a pickle"})
    assert error["type"] is None and "could not be read" in error["message"]
    assert error["origin"] == "dask"


def test_bytes_are_not_opened_when_there_is_text():
    class Explosive:
        def __reduce__(self):
            return exec, ("raise SystemExit",)

    data = pickle.dumps(Explosive())
    assert describe_error({"exception": data, "exception_text": "E()"})["message"] == "E()"


@pytest.mark.parametrize(
    "text, origin",
    [
        ("P2PConsistencyError('x')", "dask"),
        ("distributed.scheduler.KilledWorker('x')", "dask"),
        ("RuntimeError('KilledWorker')", "user"),
        ("KilledWorkerOfMine('x')", "user"),
        # Without any text, the origin is unknown.
        ("", None),
        (None, None),
    ],
)
def test_errors_of_dask_are_distinguished_from_those_of_users(text, origin):
    assert describe_error({"exception_text": text}).get("origin") == origin


def test_an_error_without_a_known_origin_is_nobodys():
    error = describe_error({"worker": "tcp://1.2.3.4:5", "traceback_text": ""})
    assert "origin" not in error
    # It may come from the user's code, and is withheld with that.
    assert class_of_error(error) == "user_errors"
    assert class_of_error(describe_error({"exception": b"not a pickle"})) == "dask_errors"
    located = describe_error({"exception_text": "", "traceback_text": "  File"})
    assert located["origin"] == "user"


def test_the_errors_taken_for_those_of_dask_are_defined_there():
    import distributed.comm.core
    import distributed.exceptions
    import distributed.shuffle

    modules = [m for name, m in sorted(sys.modules.items()) if name.startswith("distributed")]
    defined = {
        kind.__name__
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
        and kind.__module__.startswith("distributed")
    }  # fmt: skip
    # Each release has the ones of its time.
    assert {"KilledWorker", "CommClosedError"} <= defined & TYPES_OF_DASK
    if distributed.__version__ >= "2026":
        assert defined >= TYPES_OF_DASK


TRACEBACK = """  File "/home/ada/work.py", line 7, in load
    connect("postgres://ada:hunter2@db/x")
    ~~~~~~~^^^^^
  File "/home/ada/other.py", line 1, in other
    other()
"""


def test_texts_of_errors_are_without_secrets():
    error = describe_error(
        {
            "exception_text": "OperationalError('postgres://ada:hunter2@db/x is away')",
            "traceback_text": TRACEBACK,
        }
    )
    assert error["message"] == "OperationalError('postgres://[removed]@db/x is away')"
    assert "hunter2" not in error["traceback"] and "connect(" in error["traceback"]


def test_where_code_is_not_sent_messages_have_no_source_either():
    # Like libraries that pass on exceptions of other processes.
    text = f"RemoteError({TRACEBACK!r})"
    assert "    other()" in describe_error({"exception_text": text})["message"]
    message = describe_error({"exception_text": text}, False)["message"]
    assert "work.py" in message and "    other()" not in message


def test_where_code_is_not_sent_tracebacks_have_no_source():
    error = describe_error({"exception_text": "E()", "traceback_text": TRACEBACK}, False)
    assert error["traceback"].splitlines() == [
        '  File "/home/ada/work.py", line 7, in load',
        '  File "/home/ada/other.py", line 1, in other',
    ]


def test_of_exceptions_there_may_be_types_and_frames_alone():
    event = {
        "exception_text": "OperationalError('ada has no account')",
        "traceback_text": TRACEBACK + "  [ada has no account]\n",
        "worker": "tcp://1.2.3.4:5",
    }
    assert describe_error(event, True, True) == {
        "type": "OperationalError",
        "message": "",
        "traceback": '  File "/home/ada/work.py", line 7, in load\n'
        '  File "/home/ada/other.py", line 1, in other\n',
        "worker": "tcp://1.2.3.4:5",
        "origin": "user",
    }
    # A name of Dask's own does not make the text one of the scheduler's.
    assert describe_error({"exception_text": "KilledWorker('ada')"}, True, True)["message"] == ""
    worker = WorkerState.__new__(WorkerState)
    worker.address = "tcp://1.2.3.4:5"
    verdict = {"exception": pickle.dumps(KilledWorker("task-1", worker, 3)), "worker": None}
    assert "task-1" in describe_error(verdict, True, True)["message"]


def test_what_is_cut_off_holds_no_end_of_a_secret():
    text = "x" * 90 + " postgres://ada:hunter2@db/x " + "y" * 100
    assert redact_text(text, 100, True) == ("x" * 90 + " postgres://")[:87] + "… [truncated]"
    assert "hunter2" not in redact_text(text, 120, True)


class Reached(Exception):
    """Detects whether foreign bytes are unpickled."""

    made = False

    def __reduce__(self):
        return (setattr, (Reached, "made", True))


@pytest.mark.parametrize(
    "bad",
    [
        Reached(),
        [print, "x"],
        {"call": os.system},
        distributed.Client,
    ],
    ids=["a call", "a function", "a system call", "a class of Dask"],
)
def test_bytes_of_others_make_nothing(bad):
    error = describe_error({"exception": pickle.dumps(bad), "worker": None})
    assert error["message"] == "an exception of the scheduler that could not be read"
    assert Reached.made is False
