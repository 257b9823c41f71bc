"""Tests of following a cluster and its logs: the display, the polling interval, and the end."""

import io

import pytest
from conftest import wait_until
from fake_api import NOTHING, Answer, data
from test_lists import KEY

import galvo
from galvo.client import log, transport
from galvo.client.log import LogFilter, tail
from galvo.client.pace import Pace
from galvo.client.server import Server
from galvo.client.terminal import printable, table
from galvo.client.watch import Notebook, Terminal, Watch


def snapshot(**changes):
    return {
        "number": 12,
        "name": "etl",
        "schedulerId": KEY["schedulerId"],
        "state": "RUNNING",
        "desiredState": "RUNNING",
        "startedAt": "2026-11-20T11:00:00+00:00",
        "endedAt": None,
        "durationSeconds": 93.0,
        "closeReason": None,
        "lastSeenAt": "2026-11-20T11:01:33+00:00",
        "idleSince": None,
        "now": {"workers": 1, "threads": 4, "memoryUsed": 2**30, "memoryLimit": 2**32},
        "totals": {"tasks": 30, "tasksSucceeded": 1, "tasksErred": 0, "errors": 0},
        "usage": {"utilization": 0.5, "costs": []},
        "computations": {"nodes": []},
        "errors": {"nodes": []},
        **changes,
    }


def computation(state="RUNNING", **changes):
    group = {"prefix": "inc", "tasks": 8, "tasksSucceeded": 9, "tasksErred": 0, "tasksBlamed": 0}
    other = {"prefix": "sum", "tasks": 4, "tasksSucceeded": 1, "tasksErred": 1, "tasksBlamed": 1}
    groups = {"nodes": [group, other]}
    return {"state": state, "wallSeconds": None, "taskGroups": groups, **changes}


CLOSED = {"state": "CLOSED", "now": None, "closeReason": "requested through Galvo"}


def of(value):
    return data({"cluster": value})


class Screen:
    def __init__(self):
        self.shown, self.complaints, self.ended = [], [], 0

    def show(self, snapshot):
        self.shown.append(str(snapshot))

    def show_problem(self, problem):
        self.complaints.append(problem)

    def end(self):
        self.ended += 1


def watch_of(api):
    server = Server.configured()
    return Watch(server, galvo.client.cluster.key_of(server, 12), 0.01)


def test_it_shows_what_changed_until_the_cluster_is_closed(api):
    changed = snapshot(totals={**snapshot()["totals"], "tasksSucceeded": 30, "errors": 1})
    api.answers = [of(KEY), *[of(snapshot())] * 3, of(changed), of(snapshot(**CLOSED))]
    screen, watch = Screen(), watch_of(api)
    watch.follow(screen)
    assert screen.shown == [
        "cluster 12 etl · running for 1 min 33 s · 1 worker, 4 threads · 1.00 GiB of 4.00 GiB"
        " · 1 task done",
        "cluster 12 etl · running for 1 min 33 s · 1 worker, 4 threads · 1.00 GiB of 4.00 GiB"
        " · 30 tasks done · 1 error",
        "cluster 12 etl · closed after 1 min 33 s (requested through Galvo) · 1 task done",
    ]
    assert (screen.ended, len(api.requests)) == (1, 6)
    assert watch.latest.closed and watch.latest.data["closeReason"] == "requested through Galvo"


def test_a_server_that_is_away_is_waited_for(api, impatient):
    away = [NOTHING] * 4
    api.answers = [of(KEY), of(snapshot()), *away, *away, of(snapshot()), of(snapshot(**CLOSED))]
    screen = Screen()
    watch_of(api).follow(screen)
    assert ["does not answer" in line for line in screen.shown] == [False, True, False, False]


def test_what_stands_in_front_of_a_server_may_answer_that_it_is_away(api, monkeypatch):
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0)
    away = Answer(502, b"<html>")
    api.answers = [of(KEY), of(snapshot()), away, of(snapshot()), of(snapshot(**CLOSED))]
    screen = Screen()
    watch_of(api).follow(screen)
    assert ["status 502" in line for line in screen.shown] == [False, True, False, False]
    # Before the first answer there is nothing to show.
    api.answers = [of(KEY), away]
    with pytest.raises(galvo.RequestRefused):
        watch_of(api).follow(Screen())


def test_a_cluster_that_goes_away_ends_it(api):
    api.answers = [of(KEY), of(snapshot()), of(None)]
    with pytest.raises(galvo.NotFound, match="no longer there"):
        watch_of(api).follow(Screen())


def test_in_a_notebook_it_goes_on_beside_and_can_be_stopped(api):
    api.answers = [of(KEY), of(snapshot())]
    screen, watch = Screen(), watch_of(api)
    watch.follow_beside(screen)
    assert not watch.wait(0.1)
    wait_until(lambda: screen.shown)
    watch.stop()
    assert watch.wait(5)
    assert (len(screen.shown), screen.ended) == (1, 1)


def test_what_goes_wrong_beside_is_shown(api):
    api.answers = [of(KEY), of(snapshot()), of(None)]
    screen, watch = Screen(), watch_of(api)
    watch.follow_beside(screen)
    assert len(screen.shown) == 1, "before the thread begins"
    assert watch.wait(5)
    assert screen.complaints == ["cluster 12 is no longer there"]


def test_a_cell_of_a_notebook_changes_in_place(api):
    class Handle:
        def __init__(self):
            self.shown = []

        def update(self, shown, raw):
            assert raw
            self.shown.append(shown)

    handle = Handle()

    def display(shown, raw, display_id):
        assert raw and display_id
        handle.shown.append(shown)
        return handle

    evil = "<script>alert(1)</script>"
    error = {"at": "2026-11-20T11:00:00+00:00", "type": "ValueError", "message": evil, "key": "k"}
    running = snapshot(
        name=evil, computations={"nodes": [computation()]}, errors={"nodes": [error]}
    )
    api.answers = [of(KEY), of(running), of(snapshot(**CLOSED))]
    watch_of(api).follow(Notebook(display))
    first, second = handle.shown
    assert first.keys() == {"text/plain", "text/html"}
    assert "<script" not in first["text/html"] and "&lt;script&gt;" in first["text/html"]
    # A task that was computed twice is one task.
    assert '<progress value="11" max="12"></progress>' in first["text/html"]
    assert "under way: 11 of 12" in first["text/plain"]
    assert "closed after" in second["text/html"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_lines_of_a_terminal_take_each_others_place(api, is_terminal):
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal
    api.answers = [of(KEY), of(snapshot(name="a\x1b]0;b\x07")), of(snapshot(**CLOSED))]
    watch_of(api).follow(Terminal(stream))
    written = stream.getvalue()
    assert "\x1b]" not in written and "\\x1b]0;b\\x07" in written
    assert written.count("\n") == (1 if is_terminal else 2)
    assert written.count("\r\x1b[K") == (2 if is_terminal else 0)


def test_it_is_looked_more_seldom_while_nothing_changes():
    waited = []

    class Stopped:
        def wait(self, seconds):
            waited.append(round(seconds, 2))

    pace = Pace(2, Stopped())
    for changed in (True, False, False, False, False, False, False, False, True):
        assert pace.wait_for_next(changed)
    assert waited == [2, 3, 4.5, 6.75, 10.12, 15, 15, 15, 2]
    with pytest.raises(ValueError, match="interval"):
        Pace(0)


class FakeLogs:
    """Lines in the order of their times, whenever they arrive."""

    def __init__(self):
        self.lines, self.state, self.looks = [], "RUNNING", 0

    def add(self, *times):
        self.lines += times
        self.lines.sort()

    def answer(self, request):
        if "logs(" not in request.query:
            return data({"cluster": KEY})
        variables = request.variables
        self.looks += 1
        match, backwards = variables.get("match"), "first" not in variables
        if backwards:
            before = variables.get("before")
            left = [line for line in self.lines if before is None or line < int(before)][::-1]
        else:
            after = variables.get("after")
            left = [line for line in self.lines if after is None or line > int(after)]
        size, looked_at, passed = variables["last"] if backwards else variables["first"], [], []
        # At most 200 lines are examined, and the cursors refer to these, whether they match or not.
        while left and len(passed) < size and len(looked_at) < 200:
            looked_at.append(left.pop(0))
            if match is None or match in str(looked_at[-1]):
                passed.append(looked_at[-1])
        ends = sorted(looked_at)[:: len(looked_at) - 1 or 1] or [None]
        turn = {"startCursor": ends[0] and str(ends[0]), "endCursor": ends[-1] and str(ends[-1])}
        turn.update(hasNextPage=bool(left), hasPreviousPage=bool(left))
        passed.sort()
        edges = [{"cursor": str(line), "node": self.node(line)} for line in passed]
        return data({"cluster": {"state": self.state, "logs": {"pageInfo": turn, "edges": edges}}})

    @staticmethod
    def node(line):
        return {"at": "2026-11-20T11:00:00+00:00", "message": str(line)}


class StepByStep:
    """Runs a step between polls instead of waiting."""

    def __init__(self, *steps, seconds=0.0):
        self.steps, self.seconds, self.clock = list(steps), seconds, 0.0
        self.changes = []

    def wait_for_next(self, changed):
        self.changes.append(changed)
        self.clock += self.seconds
        if not self.steps:
            return False
        self.steps.pop(0)()
        return True

    def now(self):
        return self.clock


@pytest.fixture
def logs(api):
    logs = FakeLogs()
    api.answers = [logs.answer]
    return logs


def tailed(logs, count, pace=None, match=None):
    server = Server.configured()
    key = galvo.client.cluster.key_of(server, 12)
    found = tail(server, key, LogFilter(match=match), count, pace)
    return [[int(line["message"]) for line in lines] for lines in found]


@pytest.mark.parametrize("count, found", [(0, []), (3, [248, 249, 250]), (250, range(1, 251))])
def test_the_last_lines(logs, count, found):
    logs.add(*range(1, 251))
    assert tailed(logs, count) == [list(found)]
    assert tailed(logs, 1000) == [list(range(1, 251))]


def test_the_last_lines_with_some_words(logs):
    logs.add(*range(1, 1001))
    assert tailed(logs, 3, match="77") == [[779, 877, 977]]


def test_lines_come_once_and_late_ones_when_they_arrive(logs):
    logs.add(*range(100, 350))
    pace = StepByStep(
        lambda: logs.add(400, 401),
        lambda: None,
        lambda: logs.add(390, 500),  # the first is older than the lines shown
        lambda: logs.add(*range(1000, 1250)),
    )
    assert tailed(logs, 2, pace) == [[348, 349], [400, 401], [390, 500], list(range(1000, 1250))]
    assert pace.changes == [False, True, False, True, True]


def test_what_is_old_is_not_read_again_for_ever(logs, monkeypatch):
    monkeypatch.setattr(log, "LATE_SECONDS", 10.0)
    steps = [lambda n=n: logs.add(*range(n * 100, n * 100 + 100)) for n in range(1, 40)]
    pace = StepByStep(*steps, seconds=5.0)
    found = tailed(logs, 0, pace)
    assert [line for lines in found for line in lines] == list(range(100, 4000))
    # A poll reads the lines of at most three polls, and each page has a hundred.
    assert logs.looks < 39 * 5


def test_lines_that_do_not_pass_are_not_read_again_for_ever(logs, monkeypatch):
    monkeypatch.setattr(log, "LATE_SECONDS", 0.0)
    pace = StepByStep(*[lambda n=n: logs.add(n) for n in range(1, 100)], seconds=1.0)
    assert tailed(logs, 5, pace, match="7")[:4] == [[], [7], [17], [27]]


def test_logs_are_followed_on_after_the_server_was_away(logs, api, impatient):
    answer, away = logs.answer, [False]
    api.answers = [lambda request: NOTHING if away[0] else answer(request)]

    def turn(line):
        away[0] = not away[0]
        logs.add(line)

    pace = StepByStep(lambda: turn(1), lambda: turn(2), lambda: logs.add(3))
    assert tailed(logs, 5, pace) == [[], [1, 2], [3]]


def test_it_ends_when_the_cluster_is_closed_and_prints_no_more(logs):
    def close():
        logs.state = "CLOSED"
        logs.add(2)

    pace = StepByStep(lambda: logs.add(1), close, *[lambda: None] * 10)
    assert tailed(logs, 10, pace) == [[], [1], [2]]
    assert len(pace.steps) == 8


def test_lines_that_come_between_the_first_looks_are_not_lost(logs, api):
    answer = logs.answer
    looks = []

    def busy(request):
        found = answer(request)
        looks.append(request)
        logs.add(100 + len(looks))
        return found

    api.answers = [busy]
    pace = StepByStep(*[lambda: None] * 3)
    shown = [line for lines in tailed(logs, 5, pace) for line in lines]
    assert shown == sorted(set(shown)) and len(shown) >= len(looks) - 3


def test_watch_prints_where_there_is_no_notebook(api, capsys):
    api.answers = [of(KEY), of(snapshot(**CLOSED))]
    watch = galvo.watch(12, interval="10ms")
    assert capsys.readouterr().out.startswith("cluster 12 etl · closed after")
    assert watch.wait() and repr(watch) == "<Watch of cluster 12>"


def test_texts_of_others_cannot_control_a_terminal():
    assert printable("a\tb\x1b[31mc\nd\x9b\u202ee") == "a\tb\\x1b[31mc\\nd\\x9b\\u202ee"
    unseen = "\u200b\u200e\u061c\ufeff\u2066\xad\U000e0041"
    assert printable(f"a{unseen}b") == "a\\u200b\\u200e\\u061c\\ufeff\\u2066\\xad\\U000e0041b"
    assert printable("日本語 العربية ä🎉") == "日本語 العربية ä🎉"
    lines = table(["A", "BB"], [["ünï", "x\ny"], ["1", ""]]).split("\n")
    assert lines == ["A    BB", "ünï  x\\ny", "1"]
