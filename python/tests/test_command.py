"""The command: what it prints, how it ends, and what it never shows."""

import io
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import dask
import pytest
from fake_api import TOKEN, Answer, data, errors, pages_of
from test_lists import KEY, cluster
from test_login import ASKED, WHO, home  # noqa: F401
from test_watch import CLOSED, FakeLogs, of, snapshot

import galvo
from galvo.client.report import QUESTIONS
from galvo.command import COMMANDS, main, server

FORBIDDEN = errors("FORBIDDEN")


@pytest.fixture
def run(capsys):
    """Runs the command: its status, what it printed, and what it complained of."""

    def run(*arguments):
        status = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert TOKEN not in printed.out + printed.err
        assert "Traceback" not in printed.out + printed.err
        return status, printed.out, printed.err

    return run


@pytest.fixture
def typed(monkeypatch):
    """What somebody types on a terminal, or pipes in without one."""

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
    asked = []

    def answer(request):
        if "logs(" in request.query:
            asked.append(request.variables)
            return WordyLogs().answer(request)
        return data({"viewer": {"account": {"clusters": {"nodes": [KEY]}}}})

    api.answers = [answer]
    arguments = ("--filter", "Out of", "--level", "warning", "--source", "nanny")
    assert run("logs", *arguments) == (0, "", "")
    assert asked[0] == {
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
def test_stop_asks_before_it_stops(api, run, typed, answer, stops):
    typed(answer)
    api.answers = [of(KEY), of(snapshot()), data({"setDesiredState": {}})]
    status, out, err = run("stop", 12)
    assert "cluster 12 etl · running for" in out and err == ""
    assert (status == 0) == (len(api.requests) == 3) == bool(stops)


def test_stop_without_a_terminal_wants_to_be_sure(api, run, typed):
    typed("y\n", is_terminal=False)
    api.answers = [of(KEY), of(snapshot()), data({"setDesiredState": {}})]
    status, _, err = run("stop", 12)
    assert (status, len(api.requests)) == (2, 2)
    assert "--yes" in err
    api.answers = [of(KEY), of(snapshot()), data({"setDesiredState": {}})]
    assert run("stop", 12, "--yes")[0] == 0
    assert "state: STOPPED" in api.requests[-1].query


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
    unknown = {**answer, "verdict": "UNKNOWN", "confidence": "ESTIMATED", "evidence": []}
    answers = {name: unknown for name, _ in QUESTIONS}
    totals = {
        "tasksSucceeded": 5,
        "tasksErred": 2,
        "peakWorkers": 1,
        "peakThreads": 2,
        "clusterSeconds": 120.0,
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
        "How much did that cost me? [unknown, estimated]",
    ):
        assert line in out.splitlines()
    for question in dict(QUESTIONS).values():
        assert question in out


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
    api.answers = [ASKED, WHO]
    status, out, err = run("login", "--server", api.address)
    assert (status, err) == (0, "")
    assert f"{api.address}/activate-token?id=otter" in out
    assert f"as ada, account team.\nThe token is kept in {home / 'galvo.yaml'}." in out
    assert stat.S_IMODE((home / "galvo.yaml").stat().st_mode) == 0o600
    assert "secret" not in out


def test_login_with_a_token_from_elsewhere(api, run, home, typed, monkeypatch):  # noqa: F811
    typed(f"{TOKEN}\n", is_terminal=False)
    api.answers = [WHO]
    monkeypatch.setenv("DASK_GALVO__TOKEN", "another")
    status, out, err = run("login", "--token-stdin")
    assert status == 0 and "as ada" in out
    assert err == "galvo: DASK_GALVO__TOKEN is set, and wins over that file\n"
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
        ("report",),
        ("stop",),
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
    api.answers = [ASKED, WHO]
    assert run("--server", api.address, "login")[0] == 0
    status, out, err = run("--account", "team", "login")
    assert (status, out) == (2, "") and err.startswith("galvo: --account is not for login")
    assert run("login", "--account", "team")[0] == 2
    assert len(api.requests) == 2


def program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)
    path.chmod(0o755)
    return path


def test_commands_of_the_server_are_passed_on_to_its_program(tmp_path, monkeypatch, run):
    script = program(tmp_path / "venv" / "galvo", b"#!/usr/bin/python\n")
    binary = program(tmp_path / "bin" / "galvo", b"\x7fELF")
    monkeypatch.setenv("PATH", os.pathsep.join([str(script.parent), str(binary.parent)]))
    became = []
    monkeypatch.setattr(os, "execv", lambda *call: became.append(call))
    assert server.server_program() == binary
    main(["--log", "debug", "serve", "--listen", "127.0.0.1:1"])
    arguments = [str(binary), "--log", "debug", "serve", "--listen", "127.0.0.1:1"]
    assert became.pop() == (binary, arguments)
    main(["--server", "serve", "migrate"])
    assert became == [(binary, [str(binary), "--server", "serve", "migrate"])]
    # Another installation of this package is not the server.
    binary.unlink()
    status, out, err = run("serve")
    assert (status, out, len(became)) == (2, "", 1)
    assert "no command `serve`" in err and "not on PATH" in err


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

    told = call("--version", stdout=subprocess.PIPE)
    assert told.communicate()[0] == f"galvo {galvo.__version__} (client)\n"
    api.answers = [pages_of([cluster(number) for number in range(3000)])]
    reading = call("clusters", "--limit", "3000", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    reading.stdout.readline()
    reading.stdout.close()
    assert (reading.stderr.read(), reading.wait(30)) == ("", 1)
    reading.stderr.close()


def test_the_package_brings_the_command():
    installed = Path(sys.executable).parent / "galvo"
    told = subprocess.run([installed, "--help"], capture_output=True, text=True, check=True)
    assert all(re.search(rf"^    {name} ", told.stdout, re.MULTILINE) for name in COMMANDS)
