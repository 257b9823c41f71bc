"""Spans, and Dask's fine performance metrics.

All values are a span's own, without those of the spans below it, which the server adds up. What
Dask offers on a ``Span`` includes them, and takes a look at every group below for each question.
"""

import math
import uuid
from itertools import islice
from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from .collector import Collector, Context
from .sections import Record
from .values import cut, moment

TAG_LENGTH, COLLECTION_LENGTH, LABEL_LENGTH = 512, 256, 1024
TAGS, COLLECTIONS, CELLS = 64, 100, 5000
# What Dask's workers attribute to spans.
ATTRIBUTED = ("execute", "p2p")
# Dask's placeholder for the time in which nothing was computed; the server knows better.
IDLE = ("execute", "N/A", "idle or other spans", "seconds")
# A span in which nothing has happened for so long is looked at no more by each report; workers
# tell of what they did within seconds. Should something change after all, it is found by going
# round all spans, so many per report, when not earlier by a task that has to be computed again.
SETTLED_SECONDS, SWEPT_SPANS = 60.0, 100
# Spans that are looked at for the first time by one report; only a plugin that comes late has to
# catch up with more.
NEW_SPANS = 500
# Keys of a graph by which spans are looked up, so that a graph costs the same however large it is.
KEYS_PER_GRAPH = 20
MOST_TEXTS = 50_000
LARGEST_INTEGER = 2**53 - 1

Cell = Tuple[str, Optional[str], str, str]


class MetricsRecord(Record):
    """Fine performance metrics of one span, or those that belong to none."""

    __slots__ = ("values",)

    def __init__(self, span_id: str = ""):
        super().__init__(span_id)
        self.values: List[Any] = []  # of the cells, as they were when they were last described


class SpanRecord(Record):
    """One of Dask's spans, of which Dask forgets none."""

    __slots__ = ("changed_at", "collections", "collections_seen", "metrics", "seen", "span")

    def __init__(self, span: Any, now: float):
        super().__init__(str(span.id))
        self.span = span
        self.metrics = MetricsRecord(self.id)
        self.seen: Any = None  # what the body was made of
        self.changed_at = now
        self.collections: Dict[str, None] = {}
        self.collections_seen = 0
        # Who annotates tasks by hand may call a span anything, and the server refuses that.
        self.given_up = self.metrics.given_up = not _is_uuid(self.id)

    def settle(self, settled: bool) -> None:
        self.settled = self.metrics.settled = settled

    def describe(
        self, done: bool, start: float, stop: float, code: List[List[Dict[str, Any]]]
    ) -> Dict[str, Any]:
        span, parent = self.span, self.span.parent
        self._read_collections()
        # Dask absorbs what clocks of workers are wrong by in the same way. A span of which no
        # task has ever come to a result is over when it begins.
        stop = max(stop, span.enqueued) if done and span.groups else 0.0
        return {
            "id": self.id,
            "parent_id": None if parent is None else str(parent.id),
            "path": [cut(tag, TAG_LENGTH) for tag in span.name[-TAGS:]],
            "enqueued_at": span.enqueued,
            "started_at": moment(max(start, span.enqueued)) if start else None,
            "stopped_at": moment(stop),
            "done": done,
            "collections": list(self.collections),
            "code": code,
        }

    def _read_collections(self) -> None:
        # One entry for each collection of each call, so they are many and mostly the same.
        collections = _collections(self.span)
        for collection in islice(collections, self.collections_seen, None):
            kind = collection.get("type") if isinstance(collection, dict) else None
            if kind is not None and len(self.collections) < COLLECTIONS:
                self.collections[cut(kind, COLLECTION_LENGTH)] = None
        self.collections_seen = len(collections)


class Spans(Collector):
    """Reports spans and fine performance metrics, of which only what has changed is described.

    A span is done as long as none of its own groups has something to compute. Groups of which all
    tasks are forgotten cannot become unfinished again, so the scheduler's present groups tell.
    """

    def __init__(self, context: Context):
        super().__init__(context)
        self.described = 0  # bodies made so far
        self._records: Dict[str, SpanRecord] = {}  # all, parents before children, as in Dask
        self._live: Dict[str, SpanRecord] = {}  # those that each report looks at
        self._round: Iterator[SpanRecord] = iter(())
        self._rest = MetricsRecord()
        self._rest_keys: List[Any] = []
        self._rest_keys_seen = 0
        self._texts: Dict[Any, Optional[Cell]] = {}

    def graph(self, keys: Iterable[Any]) -> None:
        # Tasks that are new in an old span may all be done when the next report is made.
        for key in islice(keys, KEYS_PER_GRAPH):
            task = self.context.scheduler.tasks.get(key)
            record = self._records.get(getattr(getattr(task, "group", None), "span_id", None))
            if record is not None and record.settled:
                self._wake(record, self.context.now())

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        scheduler = self.context.scheduler
        extension = (getattr(scheduler, "extensions", None) or {}).get("spans")
        if extension is not None:
            self._read_spans(extension.spans, now, closed_at is not None)
        metrics = getattr(scheduler, "cumulative_worker_metrics", None)
        if metrics:
            self._read_rest(metrics, () if extension is None else ATTRIBUTED)
        for kind in ("spans", "fine_metrics"):
            self.context.outboxes[kind].enforce_bounds()

    def resend(self) -> None:
        spans, metrics = self.context.outboxes["spans"], self.context.outboxes["fine_metrics"]
        for record in self._records.values():
            # Whether code may be sent is what the server may just have changed its mind about.
            if record.body is not None and record.span._code:
                code = self.context.frames(record.span._code)
                record.body = {**record.body, "code": code}
        # In front of what waits already: a child must not be sent before its parent.
        known = [record for record in self._records.values() if record.body is not None]
        spans.give_back([(record, record.body) for record in known])
        for record in [self._rest, *(record.metrics for record in known)]:
            if record.body is not None:
                metrics.add(record)
        metrics.enforce_bounds()

    def records(self) -> Iterable[Record]:
        for record in self._records.values():
            yield record
            yield record.metrics
        yield self._rest

    def _read_spans(self, spans: Dict[str, Any], now: float, closing: bool) -> None:
        known = len(self._records)
        for id_, span in islice(spans.items(), known, None if closing else known + NEW_SPANS):
            record = self._records[id_] = SpanRecord(span, now)
            self._live[id_] = record
        unfinished = self._unfinished()
        for id_ in unfinished:
            record = self._records.get(id_)
            if record is not None and record.settled:
                self._wake(record, now)
        swept = list(islice(self._round, SWEPT_SPANS))
        if len(swept) < SWEPT_SPANS or closing:
            self._round = iter(list(self._records.values()))
            swept = list(self._round if closing else islice(self._round, SWEPT_SPANS))
        for record in swept:
            if record.settled and self._look(record, True, now):
                self._wake(record, now)
        for id_, record in list(self._live.items()):
            done = id_ not in unfinished
            if self._look(record, done, now) or not done:
                record.changed_at = now
            elif now - record.changed_at >= SETTLED_SECONDS:
                record.settle(True)
                del self._live[id_]

    def _unfinished(self) -> Set[Any]:
        """The ids of spans that have something to compute."""
        ids: Set[Any] = set()
        for group in self.context.scheduler.task_groups.values():
            id_ = group.span_id
            if id_ not in ids:
                get = group.states.get
                if get("processing") or get("waiting") or get("queued") or get("no-worker"):
                    ids.add(id_)
        return ids

    def _wake(self, record: SpanRecord, now: float) -> None:
        record.settle(False)
        record.changed_at = now
        self._live[record.id] = record

    def _look(self, record: SpanRecord, done: bool, now: float) -> bool:
        """Describes what has changed since it was last described; returns whether anything has."""
        span, groups = record.span, record.span.groups
        starts = [group.start for group in groups if group.start]
        start = min(starts) if starts else 0.0
        stop = max([group.stop for group in groups]) if done and groups else 0.0
        seen = (done, start, stop, bool(groups), len(span._code), len(_collections(span)))
        changed = seen != record.seen
        if changed:
            self.described += 1
            code = self.context.frames(span._code) if span._code else []
            body = record.describe(done, start, stop, code)
            record.seen = seen
            if body != record.body:
                record.body = body
                self.context.outboxes["spans"].add(record)
        metrics = span._cumulative_worker_metrics
        values = list(metrics.values())
        if values != record.metrics.values:
            changed = True
            record.metrics.values = values
            self._describe_metrics(record.metrics, metrics.items(), span_id=record.id)
        return changed

    def _read_rest(self, metrics: Dict[Any, Any], attributed: Tuple[str, ...]) -> None:
        # Keys are never taken out, so only those that are new need to be sorted out.
        for key in islice(metrics, self._rest_keys_seen, None):
            if isinstance(key, tuple) and key and key[0] not in attributed:
                self._rest_keys.append(key)
        self._rest_keys_seen = len(metrics)
        values = [metrics[key] for key in self._rest_keys]
        if values != self._rest.values:
            self._rest.values = values
            self._describe_metrics(self._rest, zip(self._rest_keys, values))

    def _describe_metrics(
        self, record: MetricsRecord, metrics: Iterable[Tuple[Any, Any]], **span_id: str
    ) -> None:
        self.described += 1
        cells: Dict[Cell, Any] = {}
        for key, value in metrics:
            cell, number = self._cell(key), _number(value)
            if cell is not None and number is not None:
                # Labels may differ although their texts do not.
                cells[cell] = cells[cell] + number if cell in cells else number
        body = {**span_id, "cells": [[*cell, cells[cell]] for cell in islice(cells, CELLS)]}
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


def _cell(key: Any) -> Optional[Cell]:
    """What a metric is about: its context, function, activity and unit.

    Users may label metrics with anything hashable.
    """
    if not isinstance(key, tuple) or len(key) < 3 or key == IDLE:
        return None
    try:
        texts = [cut(label, LABEL_LENGTH) for label in key]
    except Exception:  # whatever the label's own __str__ raises
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
    metadata = getattr(span, "_metadata", None)  # not in the first release with spans
    collections = metadata.get("collections") if isinstance(metadata, dict) else None
    return collections if isinstance(collections, list) else ()
