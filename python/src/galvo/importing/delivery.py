"""Sends a history as reports, as many as it takes."""

from __future__ import annotations

from collections.abc import Iterator

from galvo.client.errors import GalvoError, RequestRefused
from galvo.client.server import Server
from galvo.importing.history import ORDER, History, Item, class_of
from galvo.plugin.sections import USUAL_LIMITS, Record
from galvo.plugin.values import compress, dumps

# Of one report as JSON, in characters. The server takes 8 MiB that are compressed, and 32 that are
# not.
MOST_CHARACTERS = 6_000_000
# The longest that a server asks for. A cluster is lost after three times as much without a report.
INTERVAL_SECONDS = 600.0
TOO_LARGE = 413

Batch = dict[str, list[Item]]


class Delivery:
    """The reports of a history, one after the other.

    The last one is the one that closes the cluster: as long as it has not arrived the import is not
    complete, and doing it again completes it.
    """

    def __init__(self, history: History, account: str | None = None):
        self._history = history
        self._account = account
        self._sequence = 0
        self._base: int | None = None  # the last one that arrived
        self._accepts: object = None  # what the account said that it accepts
        self._waiting = list(_batches(history))
        self._sent: dict[int, Record] = {}  # what was counted, by the identity of the item

    def write(self) -> Iterator[str]:
        """The reports as JSON, without that anything is sent."""
        while self._waiting:
            yield self._write(self._waiting.pop(0))
            self._base = self._sequence

    def send(self, server: Server) -> int:
        """The number of the cluster that the reports have made."""
        number = None
        while self._waiting:
            batch = self._waiting.pop(0)
            body, headers = compress(self._write(batch))
            try:
                answer = server.report(body, headers)
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
        """Leaves out what the account does not accept, now that this is known."""
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
    """Items in portions that a report can hold; at least one, though there be none."""
    batch: Batch = {}
    free = MOST_CHARACTERS
    for section in ORDER:
        for item in history.sections[section]:
            # Its report writes it again: texts of all items would take as much memory as they do.
            size = len(dumps(item))
            if batch and (size > free or len(batch.get(section, ())) >= USUAL_LIMITS[section]):
                yield batch
                batch, free = {}, MOST_CHARACTERS
            batch.setdefault(section, []).append(item)
            free -= size
    yield batch


def _halves(batch: Batch) -> list[Batch]:
    """The same in two; nothing, if it is a single item."""
    items = [(section, item) for section, items in batch.items() for item in items]
    if len(items) < 2:
        return []
    halves: list[Batch] = [{}, {}]
    for position, (section, item) in enumerate(items):
        halves[position >= len(items) // 2].setdefault(section, []).append(item)
    return halves
