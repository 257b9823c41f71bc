"""What a file tells of a cluster, as the sections of reports."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from galvo.client.errors import NotImportable
from galvo.importing.hours import Hours
from galvo.plugin.code import READ_LENGTH, TEXT_LENGTH
from galvo.plugin.scrub import scrub
from galvo.plugin.sections import Receipt
from galvo.plugin.values import NAME_LENGTH, clean, count, cut, moment
from galvo.plugin.workers import describe_environment

Item = dict[str, Any]

# Identifiers of what is imported are made of this, and of the content of the file.
NAMESPACE = uuid.UUID("c1f0a1a8-6f4f-5b0e-9d6b-3a3e3c1f7a52")
# The order in which sections are sent: what is named comes before what names it.
ORDER = (
    "environments", "workers", "clients", "thread_history", "code", "task_groups", "computations",
    "errors", "samples", "profiles", "events", "logs", "usage",
)  # fmt: skip
CLASSES = {
    "code": "code",
    "task_groups": "tasks",
    "computations": "tasks",
    "profiles": "profiles",
    "events": "events",
    "logs": "logs",
}
TOTALS = (
    "tasks", "tasks_succeeded", "tasks_erred", "errors", "compute_seconds", "transfer_seconds",
    "thread_seconds", "bytes", "workers", "peak_workers", "peak_threads",
)  # fmt: skip
# Of one file at the most. What is beyond is counted, and told as dropped.
MOST = {
    "workers": 20_000,
    "clients": 20_000,
    "environments": 1_000,
    "task_groups": 100_000,
    "errors": 20_000,
    "samples": 200_000,
    "events": 100_000,
    "logs": 200_000,
    "usage": 10_000,
}


class Identifiers:
    """Identifiers that are the same each time that the same file is imported, and never else."""

    def __init__(self, digest: str):
        self._space = uuid.uuid5(NAMESPACE, digest)

    @property
    def scheduler(self) -> str:
        """What stands in the place of the scheduler's identifier.

        It is another one than Dask's, because the scheduler may have reported itself as well, and
        what a file has of its cluster must not be mixed with that.
        """
        return f"import-{self._space}"

    def of(self, *names: object) -> str:
        """The identifier of something in the file."""
        return str(uuid.uuid5(self._space, json.dumps(names, default=str)))

    def at(self, moment: float, *names: object) -> str:
        """The same, sorted by the moment at which something happened."""
        low = uuid.uuid5(self._space, json.dumps(names, default=str)).int
        milliseconds = min(max(int(moment * 1000), 0), 2**48 - 1)
        low = low & ~(0xF << 76) & ((1 << 80) - 1) | 0x7 << 76
        return str(uuid.UUID(int=milliseconds << 80 | low))


class History:
    """What a file tells of a cluster, in the items of reports, and what is to be said about it.

    What the file does not have is left out, not set to nothing; where the format of reports has no
    way to leave a number out, the documentation of importing says so.

    Attributes
    ----------
    kind:
        What kind of file it is, in words.
    started_at, ended_at:
        From when to when it tells of the cluster, by the file's own clock.
    scheduler:
        Dask's identifier of the scheduler, if the file has it.
    notes:
        What of it is less than it seems, in sentences.
    """

    # A clock that says otherwise is wrong. What it used is told for each hour, so this also bounds
    # what becomes of a small file: 17,569 hours, which take some 0.3 s, however many workers.
    LONGEST_SECONDS = 2 * 366 * 86_400.0

    def __init__(self, kind: str, name: str, digest: str, settings: Mapping[str, Any]):
        self.kind = kind
        self.name = cut(name, NAME_LENGTH)
        self.ids = Identifiers(digest)
        self.settings = settings
        self.receipt = Receipt(settings)
        self.started_at = self.ended_at = 0.0
        self.scheduler: str | None = None
        self.cluster: Item = {}
        self.totals: dict[str, Any] = dict.fromkeys(TOTALS, 0)
        self.sections: dict[str, list[Item]] = {section: [] for section in ORDER}
        self.dropped: dict[str, int] = {}
        self.hours = Hours()
        self.notes: list[str] = []
        self._environments: set[str] = set()

    def lasts(self, started_at: float, ended_at: float) -> None:
        """From when to when the file tells of the cluster; to be called before all others."""
        if moment(started_at) is None or moment(ended_at) is None or ended_at < started_at:
            raise NotImportable("its times are none that a cluster can have")
        if ended_at - started_at > self.LONGEST_SECONDS:
            raise NotImportable("its first and last moments are more than two years apart")
        self.started_at, self.ended_at = started_at, ended_at

    def add(self, section: str, item: Item) -> bool:
        """Whether there was room for the item."""
        items = self.sections[section]
        if len(items) >= MOST.get(section, 100_000):
            self.dropped[section] = self.dropped.get(section, 0) + 1
            return False
        items.append(item)
        return True

    def sends(self, section: str, item: Item | None = None) -> bool:
        """Whether items of this section may be sent; to be asked before much is done for them."""
        return self.receipt.sends(class_of(section, item))

    def environment(self, versions: Any) -> str | None:
        """The identifier of what ``get_versions`` described."""
        if not isinstance(versions, dict) or not versions:
            return None
        try:
            body = describe_environment(versions, None)
        except (AttributeError, TypeError, ValueError):  # it is not what Dask describes
            return None
        identifier: str = body["id"]
        if identifier not in self._environments:
            self._environments.add(identifier)
            self.add("environments", body)
        return identifier

    def code(self, text: str) -> list[list[Item]]:
        """The stack of one frame that a snippet of code is, of which no more is known."""
        if not self.receipt.sends("code"):
            self.receipt.withhold("code")
            return []
        shown = cut(clean(scrub(text[:READ_LENGTH])), TEXT_LENGTH)
        hash_ = hashlib.sha256(shown.encode("utf-8")).hexdigest()
        self.add("code", {"hash": hash_, "text": shown})
        return [[{"hash": hash_, "file": "", "line": 0, "relative_line": 0}]]

    def within(self, at: float) -> float:
        """The moment in the cluster's life that is closest to this one."""
        return min(max(at, self.started_at), self.ended_at)

    def count_tasks(self, group: Item) -> None:
        """Adds a task group to the totals."""
        totals, durations = self.totals, group["durations"]
        for name in ("tasks", "tasks_succeeded", "tasks_erred", "bytes"):
            totals[name] = count(totals[name] + group[name])
        totals["compute_seconds"] += durations.get("compute", 0.0)
        totals["transfer_seconds"] += durations.get("transfer", 0.0)

    def finish(self, usage: bool) -> None:
        """Everything was added. Where usage is not to be counted, it is not told."""
        if usage:
            self.sections["usage"] = self.hours.describe(self.receipt.sends("tasks"))
        for section, number in self.dropped.items():
            words = section.replace("_", " ")
            self.notes.append(f"{number:,} {words} are more than one import takes")

    def describe_cluster(self, final: bool) -> Item:
        """The cluster as a whole, as a report has it."""
        cluster = {"name": self.name, "started_at": self.started_at, **self.cluster}
        if final:
            cluster["closed_at"] = self.ended_at
            cluster["close_reason"] = f"imported from a {self.kind}, which tells of it up to here"
        cluster["totals"] = self.totals
        return cluster


def class_of(section: str, item: Item | None = None) -> str:
    """The class of data that an item belongs to."""
    if section == "errors":
        origin = "user" if item is None else item["origin"]
        return f"{origin}_errors"
    return CLASSES.get(section, "basic")
