"""What is logged as events of Dask, by itself and by its users, and its failures among that."""

import math
from collections import deque
from itertools import islice
from numbers import Integral, Real
from typing import Any, Deque, Dict, Iterator, List, Optional, Tuple

from .collector import Collector, Context
from .scrub import (
    REMOVED,
    cut_inputs,
    is_secret_name,
    scrub,
    strip_source,
    strip_source_of_lines,
)
from .sections import Record
from .values import (
    ADDRESS_LENGTH,
    MESSAGE_LENGTH,
    NAME_LENGTH,
    TRACEBACK_LENGTH,
    cut,
    dumps,
    identifier,
    uuid7,
)
from .worker_side import TOPIC as LOG_TOPIC

TOPIC_LENGTH = 512
LARGEST_DATA = 16_384  # bytes of JSON
DEEPEST, LONGEST_TEXT, LONGEST_KEY = 8, 4_000, 200
MOST_KEYS, MOST_ITEMS, MOST_OF_A_SET, MOST_SORTED = 200, 100, 20, 1000
# Of these the last items are what counts.
HISTORIES = ("story", "transition_log")
MOST_PENDING = 1000
# Events of one topic in a minute: what Dask says by itself, and what its users say.
MOST_CHATTER, MOST_OF_TOPIC, MINUTE = 120, 6000, 60.0
NAMED = 3  # the rank of topics that somebody has named, above Dask's own

# Topics under which Dask tells that something in itself has failed. Their names changed, so each
# is known by all the names that it had or was documented with.
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
# Of topics that are about other things as well, the actions that tell of a failure.
FAILED_ACTIONS = {"p2p": ("p2p-failed",), "transitions": ("scheduler-transition-failed",)}


class Event:
    """One message of Dask's, while it may still be published under further topics."""

    __slots__ = ("at", "data", "message", "size", "topics")

    def __init__(self, message: Any, at: float):
        self.message = message
        self.at = at
        self.topics: List[str] = []
        self.data: Any = None  # a copy, once it is known to be needed
        self.size = 0


class Events(Collector):
    """Takes each event once, as it is when Dask publishes it, since messages are live objects."""

    def __init__(self, context: Context):
        super().__init__(context)
        allowed = context.settings.get("events_allow")
        allowed = ["*"] if allowed is None else [allowed] if isinstance(allowed, str) else allowed
        self._all = "*" in allowed
        self._allowed = set(allowed)
        kinds = {FAILURES[topic] for topic in allowed if topic in FAILURES}
        self._allowed.update(topic for topic, kind in FAILURES.items() if kind in kinds)
        self._feed = Feed(context.scheduler)
        self._latest: Optional[Event] = None
        # Which worker an event is about is looked up later: this may be the first that is heard
        # of it.
        self._pending: Deque[Tuple[Record, Optional[str]]] = deque()
        self._minute, self._counts = -math.inf, {}  # type: Tuple[float, Dict[str, int]]
        self._gone: Dict[str, None] = {}  # clients that were said to have left

    async def start(self) -> None:
        self._feed.skip()

    def event(self, topic: Any, message: Any, now: float) -> None:
        # Where messages with several topics do not come this way, all are fetched.
        if not self._feed.is_needed:
            self._take(str(topic), message, now)

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        for topic, at, message in self._feed.fetch(except_for=LOG_TOPIC):
            self._take(topic, message, at)
        self._finish()
        self._release()

    def close(self) -> None:
        self._latest = None
        self._pending.clear()

    def _take(self, topic: str, message: Any, at: float) -> None:
        if topic == LOG_TOPIC:
            return
        latest = self._latest
        if latest is None or not _is_copy(latest, topic, message):
            self._finish()
            latest = self._latest = Event(message, at)
        latest.topics.append(topic)
        if latest.size == 0 and self._is_sent(topic):
            latest.data, latest.size = sized_copy(message, self.context.sends("code"))

    def _is_allowed(self, topic: str) -> bool:
        return self._all or topic in self._allowed

    def _is_sent(self, topic: str) -> bool:
        """Whether events of this topic may leave. Dask's failures do whatever others accept."""
        return self._is_allowed(topic) and (topic in FAILURES or self.context.sends("events"))

    def _finish(self) -> None:
        """The latest event has all of its topics."""
        event, self._latest = self._latest, None
        if event is None or self._is_repetition(event):
            return
        for topic in self._told(event.topics):
            if self._is_too_much(topic, event.at):
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
                    self._error(topic, event, worker)
            self._pending.append((record, worker))
        if len(self._pending) > MOST_PENDING:
            self._release()

    def _told(self, topics: List[str]) -> List[str]:
        """The topics that the event is told under. Those that are kept back are counted."""
        named = [topic for topic in topics if _rank(topic) == NAMED]
        told = [topic for topic in named if self._is_sent(topic)]
        own = [topic for topic in topics if _rank(topic) < NAMED]
        withheld = len(named) - len(told)
        if not told and own:
            # Dask's own topics are but copies: one that is allowed lets the most specific be told.
            best = most_specific(own)
            if any(map(self._is_sent, own)):
                told = best
            else:
                withheld = withheld or len(best)
        if withheld:
            self.context.withheld("events", withheld)
        return told

    def _is_repetition(self, event: Event) -> bool:
        """Dask says twice that a client has left."""
        message = event.message
        if not isinstance(message, dict) or not isinstance(message.get("client"), str):
            return False
        action, client = message.get("action"), message["client"]
        if action == "add-client":
            self._gone.pop(client, None)
        elif action == "remove-client":
            if client in self._gone:
                return True
            self._gone[client] = None
            if len(self._gone) > 1000:
                del self._gone[next(iter(self._gone))]
        return False

    def _is_too_much(self, topic: str, at: float) -> bool:
        if not 0 <= at - self._minute < MINUTE:
            self._minute, self._counts = at, {}
        number = self._counts[topic] = self._counts.get(topic, 0) + 1
        is_chatter = _rank(topic) < NAMED or topic == "stealing"
        return number > (MOST_CHATTER if is_chatter else MOST_OF_TOPIC)

    def _release(self) -> None:
        outbox = self.context.outboxes["events"]
        while self._pending:
            record, worker = self._pending.popleft()
            if worker is not None:
                record.body = dict(record.body or {}, worker_id=self.context.worker_id(worker))
            outbox.add(record)
        outbox.enforce_bounds()

    def _error(self, topic: str, event: Event, worker: Optional[str]) -> None:
        message, data = event.message, event.data
        key = message.get("key") if isinstance(message, dict) else None
        task = self.context.scheduler.tasks.get(key) if _is_hashable(key) else None
        group = None if task is None else self.context.ledger.groups.get(task.group)
        computation = getattr(group, "computation", None)
        said = data if isinstance(data, dict) else {}
        body = {
            "id": uuid7(),
            "at": event.at,
            "key": cut(str(said.get("key") or ""), NAME_LENGTH),
            "task_group_id": getattr(group, "id", None),
            "computation_id": getattr(computation, "id", None),
            "type": FAILURES[topic],
            "message": cut(_explain(topic, said), MESSAGE_LENGTH),
            "traceback": cut(_traceback(message, self.context.sends("code")), TRACEBACK_LENGTH),
            "worker": None if worker is None else cut(worker, ADDRESS_LENGTH),
            "origin": "dask",
            "retries": 0,
            "span_id": identifier(getattr(getattr(task, "group", None), "span_id", None)),
            "worker_id": None if worker is None else self.context.worker_id(worker),
        }
        error = Record(body["id"], body, settled=True)
        error.data_class = "dask_errors"
        error.characters = len(body["message"]) + len(body["traceback"]) + len(body["key"])
        self.context.ledger.error_count += 1
        self.context.outboxes["errors"].add(error)
        self.context.outboxes["errors"].enforce_bounds()


class Feed:
    """Fetches events that no hook has told: releases before the broker of events, which tell
    plugins nothing, or nothing of messages with several topics, but keep long lists of them.
    """

    def __init__(self, scheduler: Any):
        self.is_needed = not hasattr(scheduler, "_broker") and hasattr(scheduler, "events")
        self._scheduler = scheduler
        self._seen: Dict[str, int] = {}

    def skip(self) -> None:
        """What there is now is no news."""
        if self.is_needed:
            self._seen = dict(self._scheduler.event_counts)

    def fetch(
        self, only: Optional[str] = None, except_for: Optional[str] = None
    ) -> Iterator[Tuple[str, float, Any]]:
        """What has come since, in the order of its time; a message's topics follow each other."""
        if not self.is_needed:
            return
        counts, events = self._scheduler.event_counts, self._scheduler.events
        found: Dict[int, Tuple[Any, List[str]]] = {}
        for topic in list(counts) if only is None else [only]:
            number = counts.get(topic, 0) - self._seen.get(topic, 0)
            self._seen[topic] = counts.get(topic, 0)
            if number > 0 and topic != except_for:
                for event in reversed(list(islice(reversed(events.get(topic, ())), number))):
                    found.setdefault(id(event), (event, []))[1].append(topic)
        # What has several topics is the same tuple in each list.
        for event, topics in sorted(found.values(), key=lambda item: item[0][0]):
            for topic in topics:
                yield topic, event[0], event[1]


def copy(message: Any, source: bool = True) -> Any:
    """The message as plain JSON of bounded size, without what could be data of tasks.

    Nothing is opened, and nothing asked to describe itself, but what has a type known here.
    """
    return sized_copy(message, source)[0]


def sized_copy(message: Any, source: bool) -> Tuple[Any, int]:
    """The copy, and how many bytes of JSON it is."""
    for characters in (LARGEST_DATA * 3 // 4, LARGEST_DATA // 4, LARGEST_DATA // 16):
        copied = _Copy(characters, source).of(message, 0)
        size = len(dumps(copied).encode("utf-8"))
        if size <= LARGEST_DATA:
            return copied, size
    return "a message that is too large", 30


class _Copy:
    def __init__(self, characters: int, source: bool):
        self._characters = characters
        self._source = source

    def of(self, value: Any, depth: int) -> Any:
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
            return value if abs(value) < 2**53 else self._text(str(value)[:100])
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
        if isinstance(value, BaseException):
            return self._text("%s: %s" % (kind.__name__, value))
        return "<%s>" % cut(kind.__name__, 100)

    def _text(self, value: str) -> str:
        # It is cut twice, as what is scrubbed may be shorter or longer.
        text = cut(str(value), LONGEST_TEXT * 2)
        text = cut_inputs(text if self._source else strip_source(text))
        text = cut(scrub(text), max(min(LONGEST_TEXT, self._characters), 20))
        self._characters -= len(text) + 2
        return text

    def _dict(self, value: Dict[Any, Any], depth: int) -> Dict[str, Any]:
        copied: Dict[str, Any] = {}
        for key, item in islice(value.items(), MOST_KEYS):
            if self._characters <= 0:
                break
            name = key if isinstance(key, str) else _name(key)
            if is_secret_name(name) and item is not None:
                item = REMOVED
            if name in HISTORIES and isinstance(item, (list, tuple)):
                item = list(item[-MOST_ITEMS:])
            name = cut(scrub(name if self._source else strip_source(name)), LONGEST_KEY)
            self._characters -= len(name) + 4
            copied[name] = self.of(item, depth + 1)
        if len(copied) < len(value):
            copied["…"] = "%d more" % (len(value) - len(copied))
        return copied

    def _list(self, value: Any, depth: int, most: int) -> List[Any]:
        copied: List[Any] = []
        items: Iterator[Any] = islice(value, most)
        if not self._source:
            texts = (cut(item, LONGEST_TEXT * 2) if type(item) is str else item for item in items)
            items = strip_source_of_lines(texts)
        for item in items:
            if self._characters <= 0:
                break
            copied.append(self.of(item, depth + 1))
        if len(copied) < len(value):
            copied.append("… %d more" % (len(value) - len(copied)))
        return copied

    def _set(self, value: Any, depth: int) -> List[Any]:
        # Of very large sets only a part is put in order.
        names = sorted(map(_name, islice(value, MOST_SORTED)))
        copied = self._list(names[:MOST_OF_A_SET], depth, MOST_OF_A_SET)
        if copied and len(names[:MOST_OF_A_SET]) < len(value):
            copied.append("… %d more" % (len(value) - len(names[:MOST_OF_A_SET])))
        return copied


def _name(value: Any) -> str:
    """The text of a key, of a dict or of a task."""
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, tuple):
        # As Dask shows the keys of tasks.
        return "(%s)" % ", ".join(
            repr(item) if isinstance(item, (str, int, float)) else _name(item)
            for item in value[:20]
        )
    return "<%d bytes>" % len(value) if isinstance(value, bytes) else "<%s>" % type(value).__name__


def _is_copy(event: Event, topic: str, message: Any) -> bool:
    """Whether this message is the event once more, under another topic.

    Dask publishes either the same object, or for "all" one that adds whom it is about.
    """
    if topic in event.topics:
        return False
    if message is event.message:
        # Python has but one object for some values.
        return isinstance(message, (dict, list, set)) or (
            isinstance(message, tuple) and len(message) > 0
        )
    before = event.message
    if topic != "all" or not isinstance(message, dict) or not isinstance(before, dict):
        return False
    if len(message) != len(before) + 1 or any(
        name not in message or message[name] is not item for name, item in before.items()
    ):
        return False
    added = [item for name, item in message.items() if name not in before]
    return "action" in message and added == event.topics[-1:]


def _rank(topic: str) -> int:
    """How much a topic says: its own name, a worker or client, the scheduler, or nothing."""
    if topic == "all":
        return 0
    if topic == "scheduler":
        return 1
    return 2 if "://" in topic or topic.startswith("Client-") else NAMED


def most_specific(topics: List[str]) -> List[str]:
    """Of Dask's own topics the one that says most; several workers have an event each."""
    most = max(map(_rank, topics))
    best = [topic for topic in topics if _rank(topic) == most]
    return best if all("://" in topic for topic in best) else best[:1]


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


def _explain(topic: str, said: Dict[str, Any]) -> str:
    """The failure in a sentence. ``said`` is its message, cut and scrubbed already."""
    if topic == "worker-fail-hard":
        return str(said.get("exception_text") or "a worker has failed")
    if topic == "worker-restart-memory":
        rss = said.get("rss")
        used = "" if not isinstance(rss, int) else " at %.2f GiB" % (rss / 2**30)
        return "a worker used too much memory%s and was restarted by its nanny" % used
    if topic == "p2p":
        return "a P2P shuffle has failed: %s" % said.get("shuffle")
    if "start" in said and "finish" in said:
        return "impossible transition from %s to %s" % (said["start"], said["finish"])
    return "impossible state: %s" % said.get("state")


def _traceback(message: Any, source: bool) -> str:
    text = message.get("traceback_text") if isinstance(message, dict) else None
    if not isinstance(text, str):
        return ""
    text = text[:TRACEBACK_LENGTH]
    return scrub(text if source else strip_source(text))
