"""What has happened to the tasks of a scheduler."""

import logging
import operator
import re
from itertools import islice
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from distributed.metrics import time

from .errors import describe_error
from .sections import MOST_REPORT_CHARACTERS, SECTIONS, Outbox, Receipt, Record, Report
from .values import NAME_LENGTH, count, cut, uuid7
from .work import NOTHING, ComputationRecord, GroupRecord, sums_of

logger = logging.getLogger("distributed.galvo")

# Tasks whose attempts are remembered until they succeed or fail for good.
MOST_RETRIED_TASKS = 10_000
# Erred tasks that are known to have been told, before those that erred no more are let go.
MOST_ERRING_TASKS = 10_000
# Of what waits to be sent, what is described anew in any case, and what is if it is met again.
MADE_ANEW = ("spans", "fine_metrics")
MADE_AGAIN = ("environments", "clients", "thread_history", "code")
# What may wait for a plugin with other settings: it holds no texts that these could keep back.
FREE_OF_TEXTS = ("basic", "tasks")
# Groups looked at per report although no hook mentioned them: data scattered by a client and
# sizes that a worker corrects change a group without a transition.
SWEPT_GROUPS = 1000


class Ledger:
    """What has happened on a scheduler, and which of it the server does not know yet.

    Values are cumulative, so no report is queued: whatever differs from what the server is known
    to have goes, with its newest values, into the next one. There is one report under way at a
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
        # TaskGroups that Dask has forgotten, but still has in computations that are not over.
        self.gone: Set[Any] = set()
        self.touched: Dict[GroupRecord, None] = {}  # to be read before the next report
        self.outboxes = {
            kind: Outbox(section.most_unsent, section.data_class, self.receipt)
            for kind, section in SECTIONS.items()
        }
        self.context: Any = None  # of the collectors, where there are any
        self.on_growth: Optional[Callable[[str, Tuple[Any, ...]], None]] = None
        self.retried: Dict[Any, int] = {}  # failed attempts by key of tasks not yet done
        self._retries_left: Dict[Any, int] = {}
        # By key of tasks that were let go of before they were done, the computation of that time.
        self.undone: Dict[Any, ComputationRecord] = {}
        self._totals = NOTHING
        self.error_count = self.adopted_error_count = 0
        # Keys of tasks that were told to have erred, and may have been forgotten since.
        self._erring: Dict[Any, None] = {}
        self._most_erring = MOST_ERRING_TASKS
        self._told: Optional[Mapping[str, Any]] = None  # by a plugin before
        self._under_way: Optional[Report] = None
        self._unread_code = 0
        self._groups_when_read = 0
        self._round: Iterator[GroupRecord] = iter(())

    # What the hooks record. Reading a group's values waits until a report needs them.

    def group(self, group: Any) -> GroupRecord:
        """The record of a TaskGroup, which is begun with the states it has now."""
        record = self.groups.get(group)
        if record is None:
            record = self.groups[group] = GroupRecord(group, self.now())
            self.touched[record] = None
        return record

    def graph(self, computation: Any, groups: Iterable[Any]) -> ComputationRecord:
        """Tasks of these TaskGroups have been added to this Computation."""
        known = self.computations.get(str(computation.id))
        if known is None:
            # Dask begins another one when all tasks are done, and none of the new ones has
            # moved yet: this is when the end of the one before can be seen.
            for earlier in list(self.computations.values()):
                earlier.is_latest = False
                self._read_computation(earlier)
            self.outboxes["computations"].enforce_bounds()
            known = ComputationRecord(computation)
            self.computations[known.id] = known
        records = [self.group(group) for group in groups]
        for record in records:
            known.link(record)
            self.touched[record] = None
        return known

    def adopt(self, scheduler: Any) -> None:
        """Records what there is already. Of tasks released before now no outcome is known."""
        told, self._told = self._told or {}, None
        over, erring = set(told.get("over", ())), told.get("erring", {})
        for computation in list(scheduler.computations):
            if str(computation.id) not in over:
                known = self.graph(computation, self._unlinked(computation))
                erred = any(group.states.get("erred") for group in computation.groups)
                known.erred = known.erred or erred
        groups = [self.group(group) for group in scheduler.task_groups.values()]
        if any(record.group.states.get("erred") for record in groups):
            times = {task.key: task.timestamp for task in getattr(scheduler, "erred_tasks", ())}
            for ts in scheduler.tasks.values():
                if ts.state != "erred":
                    continue
                if ts.key in erring and erring[ts.key] is _exception(ts):
                    self._erring[ts.key] = None
                else:
                    self._adopt_error(ts, times.get(ts.key))
        if not told:
            # What was done before nobody told, so it is of no hour; what is done from here on is.
            self.adopted_error_count = self.error_count
            for record in self.groups.values():
                self._count(record, record.describe())

    def _unlinked(self, computation: Any) -> List[Any]:
        """The TaskGroups of a Computation that it was not told to have."""
        known = self.computations.get(str(computation.id))
        told = set(known.group_ids) if known is not None else ()
        return [
            group
            for group in computation.groups
            if group not in self.gone
            and (group not in self.groups or self.groups[group].id not in told)
        ]

    def _adopt_error(self, ts: Any, at: Optional[float]) -> None:
        """A task that is still "erred", as its transition would have told it."""
        kwargs = {}
        if ts.exception_blame in (None, ts):
            names = ("exception", "exception_text", "traceback_text")
            kwargs = {name: getattr(ts, name, None) for name in names}
            kwargs.update(cause=ts.key, worker=next(iter(getattr(ts, "erred_on", ())), None))
        record = self.group(ts.group)
        # Dask keeps the time of the latest ones; of others, when the group was last computing.
        self.error(record, ts.key, kwargs, at or record.group.stop or self.now())

    def error(
        self, record: GroupRecord, key: Any, kwargs: Mapping[str, Any], at: Optional[float] = None
    ) -> None:
        """A task of this group went to "erred", by its own fault or by that of a dependency."""
        now, computation = self.now() if at is None else at, record.computation
        if computation is not None:
            computation.erred = True
            computation.stop = max(computation.stop, now)
        self._remember_erred(key)
        retries = self.retried.pop(key, 0)
        if kwargs.get("cause") is None and not kwargs.get("exception_text"):
            record.blamed += 1
            return
        record.erred += 1
        self.error_count += 1
        context = self.context
        described = describe_error(kwargs, context is None or context.sends("code"))
        worker = described["worker"]
        body = {
            "id": uuid7(),
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
        error.data_class = body["origin"] + "_errors"
        error.characters = len(body["message"]) + len(body["traceback"]) + len(body["key"])
        self.outboxes["errors"].add(error)
        self.outboxes["errors"].enforce_bounds()

    def _remember_erred(self, key: Any) -> None:
        self._erring[key] = None
        if len(self._erring) > self._most_erring and self.context is not None:
            self._erring = dict.fromkeys(_still_erred(self._erring, self.context.scheduler))
            self._most_erring = max(MOST_ERRING_TASKS, 2 * len(self._erring))

    def processing(self, key: Any, retries_left: int) -> None:
        """A task that may be retried is being processed, and Dask does not tell why it ends."""
        self._retries_left[key] = retries_left
        _forget_oldest(self._retries_left)

    def released(self, record: GroupRecord, key: Any, ts: Any, stimulus_id: Any) -> None:
        """A task was released while it was processed; that may be for the sake of a retry."""
        if stimulus_id is None:
            failed = ts.retries < self._retries_left.pop(key, 0)
        else:
            failed = str(stimulus_id).startswith("task-erred-")
        if failed:
            record.retried += 1
            self.retried[key] = self.retried.pop(key, 0) + 1
            _forget_oldest(self.retried)

    def let_go(self, record: GroupRecord, key: Any) -> None:
        """A task that was to be done was released: to be tried again, or to be forgotten."""
        computation = record.computation
        # Where one has erred, those that wait with it are released, and may stay for long.
        if computation is not None and not computation.erred:
            self.undone[key] = computation

    def forgotten(self, key: Any, ts: Any) -> None:
        """Dask forgets a task. If it was never done by then, it was given up."""
        computation = self.undone.pop(key, None)
        # Dask knows no size of what never was in memory, and keeps that of what once was.
        if computation is not None and ts.nbytes < 0:
            computation.cut_short = True
            computation.stop = max(computation.stop, self.now())

    def crowded(self) -> bool:
        """Whether so many groups are new that they should be read without waiting for a report."""
        return len(self.groups) - self._groups_when_read > 1000

    # What reports are made of.

    def read(self, live: Mapping[str, Any], closed_at: Optional[float] = None) -> None:
        """Reads what may have changed. ``live`` are the scheduler's task groups by name."""
        self.look_round(live)
        self.read_touched(live, closed_at)

    def look_round(self, live: Mapping[str, Any]) -> None:
        """Finds groups to be read that no hook has told of."""
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
        """Reads groups that hooks or a look round have told of, and computations."""
        touched, self.touched = self.touched, {}
        # Groups may leave below, so all dependencies are looked up first.
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
                del self.groups[record.group]
                record.stop, record.group, record.settled = record.group.stop, None, True
        self._groups_when_read = len(self.groups)
        for computation in list(self.computations.values()):
            self._read_computation(computation, closed_at)
        for outbox in self.outboxes.values():
            outbox.enforce_bounds()

    def exceeds(self, limits: Mapping[str, int]) -> bool:
        """Whether not all that is unsent fits into one report."""
        if sum(box.characters for box in self.outboxes.values()) > MOST_REPORT_CHARACTERS:
            return True
        return any(len(box.records) > limits[kind] for kind, box in self.outboxes.items())

    def build(self, limits: Mapping[str, int]) -> Report:
        """Takes the oldest of what is unsent out, as the report to send now."""
        self.sequence += 1
        report = self._under_way = Report(self.sequence, self.base)
        free = MOST_REPORT_CHARACTERS
        for kind, outbox in self.outboxes.items():
            # Where too much is waiting, one item of each kind goes in any case.
            report.items[kind] = outbox.take(limits[kind], max(free, 0))
            free -= sum(record.characters for record, _ in report.items[kind])
            report.more = report.more or bool(outbox.records)
        return report

    def acknowledge(self, report: Report, acknowledged: int) -> None:
        """The server has said up to which sequence it knows; normally that is the report's own.

        Nothing needs to be kept of what arrived: a record that changed since is unsent already.
        """
        if acknowledged != report.sequence:
            # The server keeps the newest, so what it numbers as old has changed nothing there.
            self.sequence = max(self.sequence, acknowledged)
            self.give_back(report)
        self.base, self._under_way = acknowledged, None

    def give_back(self, report: Report) -> None:
        """The report is not known to have arrived: its items are the oldest unsent ones again."""
        self._under_way = None
        for kind, taken in report.items.items():
            self.outboxes[kind].give_back(taken)

    def give_up(self, report: Report, pointer: Any = None) -> bool:
        """The server refuses the report because of the item at this JSON pointer.

        That item is dropped and the rest given back; without a usable pointer all are dropped.
        Returns whether the pointer was usable.
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
        """The server has lost what it once acknowledged: all that is still known is unsent."""
        # The next reports stand on nothing, which ends the server's wish once one of them arrives.
        self.base = None
        self.send_again()

    def send_again(self) -> None:
        """All that is still known, and may be sent, is unsent."""
        for kind, records in (("task_groups", self.groups), ("computations", self.computations)):
            for record in records.values():
                if record.body is not None:
                    self.outboxes[kind].add(record)

    # What is told to a plugin that comes after this one.

    def bequeath(self, scheduler: Any, records: Iterable[Record] = ()) -> Dict[str, Any]:
        """Plain values, and objects of Dask's. The rest of the records are made again."""
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
        """Which of Dask's computations were told to be over: earlier ones that are not kept."""
        ids = [str(computation.id) for computation in scheduler.computations]
        latest = next((c.id for c in self.computations.values() if c.is_latest), None)
        # Those behind the latest one have come while nobody listened.
        known = ids[: ids.index(latest)] if latest in ids else []
        return [id_ for id_ in known if id_ not in self.computations]

    def inherit(self, told: Mapping[str, Any], has_same_settings: bool = True) -> None:
        """Goes on from what was bequeathed; to be called before ``adopt``."""
        self.sequence, self.base = max(self.sequence, told["sequence"]), told["base"]
        self._totals = sums_of(told["totals"])
        self.error_count = told["error_count"]
        self.adopted_error_count = told["adopted_error_count"]
        self.retried, self._retries_left = dict(told["retried"]), dict(told["retries_left"])
        self.gone = set(told["gone"])
        self.receipt.inherit(told["receipt"])
        for group, own in told["groups"].items():
            record = self.groups[group] = GroupRecord(group, self.now(), own["id"])
            record.inherit(own)
            self.touched[record] = None
        for computation, own in told["computations"]:
            for earlier in self.computations.values():
                earlier.is_latest = False
            known = ComputationRecord(computation)
            known.inherit(own, self.groups)
            self.computations[known.id] = known
        past: Dict[str, ComputationRecord] = {}
        for group, own in told["groups"].items():
            id_ = own["computation_id"]
            if id_ is not None:
                known = self.computations.get(id_) or past.setdefault(
                    id_, ComputationRecord.past(id_)
                )
                self.groups[group].computation = known
        self._inherit_unsent(told, has_same_settings)
        self._told = told

    def _inherit_unsent(self, told: Mapping[str, Any], has_same_settings: bool) -> None:
        for kind, outbox in self.outboxes.items():
            outbox.dropped += told["dropped"].get(kind, 0)
            items = told["unsent"].get(kind, ())
            if has_same_settings or outbox.data_class in FREE_OF_TEXTS:
                if kind == "computations" and not self.receipt.sends("code"):
                    items = [(id_, {**body, "code": []}, *rest) for id_, body, *rest in items]
                outbox.inherit(items, kind in MADE_AGAIN)

    def totals(self) -> Dict[str, Any]:
        """Sums over all groups ever seen, as they were when they were last read."""
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
        """Adds to the totals; returns by how much they have grown."""
        # Only what a group has more than ever before is added, so that totals never fall.
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
    """Tells one error of a task from the next one."""
    blamed = getattr(ts, "exception_blame", None) or ts
    return getattr(blamed, "exception", None)


def thin_out(told: Dict[str, Any], scheduler: Any) -> None:
    """Lets go of what was bequeathed and Dask itself has forgotten."""
    computations = list(scheduler.computations)
    held = set(scheduler.task_groups.values()).union(*(c.groups for c in computations))
    told["groups"] = {group: own for group, own in told["groups"].items() if group in held}
    told["gone"] = [group for group in told["gone"] if group in held]
    told["computations"] = [item for item in told["computations"] if item[0] in computations]
    for _, own in told["computations"]:
        own["groups"] = [group for group in own["groups"] if group in held]
    erring = told["erring"]
    told["erring"] = {key: erring[key] for key in _still_erred(erring, scheduler)}


def _still_erred(keys: Iterable[Any], scheduler: Any) -> List[Any]:
    """The keys of tasks that Dask still has in this state."""
    tasks = scheduler.tasks
    return [key for key in keys if key in tasks and tasks[key].state == "erred"]


def _forget_oldest(remembered: Dict[Any, int]) -> None:
    if len(remembered) > MOST_RETRIED_TASKS:
        del remembered[next(iter(remembered))]
