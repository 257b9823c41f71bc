"""A minimal Galvo server that validates reports strictly and keeps the newest rows."""

import contextlib
import gzip
import hashlib
import json
import math
import operator
import re
import socket
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "seal-2f1c9d7a40"
SCHEDULER_TOKEN = "otter-8b02e6d1c9"  # the token it is exchanged for
STATES = set("released waiting no-worker queued processing memory erred forgotten".split())
# The largest number of items of each section in one report.
MOST = {
    "computations": 1000,
    "task_groups": 5000,
    "errors": 500,
    "environments": 100,
    "workers": 2000,
    "clients": 1000,
    "thread_history": 10_000,
    "samples": 20_000,
    "spans": 2000,
    "fine_metrics": 2000,
    "code": 200,
    "profiles": 20,
    "events": 2000,
    "logs": 5000,
    "usage": 100,
    "function_activity": 500,
}

# The key of each section's rows.
KEYS = {
    **{
        kind: operator.itemgetter("id")
        for kind in (
            "computations task_groups errors environments workers clients spans profiles events"
            " logs"
        ).split()
    },
    "thread_history": operator.itemgetter("at"),
    "samples": lambda row: (row.get("worker_id"), row["at"]),
    "fine_metrics": lambda row: row.get("span_id"),
    "code": operator.itemgetter("hash"),
    "usage": operator.itemgetter("hour"),
    "function_activity": operator.itemgetter("minute"),
}
# Of these the server keeps the newest version; all other rows are immutable.
CHANGING = (
    "computations", "task_groups", "workers", "clients", "spans", "fine_metrics", "usage",
    "function_activity",
)  # fmt: skip
METRICS_OF_BOTH = (
    "memory_process_bytes memory_managed_bytes memory_unmanaged_bytes memory_spilled_bytes"
    " memory_limit_bytes cpu_cores network_read_bytes_per_second network_write_bytes_per_second"
    " disk_read_bytes_per_second disk_write_bytes_per_second disk_free_bytes disk_total_bytes"
    " gil_contention event_loop_seconds tasks_memory"
)
METRICS_OF_WORKER = METRICS_OF_BOTH + " tasks_executing tasks_ready tasks_in_flight"
METRICS_OF_CLUSTER = METRICS_OF_BOTH + (
    " workers threads gil_contention_min gil_contention_max event_loop_seconds_min"
    " event_loop_seconds_max scheduler_cpu_cores scheduler_memory_bytes"
    " scheduler_event_loop_seconds tasks_processing tasks_waiting tasks_queued tasks_no_worker"
    " tasks_erred tasks_released"
)
SUMS_OF_FUNCTION = "compute_seconds transfer_seconds tasks tasks_erred bytes"
SUMS_OF_HOUR = (
    "thread_seconds worker_seconds memory_gib_seconds spilled_bytes retries errors workers "
) + SUMS_OF_FUNCTION
MEASURED_OF_HOUR = (
    "cpu_seconds noncpu_seconds serialize_seconds spill_seconds overhead_seconds failed_seconds"
)
CLASSES = "basic tasks dask_errors user_errors code profiles events logs"


class Invalid(Exception):
    pass


def check(report):
    """Raises Invalid with a JSON pointer unless the report conforms exactly to the protocol."""

    def need(condition, pointer):
        if not condition:
            raise Invalid(pointer)

    def keys(value, pointer, names, optional=""):
        need(isinstance(value, dict), pointer)
        names, optional = set(names.split()), set(optional.split())
        need(names <= set(value) <= names | optional, f"{pointer}: {sorted(value)}")

    def integer(value, pointer):
        need(type(value) is int and 0 <= value < 2**53, pointer)

    def number(value, pointer):
        need(type(value) in (int, float) and math.isfinite(value), pointer)

    def seconds(value, pointer):
        number(value, pointer)
        need(value >= 0, pointer)

    def time(value, pointer, optional=False):
        if not (optional and value is None):
            seconds(value, pointer)
            need(1_000_000_000 < value <= 253402300799, pointer)

    def text(value, pointer, length, optional=False):
        if not (optional and value is None):
            need(isinstance(value, str) and len(value) <= length and "\0" not in value, pointer)
            value.encode("utf-8")

    def identifier(value, pointer, optional=False):
        if not (optional and value is None):
            need(isinstance(value, str) and str(uuid.UUID(value)) == value, pointer)

    optional = set(MOST) - {"computations", "task_groups", "errors"}

    def stacks(value, pointer):
        need(isinstance(value, list) and len(value) <= 20, pointer)
        for stack in value:
            need(isinstance(stack, list) and 1 <= len(stack) <= 20, pointer)
            for frame in stack:
                keys(frame, pointer, "hash file line relative_line")
                need(re.match(r"[0-9a-f]{64}\Z", frame["hash"]), pointer + "/hash")
                text(frame["file"], pointer + "/file", 2048)
                integer(frame["line"], pointer + "/line")
                integer(frame["relative_line"], pointer + "/relative_line")

    need(isinstance(report, dict), "")
    keys(
        {key: value for key, value in report.items() if key not in optional},
        "",
        "version account scheduler_id sequence base sent_at interval_seconds final cluster"
        " computations task_groups errors dropped receipt",
    )
    keys(report["receipt"], "/receipt", CLASSES)
    for name, counts in report["receipt"].items():
        keys(counts, "/receipt/" + name, "sent bytes withheld")
        for value in counts.values():
            integer(value, "/receipt/" + name)
        need((counts["sent"] > 0) == (counts["bytes"] > 0), "/receipt/" + name)
    need(report["version"] == 1, "/version")
    text(report["account"], "/account", 4096, optional=True)
    need(report["scheduler_id"].startswith("Scheduler-"), "/scheduler_id")
    integer(report["sequence"], "/sequence")
    if report["base"] is not None:
        integer(report["base"], "/base")
        need(report["base"] < report["sequence"], "/base")
    time(report["sent_at"], "/sent_at")
    seconds(report["interval_seconds"], "/interval_seconds")
    need(type(report["final"]) is bool, "/final")
    cluster = report["cluster"]
    keys(
        cluster,
        "/cluster",
        "name address dashboard_url started_at closed_at close_reason idle_since workers threads"
        " memory_limit_bytes memory_used_bytes totals idle_timeout_seconds graph_updates",
        "environment_id",
    )
    identifier(cluster.get("environment_id"), "/cluster/environment_id", optional=True)
    text(cluster["name"], "/cluster/name", 4096, optional=True)
    text(cluster["address"], "/cluster/address", 2048)
    text(cluster["dashboard_url"], "/cluster/dashboard_url", 2048, optional=True)
    text(cluster["close_reason"], "/cluster/close_reason", 2048, optional=True)
    time(cluster["started_at"], "/cluster/started_at")
    time(cluster["closed_at"], "/cluster/closed_at", optional=True)
    time(cluster["idle_since"], "/cluster/idle_since", optional=True)
    if cluster["idle_timeout_seconds"] is not None:
        seconds(cluster["idle_timeout_seconds"], "/cluster/idle_timeout_seconds")
    if cluster["graph_updates"] is not None:
        integer(cluster["graph_updates"], "/cluster/graph_updates")
    need((cluster["closed_at"] is not None) == report["final"], "/cluster/closed_at")
    integer(cluster["workers"], "/cluster/workers")
    integer(cluster["threads"], "/cluster/threads")
    integer(cluster["memory_used_bytes"], "/cluster/memory_used_bytes")
    if cluster["memory_limit_bytes"] is not None:
        integer(cluster["memory_limit_bytes"], "/cluster/memory_limit_bytes")
    totals = cluster["totals"]
    whole = "tasks tasks_succeeded tasks_erred errors bytes workers peak_workers peak_threads"
    keys(totals, "/cluster/totals", whole + " compute_seconds transfer_seconds thread_seconds")
    for name, value in totals.items():
        (integer if name in whole.split() else seconds)(value, "/cluster/totals/" + name)

    for kind, most in MOST.items():
        need(len(report.get(kind, [])) <= most, "/" + kind)
        integer(report["dropped"][kind], "/dropped/" + kind)
    keys(report["dropped"], "/dropped", " ".join(MOST))
    for i, row in enumerate(report["computations"]):
        at = f"/computations/{i}"
        keys(
            row,
            at,
            "id started_at stopped_at state task_group_ids code span_ids",
            "task_group_shares",
        )
        shares = row.get("task_group_shares", [])
        need(len(shares) <= 1000, at + "/task_group_shares")
        groups = [share["task_group_id"] for share in shares]
        need(len(set(groups)) == len(groups), at + "/task_group_shares")
        for share in shares:
            at_share = at + "/task_group_shares"
            keys(
                share,
                at_share,
                "task_group_id joint states tasks tasks_succeeded tasks_erred tasks_retried"
                " durations bytes",
            )
            identifier(share["task_group_id"], at_share)
            need(type(share["joint"]) is bool, at_share)
            need(set(share["states"]) <= STATES, at_share)
            numbers = [v for k, v in share.items() if k.startswith("tasks") or k == "bytes"]
            for value in [*numbers, *share["states"].values()]:
                integer(value, at_share)
            need(sum(share["states"].values()) == share["tasks"], at_share)
            for value in share["durations"].values():
                seconds(value, at_share)
        stacks(row["code"], at + "/code")
        need(len(row["span_ids"]) <= 100, at + "/span_ids")
        for link in row["span_ids"]:
            identifier(link, at + "/span_ids")
        identifier(row["id"], at + "/id")
        time(row["started_at"], at + "/started_at")
        time(row["stopped_at"], at + "/stopped_at", optional=True)
        need(row["state"] in ("running", "finished", "erred", "cancelled"), at + "/state")
        need((row["state"] == "running") == (row["stopped_at"] is None), at + "/stopped_at")
        need(len(row["task_group_ids"]) <= 5000, at + "/task_group_ids")
        for link in row["task_group_ids"]:
            identifier(link, at + "/task_group_ids")
    for i, row in enumerate(report["task_groups"]):
        at = f"/task_groups/{i}"
        keys(
            row,
            at,
            "id name prefix first_seen_at started_at stopped_at states tasks tasks_succeeded"
            " tasks_erred tasks_blamed tasks_retried durations bytes types dependencies span_id",
        )
        identifier(row["span_id"], at + "/span_id", optional=True)
        integer(row["tasks_retried"], at + "/tasks_retried")
        identifier(row["id"], at + "/id")
        need(row["id"][14] == "7", at + "/id")
        text(row["name"], at + "/name", 4096)
        text(row["prefix"], at + "/prefix", 4096)
        time(row["first_seen_at"], at + "/first_seen_at")
        time(row["started_at"], at + "/started_at", optional=True)
        time(row["stopped_at"], at + "/stopped_at", optional=True)
        need(set(row["states"]) <= STATES, at + "/states")
        numbers = [row[k] for k in ("tasks", "tasks_succeeded", "tasks_erred", "tasks_blamed")]
        for value in [*numbers, row["bytes"], *row["states"].values()]:
            integer(value, at)
        for action, value in row["durations"].items():
            text(action, at + "/durations", 256)
            seconds(value, at + "/durations")
        need(len(row["types"]) <= 100 and row["types"] == sorted(row["types"]), at + "/types")
        for name in row["types"]:
            text(name, at + "/types", 512)
        need(len(row["dependencies"]) <= 1000, at + "/dependencies")
        for link in row["dependencies"]:
            identifier(link, at + "/dependencies")
    for i, row in enumerate(report["errors"]):
        at = f"/errors/{i}"
        keys(
            row,
            at,
            "id at key task_group_id computation_id type message traceback worker retries",
            "number origin source span_id worker_id",
        )
        if row.get("source") is not None:
            keys(row["source"], at + "/source", "file line first_line lines")
            text(row["source"]["file"], at + "/source/file", 2048)
            integer(row["source"]["line"], at + "/source/line")
            integer(row["source"]["first_line"], at + "/source/first_line")
            need(len(row["source"]["lines"]) <= 11, at + "/source/lines")
            for line in row["source"]["lines"]:
                text(line, at + "/source/lines", 2000)
        need(row.get("number") is None or row["number"] > 0, at + "/number")
        need(row.get("origin") in ("user", "dask", None), at + "/origin")
        integer(row["retries"], at + "/retries")
        identifier(row.get("span_id"), at + "/span_id", optional=True)
        identifier(row.get("worker_id"), at + "/worker_id", optional=True)
        identifier(row["id"], at + "/id")
        time(row["at"], at + "/at")
        text(row["key"], at + "/key", 4096)
        identifier(row["task_group_id"], at + "/task_group_id", optional=True)
        identifier(row["computation_id"], at + "/computation_id", optional=True)
        text(row["type"], at + "/type", 256, optional=True)
        text(row["message"], at + "/message", 20_000)
        text(row["traceback"], at + "/traceback", 100_000)
        text(row["worker"], at + "/worker", 2048, optional=True)
    for i, row in enumerate(report.get("environments", [])):
        at = f"/environments/{i}"
        keys(row, at, "id packages", "python executable os os_release machine")
        identifier(row["id"], at + "/id")
        for name in ("python", "os", "os_release", "machine"):
            text(row.get(name), f"{at}/{name}", 256, optional=True)
        text(row.get("executable"), at + "/executable", 2048, optional=True)
        need(isinstance(row["packages"], dict) and len(row["packages"]) <= 500, at + "/packages")
        for name, version in row["packages"].items():
            text(name, at + "/packages", 256)
            text(version, f"{at}/packages/{name}", 256, optional=True)
    for i, row in enumerate(report.get("workers", [])):
        at = f"/workers/{i}"
        keys(
            row,
            at,
            "id name address threads started_at end processing_keys processing lost_results",
            "host environment_id memory_limit_bytes ended_at last_memory_bytes peak_memory_bytes"
            " last_seen_at number processing_functions",
        )
        need(row.get("number") is None or row["number"] > 0, at + "/number")
        identifier(row["id"], at + "/id")
        for name, optional in (("name", False), ("address", False), ("host", True)):
            text(row.get(name), f"{at}/{name}", 2048, optional)
        identifier(row.get("environment_id"), at + "/environment_id", optional=True)
        for name in ("threads", "processing", "lost_results"):
            integer(row[name], f"{at}/{name}")
        for name in ("memory_limit_bytes", "last_memory_bytes", "peak_memory_bytes"):
            if row.get(name) is not None:
                integer(row[name], f"{at}/{name}")
        time(row["started_at"], at + "/started_at")
        time(row.get("ended_at"), at + "/ended_at", optional=True)
        time(row.get("last_seen_at"), at + "/last_seen_at", optional=True)
        need(row["end"] in (None, "retired", "closed", "memory", "lost", "unknown"), at + "/end")
        need((row["end"] is None) == (row.get("ended_at") is None), at + "/ended_at")
        need(len(row["processing_keys"]) <= min(100, row["processing"]), at + "/processing_keys")
        for key in row["processing_keys"]:
            text(key, at + "/processing_keys", 4096)
    for i, row in enumerate(report.get("clients", [])):
        at = f"/clients/{i}"
        keys(row, at, "id connected_at", "environment_id disconnected_at")
        text(row["id"], at + "/id", 256)
        identifier(row.get("environment_id"), at + "/environment_id", optional=True)
        time(row["connected_at"], at + "/connected_at")
        time(row.get("disconnected_at"), at + "/disconnected_at", optional=True)
    for i, row in enumerate(report.get("thread_history", [])):
        at = f"/thread_history/{i}"
        keys(row, at, "at threads")
        time(row["at"], at + "/at")
        integer(row["threads"], at + "/threads")
    for i, row in enumerate(report.get("function_activity", [])):
        at = f"/function_activity/{i}"
        keys(row, at, "minute functions", "other_compute_seconds")
        integer(row["minute"], at + "/minute")
        need(len(row["functions"]) <= 20, at + "/functions")
        columns = [function["compute_seconds"] for function in row["functions"]]
        for function in row["functions"]:
            keys(function, at + "/functions", "prefix compute_seconds")
            text(function["prefix"], at + "/functions", 4096)
        for column in [*columns, row.get("other_compute_seconds", [0] * 4)]:
            need(len(column) == 4, at)
            for value in column:
                seconds(value, at)
    for i, row in enumerate(report.get("samples", [])):
        at = f"/samples/{i}"
        keys(row, at, "at metrics", "worker_id")
        identifier(row.get("worker_id"), at + "/worker_id", optional=True)
        time(row["at"], at + "/at")
        known = METRICS_OF_WORKER if row.get("worker_id") else METRICS_OF_CLUSTER
        for name, value in row["metrics"].items():
            need(name in known.split(), f"{at}/metrics/{name}")
            number(value, f"{at}/metrics/{name}")
    for i, row in enumerate(report.get("spans", [])):
        at = f"/spans/{i}"
        keys(
            row,
            at,
            "id path enqueued_at done collections code",
            "number parent_id started_at stopped_at",
        )
        need(row.get("number") is None or row["number"] > 0, at + "/number")
        identifier(row["id"], at + "/id")
        identifier(row.get("parent_id"), at + "/parent_id", optional=True)
        need(1 <= len(row["path"]) <= 64, at + "/path")
        for tag in row["path"]:
            text(tag, at + "/path", 512)
        time(row["enqueued_at"], at + "/enqueued_at")
        time(row.get("started_at"), at + "/started_at", optional=True)
        time(row.get("stopped_at"), at + "/stopped_at", optional=True)
        need(type(row["done"]) is bool, at + "/done")
        need(row["done"] or row.get("stopped_at") is None, at + "/stopped_at")
        need(len(row["collections"]) <= 100, at + "/collections")
        for name in row["collections"]:
            text(name, at + "/collections", 256)
        stacks(row["code"], at + "/code")
    for i, row in enumerate(report.get("fine_metrics", [])):
        at = f"/fine_metrics/{i}"
        keys(row, at, "cells", "span_id")
        identifier(row.get("span_id"), at + "/span_id", optional=True)
        need(len(row["cells"]) <= 5000, at + "/cells")
        names = set()
        for cell in row["cells"]:
            need(isinstance(cell, list) and len(cell) == 5, at + "/cells")
            context, function, activity, unit, value = cell
            text(context, at + "/cells", 1024)
            text(function, at + "/cells", 1024, optional=True)
            text(activity, at + "/cells", 1024)
            text(unit, at + "/cells", 1024)
            number(value, at + "/cells")
            names.add(tuple(cell[:4]))
        need(len(names) == len(row["cells"]), at + "/cells")
    for i, row in enumerate(report.get("code", [])):
        at = f"/code/{i}"
        keys(row, at, "hash text")
        text(row["text"], at + "/text", 200_000)
        digest = hashlib.sha256(row["text"].encode("utf-8")).hexdigest()
        need(row["hash"] == digest, at + "/hash")
    for i, row in enumerate(report.get("profiles", [])):
        at = f"/profiles/{i}"
        keys(row, at, "id started_at stopped_at workers samples frames nodes functions by_worker")
        identifier(row["id"], at + "/id")
        time(row["started_at"], at + "/started_at")
        time(row["stopped_at"], at + "/stopped_at")
        need(row["started_at"] <= row["stopped_at"], at + "/stopped_at")
        integer(row["workers"], at + "/workers")
        integer(row["samples"], at + "/samples")
        need(len(row["frames"]) <= 20_000 and len(row["nodes"]) <= 50_000, at)
        for frame in row["frames"]:
            keys(frame, at + "/frames", "file function line", "text")
            text(frame["file"], at + "/frames", 2048)
            text(frame["function"], at + "/frames", 1024)
            integer(frame["line"], at + "/frames")
            text(frame.get("text"), at + "/frames", 2000, optional=True)
        below = [0] * len(row["nodes"])
        for index, (parent, frame, own, total) in enumerate(row["nodes"]):
            need(type(parent) is int and -1 <= parent < index, at + "/nodes")
            need(type(frame) is int and 0 <= frame < len(row["frames"]), at + "/nodes")
            integer(own, at + "/nodes")
            integer(total, at + "/nodes")
            if parent >= 0:
                below[parent] += total
        for (_, _, own, total), children in zip(row["nodes"], below):
            need(own == total - children, at + "/nodes")
        outermost = {i for i, (parent, *_) in enumerate(row["nodes"]) if parent == -1}
        for parts, name in (("functions", "prefix"), ("by_worker", "worker")):
            need(len(row[parts]) <= 100, f"{at}/{parts}")
            known = []
            for part in row[parts]:
                keys(part, f"{at}/{parts}", f"{name} roots")
                text(part[name], f"{at}/{parts}", 4096)
                known += part["roots"]
            is_whole = len(known) == len(set(known)) and outermost.issuperset(known)
            need(is_whole, f"{at}/{parts}")
        for part in row["by_worker"]:
            identifier(part["worker"], at + "/by_worker")
    for i, row in enumerate(report.get("events", [])):
        at = f"/events/{i}"
        keys(row, at, "id at topic data", "worker_id")
        identifier(row["id"], at + "/id")
        time(row["at"], at + "/at")
        text(row["topic"], at + "/topic", 512)
        identifier(row.get("worker_id"), at + "/worker_id", optional=True)
        data = json.dumps(row["data"], ensure_ascii=False, separators=(",", ":"))
        need(len(data.encode("utf-8")) <= 16 * 1024 and "\\u0000" not in data, at + "/data")
    for i, row in enumerate(report.get("logs", [])):
        at = f"/logs/{i}"
        keys(row, at, "id at source level logger message repeated", "worker_id worker")
        identifier(row["id"], at + "/id")
        time(row["at"], at + "/at")
        need(row["source"] in ("scheduler", "worker", "nanny"), at + "/source")
        identifier(row.get("worker_id"), at + "/worker_id", optional=True)
        text(row.get("worker"), at + "/worker", 2048, optional=True)
        text(row["level"], at + "/level", 32)
        text(row["logger"], at + "/logger", 512)
        text(row["message"], at + "/message", 20_000)
        integer(row["repeated"], at + "/repeated")
        need(row["repeated"] >= 1, at + "/repeated")
    for i, row in enumerate(report.get("usage", [])):
        at = f"/usage/{i}"
        optional_sums = "functions idle_seconds observed_seconds " + MEASURED_OF_HOUR
        keys(row, at, "hour " + SUMS_OF_HOUR, optional_sums)
        measured = [name in row for name in MEASURED_OF_HOUR.split()]
        need(all(measured) or not any(measured), at)
        for name, value in row.items():
            if name.endswith("_seconds"):
                seconds(value, f"{at}/{name}")
            elif name != "functions":
                integer(value, f"{at}/{name}")
        # The scheduler's clock must be close to the server's.
        need(abs(row["hour"] * 3600 - report["sent_at"]) < 100 * 86400, at + "/hour")
        need(len(row.get("functions") or []) <= 1000, at + "/functions")
        for function in row.get("functions") or []:
            keys(function, at + "/functions", "prefix " + SUMS_OF_FUNCTION)
            text(function["prefix"], at + "/functions", 4096)
            for name in SUMS_OF_FUNCTION.split():
                (seconds if name.endswith("_seconds") else integer)(function[name], at)
        prefixes = [function["prefix"] for function in row.get("functions") or []]
        need(len(set(prefixes)) == len(prefixes), at + "/functions")
    # Two rows of one report with one key contradict each other.
    for kind, key in KEYS.items():
        found = [key(row) for row in report.get(kind, [])]
        need(len(set(found)) == len(found), "/" + kind)


class Rows:
    """The server's tables: the newest version of each state, the first of each immutable row."""

    def __init__(self):
        self.cluster = (0, None)
        self.receipt = (0, None)
        self.tables = {kind: {} for kind in MOST}
        self.links = set()
        self.shares = {}  # of computations in task groups, each with its sequence
        self.changed_facts = []

    def apply(self, report):
        sequence = report["sequence"]
        if sequence > self.cluster[0]:
            self.cluster = (sequence, report["cluster"])
            self.receipt = (sequence, report["receipt"])
        for kind, table in self.tables.items():
            for row in report.get(kind, []):
                key = KEYS[kind](row)
                before = table.get(key, (0, None))
                if kind in CHANGING:
                    if sequence > before[0]:
                        table[key] = (sequence, row)
                elif before[1] is None:
                    table[key] = (sequence, row)
                elif before[1] != row:
                    self.changed_facts.append((kind, before[1], row))
        for row in report["computations"]:
            self.links.update((row["id"], group) for group in row["task_group_ids"])
            for share in row.get("task_group_shares", []):
                key = (row["id"], share["task_group_id"])
                if sequence > self.shares.get(key, (0, None))[0]:
                    self.shares[key] = (sequence, share)

    def __getattr__(self, kind):
        """Returns the rows of a section, each with the sequence of its report."""
        if kind.startswith("_") or kind == "tables" or kind not in self.tables:
            raise AttributeError(kind)
        return self.tables[kind]

    def values(self):
        """Returns everything except the sequences, which depend on the number of repeats.

        Dask keeps dependencies in sets, so their order has no meaning.
        """
        return {
            **{
                kind: {key: row for key, (_, row) in table.items()}
                for kind, table in self.tables.items()
            },
            "task_groups": {
                key: {**row, "dependencies": set(row["dependencies"])}
                for key, (_, row) in self.task_groups.items()
            },
            "computations": {
                key: {name: row[name] for name in row if name != "task_group_shares"}
                for key, (_, row) in self.computations.items()
            },
            "links": self.links,
            "shares": {key: share for key, (_, share) in self.shares.items()},
        }


class FakeGalvo:
    """Serves on a separate port until closed.

    ``answers`` holds functions of a report that are used up one by one. Each returns (status,
    headers, object), or None for the regular response. ``source`` is served as the preload.
    """

    def __init__(self, interval=0.5):
        self.lock = threading.Condition()
        self.interval = interval
        self.desired_state = "running"
        self.keep_alive_seconds = 0.0
        self.accepts = CLASSES.split()
        self.reports = []
        self.accepted = []
        self.requests = []
        # Headers and bodies of token exchanges, and their result: a status other than 201 applies
        # to all of them, such as 404 of a server without the exchange.
        self.exchanges = []
        self.exchange_status, self.exchange_code = 201, "NOT_FOUND"
        self.scopes = 200, {}, {"data": {"viewer": {"scopes": ["INGEST", "READ", "ADMIN"]}}}
        self.invalid = []
        self.answers = []
        self.always = None
        self.rows = Rows()
        self.source = None
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                with fake.lock:
                    fake.requests.append((self.path, dict(self.headers)))
                if fake.source is None or not re.match(r"/+api/v2/analytics/preload", self.path):
                    self.reply(404, {}, {"message": "no such page"})
                    return
                self.reply(200, {}, fake.source.encode("utf-8"))

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.reply(*fake.receive(self.path, dict(self.headers), body))

            def reply(self, status, headers, body):
                if not isinstance(body, bytes):
                    body = json.dumps(body).encode("utf-8")
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def receive(self, path, headers, body):
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)

        def refuse_constant(name):
            raise Invalid("the number " + name)

        if path.endswith("/api/v1/scheduler-tokens"):
            return self.exchange(headers, json.loads(body))
        with self.lock:
            self.requests.append((path, headers))
            if path.endswith("/graphql"):
                self.lock.notify_all()
                return self.scopes
            try:
                report = json.loads(body.decode("utf-8"), parse_constant=refuse_constant)
                check(report)
            except Exception as error:
                self.invalid.append(error)
                self.lock.notify_all()
                return 400, {}, {"message": "invalid", "pointer": str(error)}
            self.reports.append(report)
            choose = self.answers.pop(0) if self.answers else self.always
            self.lock.notify_all()
        answer = choose(report) if choose is not None else None
        with self.lock:
            if answer is None:
                self.rows.apply(report)
                self.invalid += self.rows.changed_facts
                self.rows.changed_facts = []
                self.accepted.append(report)
                answer = 200, {}, self.acknowledgement(report)
            self.lock.notify_all()
            return answer

    def exchange(self, headers, body):
        token = headers["Authorization"].partition(" ")[2]
        with self.lock:
            self.exchanges.append((headers, body))
            self.lock.notify_all()
            refusal = self.answers[0](None) if self.answers and token != TOKEN else None
            if refusal is not None and refusal[0] == 401:  # as for its reports
                del self.answers[0]
                return refusal
            if self.exchange_status != 201:
                return self.exchange_status, {}, {"message": "no", "code": self.exchange_code}
            made = SCHEDULER_TOKEN
            if len(self.exchanges) > 1:
                made += str(len(self.exchanges))
            return 201, {}, {"token": made, "scopes": ["ingest"]}

    def acknowledgement(self, report, **changes):
        return {
            "acknowledged": report["sequence"],
            "cluster_id": 1,
            "path": "/ada/clusters/1",
            "interval_seconds": self.interval,
            "desired_state": self.desired_state,
            "stop_reason": None,
            "stop_only_if_idle": False,
            "keep_alive_seconds": self.keep_alive_seconds,
            "resend": False,
            "accepts": self.accepts,
            **changes,
        }

    def wait_for(self, condition, timeout=15):
        """Waits until the condition holds, which is checked after each request."""
        with self.lock:
            if not self.lock.wait_for(condition, timeout):
                raise AssertionError("the server did not get to see what was expected")

    def groups(self):
        return [row for _, row in self.rows.task_groups.values()]

    def computations(self):
        return [row for _, row in self.rows.computations.values()]

    def errors(self):
        return self.rows_of("errors")

    def rows_of(self, kind):
        return [row for _, row in self.rows.tables[kind].values()]

    def close(self):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class HungServer:
    """Accepts connections and never responds."""

    def __init__(self):
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(128)
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                self.connections.append(self._socket.accept()[0])
            except OSError:
                return

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self.connections:
            connection.close()
        self._thread.join()
