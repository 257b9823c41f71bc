"""Tracks the tasks of a scheduler."""

import logging
import operator
import re
from bisect import bisect_left
from itertools import islice
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from distributed.metrics import time

from .errors import class_of_error, describe_error
from .sections import MOST_REPORT_CHARACTERS, SECTIONS, Outbox, Receipt, Record, Report
from .shares import Shares
from .values import NAME_LENGTH, count, cut, uuid7
from .work import NOTHING, ComputationRecord, GroupRecord, sums_of

logger = logging.getLogger("distributed.galvo")

# The bound of tasks whose attempts are remembered until they succeed or fail for good.
MOST_RETRIED_TASKS = 10_000
# The bound of erred tasks remembered as reported. Above it, those no longer erred are removed.
MOST_ERRING_TASKS = 10_000
# Unsent records that are always described anew, and those that are if they recur.
MADE_ANEW = ("spans", "fine_metrics")
MADE_AGAIN = ("computations", "environments", "clients", "thread_history", "code")
# Data that may wait for a plugin with other settings, because it contains no text that these could
# withhold.
FREE_OF_TEXTS = ("basic", "tasks")
# The bound of computation-to-group links that a plugin started late adds by inference.
MOST_ADOPTED_LINKS = 20_000
# The number of groups checked per report without a hook. Data scattered by a client, and sizes
# corrected by a worker, change a group without a transition.
SWEPT_GROUPS = 1000


class Ledger:
    """Tracks what has happened on a scheduler, and which part the server does not know yet.

    Values are cumulative, so reports are not queued: everything that differs from the server's
    known state goes, with its newest values, into the next report. One report is in flight at a
    time: ``build`` takes it out, and ``acknowledge``, ``give_back`` or ``give_up`` settles it.
    """

    def __init__(
        self,
        sequence: int,
        now: Callable[[], float] = time,
        receipt: Optional[Receipt] = None,
    ):
        self.now = now
        self.receipt = Receipt() if receipt is None else receipt
        self.sequence = sequence
        self.base: Optional[int] = None
        self.groups: Dict[Any, GroupRecord] = {}  # by TaskGroup object
        self.computations: Dict[str, ComputationRecord] = {}  # those that may still change
        # TaskGroups that Dask has forgotten, but that are still in unfinished computations.
        self.gone: Set[Any] = set()
        self.touched: Dict[GroupRecord, None] = {}  # to be read before the next report
        self.outboxes = {
            kind: Outbox(section.most_unsent, section.data_class, self.receipt)
            for kind, section in SECTIONS.items()
        }
        self.context: Any = None  # of the collectors; None without any
        self.on_growth: Optional[Callable[[str, Tuple[Any, ...]], None]] = None
        # Called with the prefix of an ended task, None if it failed, and its times.
        self.on_run: List[Callable[[Optional[str], Any], None]] = []
        self.shares = Shares()
        self.retried: Dict[Any, int] = {}  # failed attempts by key of unfinished tasks
        self._retries_left: Dict[Any, int] = {}
        # The computation of each task that was released before it was finished, by key.
        self.undone: Dict[Any, ComputationRecord] = {}
        self._totals = NOTHING
        self.error_count = self.adopted_error_count = 0
        # Keys of tasks reported as erred; Dask may have forgotten them since.
        self._erring: Dict[Any, None] = {}
        self._most_erring = MOST_ERRING_TASKS
        self._inherited: Optional[Mapping[str, Any]] = None  # the state of an earlier plugin
        self._under_way: Optional[Report] = None
        self._unread_code = 0
        self._groups_when_read = 0
        self._round: Iterator[GroupRecord] = iter(())

    # The hooks' methods. A group's values are not read before a report needs them.

    def group(self, group: Any) -> GroupRecord:
        """Returns the record of a TaskGroup, creating it with the present states."""
        record = self.groups.get(group)
        if record is None:
            record = self.groups[group] = GroupRecord(group, self.now())
            self.touched[record] = None
        return record

    def graph(
        self, computation: Any, groups: Iterable[Any], tasks: Optional[Iterable[Any]] = None
    ) -> ComputationRecord:
        """Records that tasks of these TaskGroups joined this Computation; which, if known."""
        known = self.computations.get(str(computation.id))
        if known is None:
            # Dask starts a new computation when all tasks are done, and none of the new tasks has
            # moved yet. At this point the end of the previous computation is visible.
            self._read_shares(self.touched)
            for earlier in list(self.computations.values()):
                earlier.is_latest = False
                self._read_computation(earlier)
            self.outboxes["computations"].enforce_bounds()
            known = ComputationRecord(computation)
            self.computations[known.id] = known
        records = [self.group(group) for group in groups]
        of_groups: Dict[Any, List[Any]] = {}
        for ts in tasks or ():
            of_groups.setdefault(ts.group, []).append(ts)
        for record in records:
            known.link(record)
            if known not in record.owners and (tasks is None or not record.owners):
                record.owners.append(known)
            self.shares.graph(known, record, of_groups.get(record.group, []))
            self.touched[record] = None
        return known

    def adopt(self, scheduler: Any) -> None:
        """Records what already exists. The outcome of tasks released earlier is unknown."""
        inherited, self._inherited = self._inherited or {}, None
        over, erring = set(inherited.get("over", ())), inherited.get("erring", {})
        self.shares.catch_up(scheduler.tasks)
        for computation in list(scheduler.computations):
            if str(computation.id) not in over:
                known = self.graph(computation, self._unlinked(computation))
                erred = any(group.states.get("erred") for group in computation.groups)
                known.erred = known.erred or erred
        groups = [self.group(group) for group in scheduler.task_groups.values()]
        if not inherited:
            self._link_later_computations(scheduler)
        for record in groups:
            self.shares.adopted(record)
        if any(record.group.states.get("erred") for record in groups):
            times = {task.key: task.timestamp for task in getattr(scheduler, "erred_tasks", ())}
            for ts in scheduler.tasks.values():
                if ts.state != "erred":
                    continue
                if ts.key in erring and erring[ts.key] is _exception(ts):
                    self._erring[ts.key] = None
                else:
                    self._adopt_error(ts, times.get(ts.key))
        if not inherited:
            # Work done before this plugin existed belongs to no hour; later work does.
            self.adopted_error_count = self.error_count
            for record in self.groups.values():
                self._count(record, record.describe())

    def _link_later_computations(self, scheduler: Any) -> None:
        """Links computations to groups in which they may have tasks, which Dask does not record.

        Dask assigns a group to the first computation that uses it. A later computation may have
        tasks in it if tasks of the group ended, or are unfinished, after that computation started.
        """
        computations = [self.computations.get(str(c.id)) for c in scheduler.computations]
        known = [computation for computation in computations if computation is not None]
        places = {computation: place for place, computation in enumerate(known)}
        starts = [computation.started_at for computation in known]
        # Dask keeps a bounded number of computations, so a group may be older than all of them.
        is_full = len(known) == getattr(scheduler.computations, "maxlen", None)
        links = 0
        for record in self.groups.values():
            if not record.owners and not is_full:
                continue  # data scattered by a client
            first = places.get(record.owners[0], -1) if record.owners else -1
            last = len(known) if record.is_running() else bisect_left(starts, record.group.stop)
            for computation in known[first + 1 : last]:
                if links >= MOST_ADOPTED_LINKS:
                    return
                links += 1
                computation.link(record)
                record.owners.append(computation)

    def _unlinked(self, computation: Any) -> List[Any]:
        """Returns the TaskGroups of a Computation that are not linked to it yet."""
        known = self.computations.get(str(computation.id))
        reported = set(known.group_ids) if known is not None else ()
        return [
            group
            for group in computation.groups
            if group not in self.gone
            and (group not in self.groups or self.groups[group].id not in reported)
        ]

    def _adopt_error(self, ts: Any, at: Optional[float]) -> None:
        """Records a task that is still "erred" as its transition would have done."""
        kwargs = {}
        if ts.exception_blame in (None, ts):
            names = ("exception", "exception_text", "traceback_text")
            kwargs = {name: getattr(ts, name, None) for name in names}
            kwargs.update(cause=ts.key, worker=next(iter(getattr(ts, "erred_on", ())), None))
        record = self.group(ts.group)
        # Dask keeps the times of recent errors. For others, the group's last computing time is
        # used.
        self.error(record, ts.key, kwargs, at or record.group.stop or self.now())

    def error(
        self, record: GroupRecord, key: Any, kwargs: Mapping[str, Any], at: Optional[float] = None
    ) -> None:
        """Records that a task of this group went to "erred", by its own fault or a dependency's."""
        now = self.now() if at is None else at
        computation = self.shares.owner(record, key)
        if computation is not None:
            computation.erred = True
            computation.stop = max(computation.stop, now)
        self._remember_erred(key)
        retries = self.retried.pop(key, 0)
        if kwargs.get("cause") is None and not kwargs.get("exception_text"):
            record.blamed += 1
            return
        record.erred += 1
        self.shares.erred(key)
        self.error_count += 1
        context = self.context
        with_source = context is None or context.sends("code")
        described = describe_error(kwargs, with_source, self.receipt.types_only)
        worker = described["worker"]
        body = {
            "id": uuid7(),
            "number": None if context is None else context.next_number("errors"),
            "at": now,
            "key": cut(key, NAME_LENGTH),
            "task_group_id": record.id,
            "computation_id": None if computation is None else computation.id,
            **described,
            "retries": retries,
            "span_id": record.span_id(),
            "worker_id": None if context is None or worker is None else context.worker_id(worker),
        }
        error = Record(body["id"], body, settled=True)
        error.data_class = class_of_error(body)
        error.characters = len(body["message"]) + len(body["traceback"]) + len(body["key"])
        self.outboxes["errors"].add(error)
        self.outboxes["errors"].enforce_bounds()

    def _remember_erred(self, key: Any) -> None:
        self._erring[key] = None
        if len(self._erring) > self._most_erring and self.context is not None:
            self._erring = dict.fromkeys(_still_erred(self._erring, self.context.scheduler))
            self._most_erring = max(MOST_ERRING_TASKS, 2 * len(self._erring))

    def processing(self, key: Any, retries_left: int) -> None:
        """Records that a task with retries is processing, if Dask does not report why it ends."""
        self._retries_left[key] = retries_left
        _forget_oldest(self._retries_left)

    def released(self, record: GroupRecord, key: Any, ts: Any, stimulus_id: Any) -> None:
        """Records that a task was released while processing, possibly for a retry."""
        if stimulus_id is None:
            failed = ts.retries < self._retries_left.pop(key, 0)
        else:
            failed = str(stimulus_id).startswith("task-erred-")
        if failed:
            record.retried += 1
            self.shares.retried(key)
            self.retried[key] = self.retried.pop(key, 0) + 1
            _forget_oldest(self.retried)

    def let_go(self, record: GroupRecord, key: Any) -> None:
        """Records that an unfinished task was released, to be retried or to be forgotten."""
        computation = self.shares.owner(record, key)
        # After an error, the tasks that wait for it are released, and may remain for long.
        if computation is not None and not computation.erred:
            self.undone[key] = computation

    def forgotten(self, key: Any, ts: Any) -> None:
        """Records that Dask forgets a task. A task that never finished was cancelled."""
        computation = self.undone.pop(key, None)
        # Dask has no size for a task that never was in memory, and keeps the size otherwise.
        if computation is not None and ts.nbytes < 0:
            computation.cut_short = True
            computation.stop = max(computation.stop, self.now())

    def crowded(self) -> bool:
        """True if there are so many new groups that they should be read before the next report."""
        return len(self.groups) - self._groups_when_read > 1000

    # Building reports.

    def read(self, live: Mapping[str, Any], closed_at: Optional[float] = None) -> None:
        """Reads possible changes. ``live`` are the scheduler's task groups by name."""
        self.look_round(live)
        self.read_touched(live, closed_at)

    def look_round(self, live: Mapping[str, Any]) -> None:
        """Finds groups to read that no hook has reported."""
        groups = self.groups
        for group in [group for group in live.values() if group not in groups]:
            self.group(group)
        swept = list(islice(self._round, SWEPT_GROUPS))
        if len(swept) < SWEPT_GROUPS:
            self._round = iter(list(self.groups.values()))
            swept += islice(self._round, SWEPT_GROUPS - len(swept))
        for record in swept:
            if not record.settled and record.has_changed(live):
                self.touched[record] = None

    def read_touched(self, live: Mapping[str, Any], closed_at: Optional[float] = None) -> None:
        """Reads the groups marked by hooks or by ``look_round``, and the computations."""
        touched, self.touched = self.touched, {}
        # Groups may be removed below, so all dependencies are looked up first.
        for record in touched:
            record.link_dependencies(self.groups)
        for record in touched:
            body = record.describe()
            if body != record.body:
                record.body = body
                self._add_to_totals(record, body)
                self.outboxes["task_groups"].add(record)
            if live.get(record.group.name) is not record.group:
                if any(record.group in c.computation.groups for c in self.computations.values()):
                    self.gone.add(record.group)
                self._read_shares([record])
                self.shares.forget(record)
                del self.groups[record.group]
                record.stop, record.group, record.settled = record.group.stop, None, True
        self._groups_when_read = len(self.groups)
        self._read_shares(touched)
        for computation in list(self.computations.values()):
            self._read_computation(computation, closed_at)
        for outbox in self.outboxes.values():
            outbox.enforce_bounds()

    def _read_shares(self, records: Iterable[GroupRecord]) -> None:
        """Describes changed shares, including those of finished computations."""
        for computation in self.shares.read(records):
            if computation.settled and computation.body is not None:
                shares = computation.describe_shares()
                computation.body = {**computation.body, "task_group_shares": shares}
                self.outboxes["computations"].add(computation)

    def exceeds(self, limits: Mapping[str, int]) -> bool:
        """True if the unsent records do not fit into one report."""
        if sum(box.characters for box in self.outboxes.values()) > MOST_REPORT_CHARACTERS:
            return True
        return any(len(box.records) > limits[kind] for kind, box in self.outboxes.items())

    def build(self, limits: Mapping[str, int]) -> Report:
        """Takes the oldest unsent records out, as the report to send now."""
        self.sequence += 1
        report = self._under_way = Report(self.sequence, self.base)
        free = MOST_REPORT_CHARACTERS
        for kind, outbox in self.outboxes.items():
            # If too much is waiting, each kind still contributes one item.
            report.items[kind] = outbox.take(limits[kind], max(free, 0))
            free -= sum(record.characters for record, _ in report.items[kind])
            report.more = report.more or bool(outbox.records)
        return report

    def acknowledge(self, report: Report, acknowledged: int) -> None:
        """Records the sequence number up to which the server has reports, normally the report's
        own.

        Nothing is kept of records that arrived: a record that changed since is already unsent.
        """
        if acknowledged != report.sequence:
            # The server keeps the newest report, so a report with an old number had no effect.
            self.sequence = max(self.sequence, acknowledged)
            self.give_back(report)
        self.base, self._under_way = acknowledged, None

    def give_back(self, report: Report) -> None:
        """Handles a report with an unknown outcome: its items are the oldest unsent ones again."""
        self._under_way = None
        for kind, taken in report.items.items():
            self.outboxes[kind].give_back(taken)

    def give_up(self, report: Report, pointer: Any = None) -> bool:
        """Handles a report that the server refuses because of the item at this JSON pointer.

        That item is dropped and the rest given back. Without a usable pointer all items are
        dropped. Returns True if the pointer was usable.
        """
        found = re.match(r"/(\w+)/(\d+)(?:/|\Z)", pointer if isinstance(pointer, str) else "")
        refused = report.items
        if found:
            kind, index = found.group(1), int(found.group(2))
            refused = {kind: report.items.get(kind, [])[index : index + 1]}
        usable = bool(found and refused[kind])
        for kind, taken in (refused if usable else report.items).items():
            self.outboxes[kind].give_up(record for record, _ in taken)
        self.give_back(report)
        return usable

    def resend(self) -> None:
        """Handles the loss of the server's store: all known records become unsent."""
        # The next reports have no base, so the server stops asking for a resend once one of them
        # arrives.
        self.base = None
        self.send_again()

    def send_again(self) -> None:
        """Marks all known records that may be sent as unsent."""
        for kind, records in (("task_groups", self.groups), ("computations", self.computations)):
            for record in records.values():
                if record.body is not None:
                    self.outboxes[kind].add(record)

    # The handover to a successor.

    def bequeath(self, scheduler: Any, records: Iterable[Record] = ()) -> Dict[str, Any]:
        """Returns plain values and objects of Dask. The remaining records are created again."""
        if self._under_way is not None:
            self.give_back(self._under_way)
        living = [*self.groups.values(), *self.computations.values(), *records]
        tasks = scheduler.tasks
        return {
            "sequence": self.sequence,
            "base": self.base,
            "totals": self._totals,
            "error_count": self.error_count,
            "adopted_error_count": self.adopted_error_count,
            "groups": {group: record.bequeath() for group, record in self.groups.items()},
            "gone": list(self.gone),
            "computations": [(c.computation, c.bequeath()) for c in self.computations.values()],
            "shares": self.shares.bequeath(),
            "over": self._over(scheduler),
            "erring": {
                key: _exception(tasks[key]) for key in _still_erred(self._erring, scheduler)
            },
            "retried": dict(self.retried),
            "retries_left": dict(self._retries_left),
            "unsent": {
                kind: outbox.bequeath()
                for kind, outbox in self.outboxes.items()
                if kind not in MADE_ANEW
            },
            "dropped": {kind: outbox.dropped for kind, outbox in self.outboxes.items()},
            "receipt": self.receipt.bequeath(living),
        }

    def _over(self, scheduler: Any) -> List[str]:
        """Returns Dask's computations that were reported as finished: earlier ones no longer
        tracked.
        """
        ids = [str(computation.id) for computation in scheduler.computations]
        latest = next((c.id for c in self.computations.values() if c.is_latest), None)
        # Those after the latest tracked one were added while no plugin listened.
        known = ids[: ids.index(latest)] if latest in ids else []
        return [id_ for id_ in known if id_ not in self.computations]

    def inherit(self, inherited: Mapping[str, Any], has_same_settings: bool = True) -> None:
        """Continues from an exported state. Call it before ``adopt``."""
        self.sequence, self.base = max(self.sequence, inherited["sequence"]), inherited["base"]
        self._totals = sums_of(inherited["totals"])
        self.error_count = inherited["error_count"]
        self.adopted_error_count = inherited["adopted_error_count"]
        self.retried, self._retries_left = (
            dict(inherited["retried"]),
            dict(inherited["retries_left"]),
        )
        self.gone = set(inherited["gone"])
        self.receipt.inherit(inherited["receipt"])
        for group, own in inherited["groups"].items():
            record = self.groups[group] = GroupRecord(group, self.now(), own["id"])
            record.inherit(own)
            self.touched[record] = None
        for computation, own in inherited["computations"]:
            for earlier in self.computations.values():
                earlier.is_latest = False
            known = ComputationRecord(computation)
            known.inherit(own, self.groups)
            self.computations[known.id] = known
        past: Dict[str, ComputationRecord] = {}
        for group, own in inherited["groups"].items():
            id_ = own["computation_id"]
            if id_ is not None:
                known = self.computations.get(id_) or past.get(id_)
                if known is None:
                    body = own.get("computation_body")
                    known = past[id_] = ComputationRecord.past(id_, body)
                self.groups[group].owners.append(known)
        if "shares" in inherited:
            self.shares.inherit(inherited["shares"], self.groups, {**past, **self.computations})
        self._inherit_unsent(inherited, has_same_settings)
        self._inherited = inherited

    def _inherit_unsent(self, inherited: Mapping[str, Any], has_same_settings: bool) -> None:
        for kind, outbox in self.outboxes.items():
            outbox.dropped += inherited["dropped"].get(kind, 0)
            items = inherited["unsent"].get(kind, ())
            if has_same_settings or outbox.data_class in FREE_OF_TEXTS:
                if kind == "computations" and not self.receipt.sends("code"):
                    items = [(id_, {**body, "code": []}, *rest) for id_, body, *rest in items]
                outbox.inherit(items, kind in MADE_AGAIN)

    def totals(self) -> Dict[str, Any]:
        """Returns the sums over all groups ever seen, as of their last reading."""
        tasks, succeeded, erred, compute, transfer, nbytes, _ = self._totals
        return {
            "tasks": count(tasks),
            "tasks_succeeded": count(succeeded),
            "tasks_erred": count(erred),
            "errors": count(self.error_count),
            "compute_seconds": compute,
            "transfer_seconds": transfer,
            "bytes": count(nbytes),
        }

    def _add_to_totals(self, record: GroupRecord, body: Mapping[str, Any]) -> None:
        added = self._count(record, body)
        if self.on_growth is not None and any(added):
            self.on_growth(record.prefix, added)

    def _count(self, record: GroupRecord, body: Mapping[str, Any]) -> Tuple[Any, ...]:
        """Adds to the totals; returns the increase."""
        # Only the increase over a group's maximum is added, so that totals never decrease.
        durations = body["durations"]
        values = (
            body["tasks"], body["tasks_succeeded"], body["tasks_erred"],
            durations.get("compute", 0.0), durations.get("transfer", 0.0), body["bytes"],
            body["tasks_retried"],
        )  # fmt: skip
        highest: Any = tuple(map(max, values, record.counted))
        added = tuple(map(operator.sub, highest, record.counted))
        self._totals, record.counted = tuple(map(operator.add, self._totals, added)), highest
        return added

    def _read_computation(
        self, computation: ComputationRecord, closed_at: Optional[float] = None
    ) -> None:
        if self.context is not None:
            try:
                computation.read_code(self.context)
            except Exception:
                if not self._unread_code:
                    logger.warning("Galvo could not read code; this is said once", exc_info=True)
                self._unread_code += 1
        body = computation.describe(self.now(), closed_at)
        if body != computation.body:
            computation.body = body
            self.outboxes["computations"].add(computation)
        if not computation.is_latest and body["state"] != "running":
            del self.computations[computation.id]
            self.gone.difference_update(computation.computation.groups)
            computation.settled, computation.computation = True, None
            computation.groups.clear()


def _exception(ts: Any) -> Any:
    """Returns a value that distinguishes one error of a task from the next."""
    blamed = getattr(ts, "exception_blame", None) or ts
    return getattr(blamed, "exception", None)


def thin_out(state: Dict[str, Any], scheduler: Any) -> None:
    """Removes exported state that Dask itself has forgotten."""
    computations = list(scheduler.computations)
    held = set(scheduler.task_groups.values()).union(*(c.groups for c in computations))
    state["groups"] = {group: own for group, own in state["groups"].items() if group in held}
    state["gone"] = [group for group in state["gone"] if group in held]
    state["computations"] = [item for item in state["computations"] if item[0] in computations]
    for _, own in state["computations"]:
        own["groups"] = [group for group in own["groups"] if group in held]
    erring = state["erring"]
    state["erring"] = {key: erring[key] for key in _still_erred(erring, scheduler)}


def _still_erred(keys: Iterable[Any], scheduler: Any) -> List[Any]:
    """Returns the keys of tasks that are still erred."""
    tasks = scheduler.tasks
    return [key for key in keys if key in tasks and tasks[key].state == "erred"]


def _forget_oldest(remembered: Dict[Any, int]) -> None:
    if len(remembered) > MOST_RETRIED_TASKS:
        del remembered[next(iter(remembered))]
