"""Collects Dask's events, those of its users, and Dask's failures among them."""

import math
from collections import deque
from itertools import islice
from numbers import Integral, Real
from typing import Any, Deque, Dict, Iterator, List, Optional, Tuple

from .collector import Collector, Context
from .exception_texts import frames_of, holds_traceback, type_in, without_exceptions
from .scrub import (
    REMOVED,
    cut_inputs,
    is_secret_name,
    scrub,
    strip_source,
    strip_source_of_lines,
    without_named_value,
    without_paired_values,
)
from .sections import Record
from .values import (
    ADDRESS_LENGTH,
    MESSAGE_LENGTH,
    NAME_LENGTH,
    TRACEBACK_LENGTH,
    cut,
    dumps,
    text_of,
    type_name,
    uuid7,
    uuid_or_none,
)
from .worker_side import TOPIC as LOG_TOPIC

TOPIC_LENGTH = 512
LARGEST_DATA = 16_384  # bytes of JSON
DEEPEST, LONGEST_TEXT, LONGEST_KEY = 8, 4_000, 200
MOST_KEYS, MOST_ITEMS, MOST_OF_A_SET, MOST_SORTED = 200, 100, 20, 1000
# Of these, the last items matter.
HISTORIES = ("story", "transition_log")
# Dask's keys for exceptions and tracebacks in text form.
EXCEPTIONS, TRACEBACKS = ("exception", "exception_text"), ("traceback", "traceback_text")
MOST_PENDING = 1000
# The largest number of events per topic and minute: for Dask's own topics and for user topics.
MOST_OF_DASK_TOPIC, MOST_OF_TOPIC, MINUTE = 120, 6000, 60.0
NAMED = 3  # the rank of topics with a name of their own, above Dask's generic topics

# Topics for failures within Dask. Their names changed, so every name that a topic had or was
# documented with is listed.
FAILURES = {
    "invalid-worker-task-state": "InvalidTaskState",
    "invalid-worker-task-states": "InvalidTaskState",
    "invalid-task-states": "InvalidTaskState",
    "invalid-worker-transition": "InvalidTransition",
    "transition-counter-max-exceeded": "TransitionCounterMaxExceeded",
    "worker-fail-hard": "WorkerFailHard",
    "worker-restart-memory": "WorkerRestartMemory",
    "p2p": "P2PFailed",
    "transitions": "SchedulerTransitionFailed",
}
# For topics that also cover other things, the actions that stand for a failure.
FAILED_ACTIONS = {"p2p": ("p2p-failed",), "transitions": ("scheduler-transition-failed",)}


class Event:
    """One message of Dask, while it may still be published under further topics."""

    __slots__ = ("at", "data", "message", "size", "topics")

    def __init__(self, message: Any, at: float):
        self.message = message
        self.at = at
        self.topics: List[str] = []
        self.data: Any = None  # a copy, made once it is needed
        self.size = 0


class Events(Collector):
    """Records each event at the time Dask publishes it, because messages are mutable objects."""

    def __init__(self, context: Context):
        super().__init__(context)
        allowed = context.settings.get("events_allow")
        allowed = ["*"] if allowed is None else [allowed] if isinstance(allowed, str) else allowed
        self._allows_all = "*" in allowed
        self._allowed = set(allowed)
        kinds = {FAILURES[topic] for topic in allowed if topic in FAILURES}
        self._allowed.update(topic for topic, kind in FAILURES.items() if kind in kinds)
        self._feed = Feed(context.scheduler)
        self._latest: Optional[Event] = None
        # The worker of an event is resolved later: the event may arrive before the worker is known.
        self._pending: Deque[Tuple[Record, Optional[str]]] = deque()
        self._minute, self._counts = -math.inf, {}  # type: Tuple[float, Dict[str, int]]
        self._departed_clients: Dict[str, None] = {}  # clients whose departure was already reported

    async def start(self) -> None:
        self._feed.skip()

    def event(self, topic: Any, message: Any, now: float) -> None:
        # If messages with several topics do not arrive through the hook, all are fetched instead.
        if not self._feed.is_needed:
            self._record_event(text_of(topic), message, now)

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        for topic, at, message in self._feed.fetch(except_for=LOG_TOPIC):
            self._record_event(topic, message, at)
        self.context.outboxes["events"].dropped += self._feed.pop_missed_count()
        self._finish_event()
        self._queue_records()

    def close(self) -> None:
        self._latest = None
        self._pending.clear()

    def _record_event(self, topic: str, message: Any, at: float) -> None:
        if topic == LOG_TOPIC:
            return
        latest = self._latest
        if latest is None or not _is_copy(latest, topic, message):
            self._finish_event()
            latest = self._latest = Event(message, at)
        latest.topics.append(topic)
        if latest.size == 0 and self._is_sent(topic):
            try:
                latest.data, latest.size = sized_copy(
                    message, self.context.sends("code"), self.context.ledger.receipt.types_only
                )
            except Exception:  # objects of users may raise anything
                latest.data, latest.size = "a message that cannot be read", 31

    def _is_allowed(self, topic: str) -> bool:
        return self._allows_all or topic in self._allowed

    def _is_sent(self, topic: str) -> bool:
        """True if events of this topic may be sent.

        Dask's failures are always sent if allowed locally.
        """
        return self._is_allowed(topic) and (topic in FAILURES or self.context.sends("events"))

    def _finish_event(self) -> None:
        """Finishes the latest event, which has all of its topics."""
        event, self._latest = self._latest, None
        if event is None or self._is_repetition(event):
            return
        for topic in self._sent_topics(event.topics):
            if self._exceeds_rate_limit(topic, event.at):
                self.context.outboxes["events"].dropped += 1
                continue
            worker = event.data.get("worker") if isinstance(event.data, dict) else None
            worker = topic if "://" in topic else worker if isinstance(worker, str) else None
            body = {
                "id": uuid7(),
                "at": event.at,
                "topic": cut(scrub(topic), TOPIC_LENGTH),
                "worker_id": None,
                "data": event.data,
            }
            record = Record(body["id"], body, settled=True)
            record.characters = event.size
            if topic in FAILURES:
                record.data_class = "dask_errors"
                if _is_failure(topic, event.data):
                    self._add_error(topic, event, worker)
            self._pending.append((record, worker))
        if len(self._pending) > MOST_PENDING:
            self._queue_records()

    def _sent_topics(self, topics: List[str]) -> List[str]:
        """Returns the topics under which to report the event, and counts withheld ones."""
        named_topics = [topic for topic in topics if _rank(topic) == NAMED]
        sent = [topic for topic in named_topics if self._is_sent(topic)]
        generic_topics = [topic for topic in topics if _rank(topic) < NAMED]
        withheld = len(named_topics) - len(sent)
        if not sent and generic_topics:
            # Dask's own topics are copies of one event. If one is allowed, the most specific is
            # reported.
            most_specific_topics = most_specific(generic_topics)
            if any(map(self._is_sent, generic_topics)):
                sent = most_specific_topics
            else:
                withheld = withheld or len(most_specific_topics)
        if withheld:
            self.context.count_withheld("events", withheld)
        return sent

    def _is_repetition(self, event: Event) -> bool:
        """True if this is the second message about the same client's departure, which Dask sends
        twice.
        """
        message = event.message
        if not isinstance(message, dict) or not isinstance(message.get("client"), str):
            return False
        action, client = message.get("action"), message["client"]
        if action == "add-client":
            self._departed_clients.pop(client, None)
        elif action == "remove-client":
            if client in self._departed_clients:
                return True
            self._departed_clients[client] = None
            if len(self._departed_clients) > 1000:
                del self._departed_clients[next(iter(self._departed_clients))]
        return False

    def _exceeds_rate_limit(self, topic: str, at: float) -> bool:
        if not 0 <= at - self._minute < MINUTE:
            self._minute, self._counts = at, {}
        number = self._counts[topic] = self._counts.get(topic, 0) + 1
        is_chatter = _rank(topic) < NAMED or topic == "stealing"
        return number > (MOST_OF_DASK_TOPIC if is_chatter else MOST_OF_TOPIC)

    def _queue_records(self) -> None:
        outbox = self.context.outboxes["events"]
        while self._pending:
            record, worker = self._pending.popleft()
            if worker is not None:
                record.body = dict(record.body or {}, worker_id=self.context.worker_id(worker))
            outbox.add(record)
        outbox.enforce_bounds()

    def _add_error(self, topic: str, event: Event, worker: Optional[str]) -> None:
        message, data = event.message, event.data
        key = message.get("key") if isinstance(message, dict) else None
        task = self.context.scheduler.tasks.get(key) if _is_hashable(key) else None
        group = None if task is None else self.context.ledger.groups.get(task.group)
        computation = getattr(group, "computation", None)
        fields = data if isinstance(data, dict) else {}
        body = {
            "id": uuid7(),
            "number": self.context.next_number("errors"),
            "at": event.at,
            "key": cut(str(fields.get("key") or ""), NAME_LENGTH),
            "task_group_id": getattr(group, "id", None),
            "computation_id": getattr(computation, "id", None),
            "type": FAILURES[topic],
            "message": cut(_explain(topic, fields), MESSAGE_LENGTH),
            "traceback": cut(self._traceback(message), TRACEBACK_LENGTH),
            "worker": None if worker is None else cut(worker, ADDRESS_LENGTH),
            "origin": "dask",
            "retries": 0,
            "span_id": uuid_or_none(getattr(getattr(task, "group", None), "span_id", None)),
            "worker_id": None if worker is None else self.context.worker_id(worker),
        }
        error = Record(body["id"], body, settled=True)
        error.data_class = "dask_errors"
        error.characters = len(body["message"]) + len(body["traceback"]) + len(body["key"])
        self.context.ledger.error_count += 1
        self.context.outboxes["errors"].add(error)
        self.context.outboxes["errors"].enforce_bounds()

    def _traceback(self, message: Any) -> str:
        text = message.get("traceback_text") if isinstance(message, dict) else None
        if not isinstance(text, str):
            return ""
        text = text[:TRACEBACK_LENGTH]
        if self.context.ledger.receipt.types_only:
            text = frames_of(text)
        return scrub(text if self.context.sends("code") else strip_source(text))


class Feed:
    """Fetches events that no hook reports.

    Releases before the event broker call plugins for no event, or not for messages with several
    topics, but keep long lists of events.
    """

    def __init__(self, scheduler: Any):
        self.is_needed = not hasattr(scheduler, "_broker") and hasattr(scheduler, "events")
        self._scheduler = scheduler
        self._seen: Dict[str, int] = {}
        self._missed = 0

    def pop_missed_count(self) -> int:
        """Returns the number of events that Dask discarded before they were fetched."""
        number, self._missed = self._missed, 0
        return number

    def skip(self) -> None:
        """Marks all present events as seen."""
        if self.is_needed:
            self._seen = dict(self._scheduler.event_counts)

    def fetch(
        self, only: Optional[str] = None, except_for: Optional[str] = None
    ) -> Iterator[Tuple[str, float, Any]]:
        """Yields new events ordered by time. The topics of one message are adjacent."""
        if not self.is_needed:
            return
        counts, events = self._scheduler.event_counts, self._scheduler.events
        topics_by_event: Dict[int, Tuple[Any, List[str]]] = {}
        for topic in list(counts) if only is None else [only]:
            number = counts.get(topic, 0) - self._seen.get(topic, 0)
            self._seen[topic] = counts.get(topic, 0)
            if number > 0 and topic != except_for:
                # An event with one of Dask's own topics is also in "all", where a loss is counted.
                if _rank(topic) in (0, NAMED):
                    self._missed += max(0, number - len(events.get(topic, ())))
                for event in reversed(list(islice(reversed(events.get(topic, ())), number))):
                    topics_by_event.setdefault(id(event), (event, []))[1].append(topic)
        # A message with several topics is the same tuple in each list.
        for event, topics in sorted(topics_by_event.values(), key=lambda item: item[0][0]):
            for topic in topics:
                yield topic, event[0], event[1]


def copy(message: Any, source: bool = True, types_only: bool = False) -> Any:
    """Copies the message as plain JSON of bounded size, without anything that could be task data.

    Only objects of known types are inspected or converted to text.
    """
    return sized_copy(message, source, types_only)[0]


def sized_copy(message: Any, source: bool, types_only: bool = False) -> Tuple[Any, int]:
    """Returns the copy and its size in bytes of JSON. Exceptions may be reduced to their types."""
    for characters in (LARGEST_DATA * 3 // 4, LARGEST_DATA // 4, LARGEST_DATA // 16):
        result = _Copier(characters, source, types_only).copy(message, 0)
        size = len(dumps(result).encode("utf-8"))
        if size <= LARGEST_DATA:
            return result, size
    return "a message that is too large", 30


class _Copier:
    def __init__(self, characters: int, source: bool, types_only: bool):
        self._characters = characters
        self._source = source and not types_only
        self._types_only = types_only

    def copy(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, (bytes, bytearray)):
            return "<%d bytes>" % len(value)
        self._characters -= 8
        if kind is int or isinstance(value, Integral):
            value = int(value)
            return value if abs(value) < 2**53 else self._text(_digits(value))
        if kind is float or isinstance(value, Real):
            value = float(value)
            return value if math.isfinite(value) else None
        if isinstance(value, (dict, list, tuple, set, frozenset, deque)):
            if depth >= DEEPEST or self._characters <= 0:
                return "…"
            if isinstance(value, dict):
                return self._dict(value, depth)
            if isinstance(value, (set, frozenset)):
                return self._set(value, depth)
            return self._list(value, depth, MOST_ITEMS)
        if isinstance(value, BaseException) and self._types_only:
            return self._text(type_name(value))
        if isinstance(value, BaseException):
            return self._text("%s: %s" % (type_name(value), text_of(value)))
        return "<%s>" % cut(type_name(value), 100)

    def _text(self, value: str) -> str:
        # The text is cut twice, because redaction may shorten or lengthen it.
        text = cut(value, LONGEST_TEXT * 2)
        if self._types_only:
            text = without_exceptions(text)
        text = cut_inputs(text if self._source else strip_source(text))
        text = cut(scrub(text), max(min(LONGEST_TEXT, self._characters), 20))
        self._characters -= len(text) + 2
        return text

    def _dict(self, value: Dict[Any, Any], depth: int) -> Dict[str, Any]:
        result: Dict[str, Any] = {}
        first = dict(islice(value.items(), MOST_KEYS))
        for key, item in without_named_value(first).items():
            if self._characters <= 0:
                break
            name = key if isinstance(key, str) else _name(key)
            if is_secret_name(key) and item is not None:
                item = REMOVED
            if self._types_only and name in EXCEPTIONS and isinstance(item, str):
                item = type_in(item) or (REMOVED if item else item)
            if self._types_only and name in TRACEBACKS and isinstance(item, str):
                item = frames_of(item)
            if name in HISTORIES and isinstance(item, (list, tuple)):
                item = list(item[-MOST_ITEMS:])
            name = cut(scrub(name if self._source else strip_source(name)), LONGEST_KEY)
            self._characters -= len(name) + 4
            result[name] = self.copy(item, depth + 1)
        if len(result) < len(value):
            result["…"] = "%d more" % (len(value) - len(result))
        return result

    def _list(self, value: Any, depth: int, limit: int) -> List[Any]:
        result: List[Any] = []
        items: Iterator[Any] = iter(without_paired_values(list(islice(value, limit))))
        if self._types_only:
            items = iter(_without_exceptions_in_lines(list(items)))
        if not self._source:
            texts = (cut(item, LONGEST_TEXT * 2) if type(item) is str else item for item in items)
            items = strip_source_of_lines(texts)
        for item in items:
            if self._characters <= 0:
                break
            result.append(self.copy(item, depth + 1))
        if len(result) < len(value):
            result.append("… %d more" % (len(value) - len(result)))
        return result

    def _set(self, value: Any, depth: int) -> List[Any]:
        # Only a part of a very large set is sorted.
        names = sorted(map(_name, islice(value, MOST_SORTED)))
        result = self._list(names[:MOST_OF_A_SET], depth, MOST_OF_A_SET)
        if result and len(names[:MOST_OF_A_SET]) < len(value):
            result.append("… %d more" % (len(value) - len(names[:MOST_OF_A_SET])))
        return result


def _without_exceptions_in_lines(items: List[Any]) -> List[Any]:
    """Removes exceptions from a list of texts, which may be the lines of a traceback."""
    if not all(type(item) is str for item in items):
        return items
    text = "\n".join(cut(item, LONGEST_TEXT) for item in items)
    return without_exceptions(text).split("\n") if holds_traceback(text) else items


def _name(value: Any) -> str:
    """Returns the text of a dict's or a task's key."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _digits(int(value))
    if isinstance(value, (str, int, float)):
        return text_of(value)
    if isinstance(value, tuple):
        # The format in which Dask shows the keys of tasks.
        return "(%s)" % ", ".join(
            repr(text_of(item)) if isinstance(item, str) else _name(item) for item in value[:20]
        )
    return "<%d bytes>" % len(value) if isinstance(value, bytes) else "<%s>" % type_name(value)


def _digits(value: int) -> str:
    # Python refuses to print very long integers, and takes long for long ones.
    length = value.bit_length()
    return str(value) if length <= 330 else "<integer of %d bits>" % length


def _is_copy(event: Event, topic: str, message: Any) -> bool:
    """True if this message is the same event under another topic.

    Dask publishes either the same object or, for "all", a copy with the client or worker added.
    """
    if topic in event.topics:
        return False
    if message is event.message:
        # Python interns some values, so identity proves nothing for them.
        return isinstance(message, (dict, list, set)) or (
            isinstance(message, tuple) and len(message) > 0
        )
    original = event.message
    if topic != "all" or not isinstance(message, dict) or not isinstance(original, dict):
        return False
    if len(message) != len(original) + 1 or any(
        name not in message or message[name] is not item for name, item in original.items()
    ):
        return False
    added = [item for name, item in message.items() if name not in original]
    return "action" in message and added == event.topics[-1:]


def _rank(topic: str) -> int:
    """Ranks a topic by specificity: its own name, a worker or client, the scheduler, or "all"."""
    if topic == "all":
        return 0
    if topic == "scheduler":
        return 1
    return 2 if "://" in topic or topic.startswith("Client-") else NAMED


def most_specific(topics: List[str]) -> List[str]:
    """Returns the most specific of Dask's own topics. Several workers have one event each."""
    highest = max(map(_rank, topics))
    top = [topic for topic in topics if _rank(topic) == highest]
    return top if all("://" in topic for topic in top) else top[:1]


def _is_failure(topic: str, data: Any) -> bool:
    if topic not in FAILED_ACTIONS:
        return True
    return isinstance(data, dict) and data.get("action") in FAILED_ACTIONS[topic]


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return value is not None


def _explain(topic: str, fields: Dict[str, Any]) -> str:
    """Describes the failure in a sentence. ``fields`` are cut and redacted already."""
    if topic == "worker-fail-hard":
        return str(fields.get("exception_text") or "a worker has failed")
    if topic == "worker-restart-memory":
        rss = fields.get("rss")
        used = "" if not isinstance(rss, int) else " at %.2f GiB" % (rss / 2**30)
        return "a worker used too much memory%s and was restarted by its nanny" % used
    if topic == "p2p":
        return "a P2P shuffle has failed: %s" % fields.get("shuffle")
    if "start" in fields and "finish" in fields:
        return "impossible transition from %s to %s" % (fields["start"], fields["finish"])
    return "impossible state: %s" % fields.get("state")
