"""The sections of a report, and the records in them that wait to be sent."""

import threading
from itertools import islice
from math import inf
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

# A value of galvo.errors.transmit besides true and false.
TYPES_ONLY = "types"


class Section(NamedTuple):
    """One list of items in reports."""

    data_class: str  # the class of the data, for policies about what may leave the cluster
    usual: int  # items per report
    largest: int  # the server's maximum per report
    most_unsent: int  # the bound of the backlog for an unresponsive server


SECTIONS = {
    "computations": Section("tasks", 500, 1000, 2_000),
    "task_groups": Section("tasks", 1000, 5000, 10_000),
    "errors": Section("user_errors", 100, 500, 1_000),  # a record may be of "dask_errors"
    "environments": Section("basic", 50, 100, 1_000),
    "workers": Section("basic", 500, 2000, 10_000),
    "clients": Section("basic", 200, 1000, 5_000),
    "thread_history": Section("basic", 2000, 10_000, 20_000),
    "samples": Section("basic", 5000, 20_000, 40_000),
    "spans": Section("tasks", 500, 2000, 5_000),
    "fine_metrics": Section("tasks", 500, 2000, 5_000),
    "code": Section("code", 50, 200, 1_000),
    "profiles": Section("profiles", 4, 20, 40),
    "events": Section("events", 500, 2000, 10_000),
    "logs": Section("logs", 1000, 5000, 20_000),
    "usage": Section("basic", 48, 100, 1_000),
    "function_activity": Section("tasks", 120, 500, 3_000),
}
USUAL_LIMITS = {kind: section.usual for kind, section in SECTIONS.items()}
LARGEST_LIMITS = {kind: section.largest for kind, section in SECTIONS.items()}
MOST_UNSENT = {kind: section.most_unsent for kind, section in SECTIONS.items()}
# The bounds for one outbox, and for one report, of the records that have a size.
MOST_UNSENT_CHARACTERS, MOST_REPORT_CHARACTERS = 16_000_000, 8_000_000
# Classes that no server policy excludes: without them the cluster would be invisible.
ALWAYS_SENT = frozenset(["basic", "dask_errors"])
DATA_CLASSES = tuple(
    "basic tasks dask_errors user_errors code profiles events logs".split()  # in order of display
)


class Receipt:
    """Decides what may leave the cluster, and counts what was sent or withheld.

    An item counts once even if it is sent again, with the largest of its sizes.
    """

    def __init__(self, settings: Optional[Mapping[str, Any]] = None):
        settings = settings or {}
        # The classes that the settings withhold. Those of an older pickle lack these keys.
        self._withheld_classes = {
            name
            for name, setting in (
                ("user_errors", "send_errors"),
                ("code", "send_code"),
                ("profiles", "send_profiles"),
                ("events", "events_allow"),
                ("logs", "send_logs"),
            )
            if setting in settings and not settings[setting]
        }
        # True if only types and frames of exceptions may be sent.
        self.types_only = settings.get("send_errors") == TYPES_ONLY
        self._accepted: Optional[frozenset] = None  # by the server; None if unknown
        self._sent = dict.fromkeys(DATA_CLASSES, 0)
        self._characters = dict.fromkeys(DATA_CLASSES, 0)
        self._withheld = dict.fromkeys(DATA_CLASSES, 0)
        # Items of an earlier plugin: their size when sent, and whether they were withheld.
        self._earlier: Dict[Tuple[str, str], Tuple[int, bool]] = {}
        self._lock = threading.Lock()  # reports are serialized outside the event loop

    def sends(self, data_class: str) -> bool:
        """True if items of this class may be sent now. The server's policy may change."""
        if data_class in ALWAYS_SENT:
            return True
        accepted = self._accepted is None or data_class in self._accepted
        return accepted and data_class not in self._withheld_classes

    def accept(self, classes: Any) -> bool:
        """Records the classes that the server accepts. Returns True if one may be sent again."""
        if not isinstance(classes, (list, tuple)):
            return False
        before, blocked_classes = self._accepted, [c for c in DATA_CLASSES if not self.sends(c)]
        self._accepted = frozenset(c for c in classes if isinstance(c, str))
        return self._accepted != before and any(map(self.sends, blocked_classes))

    def withhold(self, data_class: str, number: int = 1) -> None:
        self._withheld[data_class] += number

    def send(self, record: "Record", data_class: str, characters: int) -> None:
        """Counts a record that is sent as JSON of this many characters."""
        with self._lock:
            self._sent[data_class] += record.sent_characters == 0
            more = characters - record.sent_characters
            if more > 0:
                self._characters[data_class] += more
                record.sent_characters = characters

    def restore_counts(self, record: "Record") -> None:
        """Restores an item's counts: it counts once even if an earlier plugin handled it."""
        if self._earlier:
            earlier = self._earlier.pop((type(record).__name__, record.id), None)
            if earlier is not None:
                record.sent_characters, record.withheld = earlier

    def export_state(self, records: Iterable["Record"]) -> Dict[str, Any]:
        """Returns the counts so far, and which of these records they include."""
        items = dict(self._earlier)
        for record in records:
            if record.sent_characters or record.withheld:
                key = (type(record).__name__, record.id)
                items[key] = (record.sent_characters, record.withheld)
        with self._lock:
            return {
                "accepted": None if self._accepted is None else sorted(self._accepted),
                "sent": dict(self._sent),
                "characters": dict(self._characters),
                "withheld": dict(self._withheld),
                "items": items,
            }

    def import_state(self, inherited: Mapping[str, Any]) -> None:
        if inherited["accepted"] is not None:
            self._accepted = frozenset(inherited["accepted"])
        for own_counts, name in (
            (self._sent, "sent"),
            (self._characters, "characters"),
            (self._withheld, "withheld"),
        ):
            own_counts.update(
                (kind, int(n)) for kind, n in inherited[name].items() if kind in own_counts
            )
        self._earlier = dict(inherited["items"])

    def describe(self) -> Dict[str, Dict[str, int]]:
        return {
            name: {
                "sent": self._sent[name],
                "bytes": self._characters[name],
                "withheld": self._withheld[name],
            }
            for name in DATA_CLASSES
        }


class Record:
    """A future item of reports. Its body is replaced, and never mutated."""

    __slots__ = (
        "body",
        "characters",
        "data_class",
        "id",
        "is_dropped",
        "sent_characters",
        "settled",
        "withheld",
    )  # fmt: skip

    def __init__(self, id: str, body: Optional[Dict[str, Any]] = None, settled: bool = False):
        self.id = id
        self.body = body
        self.settled = settled  # True if it cannot change any more
        self.is_dropped = False  # True if it must not be sent again
        self.withheld = False  # True if it has been counted as withheld
        self.data_class: Optional[str] = None  # set if it differs from its section's
        self.characters = 0  # approximately; 0 if records of its section are small
        self.sent_characters = 0


class Outbox:
    """The records of one kind that the server does not know in their present form, oldest first."""

    def __init__(self, most: int, data_class: str = "basic", receipt: Optional[Receipt] = None):
        self.most = most
        self.data_class = data_class
        self.records: Dict[Record, None] = {}
        self.characters = 0
        self.dropped = 0
        self._inherited: Dict[str, Record] = {}  # those that may be created again
        self._receipt = Receipt() if receipt is None else receipt

    def add(self, record: Record) -> None:
        self._receipt.restore_counts(record)
        if self._inherited:
            self._supersede(record)
        if record.is_dropped or record in self.records or self._withholds(record):
            return
        self.records[record] = None
        self.characters += record.characters

    def resize(self, record: Record, characters: int) -> None:
        """Sets the size of a record, which may already be in this outbox."""
        if record in self.records:
            self.characters += characters - record.characters
        record.characters = characters

    def take(self, limit: int, characters: float = inf) -> List[Tuple[Record, Any]]:
        """Takes the oldest records up to a number and a size. An oversized record goes alone."""
        record_items: List[Tuple[Record, Any]] = []
        for record in list(islice(self.records, limit)):
            characters -= record.characters
            if characters < 0 and record_items:
                break
            self._remove(record)
            # Records added before the server's policy changed stay here.
            if not self._withholds(record):
                record_items.append((record, record.body))
        return record_items

    def class_of(self, record: Record) -> str:
        return record.data_class or self.data_class

    def put_back(self, record_items: Iterable[Tuple[Record, Any]]) -> None:
        newer_records, self.records, self.characters = self.records, {}, 0
        for record in [*(record for record, _ in record_items), *newer_records]:
            self.add(record)
        self.enforce_bounds()

    def drop(self, records: Iterable[Record]) -> None:
        for record in records:
            record.is_dropped = True
            # A repeated line is one record.
            self.dropped += (record.body or {}).get("repeated", 1)
            if record in self.records:
                self._remove(record)

    def export_state(self) -> List[Tuple[Any, ...]]:
        """Returns unsent records that cannot change.

        The others are read again in their newest form.
        """
        return [
            (r.id, r.body, r.data_class, r.characters, r.sent_characters, r.withheld)
            for r in self.records
            if r.settled and r.body is not None
        ]

    def import_state(
        self, inherited: Iterable[Tuple[Any, ...]], is_recreated: bool = False
    ) -> None:
        for id, body, data_class, characters, sent_characters, withheld in inherited:
            record = Record(id, dict(body), settled=True)
            record.data_class, record.characters = data_class, characters
            record.sent_characters, record.withheld = sent_characters, withheld
            self.add(record)
            if is_recreated:
                self._inherited[id] = record
        self.enforce_bounds()

    def _supersede(self, record: Record) -> None:
        """Drops an inherited record that was replaced by a newly created one."""
        earlier = self._inherited.get(record.id)
        if earlier is None or earlier is record:
            return
        del self._inherited[record.id]
        earlier.is_dropped = True
        record.sent_characters, record.withheld = earlier.sent_characters, earlier.withheld
        if earlier in self.records:
            self._remove(earlier)

    def enforce_bounds(self) -> None:
        """Drops the oldest records that cannot change. Dask itself still holds all the others."""
        if len(self.records) <= self.most and self.characters <= MOST_UNSENT_CHARACTERS:
            return
        for record in list(self.records):
            if len(self.records) <= self.most and self.characters <= MOST_UNSENT_CHARACTERS:
                return
            if record.settled:
                self.drop([record])

    def _withholds(self, record: Record) -> bool:
        if self._receipt.sends(self.class_of(record)):
            return False
        if not record.withheld:
            record.withheld = True
            self._receipt.withhold(self.class_of(record))
        return True

    def _remove(self, record: Record) -> None:
        del self.records[record]
        self.characters -= record.characters


class Report:
    """The records taken from the outboxes to be sent, until the outcome is known."""

    def __init__(self, sequence: int, base: Optional[int]):
        self.sequence = sequence
        self.base = base
        self.has_more = False  # True if the limits leave something out
        self.items: Dict[str, List[Tuple[Record, Any]]] = {}
