"""The command: its output, its exit status, and its secrecy."""

import io
import json
import os
import re
import stat
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import dask
import pytest
from fake_api import TOKEN, Answer, data, errors, pages_of
from test_lists import KEY, cluster
from test_login import CREATED, WHO, home  # noqa: F401
from test_watch import CLOSED, FakeLogs, of, snapshot

import galvo
from galvo.client import transport
from galvo.client.report import QUESTIONS
from galvo.command import COMMANDS, clusters, main, server

FORBIDDEN = errors("FORBIDDEN")


@pytest.fixture
def run(capsys):
    """Runs the command, and returns its status, stdout and stderr."""

    def run(*arguments):
        status = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert TOKEN not in printed.out + printed.err
        assert "Traceback" not in printed.out + printed.err
        return status, printed.out, printed.err

    return run


@pytest.fixture
def typed(monkeypatch):
    """Sets the input, typed on a terminal or piped."""

    def typed(text, is_terminal=True):
        stream = io.StringIO(text)
        stream.isatty = lambda: is_terminal
        monkeypatch.setattr(sys, "stdin", stream)

    return typed


def test_clusters_are_a_table(api, run):
    evil = "e\x1b[31mvil\nname"
    closed = cluster(7, name=None, now=None, user=None, state="CLOSED")
    api.answers = [pages_of([cluster(12), cluster(11, name=evil), closed])]
    status, out, err = run("clusters", "--since", "all")
    assert (status, err) == (0, "")
    titles, first, second, third = [re.split(r" {2,}", line) for line in out.splitlines()]
    assert titles[:4] == ["NUMBER", "NAME", "USER", "STATE"]
    assert first[:4] == ["12", "etl", "ada", "running"]
    assert first[5:] == ["1 min 33 s", "3", "1,234", "2", "~1.25 USD"]
    assert second[1] == "e\\x1b[31mvil\\nname"
    assert third[:3] == ["7", KEY["schedulerId"], "closed"]
    assert api.requests[0].variables["filter"] == {}


def test_clusters_that_are_too_many_or_none(api, run):
    api.answers = [pages_of([cluster(number) for number in range(60)])]
    status, out, err = run("clusters", "--state", "running")
    assert (status, len(out.splitlines())) == (0, 51)
    assert err == "galvo: there are more than 50, see --limit\n"
    conditions = api.requests[0].variables["filter"]
    assert conditions["states"] == ["RUNNING"] and conditions["startedIn"]
    api.answers = [pages_of([])]
    assert run("clusters") == (0, "There are no such clusters.\n", "")


def test_clusters_as_json(api, run):
    api.answers = [pages_of([cluster(12)])]
    status, out, _ = run("clusters", "--json")
    (row,) = json.loads(out)
    assert status == 0
    assert (row["number"], row["startedAt"]) == (12, "2026-11-20 11:00:00.250000+00:00")


class WordyLogs(FakeLogs):
    @staticmethod
    def node(line):
        return {
            "at": f"2026-11-20T11:00:00.{line:03}+00:00",
            "source": "WORKER",
            "worker": "tcp://10.0.0.1:9",
            "level": "WARNING",
            "logger": "distributed.worker",
            "message": f"line {line}\n  of \x1b[2Jtwo",
            "repeated": line,
        }


def test_logs_cannot_pretend_to_be_several_lines(api, run):
    logs = WordyLogs()
    logs.add(1, 2, 3)
    logs.state = "CLOSED"
    api.answers = [logs.answer]
    status, out, err = run("logs", 12, "--tail", 2, "--follow", "--interval", "1ms")
    assert (status, err) == (0, "")
    first, below, second, _ = out.splitlines()
    words = " WARNING worker tcp://10.0.0.1:9 distributed.worker: line "
    assert re.fullmatch(rf"2026-11-20 \d\d:\d\d:00\.002\S+{words}2 \(2 times\)", first)
    assert below == "      of \\x1b[2Jtwo"
    assert second.endswith("line 3 (3 times)")
    status, out, _ = run("logs", 12, "--json")
    assert [json.loads(line)["repeated"] for line in out.splitlines()] == [1, 2, 3]


def test_logs_of_the_newest_cluster_with_filters(api, run):
    sent_variables = []

    def answer(request):
        if "logs(" in request.query:
            sent_variables.append(request.variables)
            return WordyLogs().answer(request)
        return data({"viewer": {"account": {"clusters": {"nodes": [KEY]}}}})

    api.answers = [answer]
    arguments = ("--filter", "Out of", "--level", "warning", "--source", "nanny")
    assert run("logs", *arguments) == (0, "", "")
    assert sent_variables[0] == {
        "id": "C-12",
        "match": "Out of",
        "levels": ["WARNING"],
        "sources": ["NANNY"],
        "last": 100,
        "before": None,
    }
    api.answers = [data({"viewer": {"account": {"clusters": {"nodes": []}}}})]
    status, _, err = run("logs")
    assert (status, err) == (1, "galvo: no cluster has reported to this account yet\n")


@pytest.mark.parametrize("answer, stops", [("y\n", True), ("YES\n", True), ("\n", False), ("n", 0)])
def test_stop_prompts_before_it_stops(api, run, typed, answer, stops):
    typed(answer)
    api.answers = [of(KEY), of(snapshot()), data({"setDesiredState": {"userErrors": []}})]
    status, out, err = run("stop", 12)
    assert "cluster 12 etl · running for" in out and err == ""
    assert (status == 0) == (len(api.requests) == 3) == bool(stops)


def test_stop_without_a_terminal_wants_to_be_sure(api, run, typed):
    typed("y\n", is_terminal=False)
    api.answers = [of(KEY), of(snapshot()), data({"setDesiredState": {"userErrors": []}})]
    status, _, err = run("stop", 12)
    assert (status, len(api.requests)) == (2, 2)
    assert "--yes" in err
    api.answers = [of(KEY), of(snapshot()), data({"setDesiredState": {"userErrors": []}})]
    assert run("stop", 12, "--yes")[0] == 0
    assert "state: STOPPED" in api.requests[-1].query


def test_a_refused_stop_is_no_success(api, run):
    refusal = {"code": "FORBIDDEN", "message": "the cluster belongs to another user"}
    api.answers = [of(KEY), of(snapshot()), data({"setDesiredState": {"userErrors": [refusal]}})]
    status, out, err = run("stop", 12, "--yes")
    assert status == 1 and "closes" not in out
    assert "the cluster belongs to another user" in err


def test_what_is_closed_need_not_be_stopped(api, run):
    api.answers = [of(KEY), of(snapshot(**CLOSED))]
    status, out, _ = run("stop", 12)
    assert (status, len(api.requests)) == (0, 2)
    assert "closed after" in out


def test_watch_ends_with_the_cluster(api, run):
    api.answers = [of(KEY), of(snapshot()), of(snapshot(**CLOSED))]
    status, out, _ = run("watch", 12, "--interval", "1ms")
    assert (status, len(out.splitlines())) == (0, 2)


def report(**changes):
    answer = {
        "verdict": "BAD",
        "headline": "2 exceptions, all of them <b>bold</b>.",
        "value": 2,
        "unit": "exceptions",
        "share": 0.5,
        "confidence": "MEASURED",
        "evidence": [
            {"label": "ValueError\x1b", "value": 2, "unit": "exceptions"},
            {"label": "Memory", "value": 2**30, "unit": "bytes"},
            {"label": "Cost", "value": 0.00001, "unit": "USD"},
            {"label": "Busy", "value": 0.25, "unit": "share"},
            {"label": "Held", "value": 93, "unit": "thread-seconds"},
            {"label": "No number", "value": None, "unit": None},
        ],
    }
    unknown = {
        **answer,
        "verdict": "UNKNOWN",
        "headline": "There is nothing to compare it with.",
        "value": None,
        "unit": None,
        "confidence": "NOT_COLLECTED",
        "evidence": [],
    }
    answers = {
        **{name: {**unknown, "headline": f"Nothing of {name}."} for name, _ in QUESTIONS},
        **{name: unknown for name in ("whatChanged", "slower", "scaling")},
        "cost": {
            **unknown,
            "headline": "It cost 0.0005 USD, estimated.",
            "value": 0.0005,
            "unit": "USD",
            "confidence": "ESTIMATED",
        },
    }
    totals = {
        "tasksSucceeded": 5,
        "tasksErred": 2,
        "peakWorkers": 1,
        "peakThreads": 2,
        "threadSeconds": 120.0,
    }
    return snapshot(
        user={"name": "<i>ada"},
        tags=[{"key": "team", "value": "risk"}, {"key": "nightly", "value": None}],
        totals=totals,
        functions=[
            {"prefix": "inc", "computeSeconds": 60.0, "tasks": 5, "tasksErred": 0, "costs": []}
        ],
        errors={
            "nodes": [
                {
                    "at": "2026-11-20T11:00:00+00:00",
                    "type": "ValueError",
                    "message": "<script>alert(1)</script>",
                    "key": "k-1",
                }
            ]
        },
        answers={**answers, "exceptions": answer},
        **changes,
    )


def test_a_report_as_a_text(api, run):
    api.answers = [of(KEY), of(report())]
    status, out, _ = run("report", 12)
    assert status == 0
    for line in (
        "Cluster 12 etl",
        "Tags: team=risk, nightly",
        "Workers: 1 worker with 2 threads at most",
        "Thread time: 2 min, of which 50% computed something",
        "Did any exceptions occur? [bad]",
        "    2 exceptions, all of them <b>bold</b>.",
        "    - ValueError\\x1b: 2 exceptions",
        "    - Memory: 1.00 GiB",
        "    - Cost: less than 0.0001 USD",
        "    - Busy: 25%",
        "    - Held: 1 min 33 s",
        "    - No number",
        "How much did that cost me? [estimated]",
    ):
        assert line in out.splitlines()
    for question in dict(QUESTIONS).values():
        assert question in out


def test_questions_with_the_same_answer_are_one_line(api, run):
    api.answers = [of(KEY), of(report())]
    lines = run("report", 12)[1].splitlines()
    place = lines.index(
        "What has changed since it worked? Where is more time spent than before? Where did new"
        " inefficiency accrue? [unknown]"
    )
    same = "    There is nothing to compare it with."
    assert (lines[place + 1], lines.count(same)) == (same, 1)
    api.answers = [of(KEY), of(report())]
    page = galvo.report(12).html()
    assert page.count("There is nothing to compare it with.") == 1
    questions = ("What has changed since it worked?", "Where is more time spent than before?")
    assert "".join(f"<div>{question}</div>" for question in questions) in page


def test_a_report_as_a_page(api, run, tmp_path):
    api.answers = [of(KEY), of(report())]
    status, out, _ = run("report", 12, "--output", tmp_path / "report.html")
    assert (status, out) == (0, f"Written to {tmp_path / 'report.html'}\n")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "default-src &#x27;none&#x27;" in page
    assert "<script" not in page and "<b>" not in page and "<i>" not in page
    for text in ("&lt;script&gt;", "&lt;b&gt;bold", "&lt;i&gt;ada", '<span class="bad">bad</span>'):
        assert text in page
    api.answers = [of(KEY), of(report())]
    in_notebook = galvo.report(12)._repr_html_()
    assert "<script" not in in_notebook and "<h3>Cluster 12 etl</h3>" in in_notebook


def test_login_by_a_browser(api, run, home):  # noqa: F811
    api.answers = [CREATED, WHO]
    status, out, err = run("login", "--server", api.address)
    assert (status, err) == (0, "")
    assert f"{api.address}/activate-token?id=otter" in out
    assert f"as ada, account team.\nThe token is stored in {home / 'galvo.yaml'}." in out
    assert stat.S_IMODE((home / "galvo.yaml").stat().st_mode) == 0o600
    assert "secret" not in out


def test_login_with_a_token_from_elsewhere(api, run, home, typed, monkeypatch):  # noqa: F811
    typed(f"{TOKEN}\n", is_terminal=False)
    api.answers = [WHO]
    monkeypatch.setenv("DASK_GALVO__TOKEN", "another")
    status, out, err = run("login", "--token-stdin")
    assert status == 0 and "as ada" in out
    assert err == "galvo: DASK_GALVO__TOKEN is set, and overrides that file\n"
    assert api.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
    typed("", is_terminal=False)
    assert run("login", "--token-stdin")[0] == 2


@pytest.mark.parametrize(
    "answer, status, words",
    [
        (errors("UNAUTHENTICATED", status=401), 1, "galvo login"),
        (FORBIDDEN, 1, "scope `admin`"),
        (errors("MISSING_SCOPE", status=403), 1, "scope `read`"),
        (Answer(500, b"<html>"), 1, "status 500"),
        (of(None), 1, "no cluster 12"),
    ],
)
def test_what_goes_wrong_is_a_line(api, run, answer, status, words):
    api.answers = [answer]
    ended, out, err = run("report", 12)
    assert (ended, out) == (status, "")
    assert err.startswith("galvo: ") and words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("clusters", "--since", "often"),
        ("clusters", "--limit", "0"),
        ("clusters", "--limit", "many"),
        ("logs", "12", "--tail", "-1"),
        ("logs", "12", "--follow", "--interval", "0"),
        ("logs", "12", "--source", "moon"),
        ("stop",),
        ("rate",),
        ("rate", "set"),
        ("rate", "set", "much"),
        ("rate", "set", "0.05", "--from", "tomorrow"),
        ("rate", "remove", "31.1.2026"),
        ("clusters", "--state", "tired"),
        ("logs", "12", "--level", "loud"),
        (),
        ("--nothing",),
    ],
)
def test_wrong_usage_ends_with_2(api, run, arguments):
    api.answers = [of(KEY)]
    status, out, err = run(*arguments)
    assert (status, out) == (2, "") and "galvo" in err


def test_missing_settings_end_with_2(run, plain_configuration):
    status, _, err = run("clusters")
    assert status == 2 and "galvo.server" in err
    status, _, err = run("clusters", "--server", "http://galvo.example")
    assert status == 2 and "galvo.token" in err


@pytest.mark.parametrize("command", ["report", "watch", "logs"])
def test_the_newest_cluster_is_used_where_none_is_named(api, run, command):
    """-1 is the newest cluster, -2 the one before, and others have a number or a name."""
    clusters = [
        cluster(number, name=name) for number, name in ((14, "etl"), (13, "b"), (12, "etl"))
    ]

    def answer(request):
        variables = request.variables
        if "clusters(first:" in request.query:
            return data(
                {"viewer": {"account": {"clusters": {"nodes": clusters[: variables["first"]]}}}}
            )
        if "search: $name" in request.query:
            # The server matches substrings, and this one is not an exact match.
            return pages_of([cluster(15, name="etl-2"), *clusters])(request)
        if "{ cluster(id: $id) { id number schedulerId } }" in request.query:
            found = [row for row in clusters if str(row["number"]) == variables["id"]]
            return of(found[0] if found else None)
        if "logs(" in request.query:
            return WordyLogs().answer(request)
        return of(snapshot(**CLOSED) if command == "watch" else report())

    api.answers = [answer]
    for given, number in (((), 14), ((-1,), 14), ((-2,), 13), ((12,), 12), (("etl",), 14)):
        api.requests.clear()
        assert run(command, *given)[0] == 0
        assert api.requests[-1].variables["id"] == f"C-{number}", given
    status, _, err = run(command, -4)
    assert (status, err) == (1, "galvo: there is no cluster -4 in this account, which has 3\n")
    status, _, err = run(command, "etl-3")
    assert status == 1 and "'etl-3' was taken for a cluster" in err


def test_of_several_running_clusters_with_a_name_none_is_stopped(api, run):
    rows = [cluster(14), cluster(13), cluster(12, state="CLOSED")]
    answer = pages_of(rows)
    api.answers = [lambda request: answer(request) if "list:" in request.query else of(None)]
    status, out, err = run("stop", "etl", "--yes")
    assert (status, out) == (2, "")
    assert err == "galvo: several clusters are called etl: give one of 14, 13\n"
    assert not [request for request in api.requests if "mutation" in request.query]


def test_of_the_clusters_with_a_name_the_one_that_runs_is_stopped(api, run):
    rows = [cluster(14, state="CLOSED"), cluster(13)]

    def answer(request):
        if "list:" in request.query:
            return pages_of(rows)(request)
        if "mutation" in request.query:
            return data({"setDesiredState": {"userErrors": []}})
        requested_id = request.variables["id"]
        return of(
            snapshot() if requested_id == "C-13" and "durationSeconds" in request.query else None
        )

    api.answers = [answer]
    assert run("stop", "etl", "--yes")[0] == 0
    assert api.requests[-1].variables == {"id": "C-13"}


RATE = {
    "validFrom": "2026-11-20",
    "currency": "EUR",
    "perThreadHour": 0.05,
    "perGibHour": 0.0,
    "perWorkerHour": 1.5,
}


def changed(*problems, rates=(RATE,)):
    wrong = [{"message": problem} for problem in problems]
    return data({"changed": {"account": {"costRates": list(rates)}, "userErrors": wrong}})


def test_a_rate_is_set_shown_and_removed(api, run):
    api.answers = [changed()]
    options = ("--from", "2026-11-20", "--per-worker-hour", 1.5)
    status, out, err = run("rate", "set", 0.05, "eur", *options, "--account", "team")
    assert (status, err) == (0, "")
    titles, line = (re.split(r" {2,}", line) for line in out.splitlines())
    assert titles == ["FROM", "PER THREAD-HOUR", "PER GIB-HOUR", "PER WORKER-HOUR"]
    assert line == ["2026-11-20", "0.0500 EUR", "0.00 EUR", "1.50 EUR"]
    (request,) = api.requests
    assert request.variables == {"input": RATE}
    assert "setCostRate(input: $input)" in request.query
    assert request.headers["Galvo-Account"] == "team"
    api.answers = [data({"viewer": {"account": {"costRates": [RATE]}}})]
    assert run("rate", "list") == (0, out, "")
    api.answers = [changed(rates=[])]
    assert (
        run("rate", "remove", "2026-11-20")[1] == "There are no rates: all costs are estimated.\n"
    )
    assert "deleteCostRate(validFrom: $day)" in api.requests[-1].query
    assert api.requests[-1].variables == {"day": "2026-11-20"}


def test_a_rate_that_is_refused_is_not_set(api, run):
    api.answers = [changed("must be three capital letters")]
    assert run("rate", "set", 0.05, "euro") == (1, "", "galvo: must be three capital letters\n")
    before = datetime.now(timezone.utc).date().isoformat()
    api.answers = [FORBIDDEN]
    status, _, err = run("rate", "set", 0.05)
    assert status == 1 and "scope `admin`" in err
    given = api.requests[-1].variables["input"]
    assert given["currency"] == "USD"
    assert before <= given["validFrom"] <= datetime.now(timezone.utc).date().isoformat()


def test_a_token_that_is_not_good_is_not_advised_to_be_replaced_by_itself(api, run, home, typed):  # noqa: F811
    api.answers = [errors("UNAUTHENTICATED", status=401)]
    typed("none-of-yours\n", is_terminal=False)
    status, out, err = run("login", "--token-stdin")
    assert (status, out) == (1, "")
    problem = "does not accept this token (unknown, expired or revoked): nothing was kept"
    expected = f"galvo: {api.address} {problem}\n"
    assert err == expected and not home.exists()


def test_a_wait_is_printed_on_stderr(api, run, monkeypatch):
    """A notice is printed once for each slow request, whether the server is down or hangs."""
    monkeypatch.setattr(transport, "NOTICE_SECONDS", 0.01)
    monkeypatch.setattr(transport, "FIRST_PAUSE_SECONDS", 0.5)
    api.answers = [Answer(503, b""), pages_of([])]
    status, out, err = run("clusters")
    assert (status, out) == (0, "There are no such clusters.\n")
    assert err == f"galvo: waiting for the server {api.address} …\n"

    def slow(request):
        time.sleep(0.3)
        return pages_of([])(request)

    api.answers = [slow]
    assert run("clusters")[2] == err


def test_ctrl_c_ends_with_130(api, run, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS["report"], "run", interrupted)
    assert run("report", 12) == (130, "", "")


def test_an_option_names_the_server_and_the_account(api, run):
    api.answers = [pages_of([])]
    with dask.config.set({"galvo.server": "http://elsewhere.example"}):
        assert run("clusters", "--server", api.address, "--account", "team")[0] == 0
    assert api.requests[0].headers["Galvo-Account"] == "team"


@pytest.mark.parametrize(
    "before, behind",
    [
        (["--server", "URL", "--account", "team"], []),
        (["--server=URL"], ["--account", "team"]),
        (["--server", "http://elsewhere.example", "--account=team"], ["--server", "URL"]),
    ],
)
def test_options_stand_before_the_command_as_well(api, run, before, behind):
    api.answers = [pages_of([])]
    arguments = [word.replace("URL", api.address) for word in (*before, "clusters", *behind)]
    with dask.config.set({"galvo.server": None}):
        assert run(*arguments) == (0, "There are no such clusters.\n", "")
    assert api.requests[0].headers["Galvo-Account"] == "team"


def test_login_takes_the_server_before_the_command_and_no_account(api, run, home):  # noqa: F811
    api.answers = [CREATED, WHO]
    assert run("--server", api.address, "login")[0] == 0
    status, out, err = run("--account", "team", "login")
    assert (status, out) == (2, "") and err.startswith("galvo: --account cannot be used with login")
    assert run("login", "--account", "team")[0] == 2
    assert len(api.requests) == 2


def program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def became(tmp_path, monkeypatch):
    """The programs that this process would have become, with their arguments and environments."""
    calls = []
    monkeypatch.setattr(os, "execve", lambda *call: calls.append(call))
    # Nothing of this machine is found.
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "scripts" / "galvo")])
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "scripts"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("GALVO_SERVER_BIN", raising=False)
    return calls


def test_commands_of_the_server_are_passed_on_to_its_program(tmp_path, monkeypatch, run, became):
    script = program(tmp_path / "venv" / "galvo", b"#!/usr/bin/python\n")
    binary = program(tmp_path / "bin" / "galvo", b"\x7fELF")
    monkeypatch.setenv("PATH", os.pathsep.join([str(script.parent), str(binary.parent)]))
    assert server.server_program() == binary
    main(["--log", "debug", "serve", "--listen", "127.0.0.1:1"])
    arguments = [str(binary), "--log", "debug", "serve", "--listen", "127.0.0.1:1"]
    assert became.pop() == (binary, arguments, dict(os.environ))
    main(["--server", "serve", "migrate"])
    assert became.pop()[1] == [str(binary), "--server", "serve", "migrate"]
    # Another installation of this package is not the server.
    binary.unlink()
    status, out, err = run("serve")
    assert (status, out, became) == (2, "", [])
    assert err.startswith("galvo: `galvo serve` is a command of the server's own program")
    assert "pip install 'galvo[server]'" in err and "docker exec" in err and err.count("\n") == 1
    assert run("usr", "password") == (
        2,
        "",
        "galvo: there is no command `usr`, did you mean `user`?\n",
    )
    assert run("xyzzy") == (2, "", "galvo: there is no command `xyzzy`: see --help\n")


def test_the_program_of_the_wheel_comes_first(tmp_path, monkeypatch, run, became):
    on_path = program(tmp_path / "bin" / "galvo", b"\x7fELF")
    monkeypatch.setenv("PATH", str(on_path.parent))
    of_wheel = program(tmp_path / "scripts" / "galvo-server", b"\x7fELF")
    assert server.server_program() == of_wheel
    # A variable wins, and is no setting of the program.
    named = program(tmp_path / "elsewhere" / "galvo", b"#!/bin/sh\n")
    monkeypatch.setenv("GALVO_SERVER_BIN", str(named))
    monkeypatch.setenv("GALVO_LOG", "warn")
    main(["serve"])
    (found, arguments, environment) = became.pop()
    assert (found, arguments) == (named, [str(named), "serve"])
    assert environment["GALVO_LOG"] == "warn" and "GALVO_SERVER_BIN" not in environment
    named.chmod(0o644)
    reason = f"galvo: GALVO_SERVER_BIN names no program: {named}\n"
    assert run("serve") == (2, "", reason)


def test_commands_of_a_newer_program_are_passed_on(tmp_path, monkeypatch, run, became):
    lines = ["Usage", "", "Commands:", "  serve  Run", "  mend   Mend", "", "Options:", "  tidy"]
    script = "#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines)
    newer = program(tmp_path / "scripts" / "newer", script.encode())
    monkeypatch.setenv("GALVO_SERVER_BIN", str(newer))
    main(["mend", "it"])
    assert became.pop()[1] == [str(newer), "mend", "it"]
    assert run("tidy")[0] == 2 and became == []


def test_it_runs_as_a_module_and_leaves_quietly_when_nobody_reads(api, tmp_path):
    def call(*arguments, **options):
        command = [sys.executable, "-m", "galvo", *arguments]
        environment = {
            **os.environ,
            "DASK_CONFIG": str(tmp_path),
            "DASK_GALVO__SERVER": api.address,
            "DASK_GALVO__TOKEN": TOKEN,
        }
        return subprocess.Popen(command, env=environment, text=True, **options)

    process = call("--version", stdout=subprocess.PIPE)
    assert process.communicate()[0] == f"galvo {galvo.__version__} (client)\n"
    api.answers = [pages_of([cluster(number) for number in range(3000)])]
    reading = call("clusters", "--limit", "3000", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    reading.stdout.readline()
    reading.stdout.close()
    assert (reading.stderr.read(), reading.wait(30)) == ("", 1)
    reading.stderr.close()


def test_the_package_brings_the_command():
    installed = Path(sys.executable).parent / "galvo"
    completed = subprocess.run([installed, "--help"], capture_output=True, text=True, check=True)
    assert all(re.search(rf"^    {name} ", completed.stdout, re.MULTILINE) for name in COMMANDS)


def test_states_are_those_of_the_schema():
    schema = (Path(__file__).parents[2] / "schema.graphql").read_text(encoding="utf-8")
    members = re.search(r"^enum ClusterState \{(.*?)^\}", schema, re.MULTILINE | re.DOTALL)[1]
    states = re.findall(r"^\t([A-Z]+)$", members, re.MULTILINE)
    assert [state.lower() for state in states] == clusters.STATES
