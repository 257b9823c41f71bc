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
from .values import NAME_LENGTH, cut, to_count, uuid7
from .work import NO_TOTALS, ComputationRecord, GroupRecord, sums_of

logger = logging.getLogger("distributed.galvo")

# The bound of tasks whose attempts are remembered until they succeed or fail for good.
MOST_RETRIED_TASKS = 10_000
# The bound of erred tasks remembered as reported. Above it, those no longer erred are removed.
MOST_ERRING_TASKS = 10_000
# The kinds of unsent records that a successor describes itself: always, or if they still exist.
ALWAYS_RECREATED = ("spans", "fine_metrics")
RECREATED_IF_RECURRING = ("computations", "environments", "clients", "thread_history", "code")
# Data that may wait for a plugin with other settings, because it contains no text that these could
# withhold.
CLASSES_WITHOUT_TEXT = ("basic", "tasks")
# The bound of computation-to-group links that a plugin started late adds by inference.
MOST_ADOPTED_LINKS = 20_000
# The number of groups checked per report without a hook. Data scattered by a client, and sizes
# corrected by a worker, change a group without a transition.
SWEPT_GROUPS = 1000


class Ledger:
    """Tracks what has happened on a scheduler, and which part the server does not know yet.

    Values are cumulative, so reports are not queued: everything that differs from the server's
    known state goes, with its newest values, into the next report. One report is in flight at a
    time: ``build`` takes it out, and ``acknowledge``, ``put_back`` or ``drop`` settles it.
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
        self.forgotten_groups: Set[Any] = set()
        self.groups_to_read: Dict[GroupRecord, None] = {}  # to be read before the next report
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
        self.released_tasks: Dict[Any, ComputationRecord] = {}
        self._totals = NO_TOTALS
        self.error_count = self.adopted_error_count = 0
        # Keys of tasks reported as erred; Dask may have forgotten them since.
        self._reported_errors: Dict[Any, None] = {}
        self._most_erring = MOST_ERRING_TASKS
        self._inherited: Optional[Mapping[str, Any]] = None  # the state of an earlier plugin
        self._report_in_flight: Optional[Report] = None
        self._code_failures = 0
        self._groups_at_last_read = 0
        self._sweep: Iterator[GroupRecord] = iter(())

    # The hooks' methods. A group's values are not read before a report needs them.

    def group(self, group: Any) -> GroupRecord:
        """Returns the record of a TaskGroup, creating it with the present states."""
        record = self.groups.get(group)
        if record is None:
            record = self.groups[group] = GroupRecord(group, self.now())
            self.groups_to_read[record] = None
        return record

    def graph(
        self, computation: Any, groups: Iterable[Any], tasks: Optional[Iterable[Any]] = None
    ) -> ComputationRecord:
        """Records that tasks of these TaskGroups, these ones if known, joined this Computation."""
        record_of_computation = self.computations.get(str(computation.id))
        if record_of_computation is None:
            # Dask starts a new computation when all tasks are done, and none of the new tasks has
            # moved yet. At this point the end of the previous computation is visible.
            self._read_shares(self.groups_to_read)
            for earlier in list(self.computations.values()):
                earlier.is_latest = False
                self._read_computation(earlier)
            self.outboxes["computations"].enforce_bounds()
            record_of_computation = ComputationRecord(computation)
            self.computations[record_of_computation.id] = record_of_computation
        records = [self.group(group) for group in groups]
        tasks_by_group: Dict[Any, List[Any]] = {}
        for ts in tasks or ():
            tasks_by_group.setdefault(ts.group, []).append(ts)
        for record in records:
            record_of_computation.link(record)
            if record_of_computation not in record.owners and (tasks is None or not record.owners):
                record.owners.append(record_of_computation)
            self.shares.graph(record_of_computation, record, tasks_by_group.get(record.group, []))
            self.groups_to_read[record] = None
        return record_of_computation

    def adopt(self, scheduler: Any) -> None:
        """Records what already exists. The outcome of tasks released earlier is unknown."""
        inherited, self._inherited = self._inherited or {}, None
        finished, reported_errors = set(inherited.get("over", ())), inherited.get("erring", {})
        self.shares.catch_up(scheduler.tasks)
        for computation in list(scheduler.computations):
            if str(computation.id) not in finished:
                record_of_computation = self.graph(computation, self._unlinked(computation))
                erred = any(group.states.get("erred") for group in computation.groups)
                record_of_computation.erred = record_of_computation.erred or erred
        groups = [self.group(group) for group in scheduler.task_groups.values()]
        if not inherited:
            self._link_later_computations(scheduler)
        for record in groups:
            self.shares.adopt(record)
        if any(record.group.states.get("erred") for record in groups):
            times = {task.key: task.timestamp for task in getattr(scheduler, "erred_tasks", ())}
            for ts in scheduler.tasks.values():
                if ts.state != "erred":
                    continue
                if ts.key in reported_errors and reported_errors[ts.key] is _error_identity(ts):
                    self._reported_errors[ts.key] = None
                else:
                    self._adopt_error(ts, times.get(ts.key))
        if not inherited:
            # Work done before this plugin existed is counted in no hour.
            self.adopted_error_count = self.error_count
            for record in self.groups.values():
                self._add_growth(record, record.describe())

    def _link_later_computations(self, scheduler: Any) -> None:
        """Links computations to groups in which they may have tasks, which Dask does not record.

        Dask assigns a group to the first computation that uses it. A later computation may have
        tasks in it if tasks of the group ended, or are unfinished, after that computation started.
        """
        computations = [self.computations.get(str(c.id)) for c in scheduler.computations]
        known_computations = [
            computation for computation in computations if computation is not None
        ]
        positions = {
            computation: position for position, computation in enumerate(known_computations)
        }
        starts = [computation.started_at for computation in known_computations]
        # Dask keeps a bounded number of computations, so a group may be older than all of them.
        is_full = len(known_computations) == getattr(scheduler.computations, "maxlen", None)
        links = 0
        for record in self.groups.values():
            if not record.owners and not is_full:
                continue  # data scattered by a client
            first = positions.get(record.owners[0], -1) if record.owners else -1
            last = (
                len(known_computations)
                if record.is_running()
                else bisect_left(starts, record.group.stop)
            )
            for computation in known_computations[first + 1 : last]:
                if links >= MOST_ADOPTED_LINKS:
                    return
                links += 1
                computation.link(record)
                record.owners.append(computation)

    def _unlinked(self, computation: Any) -> List[Any]:
        """Returns the TaskGroups of a Computation that are not linked to it yet."""
        record_of_computation = self.computations.get(str(computation.id))
        reported = set(record_of_computation.group_ids) if record_of_computation is not None else ()
        return [
            group
            for group in computation.groups
            if group not in self.forgotten_groups
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
        self._reported_errors[key] = None
        if len(self._reported_errors) > self._most_erring and self.context is not None:
            self._reported_errors = dict.fromkeys(
                _find_still_erred(self._reported_errors, self.context.scheduler)
            )
            self._most_erring = max(MOST_ERRING_TASKS, 2 * len(self._reported_errors))

    def note_processing(self, key: Any, retries_left: int) -> None:
        """Records that a task with retries is processing, if Dask does not report why it ends."""
        self._retries_left[key] = retries_left
        _forget_oldest(self._retries_left)

    def note_release(self, record: GroupRecord, key: Any, ts: Any, stimulus_id: Any) -> None:
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

    def note_unfinished_release(self, record: GroupRecord, key: Any) -> None:
        """Records that an unfinished task was released, to be retried or to be forgotten."""
        computation = self.shares.owner(record, key)
        # After an error, the tasks that wait for it are released, and may remain for long.
        if computation is not None and not computation.erred:
            self.released_tasks[key] = computation

    def note_forgotten(self, key: Any, ts: Any) -> None:
        """Records that Dask forgets a task. A task that never finished was cancelled."""
        computation = self.released_tasks.pop(key, None)
        # Dask has no size for a task that never was in memory, and keeps the size otherwise.
        if computation is not None and ts.nbytes < 0:
            computation.cut_short = True
            computation.stop = max(computation.stop, self.now())

    def has_many_new_groups(self) -> bool:
        """True if there are so many new groups that they should be read before the next report."""
        return len(self.groups) - self._groups_at_last_read > 1000

    # Building reports.

    def read(self, live: Mapping[str, Any], closed_at: Optional[float] = None) -> None:
        """Reads possible changes. ``live`` are the scheduler's task groups by name."""
        self.find_changed_groups(live)
        self.read_marked_groups(live, closed_at)

    def find_changed_groups(self, live: Mapping[str, Any]) -> None:
        """Finds groups to read that no hook has reported."""
        groups = self.groups
        for group in [group for group in live.values() if group not in groups]:
            self.group(group)
        candidates = list(islice(self._sweep, SWEPT_GROUPS))
        if len(candidates) < SWEPT_GROUPS:
            self._sweep = iter(list(self.groups.values()))
            candidates += islice(self._sweep, SWEPT_GROUPS - len(candidates))
        for record in candidates:
            if not record.settled and record.has_changed(live):
                self.groups_to_read[record] = None

    def read_marked_groups(
        self, live: Mapping[str, Any], closed_at: Optional[float] = None
    ) -> None:
        """Reads the groups marked by hooks or by ``find_changed_groups``, and the computations."""
        records, self.groups_to_read = self.groups_to_read, {}
        # Groups may be removed below, so all dependencies are looked up first.
        for record in records:
            record.link_dependencies(self.groups)
        for record in records:
            body = record.describe()
            if body != record.body:
                record.body = body
                self._add_to_totals(record, body)
                self.outboxes["task_groups"].add(record)
            if live.get(record.group.name) is not record.group:
                if any(record.group in c.computation.groups for c in self.computations.values()):
                    self.forgotten_groups.add(record.group)
                self._read_shares([record])
                self.shares.forget(record)
                del self.groups[record.group]
                record.stop, record.group, record.settled = record.group.stop, None, True
        self._groups_at_last_read = len(self.groups)
        self._read_shares(records)
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
        report = self._report_in_flight = Report(self.sequence, self.base)
        free = MOST_REPORT_CHARACTERS
        for kind, outbox in self.outboxes.items():
            # If too much is waiting, each kind still contributes one item.
            report.items[kind] = outbox.take(limits[kind], max(free, 0))
            free -= sum(record.characters for record, _ in report.items[kind])
            report.has_more = report.has_more or bool(outbox.records)
        return report

    def acknowledge(self, report: Report, acknowledged: int) -> None:
        """Records the sequence number up to which the server has reports, normally the report's
        own.

        Nothing is kept of records that arrived: a record that changed since is already unsent.
        """
        if acknowledged != report.sequence:
            # The server keeps the newest report, so a report with an old number had no effect.
            self.sequence = max(self.sequence, acknowledged)
            self.put_back(report)
        self.base, self._report_in_flight = acknowledged, None

    def put_back(self, report: Report) -> None:
        """Handles a report with an unknown outcome: its items are the oldest unsent ones again."""
        self._report_in_flight = None
        for kind, items in report.items.items():
            self.outboxes[kind].put_back(items)

    def drop(self, report: Report, pointer: Any = None) -> bool:
        """Handles a report that the server refuses because of the item at this JSON pointer.

        That item is dropped and the rest is put back. Without a usable pointer all items are
        dropped. Returns True if the pointer was usable.
        """
        match = re.match(r"/(\w+)/(\d+)(?:/|\Z)", pointer if isinstance(pointer, str) else "")
        refused = report.items
        if match:
            kind, index = match.group(1), int(match.group(2))
            refused = {kind: report.items.get(kind, [])[index : index + 1]}
        is_usable = bool(match and refused[kind])
        for kind, items in (refused if is_usable else report.items).items():
            self.outboxes[kind].drop(record for record, _ in items)
        self.put_back(report)
        return is_usable

    def resend(self) -> None:
        """Handles the loss of the server's store: all known records become unsent."""
        # The next reports have no base, so the server stops requesting a resend once one of them
        # arrives.
        self.base = None
        self.send_again()

    def send_again(self) -> None:
        """Marks all known records that may be sent as unsent."""
        for kind, records in (("task_groups", self.groups), ("computations", self.computations)):
            for record in records.values():
                if record.body is not None:
                    self.outboxes[kind].add(record)

    # The handover to the plugin that replaces this one, its successor.

    def export_state(self, scheduler: Any, records: Iterable[Record] = ()) -> Dict[str, Any]:
        """Returns plain values and objects of Dask. The remaining records are created again."""
        if self._report_in_flight is not None:
            self.put_back(self._report_in_flight)
        live_records = [*self.groups.values(), *self.computations.values(), *records]
        tasks = scheduler.tasks
        return {
            "sequence": self.sequence,
            "base": self.base,
            "totals": self._totals,
            "error_count": self.error_count,
            "adopted_error_count": self.adopted_error_count,
            "groups": {group: record.export_state() for group, record in self.groups.items()},
            "gone": list(self.forgotten_groups),
            "computations": [(c.computation, c.export_state()) for c in self.computations.values()],
            "shares": self.shares.export_state(),
            "over": self._finished_ids(scheduler),
            "erring": {
                key: _error_identity(tasks[key])
                for key in _find_still_erred(self._reported_errors, scheduler)
            },
            "retried": dict(self.retried),
            "retries_left": dict(self._retries_left),
            "unsent": {
                kind: outbox.export_state()
                for kind, outbox in self.outboxes.items()
                if kind not in ALWAYS_RECREATED
            },
            "dropped": {kind: outbox.dropped for kind, outbox in self.outboxes.items()},
            "receipt": self.receipt.export_state(live_records),
        }

    def _finished_ids(self, scheduler: Any) -> List[str]:
        """Returns the ids of Dask's computations that were reported as finished.

        These are the ones before the latest tracked one that are no longer tracked themselves.
        """
        ids = [str(computation.id) for computation in scheduler.computations]
        latest = next((c.id for c in self.computations.values() if c.is_latest), None)
        # Those after the latest tracked one were added while no plugin listened.
        earlier_ids = ids[: ids.index(latest)] if latest in ids else []
        return [id_ for id_ in earlier_ids if id_ not in self.computations]

    def import_state(self, inherited: Mapping[str, Any], has_same_settings: bool = True) -> None:
        """Continues from an exported state. Call it before ``adopt``."""
        self.sequence, self.base = max(self.sequence, inherited["sequence"]), inherited["base"]
        self._totals = sums_of(inherited["totals"])
        self.error_count = inherited["error_count"]
        self.adopted_error_count = inherited["adopted_error_count"]
        self.retried, self._retries_left = (
            dict(inherited["retried"]),
            dict(inherited["retries_left"]),
        )
        self.forgotten_groups = set(inherited["gone"])
        self.receipt.import_state(inherited["receipt"])
        for group, state in inherited["groups"].items():
            record = self.groups[group] = GroupRecord(group, self.now(), state["id"])
            record.import_state(state)
            self.groups_to_read[record] = None
        for computation, state in inherited["computations"]:
            for earlier in self.computations.values():
                earlier.is_latest = False
            record_of_computation = ComputationRecord(computation)
            record_of_computation.import_state(state, self.groups)
            self.computations[record_of_computation.id] = record_of_computation
        finished_computations: Dict[str, ComputationRecord] = {}
        for group, state in inherited["groups"].items():
            id_ = state["computation_id"]
            if id_ is not None:
                record_of_computation = self.computations.get(id_) or finished_computations.get(id_)
                if record_of_computation is None:
                    body = state.get("computation_body")
                    record_of_computation = finished_computations[id_] = (
                        ComputationRecord.create_finished(id_, body)
                    )
                self.groups[group].owners.append(record_of_computation)
        if "shares" in inherited:
            self.shares.import_state(
                inherited["shares"], self.groups, {**finished_computations, **self.computations}
            )
        self._inherit_unsent(inherited, has_same_settings)
        self._inherited = inherited

    def _inherit_unsent(self, inherited: Mapping[str, Any], has_same_settings: bool) -> None:
        for kind, outbox in self.outboxes.items():
            outbox.dropped += inherited["dropped"].get(kind, 0)
            items = inherited["unsent"].get(kind, ())
            if has_same_settings or outbox.data_class in CLASSES_WITHOUT_TEXT:
                if kind == "computations" and not self.receipt.sends("code"):
                    items = [(id_, {**body, "code": []}, *sizes) for id_, body, *sizes in items]
                outbox.import_state(items, kind in RECREATED_IF_RECURRING)

    def totals(self) -> Dict[str, Any]:
        """Returns the sums over all groups ever seen, as of their last reading."""
        tasks, succeeded, erred, compute, transfer, nbytes, _ = self._totals
        return {
            "tasks": to_count(tasks),
            "tasks_succeeded": to_count(succeeded),
            "tasks_erred": to_count(erred),
            "errors": to_count(self.error_count),
            "compute_seconds": compute,
            "transfer_seconds": transfer,
            "bytes": to_count(nbytes),
        }

    def _add_to_totals(self, record: GroupRecord, body: Mapping[str, Any]) -> None:
        growth = self._add_growth(record, body)
        if self.on_growth is not None and any(growth):
            self.on_growth(record.prefix, growth)

    def _add_growth(self, record: GroupRecord, body: Mapping[str, Any]) -> Tuple[Any, ...]:
        """Adds the growth of a group to the totals, and returns it."""
        # Only the increase over a group's maximum is added, so that totals never decrease.
        durations = body["durations"]
        values = (
            body["tasks"], body["tasks_succeeded"], body["tasks_erred"],
            durations.get("compute", 0.0), durations.get("transfer", 0.0), body["bytes"],
            body["tasks_retried"],
        )  # fmt: skip
        highest: Any = tuple(map(max, values, record.counted))
        growth = tuple(map(operator.sub, highest, record.counted))
        self._totals, record.counted = tuple(map(operator.add, self._totals, growth)), highest
        return growth

    def _read_computation(
        self, computation: ComputationRecord, closed_at: Optional[float] = None
    ) -> None:
        if self.context is not None:
            try:
                computation.read_code(self.context)
            except Exception:
                if not self._code_failures:
                    logger.warning("Galvo could not read code; logged once", exc_info=True)
                self._code_failures += 1
        body = computation.describe(self.now(), closed_at)
        if body != computation.body:
            computation.body = body
            self.outboxes["computations"].add(computation)
        if not computation.is_latest and body["state"] != "running":
            del self.computations[computation.id]
            self.forgotten_groups.difference_update(computation.computation.groups)
            computation.settled, computation.computation = True, None
            computation.groups.clear()


def _error_identity(ts: Any) -> Any:
    """Returns a value that distinguishes one error of a task from the next."""
    blamed = getattr(ts, "exception_blame", None) or ts
    return getattr(blamed, "exception", None)


def remove_forgotten(state: Dict[str, Any], scheduler: Any) -> None:
    """Removes exported state that Dask itself has forgotten."""
    computations = list(scheduler.computations)
    live_groups = set(scheduler.task_groups.values()).union(*(c.groups for c in computations))
    groups = state["groups"].items()
    state["groups"] = {group: exported for group, exported in groups if group in live_groups}
    state["gone"] = [group for group in state["gone"] if group in live_groups]
    state["computations"] = [item for item in state["computations"] if item[0] in computations]
    for _, exported in state["computations"]:
        exported["groups"] = [group for group in exported["groups"] if group in live_groups]
    reported_errors = state["erring"]
    state["erring"] = {
        key: reported_errors[key] for key in _find_still_erred(reported_errors, scheduler)
    }


def _find_still_erred(keys: Iterable[Any], scheduler: Any) -> List[Any]:
    """Returns the keys of tasks that are still erred."""
    tasks = scheduler.tasks
    return [key for key in keys if key in tasks and tasks[key].state == "erred"]


def _forget_oldest(remembered: Dict[Any, int]) -> None:
    if len(remembered) > MOST_RETRIED_TASKS:
        del remembered[next(iter(remembered))]
