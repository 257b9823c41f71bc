"""Records of Dask's TaskGroups and Computations, and their serialization."""

import operator
from collections import deque
from itertools import islice
from types import SimpleNamespace
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .sections import Record
from .values import (
    NAME_LENGTH,
    STATES,
    TYPE_LENGTH,
    UNFINISHED,
    cut,
    time_or_none,
    to_count,
    to_duration,
    uuid7,
    uuid_or_none,
)

GROUPS_PER_COMPUTATION, DEPENDENCIES_PER_GROUP, TYPES_PER_GROUP = 5000, 1000, 100
SPANS_PER_COMPUTATION = 100
# Tasks, succeeded, erred, compute and transfer seconds, bytes, retries.
NO_TOTALS: Tuple[Any, ...] = (0, 0, 0, 0.0, 0.0, 0, 0)
# The parts of a group's record that its TaskGroup does not hold.
EXPORTED_FIELDS = ("first_seen_at", "succeeded", "erred", "blamed", "retried", "counted")


class GroupRecord(Record):
    """One TaskGroup object. Names recur but objects do not, so each object has its own id."""

    __slots__ = (
        "_last_values", "_span_id", "blamed", "counted", "dependencies",
        "dependencies_seen", "erred", "first_seen_at", "group", "name", "owners", "prefix",
        "retried", "stop", "succeeded",
    )  # fmt: skip

    def __init__(self, group: Any, now: float, id: Optional[str] = None):
        super().__init__(uuid7() if id is None else id)
        self.group: Any = group  # None once Dask has forgotten all of its tasks
        self.stop = 0.0
        self.name = cut(group.name, NAME_LENGTH)
        self.prefix = cut(group.prefix.name, NAME_LENGTH)
        self.first_seen_at = now
        # Computations whose tasks in the group are not remembered individually: normally the first
        # one that used it, and all those before the plugin started.
        self.owners: List["ComputationRecord"] = []
        self.dependencies: Dict[str, None] = {}
        self.dependencies_seen = 0
        self.succeeded = group.states.get("memory", 0)
        self.erred = 0
        self.blamed = 0
        self.retried = 0
        self._span_id: Optional[str] = None
        self._last_values: Any = None
        self.counted = NO_TOTALS  # its part in the ledger's totals

    def export_state(self) -> Dict[str, Any]:
        state = {name: getattr(self, name) for name in ("id", *EXPORTED_FIELDS)}
        state["in_memory"] = self.group.states.get("memory", 0)
        state["dependencies"] = list(self.dependencies)
        owner = self.owners[-1] if self.owners else None
        state["computation_id"] = None if owner is None else owner.id
        state["computation_body"] = None if owner is None else owner.body
        return state

    def import_state(self, inherited: Mapping[str, Any]) -> None:
        for name in EXPORTED_FIELDS:
            setattr(self, name, inherited[name])
        self.counted = sums_of(inherited["counted"])
        # The visible part of what happened unobserved.
        self.succeeded += max(0, self.group.states.get("memory", 0) - inherited["in_memory"])
        self.dependencies = dict.fromkeys(inherited["dependencies"])

    def link_dependencies(self, groups: Mapping[Any, "GroupRecord"]) -> None:
        dependencies = self.group.dependencies
        if len(dependencies) != self.dependencies_seen:
            self.dependencies_seen = len(dependencies)
            for dependency in dependencies:
                record = groups.get(dependency)
                if record is None or record is self:
                    continue
                if len(self.dependencies) < DEPENDENCIES_PER_GROUP:
                    self.dependencies[record.id] = None

    def span_id(self) -> Optional[str]:
        if self._span_id is None and self.group is not None:
            self._span_id = uuid_or_none(getattr(self.group, "span_id", None))
        return self._span_id

    def is_running(self) -> bool:
        return self.group is not None and any(map(self.group.states.get, UNFINISHED))

    def stopped_at(self) -> float:
        return self.stop if self.group is None else self.group.stop

    def has_changed(self, live: Mapping[str, Any]) -> bool:
        """True if the group has changed without a transition. Far cheaper than describing it."""
        group, last_values = self.group, self._last_values
        return (
            last_values is None
            or group.nbytes_total != last_values[0]
            or group.stop != last_values[1]
            or [*group.states.values()] != last_values[2]
            or live.get(group.name) is not group
        )

    def describe(self) -> Dict[str, Any]:
        group = self.group
        self._last_values = (group.nbytes_total, group.stop, [*group.states.values()])
        # Scattered data is in memory without a transition to it.
        self.succeeded = max(self.succeeded, group.states.get("memory", 0))
        return {
            "id": self.id,
            "name": self.name,
            "prefix": self.prefix,
            "first_seen_at": self.first_seen_at,
            "started_at": time_or_none(group.start),
            "stopped_at": time_or_none(group.stop),
            "states": {s: to_count(n) for s, n in group.states.items() if n and s in STATES},
            "tasks": to_count(len(group)),
            "tasks_succeeded": self.succeeded,
            "tasks_erred": self.erred,
            "tasks_blamed": self.blamed,
            "tasks_retried": self.retried,
            "span_id": self.span_id(),
            "durations": {
                cut(action, TYPE_LENGTH): to_duration(seconds)
                for action, seconds in islice(group.all_durations.items(), 100)
            },
            "bytes": to_count(group.nbytes_total),
            "types": sorted(cut(t, 512) for t in islice(group.types, TYPES_PER_GROUP)),
            "dependencies": list(self.dependencies),
        }


class ComputationRecord(Record):
    """One of Dask's Computations. It is over once it is done and Dask has started another one."""

    __slots__ = (
        "code", "code_seen", "computation", "cut_short", "erred", "group_ids", "groups",
        "is_latest", "lacks_shares", "share_bodies", "shares", "span_ids", "started_at", "stop",
    )  # fmt: skip

    def __init__(self, computation: Any):
        super().__init__(str(computation.id))
        self.computation: Any = computation  # None once it cannot change any more
        self.code: List[List[Dict[str, Any]]] = []
        self.code_seen: Any = None
        self.span_ids: Dict[str, None] = {}
        self.started_at = computation.start
        self.groups: Dict[GroupRecord, None] = {}  # those that may still change
        # Links only grow on the server, so of very many groups the latest are sent.
        self.group_ids: "deque[str]" = deque(maxlen=GROUPS_PER_COMPUTATION)
        self.stop = 0.0
        self.erred = False
        self.cut_short = False  # True if a task was cancelled before it was done
        self.is_latest = True
        # Of groups that other computations use, too; see ``shares``.
        self.shares: List[Any] = []
        self.share_bodies: Dict[str, Dict[str, Any]] = {}  # by the group's id
        self.lacks_shares = False  # True if there are more, whose groups then count as a whole

    @classmethod
    def create_finished(
        cls, id_: str, body: Optional[Dict[str, Any]] = None
    ) -> "ComputationRecord":
        """Creates a finished one. Errors still refer to it, and its shares of groups may change."""
        finished = cls(SimpleNamespace(id=id_, start=0.0))
        finished.settled, finished.computation, finished.is_latest = True, None, False
        finished.body = body
        finished.read_shares(body)
        finished.lacks_shares = any(share["joint"] for share in finished.share_bodies.values())
        return finished

    def read_shares(self, body: Optional[Mapping[str, Any]]) -> None:
        """Continues from the shares that were described earlier."""
        for share in (body or {}).get("task_group_shares", ()):
            self.share_bodies[share["task_group_id"]] = share

    def export_state(self) -> Dict[str, Any]:
        return {
            "group_ids": list(self.group_ids),
            "groups": [record.group for record in self.groups if record.group is not None],
            "span_ids": list(self.span_ids),
            "stop": self.stop or (self.body or {}).get("stopped_at") or 0.0,
            "erred": self.erred,
            "cut_short": self.cut_short,
            "shares": list(self.share_bodies.values()),
            "lacks_shares": self.lacks_shares,
        }

    def import_state(self, inherited: Mapping[str, Any], groups: Mapping[Any, GroupRecord]) -> None:
        self.group_ids.extend(inherited["group_ids"])
        self.groups = {groups[group]: None for group in inherited["groups"] if group in groups}
        self.span_ids = dict.fromkeys(inherited["span_ids"])
        self.stop, self.erred, self.cut_short = (
            inherited["stop"],
            inherited["erred"],
            inherited["cut_short"],
        )
        self.read_shares({"task_group_shares": inherited.get("shares", ())})
        self.lacks_shares = inherited.get("lacks_shares", False)

    def link(self, record: GroupRecord) -> None:
        if record not in self.groups:
            self.groups[record] = None
            self.group_ids.append(record.id)

    def read_code(self, context: Any) -> None:
        """Describes the code again if there is more of it, or if only now it may be sent."""
        code = getattr(self.computation, "code", None)
        seen = (len(code or ()), context.sends("code"))
        if seen != self.code_seen:
            self.code_seen, self.code = seen, context.frames(code) if code else []

    def describe(self, now: float, closed_at: Optional[float]) -> Dict[str, Any]:
        for record in list(self.groups):
            span_id = record.span_id()
            if span_id is not None and len(self.span_ids) < SPANS_PER_COMPUTATION:
                self.span_ids[span_id] = None
            self.stop = max(self.stop, record.stopped_at())
            if record.group is None:
                del self.groups[record]
        if any(map(self._has_unfinished, self.groups)):
            state, stopped_at = "running" if closed_at is None else "cancelled", closed_at
        else:
            state = "erred" if self.erred else "cancelled" if self.cut_short else "finished"
            # If no task was computed, the time of detection is used, and kept.
            noticed_at = (self.body or {}).get("stopped_at") or now
            stopped_at = max(self.stop or noticed_at, self.started_at)
        body = {
            "id": self.id,
            "started_at": self.started_at,
            "stopped_at": stopped_at,
            "state": state,
            "task_group_ids": list(self.group_ids),
            "code": self.code,
            "span_ids": list(self.span_ids),
        }
        if self.share_bodies:
            body["task_group_shares"] = self.describe_shares()
        return body

    def describe_shares(self) -> List[Dict[str, Any]]:
        """Returns its parts of shared groups. One of them has the mark if there are more."""
        shares = list(self.share_bodies.values())
        if self.lacks_shares:  # the totals include tasks of other computations
            shares[-1] = {**shares[-1], "joint": True}
        return shares

    def _has_unfinished(self, record: GroupRecord) -> bool:
        share = self.share_bodies.get(record.id)
        if share is None or share["joint"]:
            return record.is_running()
        return any(map(share["states"].get, UNFINISHED))


def sums_of(values: Any) -> Tuple[Any, ...]:
    """Validates sums of another version."""
    if len(values) != len(NO_TOTALS):
        raise ValueError("sums of something else")
    return tuple(map(operator.add, NO_TOTALS, values))
