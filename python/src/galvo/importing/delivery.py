"""Sends a history as a series of reports."""

from __future__ import annotations

from collections.abc import Iterator

from galvo.client.errors import GalvoError, RequestRefused
from galvo.client.server import Server
from galvo.importing.history import ORDER, History, Item, class_of
from galvo.plugin.sections import USUAL_LIMITS, Record
from galvo.plugin.values import compress, dumps

# The bound for one report as JSON, in characters. The server accepts 8 MiB compressed, and 32 MiB
# uncompressed.
MOST_CHARACTERS = 6_000_000
# The longest interval that a server requests. A cluster is considered lost after three intervals
# without a report.
INTERVAL_SECONDS = 600.0
TOO_LARGE = 413

Batch = dict[str, list[Item]]


class Delivery:
    """The reports of a history, one after the other.

    The last one closes the cluster. Until it has arrived the import is incomplete, and repeating
    the import completes it.
    """

    def __init__(self, history: History, account: str | None = None):
        self._history = history
        self._account = account
        self._sequence = 0
        self._base: int | None = None  # the last one that arrived
        self._accepts: object = None  # the classes that the account accepts, from its response
        self._waiting = list(_batches(history))
        self._sent: dict[int, Record] = {}  # what was counted, by the identity of the item

    def write(self) -> Iterator[str]:
        """Yields the reports as JSON without sending anything."""
        while self._waiting:
            yield self._write(self._waiting.pop(0))
            self._base = self._sequence

    def send(self, server: Server) -> int:
        """Sends the reports, and returns the number of their cluster."""
        number = None
        while self._waiting:
            batch = self._waiting.pop(0)
            body, headers = compress(self._write(batch))
            try:
                answer = server.report(self._history.ids.scheduler, body, headers)
            except RequestRefused as error:
                halves = _halves(batch) if error.status == TOO_LARGE else []
                if not halves:
                    raise
                self._waiting[:0] = halves
                continue
            number, self._base = answer.get("cluster_id"), self._sequence
            if answer.get("accepts") != self._accepts:
                self._accepts = answer.get("accepts")
                self._history.receipt.accept(self._accepts)
                self._drop_refused()
        if not isinstance(number, int):
            raise GalvoError(f"{server.address} does not answer as Galvo does")
        return number

    def _drop_refused(self) -> None:
        """Leaves out data that the account does not accept, once this is known."""
        receipt = self._history.receipt
        for batch in self._waiting:
            for section, items in batch.items():
                accepted = []
                for item in items:
                    if receipt.sends(class_of(section, item)):
                        accepted.append(item)
                    else:
                        receipt.withhold(class_of(section, item))
                batch[section] = accepted

    def _write(self, batch: Batch) -> str:
        history, receipt = self._history, self._history.receipt
        self._sequence += 1
        is_final = not self._waiting
        parts = []
        for section, items in batch.items():
            texts = []
            for item in items:
                text = dumps(item)
                record = self._sent.setdefault(id(item), Record(""))
                receipt.send(record, class_of(section, item), len(text))
                texts.append(text)
            if texts:
                parts.append(f'"{section}":[{",".join(texts)}]')
        message = {
            "version": 1,
            "account": self._account,
            "scheduler_id": history.ids.scheduler,
            "sequence": self._sequence,
            "base": self._base,
            # By the clock of the file, like all other times.
            "sent_at": history.ended_at,
            "interval_seconds": INTERVAL_SECONDS,
            "final": is_final,
            "cluster": history.describe_cluster(is_final),
            "dropped": history.dropped,
            "receipt": receipt.describe(),
        }
        return ",".join([dumps(message)[:-1], *parts]) + "}"


def _batches(history: History) -> Iterator[Batch]:
    """Yields items in batches that fit into a report; at least one batch, even if it is empty."""
    batch: Batch = {}
    free = MOST_CHARACTERS
    for section in ORDER:
        for item in history.sections[section]:
            # The report serializes it again: keeping all texts would take as much memory as the
            # items.
            size = len(dumps(item))
            if batch and (size > free or len(batch.get(section, ())) >= USUAL_LIMITS[section]):
                yield batch
                batch, free = {}, MOST_CHARACTERS
            batch.setdefault(section, []).append(item)
            free -= size
    yield batch


def _halves(batch: Batch) -> list[Batch]:
    """Splits a batch in two; empty for a single item."""
    items = [(section, item) for section, items in batch.items() for item in items]
    if len(items) < 2:
        return []
    halves: list[Batch] = [{}, {}]
    for position, (section, item) in enumerate(items):
        halves[position >= len(items) // 2].setdefault(section, []).append(item)
    return halves
