"""Tests of imports of Dask's files: the results, the reports, and data that is never sent."""

import gzip
import json
import logging
import re
import time
import uuid
from datetime import datetime, timedelta

import dask
import msgpack
import pytest
from conftest import local_cluster
from distributed import Client, performance_report, wait
from fake_api import TOKEN, Answer, data, errors

import galvo
from galvo.command import main
from galvo.importing import import_file, read
from galvo.importing.delivery import Delivery
from galvo.importing.history import Identifiers
from galvo.importing.log_lines import Line, Zone

SECRET = "swordfish"


def fail(number):
    raise ValueError(f"no station {number}, token='{SECRET}'")


def double(number):
    return 2 * number


def add(*numbers):
    return sum(numbers)


class Work:
    """A performance report, a dump in both formats, and the state of the scheduler at that time."""

    def __init__(self, directory):
        self.directory = directory
        with local_cluster() as cluster, Client(cluster) as client:
            self.begun = time.time()
            with performance_report(filename=str(directory / "report.html")):
                # Tasks that ended before the report began, by a worker's estimate of the clock, are
                # left out.
                time.sleep(0.5)
                futures = [*client.map(double, range(10)), client.submit(fail, 1)]
                total = client.submit(add, *futures[:10])
                late = client.submit(add, futures[-1], 1)
                logging.getLogger("distributed.scheduler").warning("one <odd>\nthing & %s", SECRET)
                wait([*futures, total, late])
            self.lasted = time.time() - self.begun
            for where, name in ((True, "dump"), (False, "local")):
                url = str(directory / name)
                client.dump_cluster_state(url, write_from_scheduler=where, format="msgpack")
            client.dump_cluster_state(str(directory / "dump"), format="yaml")
            scheduler = cluster.scheduler
            self.started = scheduler.time_started
            self.groups = {
                group.name: (len(group), dict(group.all_durations), group.nbytes_total)
                for group in scheduler.task_groups.values()
            }
            self.key, self.client = futures[10].key, client.id
            self.worker = next(iter(scheduler.workers.values()))

    def __getitem__(self, name):
        return self.directory / name


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return Work(tmp_path_factory.mktemp("work"))


@pytest.fixture
def taken(api):
    """Returns the reports that the server has accepted; ``refusal`` is its next answer."""

    class Taken:
        def __init__(self):
            self.bodies, self.earlier, self.refusals = [], [], []
            self.accepts = ["basic", "tasks", "dask_errors", "user_errors", "code", "profiles"]
            self.accepts += ["events", "logs"]

        def __call__(self, request):
            if request.path == "/graphql":
                if "dataPolicies" in request.query:
                    return errors("MISSING_SCOPE")
                found = {"clusters": {"nodes": self.earlier}}
                return data({"viewer": {"account": found}})
            if request.path == "/api/v1/scheduler-tokens":
                assert request.headers["Authorization"] == "Bearer " + TOKEN
                return Answer(201, json.dumps({"token": "of-one-import"}).encode())
            # The configured token sends no reports.
            assert request.headers["Authorization"] == "Bearer of-one-import"
            body = request.body
            if request.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.refusals:
                return self.refusals.pop(0)
            self.bodies.append(json.loads(body))
            acknowledgement = {"acknowledged": self.bodies[-1]["sequence"], "cluster_id": 77}
            answer = {**acknowledgement, "accepts": self.accepts}
            return Answer(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

        def all(self, section):
            return [item for body in self.bodies for item in body.get(section, ())]

    taken = Taken()
    api.answers = [taken]
    return taken


@pytest.mark.parametrize("name", ["dump.msgpack.gz", "dump.yaml", "local.msgpack.gz"])
def test_a_dump_has_what_the_scheduler_had(work, name):
    history = read(work[name])
    assert (history.kind, history.name) == ("cluster dump", name)
    assert history.started_at == pytest.approx(work.started, abs=1e-3)
    groups = {
        group["name"]: (group["tasks"], group["durations"], group["bytes"])
        for group in history.sections["task_groups"]
    }
    assert groups == work.groups
    outcomes = {
        group["name"]: (group["tasks_succeeded"], group["tasks_erred"], group["tasks_blamed"])
        for group in history.sections["task_groups"]
    }
    assert outcomes == {"double": (10, 0, 0), "fail": (0, 1, 0), "add": (1, 0, 1)}
    (error,) = history.sections["errors"]
    assert (error["key"], error["type"], error["origin"]) == (work.key, "ValueError", "user")
    assert "def fail" not in error["message"] and "in fail" in error["traceback"]
    (worker,) = history.sections["workers"]
    assert worker["id"] == work.worker.server_id.rpartition("Worker-")[2]
    assert work.started - 1 < worker["started_at"] < work.begun
    assert (worker["threads"], worker["address"]) == (2, work.worker.address)
    (client,) = history.sections["clients"]
    assert client["id"] == work.client
    (usage,) = history.sections["usage"][-1:]
    assert {function["prefix"] for function in usage["functions"]} == set(work.groups)
    for section in ("computations", "spans", "fine_metrics", "profiles", "code"):
        assert not history.sections.get(section)


def test_both_formats_contain_the_same(work):
    packed, plain = read(work["dump.msgpack.gz"]), read(work["dump.yaml"])
    for section in ("workers", "environments"):
        assert packed.sections[section] == plain.sections[section]
    assert packed.totals["tasks"] == plain.totals["tasks"]
    assert packed.ids.scheduler != plain.ids.scheduler


def test_a_report_has_what_was_drawn(work):
    history = read(work["report.html"])
    assert history.started_at == pytest.approx(work.begun, abs=1)
    groups = {
        group["name"]: (group["tasks_succeeded"], group["tasks_erred"])
        for group in history.sections["task_groups"]
    }
    assert groups == {"double": (10, 0), "fail": (0, 1), "add": (1, 0)}
    for group in history.sections["task_groups"]:
        _, durations, _ = work.groups[group["name"]]
        assert group["durations"].get("compute", 0) == pytest.approx(
            durations.get("compute", 0), abs=2e-5
        )
    (computation,) = history.sections["computations"]
    assert computation["state"] == "erred"
    (code,) = history.sections["code"]
    assert "with performance_report(" in code["text"]
    assert computation["code"][0][0]["hash"] == code["hash"]
    assert history.cluster["threads"] == 2
    assert history.sections["samples"]
    (line,) = (line for line in history.sections["logs"] if line["level"] == "WARNING")
    assert (line["source"], line["logger"]) == ("scheduler", "distributed.scheduler")
    assert line["message"] == f"one <odd>\nthing & {SECRET}"
    assert work.begun - 0.01 < line["at"] < work.begun + work.lasted
    # Sizes of results are in no report, and tasks that never ran are not drawn.
    assert not any("states" in group or "types" in group for group in history.sections["errors"])


@pytest.mark.parametrize(
    ("name", "source"),
    [("dump.msgpack.gz", "raise ValueError("), ("report.html", "with performance_report(")],
)
def test_secrets_and_what_is_not_to_leave_stay(work, name, source):
    def written():
        return "\n".join(import_file(work[name], dry_run=True).reports)

    assert f"token='{SECRET}" not in written()
    assert source in written()
    with dask.config.set({"galvo.computation.code.transmit": False}):
        assert source not in written()
        (report,) = map(json.loads, import_file(work[name], dry_run=True).reports)
        assert "code" not in report
    kept = {
        "galvo.errors.transmit": False,
        "galvo.logs.transmit": False,
        "galvo.events.allow": [],
        "galvo.profile.transmit": False,
    }
    with dask.config.set(kept):
        (report,) = map(json.loads, import_file(work[name], dry_run=True).reports)
    assert not {"errors", "logs", "events", "profiles"} & report.keys()
    assert report["receipt"]["user_errors"]["withheld"] == 1
    assert report["cluster"]["totals"]["errors"] == 1


def test_reports_are_sent_once(work, taken):
    imported = galvo.import_file(work["dump.msgpack.gz"], "nightly")
    assert (imported.number, imported.already, imported.kind) == (77, False, "cluster dump")
    (report,) = taken.bodies
    assert report["final"] and report["base"] is None
    assert report["scheduler_id"] == imported.scheduler_id
    assert report["cluster"]["name"] == "nightly"
    assert report["cluster"]["closed_at"] == report["sent_at"]
    assert report["sent_at"] == pytest.approx(imported.ended_at.timestamp(), abs=1e-5)
    again = galvo.import_file(work["dump.msgpack.gz"], dry_run=True)
    assert again.number is None
    first, second = ({**report, "receipt": None}, {**json.loads(again.reports[0]), "receipt": None})
    second["cluster"]["name"] = "nightly"
    assert first == {**second, "account": first["account"]}
    # Now the server has the cluster.
    taken.earlier = [{"number": 77, "schedulerId": imported.scheduler_id, "state": "CLOSED"}]
    again = galvo.import_file(work["dump.msgpack.gz"])
    assert (again.number, again.already, len(taken.bodies)) == (77, True, 1)
    # An interrupted import is completed.
    taken.earlier[0]["state"] = "LOST"
    assert not galvo.import_file(work["dump.msgpack.gz"]).already
    assert len(taken.bodies) == 2


def test_what_was_counted_is_not_counted_again(work, taken):
    imported = galvo.import_file(work["report.html"], usage=False)
    assert imported.counts["usage"] == 0
    scheduler = read(work["dump.yaml"]).scheduler
    assert scheduler.startswith("Scheduler-")
    taken.earlier = [{"number": 12, "schedulerId": scheduler, "state": "RUNNING"}]
    imported = galvo.import_file(work["dump.yaml"])
    assert not imported.already
    assert any("reported as cluster 12" in note for note in imported.notes)
    assert not taken.all("usage") and len(taken.all("task_groups")) == 6


def test_much_is_sent_in_portions(work, taken, monkeypatch):
    whole = read(work["dump.msgpack.gz"])
    monkeypatch.setattr("galvo.importing.delivery.MOST_CHARACTERS", 1500)
    too_large = Answer(413, b'{"message": "too large", "code": "BODY_TOO_LARGE"}')
    taken.refusals = [too_large, too_large]
    galvo.import_file(work["dump.msgpack.gz"])
    assert len(taken.bodies) > 3
    sequences = [body["sequence"] for body in taken.bodies]
    assert sequences == sorted(set(sequences))
    # The base of each report is the sequence number of the one accepted before it.
    assert [body["base"] for body in taken.bodies] == [None, *sequences[:-1]]
    assert [body["final"] for body in taken.bodies] == [False] * (len(sequences) - 1) + [True]
    assert all("closed_at" not in body["cluster"] for body in taken.bodies[:-1])
    for section, items in whole.sections.items():
        assert taken.all(section) == json.loads(json.dumps(items))
    assert taken.bodies[-1]["receipt"]["tasks"]["sent"] == len(whole.sections["task_groups"])


def test_what_an_account_refuses_is_not_sent(work, taken, monkeypatch):
    monkeypatch.setattr("galvo.importing.delivery.MOST_CHARACTERS", 300)
    taken.accepts = ["basic", "dask_errors", "tasks"]
    galvo.import_file(work["dump.msgpack.gz"])
    assert not taken.all("logs") and not taken.all("events") and not taken.all("errors")
    assert len(taken.all("task_groups")) == 3
    receipt = taken.bodies[-1]["receipt"]
    assert receipt["user_errors"]["withheld"] == 1
    assert receipt["logs"]["withheld"] == len(read(work["dump.msgpack.gz"]).sections["logs"])


def test_a_refusal_names_the_place(work, taken):
    body = {"message": "not a time", "code": "INVALID_BODY", "pointer": "/workers/0/started_at"}
    taken.refusals = [Answer(400, json.dumps(body).encode())]
    with pytest.raises(galvo.RequestRefused, match=r"not a time \(/workers/0/started_at"):
        galvo.import_file(work["dump.msgpack.gz"])


def aged(work, days):
    """Returns the dump as if it were this many days older."""

    def older(found):
        return str(float(found[0]) - days * 86_400)

    # Times of the scheduler's clock, not local times in log lines.
    return re.sub(r"\b1[78]\d{8}\.\d+", older, work["dump.yaml"].read_text())


def test_what_is_too_old_to_stay_is_reported(tmp_path, work, taken):
    path = tmp_path / "old.yaml"
    path.write_text(aged(work, 700))
    imported = galvo.import_file(path)
    assert imported.started_at.timestamp() == pytest.approx(work.started - 700 * 86_400, abs=1e-3)
    (age_note,) = [note for note in imported.notes if "older than" in note]
    assert "measurements (90 days), errors (365 days)" in age_note and "logs (30 days)" in age_note
    assert taken.bodies[0]["cluster"]["closed_at"] < work.begun - 699 * 86_400
    path.write_text(aged(work, 3))
    assert "measurements of single workers are kept for 2 days" in galvo.import_file(path).notes


def test_the_command(work, taken, capsys, tmp_path):
    broken = tmp_path / "broken.gz"
    broken.write_bytes(b"\x1f\x8b nothing")
    status = main(["import", str(broken), str(work["report.html"]), str(tmp_path / "none")])
    printed = capsys.readouterr()
    assert status == 1
    assert "report.html: cluster 77, of a performance report from" in printed.out
    assert "3 task groups" in printed.out and "`galvo report 77`" in printed.out
    first, second = printed.err.splitlines()
    assert first.startswith(f"galvo: {broken}: it is damaged")
    assert "none" in second
    assert TOKEN not in printed.out + printed.err
    assert main(["import", "--name", "x", "a", "b"]) == 2
    with dask.config.set({"galvo.server": None, "galvo.token": None}):
        assert main(["import", str(work["report.html"])]) == 2
        capsys.readouterr()
        assert main(["import", "--dry-run", str(work["report.html"])]) == 0
    printed = capsys.readouterr()
    (report,) = map(json.loads, printed.out.splitlines())
    assert report["cluster"]["name"] == "report.html"
    assert main(["import"]) == 2


def test_identifiers_are_of_the_content_and_sorted_by_time():
    ids, same, other = Identifiers("a"), Identifiers("a"), Identifiers("b")
    assert ids.of("group", "x") == same.of("group", "x") != other.of("group", "x")
    times = [1.0, 1_700_000_000.25, 1_700_000_000.251, 1_900_000_000.0]
    made = [ids.at(at, "log", 7) for at in times]
    assert made == sorted(made) == [same.at(at, "log", 7) for at in times]
    assert len(set(made)) == len(made)
    for at, identifier in zip(times, made):
        parsed = uuid.UUID(identifier)
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
        assert parsed.int >> 80 == int(at * 1000)


@pytest.mark.parametrize(
    ("offset", "begin", "end", "expected"),
    [
        (0, 0, 600, (0, True)),
        (7200, 0, 600, (7200, True)),
        (-12600, 0, 600, (-12600, True)),
        (20700, 0, 600, (20700, True)),  # Kathmandu
    ],
)
def test_the_zone_of_a_log_is_that_in_which_it_fits(offset, begin, end, expected):
    base = 1_790_000_000
    lines = [Line(base + offset + at, "distributed.worker", "INFO", "x") for at in (1, 300, 590)]
    assert Zone.of(lines, base + begin, base + end) == expected


def test_a_zone_that_may_be_several_is_not_certain():
    base = 1_790_000_000
    lines = [Line(base + 20_000, "a", "INFO", "x")]
    assert not Zone.of(lines, base, base + 86_400).certain
    assert Zone.of([], base, base + 1) == (0.0, True)


def test_what_is_known_of_one_line_determines_the_zone():
    base = 1_790_000_000
    line = Line(base + 20_000 + 7200.4, "a", "ERROR", "Compute Failed")
    known = [(line, base + 20_000.0)]
    assert Zone.of([line], base, base + 86_400, known) == (7200, True)
    # Other log lines of the same cluster probably share the zone, but that is not certain.
    assert Zone.of([line], base, base + 86_400, other_zone=Zone(7200, True)) == (7200, False)
    # Contradictory clocks determine nothing.
    known.append((line, base + 10_000.0))
    assert not Zone.of([line], base, base + 86_400, known).certain


def test_what_failed_determines_the_zone_of_a_dump_of_a_day(work, tmp_path):
    """A cluster that ran for a day fits into many zones; one failed task determines the zone."""
    text = work["dump.yaml"].read_text()
    started = re.search(r"\n  started: (\S+)", text)[1]
    shift = 3 * 3600

    def later(found):
        moved = datetime.strptime(found[0], "%Y-%m-%d %H:%M:%S") + timedelta(seconds=shift)
        return moved.strftime("%Y-%m-%d %H:%M:%S")

    text = text.replace(f"started: {started}", f"started: {float(started) - 86_400}")
    text = re.sub(r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", later, text)
    (tmp_path / "day.yaml").write_text(text)
    history = read(tmp_path / "day.yaml")
    failed = [line for line in history.sections["logs"] if "Compute Failed" in line["message"]]
    assert len(failed) == 1
    assert work.begun < failed[0]["at"] < work.begun + work.lasted
    assert not any("time zone" in note for note in history.notes)


def test_a_worker_began_with_its_first_transition(work, tmp_path):
    """A dump without events and log lines has only the transitions in which a worker took part."""
    dump = msgpack.unpackb(
        gzip.decompress(work["dump.msgpack.gz"].read_bytes()), strict_map_key=False
    )
    dump["scheduler"]["events"] = {}
    (worker,) = dump["workers"].values()
    worker["logs"] = []
    times = [entry[-1] for entry in worker["log"]]
    assert min(times) < max(times)
    (tmp_path / "bare.msgpack.gz").write_bytes(gzip.compress(msgpack.packb(dump)))
    (found,) = read(tmp_path / "bare.msgpack.gz").sections["workers"]
    assert found["started_at"] == pytest.approx(min(times), abs=1e-3)


def test_lines_of_logs():
    text = "2026-11-22 12:46:44,426 - distributed.worker - WARNING - one\ntwo - three"
    line = Line.read(text)
    assert line[1:] == ("distributed.worker", "WARNING", "one\ntwo - three")
    assert line.clock == pytest.approx(1795351604.426)
    for wrong in ("", "no time", text.replace("11-22", "13-22"), text.replace(" - ", " ")):
        assert Line.read(wrong) is None


def test_a_delivery_of_nothing_is_one_report(work):
    history = read(work["dump.msgpack.gz"])
    for items in history.sections.values():
        items.clear()
    (report,) = map(json.loads, Delivery(history).write())
    assert report["final"] and "workers" not in report
