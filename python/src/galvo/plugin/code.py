"""Code snippets: the functions, cells or modules around calls of Dask, each of them sent once."""

import hashlib
from itertools import islice
from typing import Any, Dict, Iterable, List, Tuple

from .collector import Collector, Context
from .scrub import scrub
from .sections import Record
from .values import ADDRESS_LENGTH, clean, count, cut

TEXT_LENGTH = 200_000
# What follows is never looked at. It is more than what is sent, so that a secret that this would
# cut in two, and that is not recognised then, is not sent either.
READ_LENGTH = TEXT_LENGTH + 20_000
STACKS, FRAMES_PER_STACK = 20, 20
# Snippets that are remembered as sent. A forgotten one is sent once more when it is met again,
# which the server does not mind.
MOST_SNIPPETS, MOST_CHARACTERS = 2_000, 16_000_000


class Snippets(Collector):
    """Describes stacks of code by the hashes of their snippets, which it sends once each.

    A hash is that of the text that is sent, without secrets. Dask has code only where the client
    was configured to send it, which is never the default.
    """

    def __init__(self, context: Context):
        super().__init__(context)
        self._records: Dict[str, Record] = {}  # by the text as Dask has it, oldest first
        self._by_hash: Dict[str, Record] = {}
        self._characters = 0
        self._withheld: Dict[int, None] = {}  # hashes of texts that were counted as kept back
        context.frames = self.frames  # type: ignore[method-assign]

    def frames(self, source_codes: Any) -> List[List[Dict[str, Any]]]:
        """The stacks in a computation's or a span's ``code``, outermost frame first."""
        stacks = [_opened(stack) for stack in islice(source_codes or (), STACKS)]
        if not self.context.sends("code"):
            for stack in stacks:
                self._withhold(text for text, *_ in stack)
            return []
        described = [
            [
                {
                    "hash": self._hash(text),
                    "file": cut(file, ADDRESS_LENGTH),
                    "line": count(line),
                    "relative_line": count(relative_line),
                }
                for text, line, relative_line, file in stack
            ]
            for stack in stacks
        ]
        self.context.outboxes["code"].enforce_bounds()
        return [stack for stack in described if stack]

    def bequeath(self) -> List[int]:
        return list(self._withheld)

    def inherit(self, told: Any) -> None:
        self._withheld = dict.fromkeys(told)

    def records(self) -> Iterable[Record]:
        return self._by_hash.values()

    def resend(self) -> None:
        if self.context.sends("code"):
            for record in self._by_hash.values():
                self.context.outboxes["code"].add(record)
            self.context.outboxes["code"].enforce_bounds()

    def _hash(self, text: str) -> str:
        record = self._records.get(text)
        if record is None:
            shown = cut(clean(scrub(text[:READ_LENGTH])), TEXT_LENGTH)
            hash_ = hashlib.sha256(shown.encode("utf-8")).hexdigest()
            record = self._by_hash.get(hash_)
            if record is None:
                record = Record(hash_, {"hash": hash_, "text": shown}, settled=True)
                record.characters = len(shown)
                self._by_hash[hash_] = record
                self.context.outboxes["code"].add(record)
            self._records[text] = record
            self._characters += record.characters
            self._forget_oldest()
        return record.id

    def _forget_oldest(self) -> None:
        while len(self._records) > MOST_SNIPPETS or self._characters > MOST_CHARACTERS:
            record = self._records.pop(next(iter(self._records)))
            self._characters -= record.characters
            self._by_hash.pop(record.id, None)

    def _withhold(self, texts: Iterable[str]) -> None:
        for text in texts:
            if hash(text) not in self._withheld:
                self.context.withheld("code")
                self._withheld[hash(text)] = None
                if len(self._withheld) > 10 * MOST_SNIPPETS:
                    del self._withheld[next(iter(self._withheld))]


def _opened(stack: Any) -> List[Tuple[str, Any, Any, Any]]:
    """The frames of a stack, as text, line, line within the text, and file; [] if unreadable.

    The oldest releases of Dask have one text in the place of a stack. Where scheduler and client
    share a process, some have a wrapper round the stack, which holds it as it is and no pickle.
    """
    stack = _unwrapped(stack)
    if isinstance(stack, str):
        return [(stack, 0, 0, "")]
    if not isinstance(stack, (tuple, list)):
        return []
    opened: List[Tuple[str, Any, Any, Any]] = []
    for frame in map(_unwrapped, stack[-FRAMES_PER_STACK:]):
        if isinstance(frame, str):
            opened.append((frame, 0, 0, ""))
        elif isinstance(frame, (tuple, list)) and len(frame) == 4 and isinstance(frame[0], str):
            opened.append((frame[0], frame[1] or 0, frame[2] or 0, frame[3] or ""))
    return opened


def _unwrapped(value: Any) -> Any:
    return value.data if type(value).__name__ == "ToPickle" else value
