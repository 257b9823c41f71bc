"""Tests of ``galvo top``: its figures, its screen, and a server that is away."""

import io
import json
import re
import sys

import pytest
from fake_api import Answer, data
from test_command import run  # noqa: F401

from galvo.client import transport
from galvo.client.live import Screen, follow
from galvo.client.pace import Pace
from galvo.client.server import Server


def live(number, amount=None, basis="EXACT", currency="USD", **changes):
    cost = None if amount is None else {"amount": amount, "currency": currency, "basis": basis}
    return {
        "number": number,
        "schedulerId": f"Scheduler-{number}",
        "name": f"run-{number}",
        "user": {"name": "ada"},
        "state": "RUNNING",
        "desiredState": "RUNNING",
        "durationSeconds": 93.0,
        "idleSeconds": None,
        "now": {"workers": 2, "threads": 8, "memoryUsed": 2**30, "memoryLimit": 2**32},
        "totals": {"tasks": 1234, "tasksSucceeded": 30, "errors": 1},
        "costPerHour": cost,
        **changes,
    }


def found(*clusters, total=None):
    count = len(clusters) if total is None else total
    list_ = {"totalCount": count, "nodes": list(clusters)}
    return data({"viewer": {"account": {"slug": "acme", "clusters": list_}}})


def test_the_most_expensive_cluster_stands_first(api, run):  # noqa: F811
    idle = live(7, 2.5, "ESTIMATED", state="IDLE", idleSeconds=7200.0)
    evil = live(8, name="e\x1b[31mvil", user=None, now=None, desiredState="STOPPED")
    api.answers = [found(live(6, 0.5), evil, idle)]
    status, out, err = run("top")
    assert (status, err) == (0, "")
    headline, gap, titles, *rows = out.splitlines()
    assert headline == (
        "acme: 3 clusters live · 1 idle · 4 workers · 16 threads · ~3.00 USD per hour"
        " · 1 of unknown cost"
    )
    assert gap == "" and titles.split()[-1] == "COST/H"
    cells = [re.split(r" {2,}", row) for row in rows]
    assert cells[0] == [
        "7", "run-7", "ada", "idle for 2 h", "1 min 33 s", "2", "8", "1.00 GiB (25%)", "30",
        "1,234", "1", "~2.50 USD",
    ]  # fmt: skip
    assert cells[1][0] == "6" and cells[1][3] == "running" and cells[1][-1] == "0.50 USD"
    # Nothing is known of its size and cost, which is not 0.
    name, *others = cells[2][1:]
    assert name == "e\\x1b[31mvil"
    assert others == ["stopping", "1 min 33 s", "30", "1,234", "1", "unknown"]
    states = api.requests[0].variables["filter"]["states"]
    assert states == ["STARTING", "RUNNING", "IDLE", "CLOSING"]


def test_currencies_are_not_added(api, run):  # noqa: F811
    api.answers = [found(live(1, 1.0), live(2, 2.0, currency="EUR"))]
    assert "2.00 EUR + 1.00 USD per hour" in run("top", "--once")[1]


def test_no_clusters_and_more_than_a_page(api, run):  # noqa: F811
    api.answers = [found()]
    assert run("top")[1] == "acme: 0 clusters live · 0 workers · 0 threads\n"
    api.answers = [found(*(live(n) for n in range(100)), total=1_134)]
    last = run("top")[1].splitlines()[-1]
    assert last == "1,034 more, which reported less recently, are not shown."


def test_json_has_what_is_known(api, run):  # noqa: F811
    api.answers = [found(live(1, 1.0), live(2, 4.0))]
    status, out, _ = run("top", "--json")
    assert status == 0
    shown = json.loads(out)
    assert shown["total"] == 2
    assert shown["clusters"] == [live(2, 4.0), live(1, 1.0)]


def test_a_user_is_looked_for_among_the_live_clusters(api, run):  # noqa: F811
    api.answers = [
        data({"viewer": {"user": {"id": "U1", "name": "me"}}}),
        found(live(1)),
    ]
    assert run("top", "--user", "me")[0] == 0
    assert api.requests[1].variables["filter"]["users"] == ["U1"]


def test_a_server_that_is_away_is_said_and_asked_again(api, impatient, monkeypatch):
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0)
    api.answers = [found(live(1, 1.0)), Answer(502, b"<html>"), found(live(1, 2.0))]
    states = follow(Server.configured(), None, Pace(0.001))
    first, second, third = (next(states) for _ in range(3))
    assert "Ctrl-C ends" in first[-1] and "status 502" in second[-1] and "Ctrl-C" in third[-1]
    # The clusters known last stay.
    assert first[:-1] == second[:-1] != third[:-1]
    with pytest.raises(Exception, match="status 403"):
        api.answers = [Answer(403, b"{}")]
        next(states)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_screen_is_drawn_again_and_given_back(api, monkeypatch):
    from galvo.command import main

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    drawn = []

    def show(self, lines):
        drawn.append(lines)
        if len(drawn) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Screen, "show", show)
    api.answers = [found(live(1, float(n))) for n in range(4)]
    assert main(["top", "--interval", "10ms"]) == 0
    assert ["2.00 USD" in line for line in drawn[2]].count(True) == 2
    written = terminal.getvalue()
    assert written.startswith("\x1b[?1049h") and written.endswith("\x1b[?1049l")


def test_a_screen_that_is_too_small_keeps_the_last_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("LINES", "5")
    stream = io.StringIO()
    Screen(stream).show([f"line {n} is long" for n in range(20)])
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert lines.split("\r\n") == ["line 0 is ", "line 1 is ", "line 2 is ", "…", "line 19 is"]
