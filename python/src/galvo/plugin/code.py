"""Collects code snippets: functions that call Dask, and the lines around other calls, each sent
once.
"""

import hashlib
import inspect
import re
from itertools import islice
from typing import Any, Dict, Hashable, Iterable, List, Optional, Tuple

from .collector import Collector, Context
from .scrub import plain, scrub
from .sections import Record
from .values import ADDRESS_LENGTH, clean, cut, to_count

TEXT_LENGTH = 200_000
# The text after this length is not examined. The limit exceeds the length sent, so that a secret
# that would be cut in two, and therefore not be recognized, is not sent either.
READ_LENGTH = TEXT_LENGTH + 20_000
STACKS, FRAMES_PER_STACK = 20, 20
# For a call outside a function, Dask holds the whole file or cell. This number of lines before and
# after the call is sent.
SURROUNDING_LINES = 5
# The length of the preceding text that is searched for secrets that extend into the lines sent.
CONTEXT_LENGTH = 20_000
UNKNOWN_POSITION = (
    "# [removed: code outside of functions, of which it is not known where it calls Dask]"
)
FIRST_OF_BLOCK = re.compile(r"[ \t]*(?:@|(?:async[ \t]+)?def\b|class\b)")
# The bounds of the snippets remembered as sent. A snippet that was forgotten is sent again when it
# recurs, which is idempotent.
MOST_SNIPPETS, MOST_CHARACTERS = 2_000, 16_000_000


class Snippets(Collector):
    """Describes stacks of code by the hashes of their snippets, and sends each snippet once.

    The hash is computed over the redacted text that is sent. Dask holds code only if the client is
    configured to send it, which it is not by default.
    """

    def __init__(self, context: Context):
        super().__init__(context)
        # Keyed by Dask's text, or by that and the position of the call, oldest first. The value has
        # the line of the call within the text sent, or None if the whole text is sent.
        self._records: Dict[Hashable, Tuple[Record, Optional[int]]] = {}
        self._records_by_hash: Dict[str, Record] = {}
        self._characters = 0
        self._withheld: Dict[int, None] = {}  # hashes of texts already counted as withheld
        context.frames = self.frames  # type: ignore[method-assign]

    def frames(self, source_codes: Any) -> List[List[Dict[str, Any]]]:
        """Returns the stacks in a computation's or a span's ``code``, outermost frame first."""
        stacks = [_read_stack(stack) for stack in islice(source_codes or (), STACKS)]
        if not self.context.sends("code"):
            for stack in stacks:
                self._withhold(text for text, *_ in stack)
            return []
        described_stacks = [
            [
                self._describe_frame(
                    text, to_count(line), to_count(relative_line), cut(file, ADDRESS_LENGTH)
                )
                for text, line, relative_line, file in stack
            ]
            for stack in stacks
        ]
        self.context.outboxes["code"].enforce_bounds()
        return [stack for stack in described_stacks if stack]

    def export_state(self) -> List[int]:
        return list(self._withheld)

    def import_state(self, inherited: Any) -> None:
        self._withheld = dict.fromkeys(inherited)

    def records(self) -> Iterable[Record]:
        return self._records_by_hash.values()

    def resend(self) -> None:
        if self.context.sends("code"):
            for record in self._records_by_hash.values():
                self.context.outboxes["code"].add(record)
            self.context.outboxes["code"].enforce_bounds()

    def _describe_frame(
        self, text: str, line: int, relative_line: int, file: str
    ) -> Dict[str, Any]:
        position_key = (hash(text), len(text), line, relative_line, file)
        entry = self._records.get(text) or self._records.get(position_key)
        if entry is None:
            snippet, call_line = redact_code(text, line, relative_line, file)
            hash_ = hashlib.sha256(snippet.encode("utf-8")).hexdigest()
            record = self._records_by_hash.get(hash_)
            if record is None:
                record = Record(hash_, {"hash": hash_, "text": snippet}, settled=True)
                record.characters = len(snippet)
                self._records_by_hash[hash_] = record
                self.context.outboxes["code"].add(record)
            entry = self._records[text if call_line is None else position_key] = (record, call_line)
            self._characters += record.characters
            self._forget_oldest()
        record, call_line = entry
        return {
            "hash": record.id,
            "file": file,
            "line": line,
            "relative_line": relative_line if call_line is None else call_line,
        }

    def _forget_oldest(self) -> None:
        while len(self._records) > MOST_SNIPPETS or self._characters > MOST_CHARACTERS:
            record, _ = self._records.pop(next(iter(self._records)))
            self._characters -= record.characters
            self._records_by_hash.pop(record.id, None)

    def _withhold(self, texts: Iterable[str]) -> None:
        for text in texts:
            if hash(text) not in self._withheld:
                self.context.count_withheld("code")
                self._withheld[hash(text)] = None
                if len(self._withheld) > 10 * MOST_SNIPPETS:
                    del self._withheld[next(iter(self._withheld))]


def redact_code(
    text: str, line: int = 0, relative_line: int = 0, file: str = ""
) -> Tuple[str, Optional[int]]:
    """Returns redacted code, and the line of the call in it, or None if it is Dask's own line.

    A function is sent whole. Of a module's top level or a notebook cell, only the lines around the
    call are sent, below a line with their numbers. If the position of the call is unknown, no code
    is sent.
    """
    text = text[:READ_LENGTH]
    lines = text.split("\n")
    if _is_block(lines):
        return _redact(text), None
    if 1 <= line <= len(lines) and _may_start_at(lines, line - relative_line):
        call = line - 1
    elif len(lines) <= 2 * SURROUNDING_LINES + 1:
        return _redact(text), None  # a statement with a lambda, a short cell
    else:
        return UNKNOWN_POSITION, 0
    first, stop = max(call - SURROUNDING_LINES, 0), call + SURROUNDING_LINES + 1
    while lines and not lines[-1].strip():
        lines.pop()
    stop = min(stop, max(len(lines), call + 1))
    if first == 0 and stop >= len(lines):
        return _redact(text), None
    # A secret may begin before these lines and be recognizable only by its beginning. So the text
    # is redacted from its start, and the lines are the difference of two redacted prefixes.
    before, until = ("\n".join(lines[:number]) + "\n" for number in (first, call))
    before, until = before if first else "", until if call else ""
    whole = "\n".join(lines[:stop])
    dropped = max(len(before) - CONTEXT_LENGTH, 0)
    prefixes = [part[dropped:] for part in (before, until, whole)]
    before, until, whole = map(scrub, prefixes)
    if [before, until, whole] != prefixes:
        # In a text with a secret, other characters may be replaced as well.
        before, until, whole = (scrub(plain(part)) for part in prefixes)
    cut_at = _common_length(before, whole)
    # The redacted part may span the call. The call then is where the texts begin to differ.
    call_at = max(_common_length(until, whole), cut_at)
    name = re.split(r"[/\\]", file)[-1]
    heading = scrub(f"# lines {first + 1}-{stop}" + (f" of {name}" if name else ""))
    snippet = clean(whole[cut_at:])
    return cut(f"{heading}\n{snippet}", TEXT_LENGTH), 1 + whole.count("\n", cut_at, call_at)


def _may_start_at(lines: List[str], line: int) -> bool:
    """True if a file with these lines may have its first code on this line, as Dask counts it.

    Older releases of Python report the line of the first statement, others the first line of the
    file.
    """
    return all(
        not before.strip() or before.lstrip()[0] == "#" for before in lines[: max(line - 1, 0)]
    )


def _common_length(text: str, other: str) -> int:
    """Returns the length of the common prefix."""
    if other.startswith(text):
        return len(text)
    return next((at for at, (a, b) in enumerate(zip(text, other)) if a != b), len(other))


def _redact(text: str) -> str:
    return cut(clean(scrub(text)), TEXT_LENGTH)


def _is_block(lines: List[str]) -> bool:
    """True if these lines are one function or class and nothing else."""
    if not FIRST_OF_BLOCK.match(lines[0]):
        return False
    margin = len(lines[0]) - len(lines[0].lstrip())
    try:
        remainder = lines[len(inspect.getblock([line + "\n" for line in lines])) :]
    except Exception:  # code that is newer than this Python
        return False
    # Releases of Python differ in whether trailing comments belong to the block.
    return all(
        not line.strip() or line.lstrip()[0] == "#" or len(line) - len(line.lstrip()) > margin
        for line in remainder
    )


def _read_stack(stack: Any) -> List[Tuple[str, Any, Any, Any]]:
    """Returns a stack's frames as text, line, line within the text, and file; [] if unreadable.

    The oldest releases of Dask have one text instead of a stack. If scheduler and client share a
    process, some releases wrap the stack in an object that holds it unpickled.
    """
    stack = _unwrap(stack)
    if isinstance(stack, str):
        return [(stack, 0, 0, "")]
    if not isinstance(stack, (tuple, list)):
        return []
    frames: List[Tuple[str, Any, Any, Any]] = []
    for frame in map(_unwrap, stack[-FRAMES_PER_STACK:]):
        if isinstance(frame, str):
            frames.append((frame, 0, 0, ""))
        elif isinstance(frame, (tuple, list)) and len(frame) == 4 and isinstance(frame[0], str):
            frames.append((frame[0], frame[1] or 0, frame[2] or 0, frame[3] or ""))
    return frames


def _unwrap(value: Any) -> Any:
    return value.data if type(value).__name__ == "ToPickle" else value
