"""The server is killed at every step of a report, and restarted on the same store."""

import contextlib
import socket
import sqlite3
import threading
import time

from processes import wait_until

STRIKES = 4


@contextlib.contextmanager
def locked(request, store, tmp_path):
    """Blocks all writes while it lasts.

    PostgreSQL blocks a report in the middle, after rows of other tables were written; SQLite blocks
    it at the start.
    """
    if store == "sqlite":
        with contextlib.closing(sqlite3.connect(tmp_path / "galvo.db", timeout=30)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.rollback()
    else:
        with request.getfixturevalue("postgres").session(database="galvo") as session:
            session.run("BEGIN")
            session.run("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
            yield


def begin_again(server, fleet, outcome):
    """Restarts the server, compares before any resend, and resumes the reporters.

    Returns the seconds from the start until each had a report acknowledged.
    """
    fleet.pause()
    began = time.monotonic()
    server.start()
    started = time.monotonic() - began
    outcome.judge(fleet, server)
    fleet.resume()
    return started + fleet.wait_for_progress(1)


def finish(fleet, server, outcome, fault, recovery):
    fleet.settle()
    outcome.write(fault, outcome.judge(fleet, server), recovery)


def test_before_the_body_is_whole(server, make_fleet, outcome):
    fleet = make_fleet(server, size=2)
    fleet.until_some_moment()
    fleet.pause()
    scheduler, token = fleet.reporters[0].scheduler, server.token
    report = scheduler.next_report()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = (
            "POST /api/v1/reports HTTP/1.1\r\nHost: galvo\r\nContent-Encoding: gzip\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(report.body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + report.body[: len(report.body) // 2])
        time.sleep(0.2)
        server.kill()
    recovery = begin_again(server, fleet, outcome)
    finish(fleet, server, outcome, "server killed before the body was whole", recovery)


def test_while_it_stores(request, store, tmp_path, server, make_fleet, outcome):
    fleet = make_fleet(server)
    fleet.until_some_moment()
    with locked(request, store, tmp_path):
        time.sleep(0.5)  # by now all of them wait for it
        server.kill()
    recovery = begin_again(server, fleet, outcome)
    finish(fleet, server, outcome, "server killed while storing", recovery)


def test_after_the_commit_and_before_the_answer(server, make_fleet, make_wire, outcome):
    wire = make_wire(server.port)
    fleet = make_fleet(server, port=wire.port)
    fleet.until_some_moment()
    wire.mute = True

    def is_stored():
        """True if a report is stored without its acknowledgment having arrived."""
        query = "{ viewer { account { clusters { nodes { schedulerId totals { tasks } } } } } }"
        nodes = server.query(query)["viewer"]["account"]["clusters"]["nodes"]
        stored = {node["schedulerId"]: node["totals"]["tasks"] for node in nodes}
        return any(
            stored[r.scheduler.id]
            > max(report.tasks for report in r.scheduler.reports if report.acknowledged)
            for r in fleet.reporters
        )

    wait_until(is_stored, "reports are stored")
    server.kill()
    wire.mute = False
    wire.cut()
    recovery = begin_again(server, fleet, outcome)
    finish(fleet, server, outcome, "server killed between commit and answer", recovery)


def test_after_the_answer(server, make_fleet, outcome):
    fleet = make_fleet(server)
    fleet.until_some_moment()
    killed = threading.Event()

    def kill(report):
        if not killed.is_set():
            killed.set()
            server.kill()

    fleet.reporters[0].on_answer = kill
    assert killed.wait(20)
    server.process.wait(10)
    recovery = begin_again(server, fleet, outcome)
    finish(fleet, server, outcome, "server killed right after the answer", recovery)


def test_at_any_moment(server, make_fleet, outcome, dice, length):
    fleet = make_fleet(server, size=6, pace=0.005)
    slowest = 0.0
    for _ in range(round(STRIKES * length)):
        fleet.wait_for_progress(2)
        time.sleep(dice.uniform(0.0, 0.5))
        server.kill()
        slowest = max(slowest, begin_again(server, fleet, outcome))
    finish(fleet, server, outcome, "server killed at random moments", slowest)
