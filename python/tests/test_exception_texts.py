"""Tests of exception texts reduced to types and frames: nothing else remains."""

import re
import time
import traceback
import warnings

import pytest

from galvo.plugin.exception_texts import frames_of, type_in, without_exceptions

SECRET = "Swordfish"


class NotThereError(Exception):
    pass


def inner():
    raise KeyError(SECRET)  # a secret in the source


def chained():
    try:
        inner()
    except KeyError as error:
        raise NotThereError(f"no {SECRET}\n  {SECRET}\n{SECRET}: {SECRET}") from error


def handled():
    try:
        inner()
    except KeyError:
        raise ValueError(SECRET)  # noqa: B904


def noted():
    error = OSError(2, SECRET)
    if hasattr(error, "add_note"):
        error.add_note(f"{SECRET}\n  and more of {SECRET}")
    raise error


def syntax():
    compile(f"{SECRET} =", f"{SECRET.lower()}.py", "exec")


def shown(function):
    try:
        function()
    except Exception:
        return traceback.format_exc()


HEAD = "Traceback (most recent call last):"
CAUSE = "The above exception was the direct cause of the following exception:"
HANDLING = "During handling of the above exception, another exception occurred:"


def frame(function):
    return f'  File "{__file__}", line N, in {function}'


@pytest.mark.parametrize(
    "function, expected",
    [
        (inner, [HEAD, frame("shown"), frame("inner"), "KeyError"]),
        (
            chained,
            [
                *[HEAD, frame("chained"), frame("inner"), "KeyError", CAUSE],
                *[HEAD, frame("shown"), frame("chained"), f"{__name__}.NotThereError"],
            ],
        ),
        (
            handled,
            [
                *[HEAD, frame("handled"), frame("inner"), "KeyError", HANDLING],
                *[HEAD, frame("shown"), frame("handled"), "ValueError"],
            ],
        ),
        (noted, [HEAD, frame("shown"), frame("noted"), "FileNotFoundError"]),
        (
            syntax,
            [HEAD, frame("shown"), frame("syntax"), '  File "swordfish.py", line N', "SyntaxError"],
        ),
    ],
)
def test_of_tracebacks_there_are_headings_frames_and_types(function, expected):
    text = shown(function)
    assert SECRET in text
    kept = re.sub(r"line \d+", "line N", frames_of(text))
    assert [line for line in kept.split("\n") if line] == expected
    # The same in a log line, where other text may follow.
    line = without_exceptions(f"it failed\n{text}and {SECRET}\n{SECRET}")
    assert line.startswith("it failed\n" + HEAD) and SECRET not in line


def test_of_groups_there_are_the_types_of_all():
    text = f"""  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 1, in <module>
  |     raise {SECRET}
  | ExceptionGroup: {SECRET} (2 sub-exceptions)
  | {SECRET}
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "a.py", line 3, in f
    |     {SECRET}
    | TypeError: {SECRET}
    +---------------- 2 ----------------
    | ValueError: {SECRET}
    +------------------------------------
"""
    assert frames_of(text).rstrip().split("\n") == [
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "a.py", line 1, in <module>',
        "  | ExceptionGroup",
        "  +-+---------------- 1 ----------------",
        "    | Traceback (most recent call last):",
        '    |   File "a.py", line 3, in f',
        "    | TypeError",
        "    +---------------- 2 ----------------",
        "    +------------------------------------",
    ]


def test_what_stands_in_the_place_of_a_type_is_one_or_goes():
    text = f'  File "a.py", line 1, in f\n{SECRET}: x\n{SECRET}'
    assert frames_of(text) == '  File "a.py", line 1, in f\n[removed]'


@pytest.mark.parametrize(
    "text, expected",
    [
        ("nothing was raised", "nothing was raised"),
        (f"quoted: {f'x {HEAD} {SECRET}'!r} {SECRET}", "quoted: 'x [removed]"),
        (f'in a sentence: File "a.py", line 1 {SECRET}', None),
        (f'  File "a.py", line 1, in f\n    {SECRET}\nE: {SECRET}', None),
        (
            f"Compute Failed\nKey: k-1\nException: \"KeyError('{SECRET}')\"\nTraceback: '{SECRET}'",
            "Compute Failed\nKey: k-1\nException: KeyError",
        ),
        (
            f"Compute Failed\nKey: k-1\nException: {SECRET}",
            "Compute Failed\nKey: k-1\nException: [removed]",
        ),
    ],
)
def test_lines_of_logs(text, expected):
    found = without_exceptions(text)
    if expected is None:
        # A traceback begins in the middle of a line only if it is quoted; frames alone count as
        # one.
        assert (SECRET in found) == text.startswith("in a sentence")
    else:
        assert found == expected


def test_of_warnings_there_are_places_and_categories():
    text = warnings.formatwarning(f"{SECRET}\n{SECRET}", UserWarning, "a.py", 7, f"f({SECRET})")
    assert SECRET in text
    assert without_exceptions(text, is_warning=True) == "a.py:7: UserWarning"
    assert without_exceptions(SECRET, is_warning=True) == "[removed]"


@pytest.mark.parametrize(
    "text, name",
    [("a.b.KeyError('x')", "KeyError"), ("'KeyError(1)'", "KeyError"), ("no (1)", None)],
)
def test_types_in_what_exceptions_show_of_themselves(text, name):
    assert type_in(text) == name


@pytest.mark.parametrize(
    "piece",
    ['File "', HEAD, " |", "a.", "x:1: ", '  File "a", line 1\n', "E\n"],
)
def test_it_takes_time_in_proportion_to_the_text(piece):
    text = piece * (200_000 // len(piece))
    begins = time.process_time()
    frames_of(text), without_exceptions(text), without_exceptions(text, True), type_in(text)
    assert time.process_time() - begins < 2
