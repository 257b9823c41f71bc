"""Imported files of Dask become clusters with Dask's own numbers."""

import copy
import json
import os
import re
import shlex
import shutil
import subprocess
from collections import Counter, defaultdict

import invariants
import pytest
from accounts import ERRORS, TASK_GROUPS, close_to, everything, moment, seconds
from conftest import PYTHONS, settings_for
from observed import EVENTS, LOGS, WORKERS
from processes import (
    REPOSITORY,
    WORKLOADS,
    dask_environment,
    python_named,
    run_to_end,
)
from stores import member

DOCUMENT = (REPOSITORY / "docs" / "importing.md").read_text(encoding="utf-8")
FAILURE = "ValueError('no station sends a reading of 3, password=[removed]')"
CLUSTER = """
query ($id: ID!) { cluster(id: $id) {
  number name address state startedAt endedAt durationSeconds closeReason
  totals {
    tasks tasksSucceeded tasksErred errors bytes workers peakWorkers peakThreads
    computeSeconds transferSeconds threadSeconds
  }
  usage { utilization costs { amount } }
  clients(first: 10) { nodes { daskId connectedAt } }
  computations(first: 10) { nodes { state startedAt endedAt code { snippet { text } } } }
  profile { samples frames { function } }
  environment { packages { name version } }
} }
"""


class Artefacts:
    """Files of one release of Dask, its own data about the same work, and a server to import to."""

    def __init__(self, role, galvo, directory):
        self.role, self.directory = role, directory
        self.python = python_named(role.upper())
        self.galvo = member(galvo, f"import-{role}")
        run_to_end([self.python, WORKLOADS / "artefacts.py", directory], directory, {})
        self.recorded = json.loads((directory / "recorded.json").read_text())

    def run(self, *arguments, python=None):
        settings = settings_for(self.galvo.address, self.galvo.token)
        return subprocess.run(
            [python or self.python, "-m", "galvo", "import", *map(str, arguments)],
            env={**dask_environment(self.directory, settings), "TZ": "Asia/Kathmandu"},
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def imported(self, name, *options):
        """Returns Galvo's cluster of a file, importing it if necessary."""
        done = self.run(name, *options)
        assert (done.returncode, done.stderr) == (0, "")
        number = re.search(r"cluster (\d+)", done.stdout).group(1)
        cluster = self.galvo.query(CLUSTER, id=number)["cluster"]
        listed = self.galvo.query(
            "query ($id: ID!) { cluster(id: $id) { schedulerId } }", id=number
        )
        cluster["schedulerId"] = listed["cluster"]["schedulerId"]
        return cluster, done.stdout

    def all(self, query, cluster):
        return everything(self.galvo, query, cluster["schedulerId"])


@pytest.fixture(scope="module", params=PYTHONS)
def artefacts(request, galvo, tmp_path_factory):
    return Artefacts(request.param, galvo, tmp_path_factory.mktemp("artefacts"))


def test_an_account_that_refuses_broad_tokens_takes_imports(artefacts):
    strict = copy.copy(artefacts)
    strict.galvo = member(artefacts.galvo, f"strict-{artefacts.role}")
    policy = (
        "mutation { setTokenPolicy(input: { refusesBroadTokens: true }) { userErrors { code } } }"
    )
    assert strict.galvo.query(policy)["setTokenPolicy"]["userErrors"] == []
    cluster, _ = strict.imported("dump.msgpack.gz")
    tasks = sum(group["tasks"] for group in artefacts.recorded["groups"].values())
    assert (cluster["state"], cluster["totals"]["tasks"]) == ("CLOSED", tasks)
    used = """{ viewer { account { tokenPolicy { lastBroadUseAt }
      schedulerTokens { nodes { label schedulerId scopes } } } } }"""
    assert strict.galvo.query(used)["viewer"]["account"] == {
        "tokenPolicy": {"lastBroadUseAt": None},
        "schedulerTokens": {
            "nodes": [
                {
                    "label": "stored reports",
                    "schedulerId": cluster["schedulerId"],
                    "scopes": ["INGEST"],
                }
            ]
        },
    }


@pytest.mark.parametrize("name", ["dump.msgpack.gz", "dump.yaml"])
def test_a_cluster_dump(artefacts, name):
    recorded = artefacts.recorded
    cluster, printed = artefacts.imported(name, "--name", f"what was {name}")
    assert cluster["name"] == f"what was {name}"
    assert cluster["state"] == "CLOSED"
    assert cluster["address"] == recorded["scheduler"]["address"]
    assert seconds(cluster["startedAt"]) == moment(recorded["scheduler"]["started"])
    begun, ended = seconds(cluster["startedAt"]), seconds(cluster["endedAt"])
    assert (
        recorded["started"] + recorded["lasted"] - 1
        < ended
        < recorded["started"] + recorded["lasted"] + 20
    )

    groups = {
        group["name"]: {
            "prefix": group["prefix"],
            "states": {state["state"]: state["count"] for state in group["states"]},
            "tasks": group["tasks"],
            "durations": {spent["action"]: spent["seconds"] for spent in group["durations"]},
            "bytes": group["bytes"],
            "types": group["types"],
            "start": seconds(group["startedAt"]),
            "stop": seconds(group["endedAt"]),
            "dependencies": sorted(other["name"] for other in group["dependencies"]),
        }
        for group in artefacts.all(TASK_GROUPS, cluster)
    }
    assert groups == {
        name: {
            **group,
            "durations": {
                action.upper().replace("-", "_"): close_to(spent)
                for action, spent in group["durations"].items()
            },
            "states": {
                state.upper().replace("-", "_"): number for state, number in group["states"].items()
            },
            "start": moment(group["start"] or None),
            "stop": moment(group["stop"] or None),
        }
        for name, group in recorded["groups"].items()
    }
    outcomes = {
        group["name"]: (group["tasksSucceeded"], group["tasksErred"], group["tasksBlamed"])
        for group in artefacts.all(TASK_GROUPS, cluster)
    }
    # One square was requested by another client, and one sum depended on the failed task.
    assert outcomes == {
        "square": (21, 0, 0),
        "measure": (3, 1, 0),
        "total": (1, 0, 1),
        "linger": (3, 0, 0),
    }
    totals = cluster["totals"]
    assert (totals["tasks"], totals["tasksSucceeded"], totals["tasksErred"]) == (30, 28, 1)
    assert (totals["errors"], totals["workers"], totals["peakThreads"]) == (1, 2, 2)
    for total, action in (("computeSeconds", "compute"), ("transferSeconds", "transfer")):
        spent = [group["durations"].get(action, 0) for group in recorded["groups"].values()]
        assert totals[total] == pytest.approx(sum(spent), abs=1e-6)
    assert totals["bytes"] == sum(group["bytes"] for group in recorded["groups"].values())

    (error,) = artefacts.all(ERRORS, cluster)
    assert (error["key"], error["type"]) == (recorded["failed"], "ValueError")
    # A secret in a file is still redacted.
    assert error["message"] == FAILURE
    assert "in measure" in error["traceback"]
    assert error["worker"] in recorded["scheduler"]["workers"]
    assert error["taskGroup"]["name"] == "measure"
    assert recorded["started"] < seconds(error["at"]) < recorded["started"] + recorded["lasted"]

    workers = artefacts.all(WORKERS, cluster)
    assert {worker["address"]: worker["daskId"] for worker in workers} == {
        address: worker["id"].rpartition("Worker-")[2]
        for address, worker in recorded["scheduler"]["workers"].items()
    }
    for worker in workers:
        known = recorded["scheduler"]["workers"][worker["address"]]
        shown = (worker["name"], worker["threads"], worker["memoryLimit"])
        assert shown == (known["name"], known["threads"], known["memory_limit"])
        # Each existed before the work, and after the scheduler.
        assert begun < seconds(worker["startedAt"]) < recorded["started"]
    offered = sum(ended - seconds(worker["startedAt"]) for worker in workers)
    assert totals["threadSeconds"] == pytest.approx(offered, abs=0.05)
    assert cluster["usage"]["utilization"] == pytest.approx(
        totals["computeSeconds"] / totals["threadSeconds"], rel=1e-3
    )
    # Without rates, a thread-hour is estimated at 0.05 USD.
    (cost,) = cluster["usage"]["costs"]
    assert cost["amount"] == pytest.approx(offered / 3600 * 0.05, rel=0.01)
    clients = {client["daskId"]: client for client in cluster["clients"]["nodes"]}
    assert sorted(clients) == recorded["scheduler"]["clients"]
    assert all(begun < seconds(c["connectedAt"]) < recorded["started"] for c in clients.values())
    packages = {one["name"]: one["version"] for one in cluster["environment"]["packages"]}
    release = [artefacts.python, "-c", "import distributed; print(distributed.__version__)"]
    assert packages["distributed"] == subprocess.check_output(release, text=True).strip()

    lines = Counter(line["message"].strip() for line in artefacts.all(LOGS, cluster))
    written = [line.split(" - ", 3)[3] for lines in recorded["logs"].values() for line in lines]
    # Their last lines concern the request for their logs.
    calm = Counter(line.strip() for line in written if not re.search("Failed|out-of-band", line))
    assert len(calm) > 10
    assert calm - lines == Counter()
    for line in artefacts.all(LOGS, cluster):
        # Independent of the time zones of the importer and the writer.
        assert begun - 5 < seconds(line["at"]) < ended + 1
    # Newer releases of Dask write no events into dumps.
    scores = [e["data"] for e in artefacts.all(EVENTS, cluster) if e["topic"] == "scores"]
    writes_events = packages["distributed"] < "2024"
    assert sorted(score["number"] for score in scores) == ([0, 1, 2] if writes_events else [])
    # Data missing in a dump is absent, and no zero is claimed.
    assert cluster["computations"]["nodes"] == []
    assert "no computations" in printed


def test_a_performance_report(artefacts):
    recorded = artefacts.recorded
    cluster, printed = artefacts.imported("report.html")
    assert (cluster["name"], cluster["state"]) == ("report.html", "CLOSED")
    assert cluster["address"] == recorded["scheduler"]["address"]
    # It has no times of its own: they are derived from the first measurement and the duration,
    # which lasts until its page was made.
    first = min(spent["start"] for task in recorded["stream"] for spent in task["startstops"])
    assert recorded["started"] - 0.25 < seconds(cluster["startedAt"]) < first + 0.01
    page = (artefacts.directory / "report.html").read_text(encoding="utf-8")
    (written,) = re.findall(r"Duration: ([0-9.]+) s\b", page)
    assert cluster["durationSeconds"] == pytest.approx(float(written), abs=1e-5)
    assert recorded["lasted"] - 0.25 < float(written)

    expected = defaultdict(lambda: [0, 0, 0.0, 0.0])
    for task in recorded["stream"]:
        group = expected[re.sub(r"-[0-9a-f]{32}$|-100$", "", task["key"])]
        if task["status"] == "OK":
            group[0] += 1
            for spent in task["startstops"]:
                took = spent["stop"] - spent["start"]
                group[2] += took if spent["action"] == "compute" else 0
                group[3] += took if spent["action"] == "transfer" else 0
        else:
            group[1] += 1
    found = {}
    for group in artefacts.all(TASK_GROUPS, cluster):
        spent = {one["action"]: one["seconds"] for one in group["durations"]}
        found[group["name"]] = [
            group["tasksSucceeded"],
            group["tasksErred"],
            close_to(spent.get("COMPUTE", 0.0)),
            close_to(spent.get("TRANSFER", 0.0)),
        ]
    assert found == dict(expected)
    assert found["square"][0] == 21
    totals = cluster["totals"]
    assert (totals["tasks"], totals["tasksSucceeded"], totals["tasksErred"]) == (29, 28, 1)
    assert totals["computeSeconds"] == pytest.approx(sum(g[2] for g in expected.values()))
    assert totals["workers"] == 2
    assert totals["threadSeconds"] == pytest.approx(2 * cluster["durationSeconds"], rel=0.01)

    (error,) = artefacts.all(ERRORS, cluster)
    # A failure is drawn in black, without a reason.
    assert (error["key"], error["message"], error["traceback"]) == (recorded["failed"], "", "")
    workers = {worker["address"]: worker["threads"] for worker in artefacts.all(WORKERS, cluster)}
    assert workers == dict.fromkeys(recorded["scheduler"]["workers"], 1)
    (computation,) = cluster["computations"]["nodes"]
    assert computation["state"] == "ERRED"
    ((frame,),) = computation["code"]
    assert "futures, failed = work(client, other)" in frame["snippet"]["text"]
    # Of functions that called others, because the innermost ones are not drawn. A busy machine
    # takes fewer samples.
    assert cluster["profile"]["samples"] > 10
    assert "linger" in [frame["function"] for frame in cluster["profile"]["frames"]]
    assert "why tasks failed" in printed.replace("\n", " ")


def test_the_same_file_is_one_cluster(artefacts):
    first, _ = artefacts.imported("dump.msgpack.gz")
    again = artefacts.run("dump.msgpack.gz", "report.html", "dump.yaml")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.count("imported before") == 3
    assert f"as cluster {first['number']}" in again.stdout
    listed = artefacts.galvo.query(
        "{ viewer { account { clusters(first: 50) { nodes { number } } } } }"
    )
    assert len(listed["viewer"]["account"]["clusters"]["nodes"]) == 3
    # Another release of Dask gives the same result.
    other = python_named("OTHER")
    assert artefacts.run("report.html", python=other).stdout.count("imported before") == 1


def test_what_cannot_be_imported_leaves_nothing(artefacts):
    directory = artefacts.directory
    (directory / "half.gz").write_bytes((directory / "dump.msgpack.gz").read_bytes()[:-100])
    (directory / "page.html").write_text("<!DOCTYPE html><p>Dask Performance Report</p>")
    before = artefacts.imported("dump.msgpack.gz")[0]["number"]
    done = artefacts.run("half.gz", "dump.msgpack.gz", "page.html", "nowhere.html")
    assert done.returncode == 1
    assert f"imported before, as cluster {before}" in done.stdout
    broken, page, nowhere = done.stderr.splitlines()
    assert broken == "galvo: half.gz: it is damaged: its end is missing"
    assert page == "galvo: page.html: there is no document of Bokeh in the page"
    assert "nowhere.html" in nowhere
    listed = artefacts.galvo.query(
        "{ viewer { account { clusters(first: 50) { nodes { name } } } } }"
    )
    names = [row["name"] for row in listed["viewer"]["account"]["clusters"]["nodes"]]
    assert not {"half.gz", "page.html"} & set(names)


def test_a_dry_run_sends_nothing(artefacts):
    environment = {**os.environ, "DASK_GALVO__SERVER": "", "DASK_GALVO__TOKEN": ""}
    done = subprocess.run(
        [artefacts.python, "-m", "galvo", "import", "--dry-run", "report.html"],
        env=environment,
        cwd=artefacts.directory,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    (report,) = map(json.loads, done.stdout.splitlines())
    assert report["final"] and report["cluster"]["totals"]["tasks"] == 29


def test_what_is_years_old(artefacts):
    """The server accepts it with its own times. Data past the account's retention is named."""
    text = (artefacts.directory / "dump.yaml").read_text()
    ago = 1000 * 86_400
    older = re.sub(r"\b1[78]\d{8}\.\d+", lambda found: str(float(found[0]) - ago), text)
    (artefacts.directory / "old.yaml").write_text(older)
    policy = """mutation { setDataPolicy(input: {
      class: USER_ERRORS, accepted: true, retentionDays: 5000
    }) { userErrors { code } } }"""
    assert artefacts.galvo.query(policy)["setDataPolicy"]["userErrors"] == []
    cluster, printed = artefacts.imported("old.yaml")
    started = artefacts.recorded["scheduler"]["started"] - ago
    assert seconds(cluster["startedAt"]) == moment(started)
    assert cluster["state"] == "CLOSED"
    assert cluster["totals"]["tasks"] == 30
    (error,) = artefacts.all(ERRORS, cluster)
    assert started < seconds(error["at"]) < started + 60
    assert "measurements (90 days)" in printed and "logs (30 days)" in printed
    assert "errors (" not in printed


@pytest.mark.parametrize("seed", [1, 2])
def test_files_that_are_not_as_they_should_be(artefacts, seed):
    """Any damaged content is refused as a file, or becomes a report that the server accepts."""
    settings = settings_for(artefacts.galvo.address, artefacts.galvo.token)
    arguments = [artefacts.python, WORKLOADS / "mutants.py", artefacts.directory, "40", str(seed)]
    outcomes = json.loads(run_to_end(arguments, artefacts.directory, settings))
    assert outcomes["wrong"] == []
    assert outcomes["imported"] > 20
    assert outcomes["imported"] + len(outcomes["refused"]) == 80
    # Whatever a file states, the cluster's numbers agree with each other.
    assert invariants.check_all(outcomes["imported"]) >= 20


@pytest.mark.parametrize("artefacts", ["newest"], indirect=True)
def test_examples_of_the_documentation(artefacts):
    shutil.copy(artefacts.directory / "report.html", artefacts.directory / "dask-report.html")
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    for line in commands.splitlines():
        program, command, *arguments = shlex.split(line, comments=True)
        assert (program, command) == ("galvo", "import")
        done = artefacts.run(*arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    (example,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    settings = settings_for(artefacts.galvo.address, artefacts.galvo.token)
    program = [artefacts.python, "-c", "import galvo\n" + example]
    printed = run_to_end(program, artefacts.directory, settings)
    assert re.match(r"\d+ \{'environments': 1, 'workers': 2, ", printed)
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", DOCUMENT):
        assert (REPOSITORY / "docs" / link).exists(), link
