"""What people ask from Python and on the command line is what Dask itself knows."""

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import nbformat
import pytest
import yaml
from accounts import close_to, computation_of, error_of, moment
from conftest import settings_for
from galvo.command import COMMANDS
from nbclient import NotebookClient
from observed import ObservedCluster
from processes import WORKLOADS, Client, clean_environment, dask_environment, wait_until
from stores import member
from test_coiled_login import PASSWORD, Browser, own_galvo  # noqa: F401

EVENTS = 130  # which are more than a page


class Study:
    """A cluster whose client asks Galvo about it, in an account of its own."""

    def __init__(self, processes, python, galvo):
        self.galvo, self.processes, self.python = galvo, processes, python
        self.settings = settings_for(galvo.address, galvo.token)
        self.dask = ObservedCluster(processes, python, galvo.address, galvo.token, NO_HISTORY)
        for name in ("first", "second"):
            self.dask.add_worker(name)
        self.client = processes.start(
            "client",
            [python, WORKLOADS / "analyst.py", self.dask.dask.scheduler_file],
            dask_environment(processes.directory, self.settings),
            kind=Client,
        )
        self.client.call("wait_for_workers", count=2)

    def work(self):
        """Errors of which some were tried again, events, and a computation that is well."""
        directory = self.processes.directory
        options = {"attempts": str(directory), "reading": 1e9, "password": "sesame"}
        self.client.call("trouble", workload="failings", **options)
        self.client.call("run", workload="squares", first=0, count=10)
        topics = {"topics": ["scores", "other"], "count": EVENTS // 2, "password": "x"}
        self.client.call("trouble", workload="announcements", **topics)
        self.report = self.client.call("dask_report")

    def told(self):
        """The cluster's row, once Galvo knows all that Dask knows."""

        def look():
            (row,) = self.ask("list_clusters")
            done = row["totals"]["tasksSucceeded"] == sum(
                prefix["state_counts"].get("memory", 0)
                for prefix in self.report["prefixes"].values()
            )
            return done and row["totals"]["errors"] == len(self.report["errors"]) and row

        row = wait_until(look, "Galvo knows of all tasks")
        events = len(self.events("scores")) + len(self.events("other"))
        topics = ["scores", "other"]
        wait_until(
            lambda: len(self.ask("list_events", mine=True, topics=topics)) == events,
            "Galvo knows of all events",
        )
        return row

    def events(self, topic):
        return self.client.call("look", at="events", topic=topic)

    def ask(self, function, **arguments):
        answer = self.client.call("ask", function=function, **arguments)
        assert answer["warnings"] == []
        return answer["rows"]

    def run(self, *arguments, **options):
        """``python -m galvo`` with this cluster's settings."""
        return subprocess.run(
            [self.python, "-m", "galvo", *map(str, arguments)],
            env=dask_environment(self.processes.directory, self.settings),
            cwd=self.processes.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            **options,
        )


NO_HISTORY = {"distributed.diagnostics.computations.max-history": 5000}


@pytest.fixture
def account(galvo, request):
    """An account that has no clusters yet."""
    return member(galvo, "nb" + re.sub(r"\W+", "-", request.node.name).lower()[-30:].strip("-"))


@pytest.fixture
def study(processes, python, account):
    study = Study(processes, python, account)
    study.work()
    return study


def test_lists(study, galvo):
    """All lists of a cluster and of its account have what Dask has, all pages of them."""
    report, row = study.report, study.told()
    number = row["number"]
    assert row["schedulerId"] == report["scheduler_id"]
    assert (row["state"], row["user"]["name"]) == ("RUNNING", "ada")
    assert row["startedAt"] == moment(report["started_at"])
    assert (row["now"]["workers"], row["now"]["threads"]) == (2, 2)
    compute = sum(p["durations"].get("compute", 0) for p in report["prefixes"].values())
    assert row["totals"]["computeSeconds"] == close_to(compute)
    for which in ({"since": "1 hour"}, {"user": "ada"}, {"filter": {"hasErrors": True}}):
        assert [found["id"] for found in study.ask("list_clusters", **which)] == [row["id"]]
    for which in ({"since": 0}, {"user": "admin"}, {"filter": {"states": ["CLOSED"]}}):
        assert study.ask("list_clusters", **which) == []

    computations = {
        one["id"]: computation_of(one, report) for one in report["computations"] if one["groups"]
    }
    ways = ({"mine": True}, {"cluster_id": number}, {"scheduler_id": row["id"]}, {}, {"since": 600})
    for way in ways:
        found = study.ask("list_computations", **way)
        assert [one["startedAt"] for one in found] == sorted(
            (one["startedAt"] for one in found), reverse=True
        )
        assert {one["cluster"]["number"] for one in found} == {number}
        assert {one["daskId"]: one["state"] for one in found} == {
            id_: one["state"] for id_, one in computations.items()
        }
        assert {one["daskId"]: one["endedAt"] for one in found} == {
            id_: one["stop"] for id_, one in computations.items()
        }

    errors = {error["key"]: error_of(error, report) for error in report["errors"]}
    names = ("at", "type", "message", "traceback", "worker")
    for way in ({}, {"mine": True}, {"cluster_id": number, "since": None}, {"user": "ada"}):
        found = study.ask("list_exceptions", **way)
        assert {error["key"]: {name: error[name] for name in names} for error in found} == {
            key: {name: error[name] for name in names} for key, error in errors.items()
        }
    (patient,) = (error for error in found if error["key"] == "hopeless")
    assert patient["retries"] == 2
    assert study.ask("list_exceptions", since=0) == []

    scores = [said["number"] for _, said in study.events("scores")]
    assert len(scores) > EVENTS // 2
    for way in ({"mine": True}, {"cluster_id": number}, {}, {"mine": True, "since": "1 hour"}):
        found = study.ask("list_events", topics="scores", **way)
        assert sorted(event["data"]["number"] for event in found) == sorted(scores)
        assert {event["topic"] for event in found} == {"scores"}
    both = study.ask("list_events", mine=True, topics=["scores", "other"])
    assert len(both) > 100
    cut = study.client.call("ask", function="list_events", cluster_id=number, limit=101)
    assert len(cut["rows"]) == 101
    assert "more than 101 events" in cut["warnings"][0]

    # Another account's clusters are not there, by whatever name.
    stranger = member(galvo, study.galvo.token.partition("-")[0] + "x", user="bob")
    settings = {**study.settings, "galvo.token": stranger.token}
    other = subprocess.run(
        [study.python, "-m", "galvo", "logs", str(number)],
        env=dask_environment(study.processes.directory, settings),
        capture_output=True,
        text=True,
    )
    assert (other.returncode, other.stdout) == (1, "")
    assert other.stderr == f"galvo: there is no cluster {number} in this account\n"


def test_graphql(study):
    row = study.told()
    query = "query ($id: ID!) { cluster(id: $id) { schedulerId } }"
    asked = study.ask("graphql", query=query, variables={"id": row["id"]})
    assert asked == {"cluster": {"schedulerId": study.report["scheduler_id"]}}
    wrong = study.client.call("refused", function="graphql", query="{ nothing }")
    assert (wrong["kind"], wrong["codes"]) == ("GraphQLError", ["GRAPHQL_VALIDATION_FAILED"])
    other = study.client.call("refused", function="list_clusters", account="other")
    assert (other["kind"], other["codes"]) == ("GraphQLError", ["ACCOUNT_MISMATCH"])


def test_close_stops_the_scheduler(study):
    number = study.told()["number"]
    assert study.ask("close", cluster_id=number) is None
    assert study.dask.dask.scheduler.wait(15) == 0
    (row,) = Asker(study).clusters()
    assert (row["state"], row["desiredState"]) == ("CLOSED", "STOPPED")
    assert row["closeReason"] == "requested through Galvo"


class Asker:
    """Asks without a client of Dask, which does not outlive its scheduler."""

    def __init__(self, study):
        self._study = study

    def clusters(self):
        told = self._study.run("clusters", "--json")
        assert (told.returncode, told.stderr) == (0, "")
        return json.loads(told.stdout)


@pytest.mark.parametrize("python", ["newest"], indirect=True)
def test_tables(study):
    """DataFrames have the rows of the lists, in their order, with types to compute with."""
    number = study.told()["number"]
    asked = [
        ("list_clusters", {}),
        ("list_computations", {"cluster_id": number}),
        ("list_computations", {"since": "1 hour"}),
        ("list_exceptions", {"cluster_id": number}),
        ("list_events", {"cluster_id": number, "topics": ["scores", "other"]}),
        ("list_events", {"cluster_id": number, "topics": ["scores", "other"], "limit": 120}),
        ("list_logs", {"cluster_id": number}),
        ("list_exceptions", {"since": 0}),
    ]
    for function, arguments in asked:
        tables = study.client.call("tables", function=function, **arguments)
        assert tables["arrow"] == tables["polars"]
        assert len(tables["rows"]) == len(tables["arrow"]), function
        for row, cells in zip(tables["rows"], tables["arrow"], strict=True):
            for name, value in row.items():
                if name in cells:
                    assert value == decoded(value, cells[name]), (function, name)
                else:
                    # An object that is not there: none of its columns has a value.
                    below = [cells[other] for other in cells if other.startswith(name + ".")]
                    assert value is None and below and set(below) == {None}, (function, name)
        assert "<script" not in tables["html"]
    types = study.client.call("tables", function="list_clusters")["types"]
    assert types["startedAt"].startswith("datetime64[") and types["startedAt"].endswith("UTC]")
    assert types["totals.tasks"] == "int64"
    assert types["totals.computeSeconds"] == "float64"


def decoded(value, cell):
    """What stands in a column, of which lists and objects are texts of JSON."""
    is_json = isinstance(cell, str) and not isinstance(value, str)
    return json.loads(cell) if is_json else cell


@pytest.mark.parametrize("python", ["oldest"], indirect=True)
def test_without_packages_for_tables(study):
    study.told()
    assert "pip install pandas" in study.client.call("table_without_packages")


def test_report(study):
    study.told()
    told = study.client.call("report")
    answers = told["data"]["answers"]
    erred = len(study.report["errors"])
    assert answers["exceptions"]["value"] == erred
    assert (
        f"Did any exceptions occur? [bad]\n    {answers['exceptions']['headline']}" in told["text"]
    )
    compute = {
        name: prefix["durations"].get("compute", 0)
        for name, prefix in study.report["prefixes"].items()
    }
    slowest = told["data"]["functions"][0]
    assert slowest["prefix"] == max(compute, key=compute.get)
    assert slowest["computeSeconds"] == close_to(max(compute.values()))
    assert told["html"].startswith("<!DOCTYPE html>") and "<script" not in told["html"]


def test_logs_of_the_command(study):
    """What is followed comes once, until the scheduler closes; a filter finds what there is."""
    number = study.told()["number"]
    following = study.processes.start(
        "follow",
        [
            *[study.python, "-m", "galvo", "logs", number, "--follow", "--interval", "0.2s"],
            *["--tail", "1000", "--filter", "is what number"],
        ],
        dask_environment(study.processes.directory, study.settings),
    )
    more = {"topics": ["later"], "count": 40, "password": "x"}
    study.client.call("trouble", workload="announcements", **more)
    said = 2 * (EVENTS // 2) + 40

    def numbers():
        pattern = r"WARNING worker .* is what number (\d+) logs in with"
        return re.findall(pattern, following.log())

    wait_until(lambda: len(numbers()) >= said, "all lines are followed", 40)
    found = study.run("logs", number, "--filter", "IS WHAT NUMBER 39 ", "--tail", "10")
    assert found.returncode == 0
    assert len(found.stdout.splitlines()) == 3
    assert study.run("logs", number, "--level", "critical").stdout == ""
    study.client.call("shutdown")
    assert following.wait(40) == 0
    told = numbers()
    assert sorted(map(int, told)) == sorted([*range(EVENTS // 2)] * 2 + [*range(40)])
    # After the cluster is gone its logs are still there.
    assert (
        len(study.run("logs", "--filter", "is what number", "--tail", 500).stdout.splitlines())
        == said
    )


def test_stop_and_watch_of_the_command(study):
    number = study.told()["number"]
    watching = study.processes.start(
        "watch",
        [study.python, "-m", "galvo", "watch", number, "--interval", "0.2s"],
        dask_environment(study.processes.directory, study.settings),
    )
    watching.wait_for_log(r"· running for .* · 2 workers, 2 threads · ")
    asked = study.run("stop", number)
    assert (asked.returncode, study.dask.dask.scheduler.is_running()) == (2, True)
    assert "--yes" in asked.stderr
    done = study.run("stop", number, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert study.dask.dask.scheduler.wait(15) == 0
    assert watching.wait(40) == 0
    assert "closed after" in watching.log().splitlines()[-1]
    told = study.run("clusters")
    line = told.stdout.splitlines()[1]
    errors = str(len(study.report["errors"]))
    assert re.search(rf"^{number} +\S+ +ada +closed .* {errors} +~\d", line), line
    assert study.galvo.token not in done.stdout + told.stdout + watching.log()
    page = study.processes.directory / "report.html"
    assert study.run("report", number, "--output", page).returncode == 0
    assert "requested through Galvo" in page.read_text(encoding="utf-8")


def test_a_token_that_may_only_read_stops_nothing(study, galvo):
    number = study.told()["number"]
    query = """
      mutation { createToken(input: { label: "reader", scopes: [READ] }) { secret } }
    """
    secret = study.galvo.query(query)["createToken"]["secret"]
    study.settings["galvo.token"] = secret
    refused = study.run("stop", number, "--yes")
    assert refused.returncode == 1
    assert refused.stderr.startswith("galvo: ") and "scope `admin`" in refused.stderr
    assert secret not in refused.stdout + refused.stderr
    assert study.dask.dask.scheduler.is_running()


def test_login_of_the_command(own_galvo, processes, python):  # noqa: F811
    """A browser activates the token; it is kept where only its owner reads it, and works."""
    galvo, directory = own_galvo, processes.directory
    environment = dask_environment(directory, {})
    login = processes.start(
        "login", [python, "-m", "galvo", "login", "--server", galvo.address], environment
    )
    found = login.wait_for_log(r"(http\S+/activate-token\?id=(\w+))", 60)
    address, identifier = found.groups()
    browser = Browser(galvo.address)
    browser.open(address)
    _, page = browser.submit(browser.open(address)[1], username="admin", password=PASSWORD)
    assert identifier in page and login.is_running()
    browser.submit(page, button={"decision": "approve"})
    assert login.wait(30) == 0
    file = directory / "dask" / "galvo.yaml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    saved = yaml.safe_load(file.read_text())["galvo"]
    assert saved["server"] == galvo.address
    assert saved["token"].startswith(f"{identifier}-")
    assert f"as admin, account default.\nThe token is kept in {file}." in login.log()
    assert saved["token"] not in login.log()
    used = subprocess.run(
        [python, "-m", "galvo", "clusters"], env=environment, capture_output=True, text=True
    )
    assert (used.returncode, used.stdout) == (0, "There are no such clusters.\n")


def test_the_server_and_the_package_have_commands_of_their_own(processes, python):
    """No word is a command of both, and the package passes on what is the server's."""
    binary = Path(os.environ.get("GALVO_BIN", "target/debug/galvo")).resolve()
    told = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    listed = told.partition("Commands:\n")[2].partition("\n\n")[0]
    commands = set(re.findall(r"^  (\w[\w-]*) ", listed, re.MULTILINE))
    assert {"serve", "token", "help"} <= commands
    assert commands.isdisjoint(COMMANDS)
    directory = processes.directory / "bin"
    directory.mkdir()
    (directory / "galvo").symlink_to(binary)
    first = Path(python).parent
    environment = {**clean_environment(), "PATH": f"{first}{os.pathsep}{directory}"}
    schema = subprocess.run(
        ["galvo", "schema"], env=environment, executable=first / "galvo", capture_output=True
    )
    assert schema.returncode == 0
    assert schema.stdout.startswith(b'"""') or b"type Query" in schema.stdout


NOTEBOOK = [
    """
from dask.distributed import Client, LocalCluster, wait
import galvo, tasks

cluster = LocalCluster(n_workers=2, threads_per_worker=1, name="laptop", dashboard_address=":0")
client = Client(cluster)
galvo.register()
watch = galvo.watch(interval="200ms")
""",
    """
good = client.map(tasks.square, range(20))
bad = client.submit(tasks.fail, 3)
wait([*good, bad])
scheduler = client.scheduler_info()["id"]
""",
    """
import time
deadline = time.monotonic() + 30
while len(galvo.list_exceptions(cluster_id=client)) < 1 and time.monotonic() < deadline:
    time.sleep(0.2)
client.shutdown()
assert watch.wait(30), "the cluster is closed"
""",
    "clusters = galvo.list_clusters()\nclusters",
    """
frame = clusters.to_pandas()
import json
amounts = [sum(cost["amount"] for cost in json.loads(costs)) for costs in frame["usage.costs"]]
cost = frame.assign(cost=amounts)
cost[["name", "state", "totals.tasks", "cost"]]
""",
    """
failures = galvo.list_exceptions(cluster_id=scheduler).to_pandas()
failures[["type", "message", "key"]]
""",
    """
functions = galvo.export(f"clusters/{clusters[0]['number']}/functions").to_pandas()
functions[["prefix", "computeSeconds", "tasks"]]
""",
    "galvo.report(scheduler)",
    """
print(json.dumps({
    "scheduler": scheduler,
    "clusters": cost[["schedulerId", "name", "state", "totals.tasksSucceeded"]].values.tolist(),
    "cost": float(cost["cost"][0]),
    "seconds": float(frame["totals.clusterSeconds"][0]),
    "failures": failures[["type", "message"]].values.tolist(),
    "functions": functions[["prefix", "tasks", "tasksErred"]].values.tolist(),
    "compute": functions["computeSeconds"].tolist(),
    "last": watch.latest.data["state"],
}))
""",
]


@pytest.mark.parametrize("python", ["newest"], indirect=True)
def test_a_notebook(account, processes, python, monkeypatch):
    """It registers a cluster, runs work, and shows cost, failures and functions as DataFrames."""
    settings = settings_for(account.address, account.token)
    for name, value in dask_environment(processes.directory, settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(WORKLOADS))
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(text.strip()) for text in NOTEBOOK],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python"}},
    )
    NotebookClient(notebook, timeout=120, resources={}).execute(cwd=str(processes.directory))
    cells = [cell.outputs for cell in notebook.cells]
    assert not [one for outputs in cells for one in outputs if one.output_type == "error"]

    def shown(number):
        kinds = ("display_data", "execute_result")
        return [one.data for one in cells[number] if one.output_type in kinds]

    # What is watched is below the first cell; it changed while the others ran.
    assert "cluster" in shown(0)[0]["text/html"]
    assert "laptop" in shown(3)[0]["text/html"] and "1 cluster" in shown(3)[0]["text/html"]
    for number in (4, 5, 6):
        assert "<table" in shown(number)[0]["text/html"]
    assert "Did my computation finish?" in shown(7)[0]["text/html"]
    assert account.token not in nbformat.writes(notebook)

    told = json.loads("".join(one.text for one in cells[8] if one.output_type == "stream"))
    assert told["clusters"] == [[told["scheduler"], "laptop", "CLOSED", 20]]
    assert told["last"] == "CLOSED"
    assert told["cost"] == pytest.approx(told["seconds"] / 3600 * 0.05, rel=1e-3)
    assert told["failures"] == [
        ["ValueError", "ValueError('no station sends a reading of 3')"],
    ]
    assert sorted(told["functions"]) == [["fail", 0, 1], ["square", 20, 0]]
    # Each square sleeps for 20 milliseconds.
    assert 0.4 <= max(told["compute"]) < 5
    assert told["compute"] == sorted(told["compute"], reverse=True)
