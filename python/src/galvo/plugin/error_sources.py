"""Adds excerpts of source to errors, which workers send when their tasks fail."""

from itertools import islice
from typing import Any, Dict, Mapping, Optional, Tuple

from .collector import Collector, Context
from .events import Feed
from .excerpts import KEY, LINE_LENGTH, LINES_AROUND, locations_of
from .scrub import scrub
from .values import ADDRESS_LENGTH, cut
from .worker_side import TOPIC

MOST_LOCATIONS = 1_000
MOST_ERRORS = 200  # that are examined for one report

Location = Tuple[str, int]


class ErrorSources(Collector):
    """Remembers the excerpts of failing lines, and adds them to unsent errors."""

    def __init__(self, context: Context):
        super().__init__(context)
        self._feed = Feed(context.scheduler)
        self._excerpts: Dict[Location, Dict[str, Any]] = {}

    async def start(self) -> None:
        self._feed.skip()

    def event(self, topic: Any, message: Any, now: float) -> None:
        if topic == TOPIC and not self._feed.is_needed:
            self._receive_excerpt(message)

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        for _, _, message in self._feed.fetch(only=TOPIC):
            self._receive_excerpt(message)
        types_only = self.context.ledger.receipt.types_only
        if self._excerpts and not types_only and self.context.sends("code"):
            self._add_excerpts()

    def _receive_excerpt(self, message: Any) -> None:
        """Receives an excerpt as an event, which any client could have logged."""
        excerpt = message.get(KEY) if isinstance(message, Mapping) else None
        if not isinstance(excerpt, Mapping):
            return
        file, line, first, lines = (
            excerpt.get(name) for name in ("file", "line", "first_line", "lines")
        )
        if (
            not isinstance(file, str)
            or type(line) is not int
            or type(first) is not int
            or not isinstance(lines, (list, tuple))
            or not 1 <= first <= line < first + len(lines)
            or len(lines) > 2 * LINES_AROUND + 1
            or not all(isinstance(text, str) for text in lines)
        ):
            return
        self._excerpts.pop((file, line), None)
        self._excerpts[file, line] = {
            "file": cut(file, ADDRESS_LENGTH),
            "line": line,
            "first_line": first,
            "lines": [cut(text, LINE_LENGTH) for text in lines],
        }
        if len(self._excerpts) > MOST_LOCATIONS:
            del self._excerpts[next(iter(self._excerpts))]

    def _add_excerpts(self) -> None:
        outbox = self.context.outboxes["errors"]
        sources: Dict[str, Optional[Dict[str, Any]]] = {}  # failing tasks of one kind share it
        for record in list(islice(outbox.records, MOST_ERRORS)):
            body = record.body
            # The server may have received an error that was sent before, and keeps it as it was.
            is_sent = record.sent_characters > 0
            if body is None or is_sent or "source" in body or not body["traceback"]:
                continue
            traceback = body["traceback"]
            if traceback not in sources:
                sources[traceback] = self._excerpt_of(traceback)
            source = sources[traceback]
            if source is not None:
                record.body = {**body, "source": source}
                outbox.resize(record, record.characters + sum(map(len, source["lines"])))

    def _excerpt_of(self, traceback: str) -> Optional[Dict[str, Any]]:
        innermost_first = reversed(locations_of(traceback))
        excerpt = next(
            (
                self._excerpts[location]
                for location in innermost_first
                if location in self._excerpts
            ),
            None,
        )
        if excerpt is None:
            return None
        # Together, because a secret may have several lines.
        lines = scrub("\n".join(excerpt["lines"])).split("\n")
        return {**excerpt, "lines": lines} if len(lines) == len(excerpt["lines"]) else None
