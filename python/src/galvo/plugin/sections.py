"""The sections of a report, and the records that wait in them to be sent."""

import threading
from itertools import islice
from math import inf
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple


class Section(NamedTuple):
    """One list of items in reports."""

    data_class: str  # what the items are, for those who decide what may leave the cluster
    usual: int  # items per report
    largest: int  # the most that a server accepts in one
    most_unsent: int  # what may wait for a server that does not answer


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
}
USUAL_LIMITS = {kind: section.usual for kind, section in SECTIONS.items()}
LARGEST_LIMITS = {kind: section.largest for kind, section in SECTIONS.items()}
MOST_UNSENT = {kind: section.most_unsent for kind, section in SECTIONS.items()}
# In one outbox, and in one report, of the records that say how large they are.
MOST_UNSENT_CHARACTERS, MOST_REPORT_CHARACTERS = 16_000_000, 8_000_000
# Classes that no server's policy keeps from being sent: without them there is no cluster to see.
ALWAYS_SENT = frozenset(["basic", "dask_errors"])
DATA_CLASSES = tuple(
    "basic tasks dask_errors user_errors code profiles events logs".split()  # in order of display
)


class Receipt:
    """What may leave the cluster, and how much of it has left or was withheld.

    An item counts once, although it may be sent again, and then with the largest of its sizes.
    """

    def __init__(self, settings: Optional[Mapping[str, Any]] = None):
        settings = settings or {}
        # What the settings keep here. Those of an older pickle say nothing of it.
        self._kept = {
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
        self._accepted: Optional[frozenset] = None  # by the server; None: it has not said
        self._sent = dict.fromkeys(DATA_CLASSES, 0)
        self._characters = dict.fromkeys(DATA_CLASSES, 0)
        self._withheld = dict.fromkeys(DATA_CLASSES, 0)
        # Items of a plugin before: how large they were sent, and whether they were kept back.
        self._earlier: Dict[Tuple[str, str], Tuple[int, bool]] = {}
        self._lock = threading.Lock()  # reports are written outside of the event loop

    def sends(self, data_class: str) -> bool:
        """Whether items of this class may be sent now; the server may change its mind."""
        if data_class in ALWAYS_SENT:
            return True
        accepted = self._accepted is None or data_class in self._accepted
        return accepted and data_class not in self._kept

    def accept(self, classes: Any) -> bool:
        """The server has said which classes it accepts; returns whether one may be sent again."""
        if not isinstance(classes, (list, tuple)):
            return False
        before, kept_back = self._accepted, [c for c in DATA_CLASSES if not self.sends(c)]
        self._accepted = frozenset(c for c in classes if isinstance(c, str))
        return self._accepted != before and any(map(self.sends, kept_back))

    def withhold(self, data_class: str, number: int = 1) -> None:
        self._withheld[data_class] += number

    def send(self, record: "Record", data_class: str, characters: int) -> None:
        """The record goes out as JSON of this many characters."""
        with self._lock:
            self._sent[data_class] += record.sent_characters == 0
            more = characters - record.sent_characters
            if more > 0:
                self._characters[data_class] += more
                record.sent_characters = characters

    def recall(self, record: "Record") -> None:
        """An item counts once, also when a plugin before has sent it or kept it back."""
        if self._earlier:
            earlier = self._earlier.pop((type(record).__name__, record.id), None)
            if earlier is not None:
                record.sent_characters, record.withheld = earlier

    def bequeath(self, records: Iterable["Record"]) -> Dict[str, Any]:
        """What was counted so far; of these records also which of them were."""
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

    def inherit(self, told: Mapping[str, Any]) -> None:
        if told["accepted"] is not None:
            self._accepted = frozenset(told["accepted"])
        for mine, name in (
            (self._sent, "sent"),
            (self._characters, "characters"),
            (self._withheld, "withheld"),
        ):
            mine.update((kind, int(n)) for kind, n in told[name].items() if kind in mine)
        self._earlier = dict(told["items"])

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
    """Something that becomes an item of reports. Its body is replaced, and never changed."""

    __slots__ = (
        "body", "characters", "data_class", "given_up", "id", "sent_characters", "settled",
        "withheld",
    )  # fmt: skip

    def __init__(self, id: str, body: Optional[Dict[str, Any]] = None, settled: bool = False):
        self.id = id
        self.body = body
        self.settled = settled  # whether it can change no more
        self.given_up = False  # whether it is not to be sent again
        self.withheld = False  # whether it has been counted as kept back
        self.data_class: Optional[str] = None  # where it is another one than its section's
        self.characters = 0  # roughly; 0 where records of its section are small
        self.sent_characters = 0


class Outbox:
    """Records of one kind that the server does not know as they are, oldest first."""

    def __init__(self, most: int, data_class: str = "basic", receipt: Optional[Receipt] = None):
        self.most = most
        self.data_class = data_class
        self.records: Dict[Record, None] = {}
        self.characters = 0
        self.dropped = 0
        self._inherited: Dict[str, Record] = {}  # those that may be made again
        self._receipt = Receipt() if receipt is None else receipt

    def add(self, record: Record) -> None:
        self._receipt.recall(record)
        if self._inherited:
            self._supersede(record)
        if record.given_up or record in self.records or self._withholds(record):
            return
        self.records[record] = None
        self.characters += record.characters

    def take(self, limit: int, characters: float = inf) -> List[Tuple[Record, Any]]:
        """The oldest, until there are so many, or together so large; large ones go one by one."""
        taken: List[Tuple[Record, Any]] = []
        for record in list(islice(self.records, limit)):
            characters -= record.characters
            if characters < 0 and taken:
                break
            self._remove(record)
            # What was added before the server changed its mind stays here.
            if not self._withholds(record):
                taken.append((record, record.body))
        return taken

    def class_of(self, record: Record) -> str:
        return record.data_class or self.data_class

    def give_back(self, taken: Iterable[Tuple[Record, Any]]) -> None:
        later, self.records, self.characters = self.records, {}, 0
        for record in [*(record for record, _ in taken), *later]:
            self.add(record)
        self.enforce_bounds()

    def give_up(self, records: Iterable[Record]) -> None:
        for record in records:
            record.given_up = True
            self.dropped += 1
            if record in self.records:
                self._remove(record)

    def bequeath(self) -> List[Tuple[Any, ...]]:
        """What waits here and can change no more; of the rest the newest is read again."""
        return [
            (r.id, r.body, r.data_class, r.characters, r.sent_characters, r.withheld)
            for r in self.records
            if r.settled and r.body is not None
        ]

    def inherit(self, told: Iterable[Tuple[Any, ...]], made_again: bool = False) -> None:
        for id, body, data_class, characters, sent_characters, withheld in told:
            record = Record(id, dict(body), settled=True)
            record.data_class, record.characters = data_class, characters
            record.sent_characters, record.withheld = sent_characters, withheld
            self.add(record)
            if made_again:
                self._inherited[id] = record
        self.enforce_bounds()

    def _supersede(self, record: Record) -> None:
        """One that was inherited is not sent beside the one that was made in its place."""
        earlier = self._inherited.get(record.id)
        if earlier is None or earlier is record:
            return
        del self._inherited[record.id]
        earlier.given_up = True
        record.sent_characters, record.withheld = earlier.sent_characters, earlier.withheld
        if earlier in self.records:
            self._remove(earlier)

    def enforce_bounds(self) -> None:
        """Drops the oldest that can change no more. Dask itself remembers all the others."""
        if len(self.records) <= self.most and self.characters <= MOST_UNSENT_CHARACTERS:
            return
        for record in list(self.records):
            if len(self.records) <= self.most and self.characters <= MOST_UNSENT_CHARACTERS:
                return
            if record.settled:
                self.give_up([record])

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
    """What was taken out of the outboxes to be sent, until it is known whether it arrived."""

    def __init__(self, sequence: int, base: Optional[int]):
        self.sequence = sequence
        self.base = base
        self.more = False  # whether the limits leave something out
        self.items: Dict[str, List[Tuple[Record, Any]]] = {}
