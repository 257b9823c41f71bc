"""Cluster dumps: reads the needed parts of the files that ``Client.dump_cluster_state`` writes.

Dask reads them with ``distributed.cluster_dump.DumpArtefact``, which is not usable here: releases
cannot read their own dumps of clusters whose workers have numbers as names, and the whole dump
would be loaded into memory, whatever its size.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

import msgpack
import yaml

from galvo.client.errors import NotImportable
from galvo.importing.artefact import Artefact
from galvo.importing.dump_events import Event
from galvo.importing.log_lines import Line
from galvo.importing.selection import WHOLE, Each, Items, MessagePackReader, Positions, YamlReader
from galvo.importing.values import Fields, group_of, key_of, text_of, time_of
from galvo.plugin.workers import FIRE_AND_FORGET

# Dask's text for a task inside another value.
TASK = re.compile(r"<TaskState (.+) [a-z-]+>\Z", re.DOTALL)
# The bounds of what is kept of each kind. Dask itself keeps at most 100,000 transitions, and 10,000
# lines per worker.
MOST, MOST_LINES, LONGEST_LINE, MOST_TRANSITIONS = 200_000, 10_000, 50_000, 2_000_000
# All exceptions that the MessagePack and YAML parsers raise for other content.
BROKEN = (
    ValueError, TypeError, OverflowError, RecursionError, MemoryError, EOFError,
    msgpack.UnpackException, yaml.YAMLError,
)  # fmt: skip


class Dump:
    """The needed parts of a cluster dump, unconverted.

    It does not rely on the order of the parts. Texts and numbers are validated on use, because all
    of them may be anything.

    Attributes
    ----------
    scheduler:
        Some of the scheduler's own fields.
    groups, workers, clients:
        The same for task groups by name, workers by address, and clients by identifier.
    erred, blamed:
        Tasks that failed themselves, and the number of each group that failed because of others.
    succeeded, retried:
        The number of transitions to memory of each group's tasks, and of failed attempts that were
        repeated, as far back as the transition log goes.
    retries, erred_at:
        The failed attempts of tasks, and the times of failures, by the text of their keys.
    forgotten:
        The number of tasks that Dask had forgotten together with their groups, as far back as the
        log goes.
    first_seen:
        The time of the first transition in each group, as far back as the log goes.
    transitions:
        The number of transitions in the log. The scheduler has the number that there were.
    lines:
        The log lines of each worker, by address, the newest first; plain text if the time is
        unknown.
    first_log_times:
        The earliest time in the log of each worker, by address.
    silent:
        Workers that did not respond when the dump was made.
    latest:
        The latest of all times, by the scheduler's clock.
    """

    def __init__(self) -> None:
        self.scheduler: Fields = {}
        self.versions: Fields = {}
        self.groups: dict[str, Fields] = {}
        self.workers: dict[str, Fields] = {}
        self.clients: dict[str, Fields] = {}
        self.erred: list[Fields] = []
        self.blamed: Counter[str] = Counter()
        self.succeeded: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.erred_at: dict[str, float] = {}
        self.first_seen: dict[str, float] = {}
        self.forgotten = 0
        self.transitions = 0
        self.events: list[Event] = []
        self.lines: dict[str, list[Line | str]] = {}
        self.first_log_times: dict[str, float] = {}
        self.silent = 0
        self.latest = 0.0
        self._remembered: defaultdict[str, set[str]] = defaultdict(set)
        # Tasks of groups that still have others.
        self._forgotten: Counter[str] = Counter()

    @classmethod
    def read(cls, artefact: Artefact) -> Dump:
        """Reads the dump in this file. Raises NotImportable."""
        dump = cls()
        is_packed = artefact.beginning[:1] >= b"\x80"
        kind = "MessagePack" if is_packed else "YAML"
        try:
            with artefact.open() as stream:
                reader = MessagePackReader(stream) if is_packed else YamlReader(stream)
                content = reader.read(dump._selection())
        except NotImportable:
            raise
        except BROKEN as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise NotImportable(f"it cannot be read as {kind}: {reason[:300]}") from None
        scheduler = content.get("scheduler") if isinstance(content, dict) else None
        if not isinstance(scheduler, dict) or not isinstance(scheduler.get("id"), str):
            raise NotImportable("it is no cluster dump: there is no scheduler in it")
        if time_of(scheduler.get("started")) is None:
            raise NotImportable("scheduler.started is no time")
        versions = content.get("versions")
        dump.scheduler, dump.versions = scheduler, versions if isinstance(versions, dict) else {}
        dump.note_time(scheduler["started"])
        return dump

    @property
    def is_complete(self) -> bool:
        """True if the transition log goes back to the first transition."""
        is_bounded = self.transitions <= MOST_TRANSITIONS
        return is_bounded and self.scheduler.get("transition_counter") == self.transitions

    def note_time(self, value: Any) -> float | None:
        """Converts a time of the scheduler's clock; None if it is not a time."""
        at = time_of(value)
        if at is not None:
            self.latest = max(self.latest, at)
        return at

    def _selection(self) -> Fields:
        task_fields = "key group_key state exception_blame exception_text traceback_text exception"
        worker_fields = "address name nthreads memory_limit nbytes server_id last_seen metrics"
        return {
            "scheduler": {
                **_select_whole("id address started transition_counter"),
                "transition_log": Items(Positions((0, 1, 2, 4, 5)), self._transition),
                "task_groups": Each(WHOLE, self._group),
                "tasks": Each(_select_whole(task_fields + " erred_on suspicious"), self._task),
                "workers": Each(_select_whole(worker_fields), self._worker),
                "clients": Each(_select_whole("client_key last_seen"), self._client),
                "events": Each(Items(WHOLE, most=MOST), self._topic),
            },
            "workers": Each(
                {"logs": Items(WHOLE, most=MOST_LINES), "log": Items(WHOLE, most=1)},
                self._worker_state,
            ),
            "versions": WHOLE,
        }

    def _transition(self, entry: Any) -> None:
        self.transitions += 1
        if not isinstance(entry, tuple) or self.transitions > MOST_TRANSITIONS:
            return
        key, start, finish, stimulus, at = entry
        key, at = key_of(key), self.note_time(at)
        group, text = group_of(key), str(key)
        remembered = self._remembered[group]
        if finish == "forgotten":
            remembered.discard(text)
            self._forgotten[group] += 1
            if not remembered:
                # Dask starts another group when the name is used again.
                self.forgotten += self._forgotten.pop(group)
                del self._remembered[group], self.succeeded[group], self.retried[group]
                self.first_seen.pop(group, None)
            return
        remembered.add(text)
        if at is not None:
            self.first_seen.setdefault(group, at)
        if finish == "memory":
            self.succeeded[group] += 1
        elif finish == "erred" and at is not None:
            self.erred_at[text] = at
        elif start == "processing" and text_of(stimulus).startswith("task-erred-"):
            self.retried[group] += 1
            self.retries[text] += 1

    def _group(self, name: Any, group: Any) -> None:
        if isinstance(name, str) and isinstance(group, dict) and len(self.groups) < MOST:
            self.groups[name] = group
            self.note_time(group.get("stop"))

    def _task(self, name: Any, task: Any) -> None:
        if not isinstance(task, dict) or task.get("state") != "erred":
            return
        key = key_of(task.get("key", name))
        group = text_of(task.get("group_key")) or group_of(key)
        match = TASK.match(text_of(task.get("exception_blame")))
        is_blamed = match is not None and match[1] not in (repr(key), str(key))
        if is_blamed or not (task.get("exception_text") or task.get("exception")):
            self.blamed[group] += 1
        elif len(self.erred) < MOST:
            self.erred.append({**task, "key": key, "group_key": group})

    def _worker(self, address: Any, worker: Any) -> None:
        if isinstance(address, str) and isinstance(worker, dict):
            self.workers[text_of(worker.get("address")) or address] = worker
            self.note_time(worker.get("last_seen"))

    def _client(self, name: Any, client: Any) -> None:
        if isinstance(name, str) and isinstance(client, dict) and name != FIRE_AND_FORGET:
            self.clients[text_of(client.get("client_key")) or name] = client
            self.note_time(client.get("last_seen"))

    def _topic(self, topic: Any, events: Any) -> None:
        # Newer releases have the name of a container there instead of a list.
        for event in events or ():
            if isinstance(event, list) and len(event) == 2 and isinstance(topic, str):
                at = self.note_time(event[0])
                if at is not None and len(self.events) < MOST:
                    self.events.append(Event(at, topic, event[1]))

    def _worker_state(self, address: Any, state: Any) -> None:
        if not isinstance(state, dict) or not isinstance(address, str):
            self.silent += 1
            return
        lines = self.lines[address] = []
        for entry in state.get("logs") or ():
            if isinstance(entry, list) and entry and isinstance(entry[-1], str):
                text = entry[-1][:LONGEST_LINE]
                lines.append(Line.read(text) or text)
        for entry in state.get("log") or ():
            at = time_of(entry[-1]) if isinstance(entry, list) and entry else None
            if at is not None:
                self.first_log_times[address] = at


def _select_whole(names: str) -> Fields:
    return dict.fromkeys(names.split(), WHOLE)
