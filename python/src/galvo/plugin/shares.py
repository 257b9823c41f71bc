"""The share of each computation in a task group that several of them use.

Dask puts all tasks of one name into one TaskGroup while any of them is alive. So two calls of
``client.map`` with one function share it, and Dask's own sums for either computation are those of
both. A hook names the tasks of each graph. The tasks of the first computation that uses a group are
not remembered: they are the remainder after the others.
"""

from typing import Any, Dict, Iterable, List, Mapping, Optional, Set

from .values import STATES, TYPE_LENGTH, cut, to_count, to_duration
from .work import ComputationRecord, GroupRecord

# Per computation. Beyond it, whole groups are counted, and the computation is marked.
SHARES_PER_COMPUTATION = 1000
NUMBERS = ("tasks", "succeeded", "erred", "retried", "bytes")


class Counts:
    """The counters of some tasks."""

    __slots__ = ("bytes", "durations", "erred", "retried", "states", "succeeded", "tasks")

    def __init__(self, values: Optional[Mapping[str, Any]] = None):
        values = values or {}
        self.tasks = values.get("tasks", 0)
        self.succeeded = values.get("succeeded", 0)
        self.erred = values.get("erred", 0)
        self.retried = values.get("retried", 0)
        self.bytes = values.get("bytes", 0)
        self.states: Dict[str, int] = dict(values.get("states", ()))
        self.durations: Dict[str, float] = dict(values.get("durations", ()))

    def export_state(self) -> Dict[str, Any]:
        values: Dict[str, Any] = {name: getattr(self, name) for name in NUMBERS}
        return {**values, "states": dict(self.states), "durations": dict(self.durations)}

    def submit(self) -> None:
        self.tasks += 1
        self.states["released"] = self.states.get("released", 0) + 1

    def move(self, start: str, finish: str) -> None:
        states = self.states
        states[start] = states.get(start, 0) - 1
        states[finish] = states.get(finish, 0) + 1
        if finish == "memory":
            self.succeeded += 1

    def compute(self, startstops: Iterable[Mapping[str, Any]]) -> None:
        for startstop in startstops:
            seconds = max(0.0, startstop["stop"] - startstop["start"])
            action = startstop["action"]
            self.durations[action] = self.durations.get(action, 0.0) + seconds

    def describe(self) -> Dict[str, Any]:
        return {
            "states": {s: to_count(n) for s, n in self.states.items() if n > 0 and s in STATES},
            "tasks": to_count(self.tasks),
            "tasks_succeeded": to_count(self.succeeded),
            "tasks_erred": to_count(self.erred),
            "tasks_retried": to_count(self.retried),
            "durations": {
                cut(action, TYPE_LENGTH): to_duration(seconds)
                for action, seconds in list(self.durations.items())[:100]
            },
            "bytes": to_count(self.bytes),
        }


def remainder_of(record: GroupRecord, others: Counts) -> Counts:
    """Returns the remainder of a group after the tasks of other computations."""
    group, remainder = record.group, Counts()
    remainder.tasks = max(0, len(group) - others.tasks)
    remainder.succeeded = max(0, record.succeeded - others.succeeded)
    remainder.erred = max(0, record.erred - others.erred)
    remainder.retried = max(0, record.retried - others.retried)
    remainder.bytes = max(0, group.nbytes_total - others.bytes)
    for state, number in group.states.items():
        remainder.states[state] = max(0, number - others.states.get(state, 0))
    for action, seconds in group.all_durations.items():
        remainder.durations[action] = max(0.0, seconds - others.durations.get(action, 0.0))
    return remainder


class Share:
    """The tasks of one group that belong to one computation."""

    __slots__ = ("computation", "counts", "group", "is_joint", "is_remainder", "recomputable")

    def __init__(
        self, computation: ComputationRecord, group: GroupRecord, is_rest: bool, is_joint: bool
    ):
        self.computation = computation
        self.group = group
        self.is_remainder = is_rest  # True if it is the remainder of the group
        self.is_joint = is_joint  # True if several computations have it jointly
        self.counts = Counts()
        self.recomputable: Set[Any] = set()  # keys of released results, which may be computed again


class Shares:
    """All tasks of groups that several computations use."""

    def __init__(self) -> None:
        self.share_by_key: Dict[Any, Share] = {}  # without those of the remainders
        self._remainders: Dict[GroupRecord, List[Share]] = {}
        self._others: Dict[GroupRecord, Counts] = {}
        self._touched: Dict[Share, None] = {}

    def graph(self, computation: ComputationRecord, record: GroupRecord, tasks: List[Any]) -> None:
        """Records that this computation, which may not be the first, has these tasks of a group."""
        owners = record.owners
        if computation in owners:
            return
        if record not in self._others:
            self._others[record] = Counts()
            is_joint = len(owners) > 1
            remainders = [Share(owner, record, True, is_joint) for owner in owners]
            self._remainders[record] = remainders
            self._touched.update(dict.fromkeys(remainders))
        share = next(
            (s for s in computation.shares if s.group is record and not s.is_remainder), None
        )
        if share is None:
            share = Share(computation, record, False, False)
            computation.shares.append(share)
        self._touched[share] = None
        others = self._others[record]
        for ts in tasks:
            # Other tasks already exist, and belong to the computation that submitted them first.
            if ts.state == "released" and ts.nbytes < 0 and ts.key not in self.share_by_key:
                self.share_by_key[ts.key] = share
                share.counts.submit()
                others.submit()

    def adopt(self, record: GroupRecord) -> None:
        """Records that computations used this group earlier. Their tasks cannot be separated."""
        if len(record.owners) < 2:
            return
        self._others.setdefault(record, Counts())
        remainders = self._remainders.setdefault(record, [])
        known_owners = [share.computation for share in remainders]
        remainders += [
            Share(owner, record, True, True) for owner in record.owners if owner not in known_owners
        ]
        for share in remainders:
            share.is_joint = True
            self._touched[share] = None

    def transition(
        self, share: Share, key: Any, start: str, finish: str, kwargs: Mapping[str, Any]
    ) -> None:
        self._touched[share] = None
        is_again = key in share.recomputable
        if start == "memory" and finish == "released":
            share.recomputable.add(key)
        elif is_again and finish in ("memory", "forgotten"):
            share.recomputable.discard(key)
        for counts in (share.counts, self._others[share.group]):
            counts.move(start, finish)
            if finish == "memory" and start == "processing":
                counts.compute(kwargs.get("startstops") or ())
                if not is_again:
                    counts.bytes += kwargs.get("nbytes") or 0
        if finish == "forgotten":
            del self.share_by_key[key]

    def erred(self, key: Any) -> None:
        self._count(key, "erred")

    def retried(self, key: Any) -> None:
        self._count(key, "retried")

    def _count(self, key: Any, name: str) -> None:
        share = self.share_by_key.get(key)
        if share is not None:
            self._touched[share] = None
            for counts in (share.counts, self._others[share.group]):
                setattr(counts, name, getattr(counts, name) + 1)

    def owner(self, record: GroupRecord, key: Any) -> Optional[ComputationRecord]:
        """Returns the computation that submitted a task of this group; None if unknown."""
        share = self.share_by_key.get(key)
        if share is not None:
            return share.computation
        return record.owners[-1] if record.owners else None

    def read(self, records: Iterable[GroupRecord]) -> List[ComputationRecord]:
        """Describes changes, and returns the computations with changes."""
        changed: Dict[ComputationRecord, None] = {}
        for record in records:
            remainders = self._remainders.get(record)
            if remainders and record.group is not None:
                remainder = remainder_of(record, self._others[record])
                for share in remainders:
                    share.counts = remainder
                    self._touched[share] = None
        touched, self._touched = self._touched, {}
        for share in touched:
            body = {
                "task_group_id": share.group.id,
                "joint": share.is_joint,
                **share.counts.describe(),
            }
            bodies = share.computation.share_bodies
            known_body = bodies.get(share.group.id)
            if body == known_body:
                continue
            if known_body or len(bodies) < SHARES_PER_COMPUTATION:
                bodies[share.group.id] = body
            else:
                share.computation.lacks_shares = True
            changed[share.computation] = None
        return list(changed)

    def forget(self, record: GroupRecord) -> None:
        """Forgets a group of which Dask has forgotten all tasks."""
        self._remainders.pop(record, None)
        self._others.pop(record, None)

    # The handover to a successor.

    def export_state(self) -> Dict[str, Any]:
        shares: Dict[Share, int] = {}
        for remainders in self._remainders.values():
            shares.update((share, 0) for share in remainders)
        shares.update((share, 0) for share in self.share_by_key.values())
        positions = {share: position for position, share in enumerate(shares)}
        return {
            "shares": [
                (
                    share.computation.id,
                    share.computation.body,
                    share.group.group,
                    share.is_remainder,
                    share.is_joint,
                    share.counts.export_state(),
                    list(share.recomputable),
                )
                for share in positions
            ],
            "tasks": {key: positions[share] for key, share in self.share_by_key.items()},
            "others": [(r.group, counts.export_state()) for r, counts in self._others.items()],
        }

    def import_state(
        self,
        inherited: Mapping[str, Any],
        groups: Mapping[Any, GroupRecord],
        computations: Dict[str, ComputationRecord],
    ) -> None:
        self._others = {groups[g]: Counts(own) for g, own in inherited["others"] if g in groups}
        shares: List[Optional[Share]] = []
        for id_, body, group, is_rest, is_joint, counts, recomputable in inherited["shares"]:
            record = groups.get(group)
            if record is None or record not in self._others:
                shares.append(None)
                continue
            if id_ not in computations:
                computations[id_] = ComputationRecord.create_finished(id_, body)
            computation = computations[id_]
            share = Share(computation, record, is_rest, is_joint)
            share.counts, share.recomputable = Counts(counts), set(recomputable)
            shares.append(share)
            if is_rest:
                self._remainders.setdefault(record, []).append(share)
                if computation not in record.owners:
                    record.owners.append(computation)
            else:
                computation.shares.append(share)
        for key, position in inherited["tasks"].items():
            share = shares[position]
            if share is not None:
                self.share_by_key[key] = share

    def catch_up(self, tasks: Mapping[Any, Any]) -> None:
        """Counts the present states of tasks, whose transitions no plugin observed."""
        states: Dict[Share, Dict[str, int]] = {}
        for key, share in list(self.share_by_key.items()):
            ts = tasks.get(key)
            state = "forgotten" if ts is None else ts.state
            current_states = states.setdefault(share, {})
            current_states[state] = current_states.get(state, 0) + 1
            if ts is None:
                del self.share_by_key[key]
        for share, current_states in states.items():
            previous_states = share.counts.states
            # Tasks that were forgotten earlier have no keys any more.
            current_states["forgotten"] = (
                current_states.get("forgotten", 0)
                + share.counts.tasks
                - sum(current_states.values())
            )
            computed = max(0, current_states.get("memory", 0) - previous_states.get("memory", 0))
            others = self._others[share.group]
            for state in {*previous_states, *current_states}:
                change = current_states.get(state, 0) - previous_states.get(state, 0)
                others.states[state] = others.states.get(state, 0) + change
            for counts in (share.counts, others):
                counts.succeeded += computed
            share.counts.states = current_states
            self._touched[share] = None
