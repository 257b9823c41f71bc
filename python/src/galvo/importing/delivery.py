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
        self._base: int | None = None  # the number of the last report that arrived
        # The classes that the account accepts, as in the last response.
        self._accepted_classes: object = None
        self._pending_batches = list(_batches(history))
        self._records: dict[int, Record] = {}  # what the receipt has counted, by id(item)

    def write(self) -> Iterator[str]:
        """Yields the reports as JSON without sending anything."""
        while self._pending_batches:
            yield self._write_report(self._pending_batches.pop(0))
            self._base = self._sequence

    def send(self, server: Server) -> int:
        """Sends the reports, and returns the number of their cluster."""
        cluster_number = None
        while self._pending_batches:
            batch = self._pending_batches.pop(0)
            body, headers = compress(self._write_report(batch))
            try:
                answer = server.report(self._history.ids.scheduler, body, headers)
            except RequestRefused as error:
                halves = _split_batch(batch) if error.status == TOO_LARGE else []
                if not halves:
                    raise
                self._pending_batches[:0] = halves
                continue
            cluster_number, self._base = answer.get("cluster_id"), self._sequence
            if answer.get("accepts") != self._accepted_classes:
                self._accepted_classes = answer.get("accepts")
                self._history.receipt.accept(self._accepted_classes)
                self._drop_refused()
        if not isinstance(cluster_number, int):
            raise GalvoError(f"{server.address} does not answer as Galvo does")
        return cluster_number

    def _drop_refused(self) -> None:
        """Leaves out data that the account does not accept, once this is known."""
        receipt = self._history.receipt
        for batch in self._pending_batches:
            for section, items in batch.items():
                accepted = []
                for item in items:
                    if receipt.sends(class_of(section, item)):
                        accepted.append(item)
                    else:
                        receipt.withhold(class_of(section, item))
                batch[section] = accepted

    def _write_report(self, batch: Batch) -> str:
        history, receipt = self._history, self._history.receipt
        self._sequence += 1
        is_final = not self._pending_batches
        sections = []
        for section, items in batch.items():
            texts = []
            for item in items:
                text = dumps(item)
                record = self._records.setdefault(id(item), Record(""))
                receipt.send(record, class_of(section, item), len(text))
                texts.append(text)
            if texts:
                sections.append(f'"{section}":[{",".join(texts)}]')
        message = {
            "version": 1,
            "account": self._account,
            "scheduler_id": history.ids.scheduler,
            "sequence": self._sequence,
            "base": self._base,
            # In the clock of the file, like all other times.
            "sent_at": history.ended_at,
            "interval_seconds": INTERVAL_SECONDS,
            "final": is_final,
            "cluster": history.describe_cluster(is_final),
            "dropped": history.dropped,
            "receipt": receipt.describe(),
        }
        return ",".join([dumps(message)[:-1], *sections]) + "}"


def _batches(history: History) -> Iterator[Batch]:
    """Yields items in batches that fit into a report; at least one batch, even if it is empty."""
    batch: Batch = {}
    free_characters = MOST_CHARACTERS
    for section in ORDER:
        for item in history.sections[section]:
            # The report serializes it again: keeping all texts would take as much memory as the
            # items.
            size = len(dumps(item))
            if batch and (
                size > free_characters or len(batch.get(section, ())) >= USUAL_LIMITS[section]
            ):
                yield batch
                batch, free_characters = {}, MOST_CHARACTERS
            batch.setdefault(section, []).append(item)
            free_characters -= size
    yield batch


def _split_batch(batch: Batch) -> list[Batch]:
    """Splits a batch in two; empty for a single item."""
    items = [(section, item) for section, items in batch.items() for item in items]
    if len(items) < 2:
        return []
    halves: list[Batch] = [{}, {}]
    for position, (section, item) in enumerate(items):
        halves[position >= len(items) // 2].setdefault(section, []).append(item)
    return halves
