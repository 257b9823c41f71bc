"""Converts a cluster dump to the history of a cluster."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from galvo.client import quantities
from galvo.importing.dump import Dump
from galvo.importing.dump_events import action_of, without_copies
from galvo.importing.history import History, Item, class_of
from galvo.importing.log_lines import Line, Zone, presentable
from galvo.importing.values import (
    MOST_THREADS,
    Fields,
    counts_of,
    creation_time_of,
    durations_of,
    function_of,
    host_of,
    list_of,
    measure,
    memory_of,
    metrics_of,
    name_of,
    number_of,
    text_of,
    texts_of,
    threads_of,
    time_of,
    versions_of,
)
from galvo.plugin.errors import describe_error
from galvo.plugin.events import TOPIC_LENGTH, most_specific, sized_copy
from galvo.plugin.logs import LEVEL_LENGTH, LOGGER_LENGTH
from galvo.plugin.samples import SUMMED
from galvo.plugin.scrub import scrub
from galvo.plugin.values import (
    ADDRESS_LENGTH,
    NAME_LENGTH,
    cut,
    dumps,
    time_or_none,
    to_count,
    uuid_or_none,
)
from galvo.plugin.workers import CLIENT_LENGTH

KIND = "cluster dump"
# Worker log lines with a known time, because the scheduler knows it, too.
FAILURE = re.compile(r"\s*Compute Failed\s+Key:\s+(.+)")
START = re.compile(r"\s*Start worker at:\s*(\S+)")
# The states in which Dask considers a task done.
DONE_STATES = ("memory", "released", "forgotten")
STATES_IN_SAMPLES = (
    "processing", "waiting", "queued", "no-worker", "memory", "erred", "released"
)  # fmt: skip
DEPENDENCIES, TYPES, TYPE_NAME_LENGTH = 1000, 100, 512


def fill_history(dump: Dump, history: History) -> None:
    """Adds the content of the dump to the history."""
    _DumpConverter(dump, history).convert()


class _DumpConverter:
    def __init__(self, dump: Dump, history: History):
        self._dump = dump
        self._history = history
        self._ids = history.ids
        history.scheduler = text_of(dump.scheduler.get("id"))
        history.set_period(float(dump.scheduler["started"]), dump.latest)
        self._workers: dict[str, Item] = {}  # by address
        self._zones: dict[str, Zone] = {}
        self._group_ids = {name: self._ids.of("group", name) for name in dump.groups}

    def convert(self) -> None:
        history, dump = self._history, self._dump
        self._add_workers()
        self._add_clients()
        self._add_groups()
        self._add_errors()
        self._add_samples()
        self._add_events()
        self._add_logs()
        self._add_cluster()
        history.notes.append(
            "a dump has no computations, spans, profiles or code, and no time of its own: the"
            " cluster ends with the last moment in it"
        )
        if not dump.is_complete:
            history.notes.append(
                f"it has the last {dump.transitions:,} transitions, not all: tasks that were"
                " released or forgotten are counted as done, and retries are not all counted"
            )
            history.add_gap(
                "tasks that Dask forgot before its log of transitions begins may be missing"
            )
        elif dump.forgotten:
            forgotten = quantities.count(dump.forgotten, "tasks")
            history.add_gap(f"Dask had forgotten {forgotten} when it was written")
        if dump.silent:
            history.notes.append(
                f"{quantities.count(dump.silent, 'workers')} did not answer when the dump was made,"
                " so that there are no logs of them"
            )

    # Workers and clients.

    def _add_workers(self) -> None:
        history, dump = self._history, self._dump
        versions = dump.versions.get("workers")
        versions = versions if isinstance(versions, dict) else {}
        arrivals = {
            event.topic: event.at
            for event in dump.events
            if action_of(event) == "add-worker" and "://" in event.topic
        }
        self._find_zones(arrivals)
        guessed, free_threads = 0, MOST_THREADS
        for address, fields in dump.workers.items():
            lines = [line for line in dump.lines.get(address, ()) if isinstance(line, Line)]
            zone = self._zones.get(address, Zone(0.0, True))
            started_at = arrivals.get(address) or self._start_of(address, lines, zone)
            guessed += started_at is None
            started_at = history.clamp_time(started_at or history.started_at)
            # Their sum is bounded by the most a cluster can have.
            threads, limit = (
                threads_of(fields.get("nthreads")),
                memory_of(fields.get("memory_limit")),
            )
            threads = min(threads, free_threads)
            free_threads -= threads
            name = fields.get("name")
            worker: Item = {
                "id": self._id_of(address, fields),
                "name": cut(name if isinstance(name, (str, int)) else address, ADDRESS_LENGTH),
                "address": cut(address, ADDRESS_LENGTH),
                "host": host_of(address),
                "environment_id": history.environment(versions_of(versions.get(address))),
                "threads": threads,
                "memory_limit_bytes": limit,
                "started_at": started_at,
            }
            if history.add("workers", worker):
                self._workers[address] = worker
                history.hours.add_worker(started_at, history.ended_at, threads, limit)
        threads = 0
        history.add("thread_history", {"at": history.started_at, "threads": 0})
        for worker in sorted(self._workers.values(), key=lambda worker: worker["started_at"]):
            threads += worker["threads"]
            # The server takes two changes at the same time for one.
            previous_change = history.sections["thread_history"][-1]
            at = max(worker["started_at"], previous_change["at"] + 1e-6)
            history.add("thread_history", {"at": at, "threads": threads})
        if guessed:
            history.notes.append(
                f"of {quantities.count(guessed, 'workers')} it is not known when they came: they"
                " count as present from the start of the scheduler"
            )
        departed = len(arrivals.keys() - dump.workers.keys())
        if departed:
            history.notes.append(
                f"{quantities.count(departed, 'workers')} had left, of which there are only events"
            )

    def _find_zones(self, arrivals: Mapping[str, float]) -> None:
        """Determines the time zones of the workers' logs, starting with those that are certain."""
        start, end = self._history.started_at, self._history.ended_at
        doubtful: list[tuple[str, list[Line]]] = []
        certain: set[Zone] = set()
        for address, entries in self._dump.lines.items():
            lines = [line for line in entries if isinstance(line, Line)]
            known_times = []
            for line in lines:
                failure_match, start_match = FAILURE.match(line.message), START.match(line.message)
                if failure_match and failure_match[1].strip() in self._dump.erred_at:
                    known_times.append((line, self._dump.erred_at[failure_match[1].strip()]))
                elif start_match and start_match[1] == address and address in arrivals:
                    known_times.append((line, arrivals[address]))
            zone = self._zones[address] = Zone.of(lines, start, end, known_times)
            if not zone.certain:
                doubtful.append((address, lines))
            elif lines:
                certain.add(zone)
        common_zone = certain.pop() if len(certain) == 1 else None
        for address, lines in doubtful:
            self._zones[address] = Zone.of(lines, start, end, other_zone=common_zone)

    def _id_of(self, address: str, fields: Fields) -> str:
        worker_id = uuid_or_none(text_of(fields.get("server_id")).rpartition("Worker-")[2])
        return worker_id or self._ids.of("worker", address)

    def _start_of(self, address: str, lines: list[Line], zone: Zone) -> float | None:
        """Returns the worker's start time as far as the worker itself knows it."""
        for line in lines:  # the newest first
            match = START.match(line.message)
            if match and match[1] == address:
                return line.clock - zone.seconds
        known_times = [line.clock - zone.seconds for line in lines[-1:]]
        first_log_times = self._dump.first_log_times
        known_times += [first_log_times[address]] if address in first_log_times else []
        return min(known_times) if known_times else None

    def _add_clients(self) -> None:
        history, clients = self._history, self._dump.clients
        connect_times: dict[str, float] = {}
        disconnect_times: dict[str, float] = {}
        for event in self._dump.events:
            action = action_of(event)
            if action in ("add-client", "remove-client"):
                client = text_of(event.message.get("client")) or event.topic
                if client not in ("all", "fire-and-forget"):
                    (connect_times if action == "add-client" else disconnect_times).setdefault(
                        client, event.at
                    )
        for client in {**dict.fromkeys(connect_times), **dict.fromkeys(clients)}:
            last_seen_at = time_of(clients.get(client, {}).get("last_seen")) or history.ended_at
            connected_at = history.clamp_time(
                connect_times.get(client) or creation_time_of(client) or last_seen_at
            )
            item = {"id": cut(client, CLIENT_LENGTH), "connected_at": connected_at}
            if client not in clients and client in disconnect_times:
                item["disconnected_at"] = max(disconnect_times[client], connected_at)
            history.add("clients", item)

    # Tasks.

    def _add_groups(self) -> None:
        history, dump, ids = self._history, self._dump, self._group_ids
        erred = Counter(task["group_key"] for task in dump.erred)
        for name, group in dump.groups.items():
            states = counts_of(group.get("states"))
            tasks = sum(states.values())
            succeeded = dump.succeeded[name]
            if not dump.is_complete:
                succeeded = max(succeeded, sum(states.get(state, 0) for state in DONE_STATES))
            started_at, stopped_at = time_of(group.get("start")), time_of(group.get("stop"))
            durations = durations_of(group.get("all_durations"))
            first_times = [at for at in (dump.first_seen.get(name), started_at) if at is not None]
            item: Item = {
                "id": ids[name],
                "name": cut(name, NAME_LENGTH),
                "prefix": cut(name_of(group.get("prefix")) or function_of(name), NAME_LENGTH),
                "first_seen_at": history.clamp_time(min(first_times, default=history.ended_at)),
                "started_at": started_at,
                "stopped_at": stopped_at,
                "states": {state: number for state, number in states.items() if number},
                "tasks": to_count(tasks),
                "tasks_succeeded": to_count(max(succeeded, states.get("memory", 0))),
                "tasks_erred": erred[name],
                "tasks_blamed": to_count(dump.blamed[name]),
                "tasks_retried": to_count(dump.retried[name]),
                "durations": durations,
                "bytes": to_count(number_of(group.get("nbytes_total"))),
                "types": sorted(texts_of(group.get("types"), TYPES, TYPE_NAME_LENGTH)),
                "dependencies": [
                    ids[dependency]
                    for dependency in map(
                        name_of, list_of(group.get("dependencies"))[:DEPENDENCIES]
                    )
                    if dependency in ids and dependency != name
                ],
            }
            if not history.sends("task_groups"):
                history.receipt.withhold("tasks")
            else:
                history.add("task_groups", item)
            # The total time of its tasks is known, and when the last one of them stopped.
            history.hours.add_tasks(
                history.clamp_time(stopped_at or history.ended_at),
                item["prefix"],
                compute=durations.get("compute", 0.0),
                transfer=durations.get("transfer", 0.0),
                tasks=item["tasks_succeeded"],
                erred=item["tasks_erred"],
                retries=item["tasks_retried"],
                nbytes=item["bytes"],
            )
            history.count_tasks(item)

    def _add_errors(self) -> None:
        history, dump = self._history, self._dump
        for task in dump.erred:
            key, group = str(task["key"]), task["group_key"]
            addresses = texts_of(task.get("erred_on"), 1, ADDRESS_LENGTH)
            worker = self._workers.get(addresses[0]) if addresses else None
            # Never the pickled exception itself, because reading it would require unpickling.
            error_texts = {
                name: text_of(task.get(name)) for name in ("exception_text", "traceback_text")
            }
            described = describe_error(
                {**error_texts, "worker": addresses[0] if addresses else None},
                history.receipt.sends("code"),
                history.receipt.types_only,
            )
            if not error_texts["exception_text"] and "KilledWorker" in text_of(
                task.get("exception")
            ):
                times = to_count(number_of(task.get("suspicious")))
                described["type"], described["origin"] = "KilledWorker", "dask"
                described["message"] = f"{times} workers died that were running {key}"
            stopped_at = time_of(dump.groups.get(group, {}).get("stop"))
            at = history.clamp_time(dump.erred_at.get(key) or stopped_at or history.ended_at)
            item = {
                "id": self._ids.at(at, "error", key),
                "at": at,
                "key": cut(key, NAME_LENGTH),
                "task_group_id": self._group_ids.get(group),
                **described,
                "retries": to_count(dump.retries[key]),
                "worker_id": None if worker is None else worker["id"],
            }
            history.totals["errors"] += 1
            history.hours.add_error(at)
            if history.sends("errors", item):
                history.add("errors", item)
            else:
                history.receipt.withhold(class_of("errors", item))

    # Measurements and logs.

    def _add_samples(self) -> None:
        history, dump = self._history, self._dump
        worker_metrics = []
        for address, worker in self._workers.items():
            fields = dump.workers[address]
            metrics = measure(fields, worker["memory_limit_bytes"])
            if metrics:
                worker_metrics.append(metrics)
                at = history.clamp_time(time_of(fields.get("last_seen")) or history.ended_at)
                history.add("samples", {"at": at, "metrics": metrics, "worker_id": worker["id"]})
        workers = list(self._workers.values())
        limits = [worker["memory_limit_bytes"] for worker in workers]
        cluster_metrics: dict[str, float] = {
            "workers": len(workers),
            "threads": sum(worker["threads"] for worker in workers),
        }
        if limits and all(limits):
            cluster_metrics["memory_limit_bytes"] = sum(limits)
        for name in SUMMED:
            values = [own_metrics[name] for own_metrics in worker_metrics if name in own_metrics]
            if values and len(values) == len(workers):
                cluster_metrics[name] = sum(values)
        states = [counts_of(group.get("states")) for group in dump.groups.values()]
        for state in STATES_IN_SAMPLES:
            name = "tasks_" + state.replace("-", "_")
            cluster_metrics[name] = to_count(sum(counts.get(state, 0) for counts in states))
        history.add("samples", {"at": history.ended_at, "metrics": cluster_metrics})

    def _add_events(self) -> None:
        history, allowed = self._history, self._history.settings["events_allow"]
        for event, topics in without_copies(self._dump.events):
            if not history.sends("events") or not ("*" in allowed or set(topics) & set(allowed)):
                history.receipt.withhold("events")
                continue
            data, _ = sized_copy(
                event.message, history.receipt.sends("code"), history.receipt.types_only
            )
            address = data.get("worker") if isinstance(data, dict) else None
            topic = most_specific(topics)[0]
            worker = self._workers.get(topic if "://" in topic else text_of(address))
            history.add(
                "events",
                {
                    "id": self._ids.at(event.at, "event", topic, dumps(data)),
                    "at": event.at,
                    "topic": cut(scrub(topic), TOPIC_LENGTH),
                    "worker_id": None if worker is None else worker["id"],
                    "data": data,
                },
            )

    def _add_logs(self) -> None:
        history, receipt = self._history, self._history.receipt
        timeless, doubtful = 0, 0
        for address, lines in self._dump.lines.items():
            worker, zone = self._workers.get(address), self._zones[address]
            doubtful += not zone.certain
            for number, line in enumerate(reversed(lines)):
                if not isinstance(line, Line):
                    timeless += 1
                    continue
                if not history.sends("logs"):
                    receipt.withhold("logs")
                    continue
                at = time_or_none(line.clock - zone.seconds) or history.started_at
                history.add(
                    "logs",
                    {
                        "id": self._ids.at(at, "log", address, number),
                        "at": at,
                        "source": "worker",
                        "worker_id": None if worker is None else worker["id"],
                        "worker": cut(address, ADDRESS_LENGTH),
                        "level": cut(line.level, LEVEL_LENGTH),
                        "logger": cut(line.logger, LOGGER_LENGTH),
                        "message": presentable(
                            line.message, receipt.sends("code"), receipt.types_only
                        ),
                        "repeated": 1,
                    },
                )
        if timeless:
            history.notes.append(
                f"{quantities.count(timeless, 'lines')} of logs do not say when they were written,"
                " and are left out"
            )
        if doubtful:
            history.notes.append(
                f"the logs of {quantities.count(doubtful, 'workers')} do not tell the time zone: it"
                " is taken to be that of other workers, or this machine's, if they fit into it"
            )

    # The cluster as a whole.

    def _add_cluster(self) -> None:
        history, dump = self._history, self._dump
        workers = list(self._workers.values())
        threads = sum(worker["threads"] for worker in workers)
        limits = [worker["memory_limit_bytes"] for worker in workers]
        memory_used = [metrics_of(dump.workers[address]).get("memory") for address in self._workers]
        address = text_of(dump.scheduler.get("address"))
        history.cluster = {
            "address": cut(address, ADDRESS_LENGTH) or None,
            "environment_id": history.environment(versions_of(dump.versions.get("scheduler"))),
            "workers": len(workers),
            "threads": threads,
            "memory_limit_bytes": sum(limits) if limits and all(limits) else None,
            "memory_used_bytes": to_count(sum(map(number_of, memory_used))),
        }
        durations = [history.ended_at - worker["started_at"] for worker in workers]
        thread_seconds = sum(w["threads"] * seconds for w, seconds in zip(workers, durations))
        history.totals.update(
            thread_seconds=thread_seconds,
            workers=len(workers),
            peak_workers=len(workers),
            peak_threads=threads,
        )
