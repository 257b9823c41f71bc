"""Removes the messages of exceptions from text, and keeps their types and traceback frames.

The parts to keep are recognized line by line, and everything else of an exception is removed. So no
message, note or line of source remains because of an unforeseen notation.
"""

import builtins
import re
from typing import List, Optional

from .inputs import REMOVED

_FRAME = re.compile(
    r"([ \t|+-]{0,400})(File \"[^\"\n]{0,4096}\", line \d{1,9}(?:, in [^\s\"'\\]{1,400})?)"
    r"[ \t\r]*\Z"
)
_HEADING = re.compile(
    r"[ \t|+-]{0,400}(?:(?:Exception Group )?Traceback \(most recent call last\):"
    r"|During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:)[ \t\r]*\Z"
)
# The separator between the exceptions of a group.
_RULE = re.compile(r"[ \t|]{0,400}\+-[-+]{0,400}(?: (?:\d{1,9}|\.\.\.) -{1,80})?[ \t\r]*\Z")
_NAME = re.compile(r"([ \t|]{0,400})([^\W\d]\w{0,200}(?:\.\w{1,200}){0,20})(?=:|[ \t\r]*\Z)")
_MARGIN = re.compile(r"[ \t|+-]*")
# The possible beginnings of a traceback within a text, also quoted.
_BEGINS = re.compile(
    r"Traceback \(most recent call last\)|^[ \t|+-]{0,400}File \"[^\"\n]{0,4096}\", line \d", re.M
)
_WARNING = re.compile(r"([^\n]{1,2048}?:\d{1,9}: )([^\W\d]\w{0,200})(?=: )")
_FAILED = re.compile(r"^(Exception:[ \t]{0,8})", re.M)
_CALL = re.compile(r"[\"']{0,3}([^\W\d][\w.]{0,256})\(")
_ENDINGS = ("Error", "Exception", "Warning", "Exit", "Interrupt", "Iteration", "Group", "Timeout")


def type_in(text: str) -> Optional[str]:
    """Returns the class name in an exception's ``repr``, without its package; None if not found."""
    match = _CALL.match(text)
    return match.group(1).rpartition(".")[2] if match else None


def frames_of(traceback: str) -> str:
    """Returns a traceback without source, messages and notes.

    Chained and grouped exceptions keep their types if these look like the name of an exception.

    >>> frames_of('  File "a.py", line 1, in f\\n    load("x")\\nValueError: no x\\nbut a note')
    '  File "a.py", line 1, in f\\nValueError'
    """
    kept_lines: List[str] = []
    margin: Optional[int] = None  # the margin of the latest frame, until its exception was found
    for line in traceback.split("\n"):
        frame = _FRAME.match(line)
        if frame is not None:
            kept_lines.append(frame.group(1) + frame.group(2))
            margin = len(frame.group(1))
        elif _HEADING.match(line) or _RULE.match(line):
            kept_lines.append(line)
            # In a group, the exception follows its own frames.
            margin = None if margin is None else 0
        elif margin is not None and line.strip(" \t|\r") and _indent(line) <= max(margin - 1, 0):
            name_match = _NAME.match(line)
            if name_match is not None and _is_exception(name_match.group(2)):
                kept_lines.append(name_match.group(1) + name_match.group(2))
            else:
                kept_lines.append(REMOVED)
            margin = None
    if kept_lines and traceback.endswith("\n"):
        kept_lines.append("")
    return "\n".join(kept_lines)


def without_exceptions(text: str, is_warning: bool = False) -> str:
    """Returns a log line or another text without the messages of exceptions in it.

    From the start of a traceback, only types and frames remain, because nothing marks the end of
    its last message. Of a warning, the location and category remain.
    """
    if is_warning:
        match = _WARNING.match(text)
        return match.group() if match else REMOVED
    if text.startswith("Compute Failed"):
        # Dask shows the exception as its ``repr``, and its traceback as the ``repr`` of a string.
        match = _FAILED.search(text)
        return text[: match.end()] + (type_in(text[match.end() :]) or REMOVED) if match else text
    traceback_start = _BEGINS.search(text)
    if traceback_start is None:
        return text
    start = text.rfind("\n", 0, traceback_start.start()) + 1
    before, traceback = text[:start], text[start:]
    first = traceback.partition("\n")[0]
    if _FRAME.match(first) or _HEADING.match(first):
        return before + frames_of(traceback)
    return text[: traceback_start.start()] + REMOVED  # within a line, so it is quoted


def holds_traceback(text: str) -> bool:
    return _BEGINS.search(text) is not None


def _indent(line: str) -> int:
    match = _MARGIN.match(line)
    return match.end() if match else 0


def _is_exception(name: str) -> bool:
    class_name = name.rpartition(".")[2]
    builtin = getattr(builtins, class_name, None)
    return class_name.endswith(_ENDINGS) or (
        isinstance(builtin, type) and issubclass(builtin, BaseException)
    )
