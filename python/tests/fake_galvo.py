"""A Galvo server small enough to read: checks reports strictly, keeps the newest of each row."""

import contextlib
import gzip
import json
import math
import re
import socket
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "seal-2f1c9d7a40"
STATES = set("released waiting no-worker queued processing memory erred forgotten".split())


class Invalid(Exception):
    pass


def check(report):
    """Raises Invalid with a JSON pointer unless the report is exactly what the protocol allows."""

    def need(condition, pointer):
        if not condition:
            raise Invalid(pointer)

    def keys(value, pointer, names):
        need(isinstance(value, dict), pointer)
        need(set(value) == set(names.split()), f"{pointer}: {sorted(value)}")

    def integer(value, pointer):
        need(type(value) is int and 0 <= value < 2**53, pointer)

    def seconds(value, pointer):
        need(type(value) in (int, float) and math.isfinite(value) and value >= 0, pointer)

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

    keys(
        report,
        "",
        "version account scheduler_id sequence base sent_at interval_seconds final cluster"
        " computations task_groups errors dropped",
    )
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
        " memory_limit_bytes memory_used_bytes totals",
    )
    text(cluster["name"], "/cluster/name", 4096, optional=True)
    text(cluster["address"], "/cluster/address", 2048)
    text(cluster["dashboard_url"], "/cluster/dashboard_url", 2048, optional=True)
    text(cluster["close_reason"], "/cluster/close_reason", 2048, optional=True)
    time(cluster["started_at"], "/cluster/started_at")
    time(cluster["closed_at"], "/cluster/closed_at", optional=True)
    time(cluster["idle_since"], "/cluster/idle_since", optional=True)
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

    for kind, most in (("computations", 1000), ("task_groups", 5000), ("errors", 500)):
        need(len(report[kind]) <= most, "/" + kind)
        integer(report["dropped"][kind], "/dropped/" + kind)
    keys(report["dropped"], "/dropped", "computations task_groups errors")
    for i, row in enumerate(report["computations"]):
        at = f"/computations/{i}"
        keys(row, at, "id started_at stopped_at state task_group_ids")
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
            " tasks_erred tasks_blamed durations bytes types dependencies",
        )
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
        keys(row, at, "id at key task_group_id computation_id type message traceback worker")
        identifier(row["id"], at + "/id")
        time(row["at"], at + "/at")
        text(row["key"], at + "/key", 4096)
        identifier(row["task_group_id"], at + "/task_group_id", optional=True)
        identifier(row["computation_id"], at + "/computation_id", optional=True)
        text(row["type"], at + "/type", 256, optional=True)
        text(row["message"], at + "/message", 20_000)
        text(row["traceback"], at + "/traceback", 100_000)
        text(row["worker"], at + "/worker", 2048, optional=True)


class Rows:
    """What the server would have in its tables: the newest of each row, errors as first told."""

    def __init__(self):
        self.cluster = (0, None)
        self.computations = {}
        self.task_groups = {}
        self.errors = {}
        self.links = set()

    def apply(self, report):
        sequence = report["sequence"]
        if sequence > self.cluster[0]:
            self.cluster = (sequence, report["cluster"])
        for table, rows in (
            (self.computations, report["computations"]),
            (self.task_groups, report["task_groups"]),
        ):
            for row in rows:
                if sequence > table.get(row["id"], (0, None))[0]:
                    table[row["id"]] = (sequence, row)
        for row in report["computations"]:
            self.links.update((row["id"], group) for group in row["task_group_ids"])
        for row in report["errors"]:
            self.errors.setdefault(row["id"], row)

    def values(self):
        """Everything but the sequences, which depend on how often a report had to be repeated.

        Dask keeps dependencies in sets, so their order means nothing.
        """
        return {
            "computations": {key: row for key, (_, row) in self.computations.items()},
            "task_groups": {
                key: {**row, "dependencies": set(row["dependencies"])}
                for key, (_, row) in self.task_groups.items()
            },
            "errors": self.errors,
            "links": self.links,
        }


class FakeGalvo:
    """Serves on a port of its own until closed.

    ``answers`` holds functions of a report, used up one by one, each giving (status, headers,
    object) or None for the ordinary answer. ``source`` is offered as the preload.
    """

    def __init__(self, interval=0.5):
        self.lock = threading.Condition()
        self.interval = interval
        self.desired_state = "running"
        self.reports = []
        self.accepted = []
        self.requests = []
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

        with self.lock:
            self.requests.append((path, headers))
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
                self.accepted.append(report)
                answer = 200, {}, self.acknowledgement(report)
            self.lock.notify_all()
            return answer

    def acknowledgement(self, report, **changes):
        return {
            "acknowledged": report["sequence"],
            "cluster_id": 1,
            "interval_seconds": self.interval,
            "desired_state": self.desired_state,
            "resend": False,
            **changes,
        }

    def wait_for(self, condition, timeout=15):
        """Waits until the condition holds, which is looked at after each request."""
        with self.lock:
            if not self.lock.wait_for(condition, timeout):
                raise AssertionError("the server did not get to see what was expected")

    def groups(self):
        return [row for _, row in self.rows.task_groups.values()]

    def computations(self):
        return [row for _, row in self.rows.computations.values()]

    def errors(self):
        return list(self.rows.errors.values())

    def close(self):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class HungServer:
    """Accepts connections and never answers."""

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
