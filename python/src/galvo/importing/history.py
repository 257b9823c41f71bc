"""The history in a file, as the sections of reports."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from typing import Any

from galvo.client.errors import NotImportable
from galvo.importing.hours import Hours
from galvo.plugin.code import redact_code
from galvo.plugin.errors import class_of_error
from galvo.plugin.sections import Receipt
from galvo.plugin.values import NAME_LENGTH, cut, time_or_none, to_count
from galvo.plugin.workers import describe_environment

Item = dict[str, Any]

# Identifiers of imported items are derived from this, and from the content of the file.
NAMESPACE = uuid.UUID("c1f0a1a8-6f4f-5b0e-9d6b-3a3e3c1f7a52")
# The order in which sections are sent: an item precedes the items that refer to it.
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
PARTIAL_LENGTH = 2_000
# The bounds for one file. The excess is counted, and reported as dropped.
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
    """Identifiers that are the same for each import of a file, and unique to it."""

    def __init__(self, digest: str):
        self._space = uuid.uuid5(NAMESPACE, digest)

    @property
    def scheduler(self) -> str:
        """The identifier used for the scheduler.

        It differs from Dask's, because the scheduler may have reported itself as well, and the
        file's data must not be mixed with that.
        """
        return f"import-{self._space}"

    def of(self, *names: object) -> str:
        """Returns the identifier of an object in the file."""
        return str(uuid.uuid5(self._space, json.dumps(names, default=str)))

    def at(self, moment: float, *names: object) -> str:
        """Returns an identifier that sorts by the time of something in the file."""
        low = uuid.uuid5(self._space, json.dumps(names, default=str)).int
        milliseconds = min(max(int(moment * 1000), 0), 2**48 - 1)
        low = low & ~(0xF << 76) & ((1 << 80) - 1) | 0x7 << 76
        return str(uuid.UUID(int=milliseconds << 80 | low))


class History:
    """The history of a cluster in a file, as the items of reports, with notes about its limits.

    Data that the file lacks is left out, not set to zero. If the report format cannot leave a
    number out, the documentation of importing states so.

    Attributes
    ----------
    kind:
        The kind of the file, as text.
    started_at, ended_at:
        The time range that the file covers, by the file's own clock.
    scheduler:
        Dask's identifier of the scheduler, if the file has it.
    notes:
        Limitations of the data, in sentences.
    partial:
        The reasons why it holds only a part of the cluster's work; empty if it holds all of it.
    """

    # A clock beyond this is wrong. The usage is stored for each hour, so this also bounds the
    # effect of a small file: 17,569 hours, which take some 0.3 s for any number of workers.
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
        self.partial: list[str] = []
        self._environments: set[str] = set()

    def set_period(self, started_at: float, ended_at: float) -> None:
        """Sets the covered time range. Call it before all other methods. Raises NotImportable."""
        if (
            time_or_none(started_at) is None
            or time_or_none(ended_at) is None
            or ended_at < started_at
        ):
            raise NotImportable("its times are none that a cluster can have")
        if ended_at - started_at > self.LONGEST_SECONDS:
            raise NotImportable("its first and last moments are more than two years apart")
        self.started_at, self.ended_at = started_at, ended_at

    def add(self, section: str, item: Item) -> bool:
        """Adds an item. Returns False if there is no room for it."""
        items = self.sections[section]
        if len(items) >= MOST.get(section, 100_000):
            self.dropped[section] = self.dropped.get(section, 0) + 1
            return False
        items.append(item)
        return True

    def sends(self, section: str, item: Item | None = None) -> bool:
        """True if items of this section may be sent. Check it before doing much work for them."""
        return self.receipt.sends(class_of(section, item))

    def environment(self, versions: Any) -> str | None:
        """Returns the identifier of the environment that ``get_versions`` described."""
        if not isinstance(versions, dict) or not versions:
            return None
        try:
            body = describe_environment(versions, None)
        except (AttributeError, TypeError, ValueError):  # it is not a description of Dask
            return None
        identifier: str = body["id"]
        if identifier not in self._environments:
            self._environments.add(identifier)
            self.add("environments", body)
        return identifier

    def code(self, text: str) -> list[list[Item]]:
        """Returns the stack of one frame for a snippet of code without further context."""
        if not self.receipt.sends("code"):
            self.receipt.withhold("code")
            return []
        # Outside a function, the relevant lines are those around the call that wrote the file.
        call_match = re.search(r"\bperformance_report[ \t]{0,4}\(", text)
        line = text.count("\n", 0, call_match.start()) + 1 if call_match else 0
        snippet, _ = redact_code(text, line, max(line - 1, 0))
        hash_ = hashlib.sha256(snippet.encode("utf-8")).hexdigest()
        self.add("code", {"hash": hash_, "text": snippet})
        return [[{"hash": hash_, "file": "", "line": 0, "relative_line": 0}]]

    def clamp_time(self, at: float) -> float:
        """Returns the time within the cluster's life that is closest to this one."""
        return min(max(at, self.started_at), self.ended_at)

    def add_gap(self, reason: str) -> None:
        """Records the reason why a part of the work is missing in the file. Answers include it."""
        self.partial.append(reason)
        self.notes.append(f"it holds a part of the work: {reason}")

    def count_tasks(self, group: Item) -> None:
        """Adds a task group to the totals."""
        totals, durations = self.totals, group["durations"]
        for name in ("tasks", "tasks_succeeded", "tasks_erred", "bytes"):
            totals[name] = to_count(totals[name] + group[name])
        totals["compute_seconds"] += durations.get("compute", 0.0)
        totals["transfer_seconds"] += durations.get("transfer", 0.0)

    def finish(self, usage: bool) -> None:
        """Completes the history. The usage is left out if it is not to be counted."""
        if usage:
            self.sections["usage"] = self.hours.describe(self.receipt.sends("tasks"))
        for section, number in self.dropped.items():
            section_name = section.replace("_", " ")
            self.notes.append(f"{number:,} {section_name} are more than one import takes")

    def describe_cluster(self, final: bool) -> Item:
        """Returns the cluster as a whole, as in a report."""
        cluster = {"name": self.name, "started_at": self.started_at, **self.cluster}
        if final:
            cluster["closed_at"] = self.ended_at
            cluster["close_reason"] = f"imported from a {self.kind}, which covers it up to here"
        if self.partial:
            reasons = "; ".join(self.partial)
            cluster["partial"] = cut(
                f"The imported file holds a part of the work: {reasons}.", PARTIAL_LENGTH
            )
        cluster["totals"] = self.totals
        return cluster


def class_of(section: str, item: Item | None = None) -> str:
    """Returns the data class of an item."""
    if section == "errors":
        return class_of_error(item or {})
    return CLASSES.get(section, "basic")
