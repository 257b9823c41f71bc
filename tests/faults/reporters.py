"""Simulated schedulers.

They report like the plugin: the changes since the last acknowledged report, with cumulative values.
They record their reports and the responses.
"""

import contextlib
import gzip
import http.client
import json
import random
import socket
import threading
import time
import uuid
from dataclasses import dataclass, field

# Longer than any timeout of the server: a longer request hangs.
PATIENCE_SECONDS = 30.0
# Immutable items are sent until they are acknowledged; of the other kinds the newest version is
# sent.
KINDS = ("task_groups", "computations", "errors", "events", "logs")


@dataclass
class Report:
    """A report, and True if it was acknowledged."""

    sequence: int
    tasks: int  # grows with each report, so it identifies the report
    items: dict
    errors: int
    body: bytes
    acknowledged: bool = False


@dataclass
class Answer:
    """The outcome of one attempt to send a report."""

    began: float
    ended: float
    status: int | None  # None without a response
    retry_after: str | None = None
    why: str = ""

    @property
    def seconds(self):
        return self.ended - self.began


class Scheduler:
    """The activity on a cluster, one step per report. ``clock`` is the scheduler's own."""

    def __init__(self, name, dice, clock=time.time):
        self.id = f"Scheduler-{uuid.UUID(int=dice.getrandbits(128))}"
        self.name = name
        self.reports = []
        self.base = None
        self._dice = dice
        self._clock = clock
        self._started_at = clock()
        self._tasks = self._errors = 0
        self._running = None
        self._unsent = {kind: {} for kind in KINDS}
        self._worker = self._uuid()

    def next_report(self):
        """Returns the next report, with new activity."""
        self._step()
        items = {kind: dict(unsent) for kind, unsent in self._unsent.items()}
        sequence = len(self.reports) + 1
        message = self._message(sequence, items)
        body = gzip.compress(json.dumps(message).encode(), compresslevel=1)
        report = Report(sequence, self._tasks, items, self._errors, body)
        self.reports.append(report)
        return report

    def acknowledge(self, report):
        report.acknowledged = True
        self.base = max(self.base or 0, report.sequence)
        for kind, items in report.items.items():
            unsent = self._unsent[kind]
            for id_, item in items.items():
                if unsent.get(id_) is item:  # it has not changed meanwhile
                    del unsent[id_]

    @property
    def acknowledged(self):
        return sum(report.acknowledged for report in self.reports)

    def _uuid(self):
        return str(uuid.UUID(int=self._dice.getrandbits(128), version=4))

    def _put(self, kind, **item):
        item["id"] = item.get("id") or self._uuid()
        self._unsent[kind][item["id"]] = item
        return item

    def _step(self):
        now, number, dice = self._clock(), len(self.reports) + 1, self._dice
        if self._running is not None:  # the computation of the last report has ended
            group, computation = self._running
            done = group["tasks"]
            states, durations = {"memory": done}, {"compute": 0.25 * done, "transfer": 0.5}
            finished = {
                **group,
                "states": states,
                "durations": durations,
                "stopped_at": now,
                "tasks_succeeded": done,
                "bytes": 800 * done,
            }
            self._put("task_groups", **finished)
            self._put("computations", **{**computation, "state": "finished", "stopped_at": now})
        tasks = dice.randint(1, 50)
        self._tasks += tasks
        group = self._put(
            "task_groups",
            name=f"load-{number}",
            prefix="load",
            first_seen_at=now,
            started_at=now,
            stopped_at=None,
            states={"processing": tasks},
            tasks=tasks,
            tasks_succeeded=0,
            tasks_erred=0,
            tasks_blamed=0,
            durations={},
            bytes=0,
            types=["int"],
            dependencies=[],
        )
        computation = self._put(
            "computations",
            started_at=now,
            stopped_at=None,
            state="running",
            task_group_ids=[group["id"]],
        )
        self._running = group, computation
        for _ in range(dice.randint(1, 3)):
            self._put("events", at=now, topic="progress", data={"report": number, "of": self.name})
        self._put(
            "logs",
            at=now,
            source="scheduler",
            level="INFO",
            logger="distributed.scheduler",
            message=f"report {number} of {self.name}",
            repeated=1,
        )
        if dice.random() < 0.3:
            self._errors += 1
            self._put(
                "errors",
                at=now,
                key=f"divide-{number}",
                task_group_id=group["id"],
                computation_id=computation["id"],
                type="ZeroDivisionError",
                message=f"ZeroDivisionError('of report {number}')",
                traceback='  File "etl.py", line 1, in divide\n',
                worker="tcp://10.0.0.1:40000",
            )

    def _message(self, sequence, items):
        now = self._clock()
        elapsed = max(0.0, now - self._started_at)
        return {
            "version": 1,
            "scheduler_id": self.id,
            "sequence": sequence,
            "base": self.base,
            "sent_at": now,
            "interval_seconds": 15.0,
            "final": False,
            "cluster": {
                "name": self.name,
                "address": "tcp://10.0.0.1:8786",
                "started_at": self._started_at,
                "workers": 2,
                "threads": 8,
                "memory_used_bytes": 1 << 30,
                "totals": {
                    "tasks": self._tasks,
                    "tasks_succeeded": self._tasks,
                    "tasks_erred": self._errors,
                    "errors": self._errors,
                    "compute_seconds": 0.25 * self._tasks,
                    "transfer_seconds": 0.5 * sequence,
                    "thread_seconds": 8 * elapsed,
                    "bytes": 800 * self._tasks,
                    "workers": 2,
                    "peak_workers": 2,
                    "peak_threads": 8,
                },
            },
            **{kind: list(of_kind.values()) for kind, of_kind in items.items()},
            "workers": [
                {
                    "id": self._worker,
                    "name": "worker-0",
                    "address": "tcp://10.0.0.1:40000",
                    "host": "10.0.0.1",
                    "threads": 4,
                    "memory_limit_bytes": 4 << 30,
                    "started_at": self._started_at,
                }
            ],
            "samples": [{"worker_id": None, "at": now, "metrics": {"tasks_memory": self._tasks}}],
            "dropped": {},
        }


class Reporter(threading.Thread):
    """Sends one scheduler's reports, and retries soon after any failure.

    A plugin would wait longer, but the server's recovery time is measured here.
    """

    def __init__(self, scheduler, port, token, dice, pace, repeats=0.1):
        super().__init__(daemon=True, name=scheduler.name)
        self.scheduler, self.port = scheduler, port
        self.answers, self.complaints = [], []
        self._token, self._dice, self._pace, self._repeats = token, dice, pace, repeats
        self._may_send, self._stop_asked = threading.Event(), threading.Event()
        self._resting = threading.Event()
        self._may_send.set()
        self._connection = None
        self.on_answer = lambda report: None

    def run(self):
        report = None
        while not self._stop_asked.is_set():
            if not self._may_send.is_set():
                self._resting.set()
                self._may_send.wait(0.05)
                continue
            self._resting.clear()
            if report is None or report.acknowledged or self._dice.random() < 0.5:
                report = self.scheduler.next_report()
            if self.send(report):
                if self._dice.random() < self._repeats:
                    self.send(report)  # repeated, as after a lost response
                time.sleep(self._dice.uniform(0.0, 2 * self._pace))
            else:
                time.sleep(self._dice.uniform(0.02, 0.2))
        self._resting.set()
        self._hang_up()

    def send(self, report):
        """Sends a report, and returns True if it is acknowledged."""
        began, status, retry_after, why = time.monotonic(), None, None, ""
        try:
            status, headers, body = self._exchange(report.body)
            retry_after = headers.get("Retry-After")
        except (OSError, http.client.HTTPException) as error:
            why = type(error).__name__
            self._hang_up()
        ended = time.monotonic()
        if status == 200:
            answer = json.loads(body)
            assert answer["acknowledged"] == report.sequence, answer
            if answer["resend"]:
                self.complaints.append(f"{report.sequence}: the server lacks what it acknowledged")
            self.scheduler.acknowledge(report)
            self.on_answer(report)
        elif status is not None:
            why = body.decode(errors="replace")[:200]
        self.answers.append(Answer(began, ended, status, retry_after, why))
        return status == 200

    def _exchange(self, body):
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=PATIENCE_SECONDS
            )
            self._connection.connect()
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        self._connection.request("POST", "/api/v1/reports", body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.will_close:
            self._hang_up()
        return response.status, response.headers, answer

    def _hang_up(self):
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._connection = None

    def pause(self):
        self._may_send.clear()

    def resume(self):
        self._resting.clear()
        self._may_send.set()

    def wait_until_resting(self, seconds=PATIENCE_SECONDS + 5):
        assert self._resting.wait(seconds), f"{self.name} hangs"

    def ask_to_stop(self):
        self._stop_asked.set()
        self._may_send.set()


@dataclass
class Fleet:
    """Several reporters at once.

    ``pace`` is their mean pause between two reports, in seconds. ``repeats`` is the share of
    reports that are sent twice.
    """

    server: object
    dice: random.Random
    size: int = 4
    pace: float = 0.03
    repeats: float = 0.1
    port: int | None = None
    clocks: tuple = (time.time,)
    reporters: list = field(default_factory=list)

    def start(self):
        for number in range(self.size):
            dice = random.Random(self.dice.random())
            scheduler = Scheduler(f"cluster-{number}", dice, self.clocks[number % len(self.clocks)])
            port = self.port or self.server.port
            token = self.server.token
            self.reporters.append(Reporter(scheduler, port, token, dice, self.pace, self.repeats))
        for reporter in self.reporters:
            reporter.start()
        return self

    def pause(self):
        """Returns once nothing is in flight."""
        for reporter in self.reporters:
            reporter.pause()
        for reporter in self.reporters:
            reporter.wait_until_resting()

    def resume(self):
        for reporter in self.reporters:
            reporter.resume()

    def stop(self):
        for reporter in self.reporters:
            reporter.ask_to_stop()
        for reporter in self.reporters:
            reporter.join(PATIENCE_SECONDS + 5)
            assert not reporter.is_alive(), f"{reporter.name} hangs"

    @property
    def acknowledged(self):
        return sum(reporter.scheduler.acknowledged for reporter in self.reporters)

    def wait_for_progress(self, reports=2, seconds=60.0):
        """Waits until each has further acknowledged reports, and returns the seconds."""
        began = time.monotonic()
        goals = [r.scheduler.acknowledged + reports for r in self.reporters]
        while any(
            r.scheduler.acknowledged < goal for r, goal in zip(self.reporters, goals, strict=True)
        ):
            last = {r.name: r.answers[-1:] for r in self.reporters}
            assert time.monotonic() < began + seconds, f"reports are not taken: {last}"
            time.sleep(0.005)
        return time.monotonic() - began

    def answers(self, since=0.0, until=float("inf")):
        """Returns the responses to attempts that started in this time."""
        return [
            answer
            for reporter in self.reporters
            for answer in list(reporter.answers)
            if since <= answer.began < until
        ]

    def until_some_moment(self):
        """Waits for progress and then for a random time, so that a fault may occur at any point."""
        self.wait_for_progress(3)
        time.sleep(self.dice.uniform(0.0, 0.4))

    def settle(self):
        """Stops after the last report of each was acknowledged."""
        self.wait_for_progress(1)
        for reporter in self.reporters:
            reporter.ask_to_stop()
        for reporter in self.reporters:
            reporter.join(PATIENCE_SECONDS + 5)
            assert not reporter.is_alive(), f"{reporter.name} hangs"
            report = reporter.scheduler.reports[-1]
            if not report.acknowledged:
                assert reporter.send(report), reporter.answers[-1]
