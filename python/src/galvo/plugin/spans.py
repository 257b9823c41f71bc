"""Collects spans and Dask's fine performance metrics.

All values are a span's own, without its descendants, which the server adds up. The values of Dask's
``Span`` include them, and iterate over every group below on each access.
"""

import math
import uuid
from itertools import islice
from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from .collector import Collector, Context
from .sections import Record
from .values import cut, time_or_none

TAG_LENGTH, COLLECTION_LENGTH, LABEL_LENGTH = 512, 256, 1024
TAGS, COLLECTIONS, CELLS = 64, 100, 5000
# The contexts that Dask's workers attribute to spans.
ATTRIBUTED = ("execute", "p2p")
# Dask's placeholder for idle time; the server has a better value.
IDLE = ("execute", "N/A", "idle or other spans", "seconds")
# A span without changes for this time is no longer checked for each report. Workers report their
# work within seconds. A later change is found by checking all spans in turn, a number per report,
# or earlier by a task that is computed again.
SETTLED_SECONDS, SWEPT_SPANS = 60.0, 100
# The number of spans first described in one report. Only a plugin that starts late has more to
# catch up.
NEW_SPANS = 500
# The keys of a graph by which spans are looked up, so that the cost is independent of its size.
KEYS_PER_GRAPH = 20
MOST_TEXTS = 50_000
LARGEST_INTEGER = 2**53 - 1

Cell = Tuple[str, Optional[str], str, str]


class MetricsRecord(Record):
    """The fine performance metrics of one span, or those without a span."""

    __slots__ = ("left_out", "values")

    def __init__(self, span_id: str = ""):
        super().__init__(span_id)
        self.left_out = 0  # cells counted as dropped
        self.values: List[Any] = []  # of the cells, as last described


class SpanRecord(Record):
    """One of Dask's spans. Dask never forgets any."""

    __slots__ = (
        "changed_at",
        "collections",
        "collections_seen",
        "described_state",
        "metrics",
        "number",
        "span",
    )  # fmt: skip

    def __init__(self, span: Any, number: int, now: float):
        super().__init__(str(span.id))
        self.span = span
        self.number = number
        self.metrics = MetricsRecord(self.id)
        self.described_state: Any = None  # the values the body was made of
        self.changed_at = now
        self.collections: Dict[str, None] = {}
        self.collections_seen = 0
        # A manual annotation of tasks can have any id, which the server rejects.
        self.is_dropped = self.metrics.is_dropped = not _is_uuid(self.id)

    def settle(self, settled: bool) -> None:
        self.settled = self.metrics.settled = settled

    def describe(
        self, is_done: bool, start: float, stop: float, code: List[List[Dict[str, Any]]]
    ) -> Dict[str, Any]:
        span, parent = self.span, self.span.parent
        self._read_collections()
        # Dask handles clock differences of workers in the same way. A span whose tasks never
        # produced a result ends when it begins.
        stop = max(stop, span.enqueued) if is_done and span.groups else 0.0
        return {
            "id": self.id,
            "number": self.number,
            "parent_id": None if parent is None else str(parent.id),
            "path": [cut(tag, TAG_LENGTH) for tag in span.name[-TAGS:]],
            "enqueued_at": span.enqueued,
            "started_at": time_or_none(max(start, span.enqueued)) if start else None,
            "stopped_at": time_or_none(stop),
            "done": is_done,
            "collections": list(self.collections),
            "code": code,
        }

    def _read_collections(self) -> None:
        # There is one entry per collection and call, so there are many, mostly equal.
        collections = _collections(self.span)
        for collection in islice(collections, self.collections_seen, None):
            kind = collection.get("type") if isinstance(collection, dict) else None
            if kind is not None and len(self.collections) < COLLECTIONS:
                self.collections[cut(kind, COLLECTION_LENGTH)] = None
        self.collections_seen = len(collections)


class Spans(Collector):
    """Reports spans and fine performance metrics, and describes only changes.

    A span is done while none of its own groups has anything to compute. Groups with only forgotten
    tasks cannot become unfinished again, so the scheduler's present groups suffice.
    """

    def __init__(self, context: Context):
        super().__init__(context)
        self.described = 0  # bodies made so far
        self._records: Dict[str, SpanRecord] = {}  # all, parents before children, as in Dask
        self._live: Dict[str, SpanRecord] = {}  # those checked for each report
        self._sweep: Iterator[SpanRecord] = iter(())
        self._spanless_metrics = MetricsRecord()
        self._spanless_keys: List[Any] = []
        self._spanless_keys_seen = 0
        self._texts: Dict[Any, Optional[Cell]] = {}

    def graph(self, keys: Iterable[Any]) -> None:
        # New tasks in an old span may all be done before the next report.
        for key in islice(keys, KEYS_PER_GRAPH):
            task = self.context.scheduler.tasks.get(key)
            record = self._records.get(getattr(getattr(task, "group", None), "span_id", None))
            if record is not None and record.settled:
                self._mark_live(record, self.context.now())

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        scheduler = self.context.scheduler
        extension = (getattr(scheduler, "extensions", None) or {}).get("spans")
        if extension is not None:
            self._read_spans(extension.spans, now, closed_at is not None)
        metrics = getattr(scheduler, "cumulative_worker_metrics", None)
        if metrics or self.context.last_metrics:
            self._read_spanless_metrics(metrics or {}, () if extension is None else ATTRIBUTED)
        for kind in ("spans", "fine_metrics"):
            self.context.outboxes[kind].enforce_bounds()

    def resend(self) -> None:
        spans, metrics = self.context.outboxes["spans"], self.context.outboxes["fine_metrics"]
        for record in self._records.values():
            # The server may just have changed its policy about code.
            if record.body is not None and record.span._code:
                code = self.context.frames(record.span._code)
                record.body = {**record.body, "code": code}
        # Before the waiting records: a child must not be sent before its parent.
        described_records = [record for record in self._records.values() if record.body is not None]
        spans.put_back([(record, record.body) for record in described_records])
        for record in [self._spanless_metrics, *(record.metrics for record in described_records)]:
            if record.body is not None:
                metrics.add(record)
        metrics.enforce_bounds()

    def records(self) -> Iterable[Record]:
        for record in self._records.values():
            yield record
            yield record.metrics
        yield self._spanless_metrics

    def _read_spans(self, spans: Dict[str, Any], now: float, closing: bool) -> None:
        known_count = len(self._records)
        new = islice(spans.items(), known_count, None if closing else known_count + NEW_SPANS)
        # Dask keeps all spans in the order of their creation. So each plugin numbers them alike.
        for number, (id_, span) in enumerate(new, known_count + 1):
            record = self._records[id_] = SpanRecord(span, number, now)
            self._live[id_] = record
        unfinished = self._unfinished()
        for id_ in unfinished:
            record = self._records.get(id_)
            if record is not None and record.settled:
                self._mark_live(record, now)
        candidates = list(islice(self._sweep, SWEPT_SPANS))
        if len(candidates) < SWEPT_SPANS or closing:
            self._sweep = iter(list(self._records.values()))
            candidates = list(self._sweep if closing else islice(self._sweep, SWEPT_SPANS))
        for record in candidates:
            if record.settled and self._describe_changes(record, True, now):
                self._mark_live(record, now)
        for id_, record in list(self._live.items()):
            is_done = id_ not in unfinished
            if self._describe_changes(record, is_done, now) or not is_done:
                record.changed_at = now
            elif now - record.changed_at >= SETTLED_SECONDS:
                record.settle(True)
                del self._live[id_]

    def _unfinished(self) -> Set[Any]:
        """Returns the ids of spans with unfinished tasks."""
        ids: Set[Any] = set()
        for group in self.context.scheduler.task_groups.values():
            id_ = group.span_id
            if id_ not in ids:
                get = group.states.get
                if get("processing") or get("waiting") or get("queued") or get("no-worker"):
                    ids.add(id_)
        return ids

    def _mark_live(self, record: SpanRecord, now: float) -> None:
        record.settle(False)
        record.changed_at = now
        self._live[record.id] = record

    def _describe_changes(self, record: SpanRecord, is_done: bool, now: float) -> bool:
        """Describes changes since the last description. Returns True if there are any."""
        span, groups = record.span, record.span.groups
        starts = [group.start for group in groups if group.start]
        start = min(starts) if starts else 0.0
        stop = max([group.stop for group in groups]) if is_done and groups else 0.0
        current_state = (
            is_done,
            start,
            stop,
            bool(groups),
            len(span._code),
            len(_collections(span)),
        )
        changed = current_state != record.described_state
        if changed:
            self.described += 1
            code = self.context.frames(span._code) if span._code else []
            body = record.describe(is_done, start, stop, code)
            record.described_state = current_state
            if body != record.body:
                record.body = body
                self.context.outboxes["spans"].add(record)
        metrics = self._metrics_of(span)
        values = list(metrics.values())
        if values != record.metrics.values:
            changed = True
            record.metrics.values = values
            self._describe_metrics(record.metrics, metrics.items(), span_id=record.id)
        return changed

    def _metrics_of(self, span: Any) -> Dict[Any, Any]:
        """Returns Dask's sums for a span, with its workers' values after their last heartbeats."""
        return _sums(
            span._cumulative_worker_metrics, self.context.last_metrics_of_spans.get(span.id)
        )

    def _read_spanless_metrics(self, metrics: Dict[Any, Any], attributed: Tuple[str, ...]) -> None:
        # Keys are never removed, so only new ones need to be classified.
        for key in islice(metrics, self._spanless_keys_seen, None):
            if isinstance(key, tuple) and key and key[0] not in attributed:
                self._spanless_keys.append(key)
        self._spanless_keys_seen = len(metrics)
        last_metrics = self.context.last_metrics
        keys = self._spanless_keys + [
            k for k in last_metrics if k not in metrics and k[0] not in attributed
        ]
        values = [metrics.get(key, 0) + last_metrics.get(key, 0) for key in keys]
        if values != self._spanless_metrics.values:
            self._spanless_metrics.values = values
            self._describe_metrics(self._spanless_metrics, zip(keys, values))

    def _describe_metrics(
        self, record: MetricsRecord, metrics: Iterable[Tuple[Any, Any]], **span_id: str
    ) -> None:
        self.described += 1
        cells: Dict[Cell, Any] = {}
        for key, value in metrics:
            cell, number = self._cell(key), _number(value)
            if cell is not None and number is not None:
                # Different labels may have the same text.
                cells[cell] = cells[cell] + number if cell in cells else number
        body = {**span_id, "cells": [[*cell, cells[cell]] for cell in islice(cells, CELLS)]}
        if len(cells) - CELLS > record.left_out:
            self.context.outboxes["fine_metrics"].dropped += len(cells) - CELLS - record.left_out
            record.left_out = len(cells) - CELLS
        if body != record.body and (cells or record.body is not None):
            record.body = body
            self.context.outboxes["fine_metrics"].add(record)

    def _cell(self, key: Any) -> Optional[Cell]:
        try:
            return self._texts[key]
        except KeyError:
            pass
        if len(self._texts) >= MOST_TEXTS:
            self._texts.clear()
        cell = self._texts[key] = _cell(key)
        return cell


def _sums(metrics: Dict[Any, Any], last_metrics: Optional[Dict[Any, Any]]) -> Dict[Any, Any]:
    """Adds both; the order of Dask's sums is preserved."""
    if not last_metrics:
        return metrics
    sums = dict(metrics)
    for key, value in last_metrics.items():
        sums[key] = sums.get(key, 0) + value
    return sums


def _cell(key: Any) -> Optional[Cell]:
    """Returns the context, function, activity and unit of a metric; None for an unusable key.

    Users may label metrics with any hashable values.
    """
    if not isinstance(key, tuple) or len(key) < 3 or key == IDLE:
        return None
    try:
        texts = [cut(label, LABEL_LENGTH) for label in key]
    except Exception:  # the label's own __str__ may raise anything
        return None
    context, *function, activity, unit = texts
    return context, cut(" ".join(function), LABEL_LENGTH) if function else None, activity, unit


def _number(value: Any) -> Any:
    if type(value) is int and -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
        return value
    try:
        value = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _collections(span: Any) -> Any:
    metadata = getattr(span, "_metadata", None)  # missing in the first release with spans
    collections = metadata.get("collections") if isinstance(metadata, dict) else None
    return collections if isinstance(collections, list) else ()
