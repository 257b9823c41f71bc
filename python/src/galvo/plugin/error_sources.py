"""Adds excerpts of source to errors, which workers send when their tasks fail."""

from itertools import islice
from typing import Any, Dict, Mapping, Optional, Tuple

from .collector import Collector, Context
from .events import Feed
from .excerpts import KEY, LINE_LENGTH, LINES_AROUND, places_of
from .scrub import scrub
from .values import ADDRESS_LENGTH, cut
from .worker_side import TOPIC

MOST_PLACES = 1_000
MOST_ERRORS = 200  # that are examined for one report

Place = Tuple[str, int]


class ErrorSources(Collector):
    """Remembers the excerpts of failing lines, and adds them to unsent errors."""

    def __init__(self, context: Context):
        super().__init__(context)
        self._feed = Feed(context.scheduler)
        self._known: Dict[Place, Dict[str, Any]] = {}

    async def start(self) -> None:
        self._feed.skip()

    def event(self, topic: Any, message: Any, now: float) -> None:
        if topic == TOPIC and not self._feed.is_needed:
            self._hear(message)

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        for _, _, message in self._feed.fetch(only=TOPIC):
            self._hear(message)
        types_only = self.context.ledger.receipt.types_only
        if self._known and not types_only and self.context.sends("code"):
            self._add_excerpts()

    def _hear(self, message: Any) -> None:
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
        self._known.pop((file, line), None)
        self._known[file, line] = {
            "file": cut(file, ADDRESS_LENGTH),
            "line": line,
            "first_line": first,
            "lines": [cut(text, LINE_LENGTH) for text in lines],
        }
        if len(self._known) > MOST_PLACES:
            del self._known[next(iter(self._known))]

    def _add_excerpts(self) -> None:
        outbox = self.context.outboxes["errors"]
        found: Dict[str, Optional[Dict[str, Any]]] = {}  # failing tasks of one kind share it
        for record in list(islice(outbox.records, MOST_ERRORS)):
            body = record.body
            # The server may have received an error that was sent before, and keeps it as it was.
            is_sent = record.sent_characters > 0
            if body is None or is_sent or "source" in body or not body["traceback"]:
                continue
            traceback = body["traceback"]
            if traceback not in found:
                found[traceback] = self._excerpt_of(traceback)
            source = found[traceback]
            if source is not None:
                record.body = {**body, "source": source}
                outbox.resize(record, record.characters + sum(map(len, source["lines"])))

    def _excerpt_of(self, traceback: str) -> Optional[Dict[str, Any]]:
        innermost_first = reversed(places_of(traceback))
        known = next(
            (self._known[place] for place in innermost_first if place in self._known), None
        )
        if known is None:
            return None
        # Together, because a secret may have several lines.
        lines = scrub("\n".join(known["lines"])).split("\n")
        return {**known, "lines": lines} if len(lines) == len(known["lines"]) else None
