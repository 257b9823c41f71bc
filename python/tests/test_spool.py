"""Tests of reports that a scheduler could not send before it closed: kept in a file, and sent
later.
"""

import gzip
import json
import os
import stat
import time
from pathlib import Path

import dask
import pytest
import test_report_sender
from conftest import local_cluster, wait_until
from distributed import Client, wait
from fake_galvo import SCHEDULER_TOKEN, TOKEN, check
from test_report_sender import names, run

import galvo as package
from galvo import registration
from galvo.command import main
from galvo.plugin import report_sender as report_sender_module
from galvo.plugin import spool
from galvo.plugin.inheritance import destination

scheduler = test_report_sender.scheduler  # a fixture
HEAD = {"server": "http://g", "account": None, "destination": "d", "scheduler_id": "Scheduler-1"}


def kept(directory, reports=("{}",), **head):
    return spool.write_spool_file(
        str(directory), {**HEAD, "reports": len(reports), **head}, list(reports)
    )


@pytest.fixture
def directory(tmp_path):
    with dask.config.set({"galvo.spool.directory": str(tmp_path / "spool")}):
        yield tmp_path / "spool"


def refuse(report):
    return 401, {}, {"code": "UNAUTHENTICATED", "message": "no"}


def run_refused(server, numbers):
    """Runs a cluster that computes and closes while the server refuses everything."""
    server.always = refuse
    with local_cluster() as cluster, Client(cluster) as client:
        with pytest.raises(package.RequestRefused):
            package.register(client)
        wait([*client.map(abs, numbers), *client.map(hex, numbers)])
        scheduler_id = cluster.scheduler.id
    server.always = None
    assert server.accepted == []
    return scheduler_id


def only(directory):
    (path,) = spool.list_files(str(directory))
    return path


def test_what_could_not_be_sent_is_kept_and_sent(configured, directory, capsys):
    scheduler_id = run_refused(configured, range(7))
    path = only(directory)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    with gzip.open(path) as file:
        assert TOKEN.encode() not in file.read()  # with the scheduler's own token
    found = spool.read_file(path)
    (report,) = (json.loads(report) for report in found.reports)
    check(report)
    assert report["final"] and report["base"] is None

    assert main(["spool", "list"]) == 0
    listed = capsys.readouterr().out
    assert path in listed and scheduler_id in listed and "1 reports" in listed
    assert main(["spool", "send"]) == 0
    assert configured.accepted == [report]
    groups = sorted((group["prefix"], group["tasks_succeeded"]) for group in configured.groups())
    assert groups == [("abs", 7), ("hex", 7)]
    assert spool.list_files(str(directory)) == []
    assert main(["spool", "send"]) == 0


def test_as_many_reports_are_kept_as_it_takes(galvo, scheduler, tmp_path, monkeypatch):
    monkeypatch.setitem(report_sender_module.LARGEST_LIMITS, "task_groups", 1)

    async def act(sender):
        await sender.deliver()
        scheduler.submit("x-1", "y-1", "z-1")
        return sender.keep_unsent(str(tmp_path), "done")

    path = run(galvo, scheduler, act)
    (first,) = galvo.accepted
    reports = [json.loads(report) for report in spool.read_file(path).reports]
    for report in reports:
        check(report)
    assert [names(report) for report in reports] == [["x-1"], ["y-1"], ["z-1"]]
    assert [report["final"] for report in reports] == [False, False, True]
    n = first["sequence"]
    assert [(report["base"], report["sequence"]) for report in reports] == [
        *[(n, n + 1), (n + 1, n + 2), (n + 2, n + 3)]
    ]


def refuse_more_than_one(kind):
    """Refuses reports with more than one item of a kind as too large."""
    too_large = 413, {}, {"code": "PAYLOAD_TOO_LARGE", "message": "too much"}
    return lambda report: too_large if len(report.get(kind, [])) > 1 else None


@pytest.mark.parametrize("way", ["the command", "a registration"])
def test_what_the_server_finds_too_large_is_sent_in_parts(way, configured, directory):
    first = run_refused(configured, range(7))
    (kept_report,) = (json.loads(report) for report in spool.read_file(only(directory)).reports)
    configured.always = refuse_more_than_one("task_groups")
    if way == "the command":
        assert main(["spool", "send"]) == 0
    else:
        with local_cluster() as cluster, Client(cluster) as client:
            package.register(client)
            wait_until(lambda: spool.list_files(str(directory)) == [])
    sent = [report for report in configured.accepted if report["scheduler_id"] == first]
    for report in sent:
        check(report)
    assert len(sent) > 1
    # Only the last one closes the cluster.
    assert [report["final"] for report in sent] == [False] * (len(sent) - 1) + [True]
    ends = [report["cluster"].get("closed_at") for report in sent]
    assert ends == [None] * (len(sent) - 1) + [kept_report["cluster"]["closed_at"]]
    # The cluster closes after all that was sent before.
    sequences = [report["sequence"] for report in sent]
    assert sequences == sorted(sequences) and sequences[0] == kept_report["sequence"]
    assert sequences[-1] > sequences[-2]
    assert {report["base"] for report in sent} == {kept_report["base"]}
    for kind, items in kept_report.items():
        if isinstance(items, list):
            assert [item for report in sent for item in report[kind]] == items, kind


def test_a_single_item_that_is_too_large_is_dropped():
    report = {
        **{"cluster": {"closed_at": 1.0}, "final": True, "sequence": 7, "base": 6},
        **{"task_groups": [{"id": "a"}], "logs": [], "dropped": {"task_groups": 1, "logs": 2}},
    }
    (rest,) = map(json.loads, spool.split_report(json.dumps(report)))
    assert rest == {**report, "task_groups": [], "dropped": {"task_groups": 2, "logs": 2}}
    assert spool.split_report(json.dumps(rest)) == []


def test_the_next_registration_sends_what_was_kept(configured, directory):
    first = run_refused(configured, range(3))
    other = kept(directory)  # for another server
    with local_cluster() as cluster, Client(cluster) as client:
        package.register(client)
        second = cluster.scheduler.id
        wait_until(lambda: spool.list_files(str(directory)) == [other])
    finals = {r["scheduler_id"] for r in configured.accepted if r["final"]}
    assert finals == {first, second}


def test_what_was_kept_is_sent_with_the_token_of_its_own_scheduler(configured, directory):
    first = run_refused(configured, range(3))
    assert spool.read_file(only(directory)).head["token"] == SCHEDULER_TOKEN
    before = len(configured.requests)
    with local_cluster() as cluster, Client(cluster) as client:
        package.register(client)
        wait_until(lambda: spool.list_files(str(directory)) == [])
    bearers = {
        report["scheduler_id"]: headers["Authorization"]
        for report, (_, headers) in zip(configured.reports[before:], configured.requests[before:])
    }
    assert bearers.pop(first) == "Bearer " + SCHEDULER_TOKEN
    assert set(bearers.values()) == {f"Bearer {SCHEDULER_TOKEN}2"}


def test_what_was_kept_stays_when_its_token_has_ended(configured, directory, caplog):
    first = run_refused(configured, range(3))
    path = only(directory)
    configured.always = lambda report: refuse(report) if report["scheduler_id"] == first else None
    with local_cluster() as cluster, Client(cluster) as client:
        package.register(client)
        wait_until(lambda: "for `galvo spool send`" in caplog.text)
    assert only(directory) == path and SCHEDULER_TOKEN not in caplog.text
    configured.always = None
    assert main(["spool", "send"]) == 0
    assert spool.list_files(str(directory)) == []


def test_what_arrived_is_not_kept(configured, directory):
    with local_cluster() as cluster, Client(cluster) as client:
        package.register(client)
        wait(client.map(abs, range(3)))
    assert configured.accepted[-1]["final"] and not directory.exists()


def test_nothing_is_kept_unless_a_directory_is_configured(configured, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run_refused(configured, range(3))
    assert list(tmp_path.iterdir()) == []
    assert main(["spool", "list"]) == 2


def test_a_server_that_is_silent_at_the_end(hung, directory, plain_configuration, monkeypatch):
    monkeypatch.setattr(registration, "RESPONSE_SECONDS", 0.1)
    with local_cluster() as cluster, Client(cluster) as client:
        with pytest.warns(UserWarning, match="no answer"):
            package.register(client, server=hung.address, token=TOKEN)
        wait(client.map(abs, range(3)))
    reports = [json.loads(report) for report in spool.read_file(only(directory)).reports]
    assert reports[-1]["final"]


def test_a_directory_that_cannot_be_written_is_reported(configured, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with dask.config.set({"galvo.spool.directory": str(tmp_path / "file" / "below")}):
        run_refused(configured, range(3))
    assert "could not make the final report" in caplog.text


def spoil(path, how):
    whole = Path(path).read_bytes()
    if how == "cut off":
        spoilt = whole[:-20]
    elif how == "flipped":
        spoilt = whole[:40] + bytes([whole[40] ^ 0xFF]) + whole[41:]
    elif how == "empty":
        spoilt = b""
    elif how == "plain":
        spoilt = b"not compressed"
    elif how == "of another version":
        spoilt = gzip.compress(gzip.decompress(whole).replace(b'"format": 1', b'"format": 2'))
    elif how == "lacking a report":
        spoilt = gzip.compress(gzip.decompress(whole).rpartition(b"\n{")[0])
    else:
        spoilt = gzip.compress(b"[]\n{}\n")
    with open(path, "wb") as file:
        file.write(spoilt)


BROKEN = [
    *["cut off", "flipped", "empty", "plain", "of another version", "lacking a report", "no head"]
]


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_broken_is_set_aside_and_reported(how, configured, directory, capsys, caplog):
    path = kept(directory, ['{"a": 1}', '{"b": "\u2028"}'])
    assert spool.read_file(path).reports == ['{"a": 1}', '{"b": "\u2028"}']
    spoil(path, how)
    with pytest.raises(spool.Unusable):
        spool.read_file(path)
    assert main(["spool", "list"]) == 1
    assert path in capsys.readouterr().err and os.path.exists(path)
    if how == "empty":  # by a registration as well
        with local_cluster() as cluster, Client(cluster) as client:
            package.register(client)
            wait_until(lambda: not os.path.exists(path))
        assert "sets" in caplog.text
    else:
        assert main(["spool", "send"]) == 1
    assert os.listdir(directory) == [os.path.basename(path) + ".unusable"]


def test_what_the_server_finds_wrong_is_set_aside(configured, directory, capsys):
    settings = {"server": configured.address, "account": None, "token": TOKEN}
    path = kept(
        directory,
        ['{"no": "report"}'],
        server=configured.address,
        destination=destination(settings),
    )
    assert main(["spool", "send"]) == 1
    assert "refused" in capsys.readouterr().err
    assert os.listdir(directory) == [os.path.basename(path) + ".unusable"]
    configured.invalid.clear()


def bearers_by_scheduler(server, begin):
    """Returns the tokens of the reports from a position on, in order."""
    reports = zip(server.reports[begin:], server.requests[begin:])
    return [(report["scheduler_id"], headers["Authorization"]) for report, (_, headers) in reports]


def test_the_command_exchanges_its_token_for_each_scheduler(configured, directory):
    schedulers = [run_refused(configured, range(number)) for number in (2, 3)]
    begin, exchanged = len(configured.requests), len(configured.exchanges)
    assert main(["spool", "send"]) == 0
    sent = bearers_by_scheduler(configured, begin)
    assert sorted(scheduler for scheduler, _ in sent) == sorted(schedulers)
    assert [bearer for _, bearer in sent] == [
        f"Bearer {SCHEDULER_TOKEN}{exchanged + number}" for number in (1, 2)
    ]
    for headers, body in configured.exchanges[exchanged:]:
        assert headers["Authorization"] == "Bearer " + TOKEN
        # No scheduler holds the token, so no scheduler is named.
        assert body == {"label": "stored reports", "lifetimeSeconds": 600}


def test_a_token_that_ends_during_a_transfer_is_exchanged_again(configured, directory):
    run_refused(configured, range(2))
    begin, exchanged = len(configured.requests), len(configured.exchanges)
    first = f"Bearer {SCHEDULER_TOKEN}{exchanged + 1}"
    configured.always = lambda report: (
        refuse(report) if configured.requests[-1][1]["Authorization"] == first else None
    )
    assert main(["spool", "send"]) == 0
    assert [bearer for _, bearer in bearers_by_scheduler(configured, begin)] == [
        first, f"Bearer {SCHEDULER_TOKEN}{exchanged + 2}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "status, code, sent", [(404, "NOT_FOUND", 1), (403, "TOKEN_BOUND", 1), (403, "FORBIDDEN", 0)]
)
def test_a_token_that_cannot_be_exchanged(status, code, sent, configured, directory):
    run_refused(configured, range(2))
    path, begin = only(directory), len(configured.requests)
    configured.exchange_status, configured.exchange_code = status, code
    assert main(["spool", "send"]) == 1 - sent
    # It is used as it is if it is a scheduler's, or if the server is too old to exchange it.
    assert [bearer for _, bearer in bearers_by_scheduler(configured, begin)] == (
        ["Bearer " + TOKEN] * sent
    )
    assert spool.list_files(str(directory)) == [path] * (1 - sent)


def test_what_another_token_may_send_stays(configured, directory):
    run_refused(configured, range(3))
    path = only(directory)
    configured.always = refuse
    with dask.config.set({"galvo.token": "another"}):
        assert main(["spool", "send"]) == 1
    assert spool.list_files(str(directory)) == [path]
    assert main(["spool", "delete"]) == 0
    assert spool.list_files(str(directory)) == []


def test_what_is_for_elsewhere_is_sent_only_when_it_is_named(configured, directory, capsys):
    run_refused(configured, range(3))
    path = only(directory)
    found = spool.read_file(path)
    os.remove(path)
    path = kept(directory, found.reports, server="http://elsewhere")
    assert main(["spool", "send"]) == 0
    assert "http://elsewhere" in capsys.readouterr().out and configured.accepted == []
    assert main(["spool", "send", path]) == 0
    assert configured.accepted[-1]["final"]


def test_the_directory_has_bounds(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(spool, "MOST_FILES", 3)
    paths = [kept(tmp_path, scheduler_id=f"Scheduler-{n}") for n in range(3)]
    (tmp_path / "of somebody else").write_text("")
    for n in range(3, 5):
        paths.append(kept(tmp_path, scheduler_id=f"Scheduler-{n}"))
    assert spool.list_files(str(tmp_path)) == paths[2:] and "there is too much" in caplog.text
    monkeypatch.setattr(spool, "MOST_BYTES", 2 * os.path.getsize(paths[-1]) + 10)
    paths.append(kept(tmp_path, scheduler_id="Scheduler-5"))
    assert spool.list_files(str(tmp_path)) == paths[-2:]
    past = time.time() - spool.LONGEST_AGE_SECONDS - 10
    os.utime(paths[-1], (past, past))
    os.utime(paths[-2], (past + 100, past + 100))
    spool.make_room(str(tmp_path))
    assert spool.list_files(str(tmp_path)) == paths[-2:-1] and "30 days" in caplog.text
    assert (tmp_path / "of somebody else").exists()
    monkeypatch.setattr(spool, "MOST_FILE_BYTES", 10)
    with pytest.raises(OSError, match="too many"):
        kept(tmp_path)
    with pytest.raises(spool.Unusable, match="too large"):
        spool.read_file(kept_large(tmp_path))


def kept_large(directory):
    path = directory / ("x" + spool.ENDING)
    path.write_bytes(gzip.compress(b"x" * 1000))
    return str(path)
