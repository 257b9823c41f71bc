"""The Python API's results, in notebooks and elsewhere, match Dask's own data."""

import json
import re
import uuid
from pathlib import Path

import browser
import nbformat
import pytest
from accounts import close_to, computation_of, error_of, moment
from conftest import PYTHONS, settings_for
from inquiries import ANNOUNCED, TOPICS, Inquiry
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from processes import Processes, dask_environment, python_named, run_to_end
from stores import member


@pytest.fixture(scope="module", params=PYTHONS)
def shared(request, galvo, tmp_path_factory):
    """A cluster that several tests query."""
    processes = Processes(tmp_path_factory.mktemp("shared"))
    python = python_named(request.param.upper())
    yield Inquiry(processes, python, galvo, f"shared-{request.param}").work()
    processes.kill_all()


@pytest.fixture
def inquiry(processes, python, galvo, request):
    """A cluster that the test may close."""
    return Inquiry(processes, python, galvo, request.node.name).work()


def test_lists(shared):
    """All lists of a cluster and of its account have Dask's data, on all pages."""
    report, row = shared.report, shared.wait_for_row()
    number = row["number"]
    assert row["schedulerId"] == report["scheduler_id"]
    assert (row["desiredState"], row["user"]["name"]) == ("RUNNING", "ada")
    assert row["startedAt"] == moment(report["started_at"])
    assert (row["now"]["workers"], row["now"]["threads"]) == (2, 2)
    compute = sum(p["durations"].get("compute", 0) for p in report["prefixes"].values())
    assert row["totals"]["computeSeconds"] == close_to(compute)
    for which in ({"since": "1 hour"}, {"user": "ada"}, {"filter": {"hasErrors": True}}):
        assert [found["id"] for found in shared.call_function("list_clusters", **which)] == [
            row["id"]
        ]
    for which in ({"since": 0}, {"user": "admin"}, {"filter": {"states": ["CLOSED"]}}):
        assert shared.call_function("list_clusters", **which) == []

    computations = {one["id"]: computation_of(one, report) for one in report["computations"]}
    # Dask later discards the end times of released tasks.
    stopped = {
        one["id"]: computation_of(one, shared.before)["stop"]
        for one in shared.before["computations"]
    }
    assert len(stopped) >= 2
    ways = ({"mine": True}, {"cluster_id": number}, {"scheduler_id": row["id"]}, {}, {"since": 600})
    for way in ways:
        found = shared.call_function("list_computations", **way)
        begun = [one["startedAt"] for one in found]
        assert begun == sorted(begun, reverse=True)
        assert {one["cluster"]["number"] for one in found} == {number}
        assert {one["daskId"]: one["state"] for one in found} == {
            id_: one["state"] for id_, one in computations.items()
        }
        ended = {one["daskId"]: one["endedAt"] for one in found}
        assert {id_: ended[id_] for id_ in stopped} == stopped

    errors = {error["key"]: error_of(error, report) for error in report["errors"]}
    names = ("at", "type", "message", "traceback", "worker")
    for way in ({}, {"mine": True}, {"cluster_id": number, "since": None}, {"user": "ada"}):
        found = shared.call_function("list_exceptions", **way)
        listed = {error["key"]: {name: error[name] for name in names} for error in found}
        assert listed.keys() == errors.keys()
        # The error with a password in its text is redacted on the scheduler.
        assert listed.pop("log-in")["message"].endswith("password=[removed]')")
        assert listed == {key: {name: errors[key][name] for name in names} for key in listed}
    (patient,) = (error for error in found if error["key"] == "hopeless")
    assert patient["retries"] == 2
    assert shared.call_function("list_exceptions", since=0) == []

    scores = [event["number"] for _, event in shared.events("scores")]
    assert len(scores) > ANNOUNCED
    for way in ({"mine": True}, {"cluster_id": number}, {}, {"mine": True, "since": "1 hour"}):
        found = shared.call_function("list_events", topics="scores", **way)
        assert sorted(event["data"]["number"] for event in found) == sorted(scores)
        assert {event["topic"] for event in found} == {"scores"}
    both = shared.call_function("list_events", mine=True, topics=TOPICS)
    assert len(both) > 100
    cut = shared.client.call("call_function", function="list_events", cluster_id=number, limit=101)
    assert len(cut["rows"]) == 101
    assert "more than 101 events" in cut["warnings"][0]


def test_another_accounts_clusters_are_not_there(shared, galvo):
    number = shared.wait_for_row()["number"]
    stranger = member(galvo, f"strangers-{uuid.uuid4().hex[:8]}").token
    result = shared.run("logs", number, token=stranger)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"galvo: there is no cluster {number} in this account\n"
    assert shared.run("clusters", token=stranger).stdout == "There are no such clusters.\n"


def test_graphql(shared):
    row = shared.wait_for_row()
    query = "query ($id: ID!) { cluster(id: $id) { schedulerId } }"
    response = shared.call_function("graphql", query=query, variables={"id": row["id"]})
    assert response == {"cluster": {"schedulerId": shared.report["scheduler_id"]}}
    wrong = shared.client.call("refused", function="graphql", query="{ nothing }")
    assert (wrong["kind"], wrong["codes"]) == ("GraphQLError", ["GRAPHQL_VALIDATION_FAILED"])
    other = shared.client.call("refused", function="list_clusters", account="other")
    assert (other["kind"], other["codes"]) == ("GraphQLError", ["ACCOUNT_MISMATCH"])


def test_close_stops_the_scheduler(inquiry):
    number = inquiry.wait_for_row()["number"]
    assert inquiry.call_function("close", cluster_id=number) is None
    assert inquiry.dask.dask.scheduler.wait(15) == 0
    # The client does not outlive its scheduler.
    (row,) = json.loads(inquiry.run("clusters", "--json").stdout)
    assert (row["state"], row["desiredState"]) == ("CLOSED", "STOPPED")


@pytest.mark.parametrize("python", ["newest"], indirect=True)
def test_tables(inquiry):
    """DataFrames have the rows of the lists, in the same order, with numeric and time types."""
    number = inquiry.wait_for_row()["number"]
    # Unchanging data is the same on each read.
    inquiry.client.call("shutdown")
    assert inquiry.dask.dask.scheduler.wait(15) == 0
    calls = [
        ("list_clusters", {}),
        ("list_computations", {"cluster_id": number}),
        ("list_computations", {"since": "1 hour"}),
        ("list_exceptions", {"cluster_id": number}),
        ("list_events", {"cluster_id": number, "topics": TOPICS}),
        ("list_events", {"cluster_id": number, "topics": TOPICS, "limit": 120}),
        ("list_logs", {"cluster_id": number}),
        ("list_exceptions", {"since": 0}),
    ]
    for function, arguments in calls:
        tables = inquiry.client.call("tables", function=function, **arguments)
        assert tables["arrow"] == tables["polars"]
        assert len(tables["rows"]) == len(tables["arrow"]), function
        for row, cells in zip(tables["rows"], tables["arrow"], strict=True):
            for name, value in row.items():
                if name in cells:
                    assert value == decoded(value, cells[name]), (function, name)
                else:
                    # A missing object: none of its columns has a value.
                    below = [cells[other] for other in cells if other.startswith(name + ".")]
                    assert value is None and below and set(below) == {None}, (function, name)
        assert "<script" not in tables["html"]
    types = inquiry.client.call("tables", function="list_clusters")["types"]
    assert types["startedAt"].startswith("datetime64[") and types["startedAt"].endswith("UTC]")
    assert types["totals.tasks"] == "int64"
    assert types["totals.computeSeconds"] == "float64"


def decoded(value, cell):
    """Decodes a cell; lists and objects are JSON strings."""
    is_json = isinstance(cell, str) and not isinstance(value, str)
    return json.loads(cell) if is_json else cell


@pytest.mark.parametrize("shared", ["oldest"], indirect=True)
def test_without_packages_for_tables(shared):
    shared.wait_for_row()
    assert "pip install pandas" in shared.client.call("table_without_packages")


REGISTERED = """
import sys
from dask.distributed import Client, LocalCluster
import galvo

server, token = sys.argv[1:]
try:
    galvo.list_clusters()
except galvo.NotConfigured as error:
    assert "galvo.register(server=…, token=…)" in str(error), error
with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
    with Client(cluster) as client:
        galvo.register(client, server=server, token=token)
        mine = galvo.report(client).data["schedulerId"]
        assert mine == client.scheduler_info()["id"]
        for given in ((cluster,), ()):
            assert galvo.report(*given).data["schedulerId"] == mine
    assert [row["schedulerId"] for row in galvo.list_clusters()] == [mine]
    assert galvo.report(-1).data["schedulerId"] == mine
print(mine)
"""


def test_what_was_registered_is_queried_without_a_configuration(galvo, processes, python):
    seen = member(galvo, "registered-" + Path(python).parts[-3])
    arguments = [python, "-c", REGISTERED, seen.address, seen.token]
    assert run_to_end(arguments, processes.directory, {}).startswith("Scheduler-")


def test_report(shared):
    shared.wait_for_row()
    report = shared.client.call("report")
    answers = report["data"]["answers"]
    erred = len(shared.report["errors"])
    assert answers["exceptions"]["value"] == erred
    assert (
        f"Did any exceptions occur? [bad]\n    {answers['exceptions']['headline']}"
        in report["text"]
    )
    # The cost appears twice with the same value.
    (cost,) = re.findall(r"^Cost: ~(.* USD)$", report["text"], re.MULTILINE)
    assert re.search(
        rf"^How much did that cost me\? \[estimated\]\n    It cost {re.escape(cost)}[, ]",
        report["text"],
        re.MULTILINE,
    )
    compute = {
        name: prefix["durations"].get("compute", 0)
        for name, prefix in shared.report["prefixes"].items()
    }
    slowest = report["data"]["functions"][0]
    assert slowest["prefix"] == max(compute, key=compute.get)
    assert slowest["computeSeconds"] == close_to(max(compute.values()))
    assert report["html"].startswith("<!DOCTYPE html>") and "<script" not in report["html"]


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
hours = galvo.export(f"clusters/{clusters[0]['number']}/usage-hours").to_pandas()
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
    "display(galvo.list_computations(), galvo.list_exceptions(), galvo.list_logs())",
    """
print(json.dumps({
    "scheduler": scheduler,
    "clusters": cost[["schedulerId", "name", "state", "totals.tasksSucceeded"]].values.tolist(),
    "cost": float(cost["cost"][0]),
    "seconds": float(hours["usage.threadSeconds"].sum()),
    "failures": failures[["type", "message"]].values.tolist(),
    "functions": functions[["prefix", "tasks", "tasksErred"]].values.tolist(),
    "compute": functions["computeSeconds"].tolist(),
    "last": watch.latest.data["state"],
}))
""",
]


@pytest.fixture(scope="module")
def executed(galvo, tmp_path_factory):
    """An executed notebook, and the account that it queried."""
    account = member(galvo, "notebook")
    directory = tmp_path_factory.mktemp("notebook")
    settings = settings_for(account.address, account.token)
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(text.strip()) for text in NOTEBOOK],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python"}},
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in dask_environment(directory, settings).items():
            patch.setenv(name, value)
        patch.delenv("MODULES_TO_MISS")
        NotebookClient(notebook, timeout=120, resources={}).execute(cwd=str(directory))
    return notebook, account


def test_a_notebook(executed):
    """It registers a cluster, runs work, and shows cost, failures and functions as DataFrames."""
    notebook, account = executed
    cells = [cell.outputs for cell in notebook.cells]
    assert not [one for outputs in cells for one in outputs if one.output_type == "error"]

    def shown(number):
        kinds = ("display_data", "execute_result")
        return [one.data for one in cells[number] if one.output_type in kinds]

    # The watch's output is below the first cell; it changed while the others ran.
    assert "cluster" in shown(0)[0]["text/html"]
    assert "laptop" in shown(3)[0]["text/html"] and "1 cluster" in shown(3)[0]["text/html"]
    for number in (4, 5, 6):
        assert "<table" in shown(number)[0]["text/html"]
    assert "Did my computation finish?" in shown(7)[0]["text/html"]
    assert account.token not in nbformat.writes(notebook)

    output = json.loads("".join(one.text for one in cells[9] if one.output_type == "stream"))
    assert output["clusters"] == [[output["scheduler"], "laptop", "CLOSED", 20]]
    assert output["last"] == "CLOSED"
    # Without rates, a thread-hour is estimated at 0.05 USD.
    assert output["cost"] == pytest.approx(output["seconds"] / 3600 * 0.05, rel=1e-3)
    assert output["failures"] == [
        ["ValueError", "ValueError('no station sends a reading of 3')"],
    ]
    assert sorted(output["functions"]) == [["fail", 0, 1], ["square", 20, 0]]
    # Each square sleeps for 20 milliseconds.
    assert 0.4 <= max(output["compute"]) < 5
    assert output["compute"] == sorted(output["compute"], reverse=True)


# The numeric columns of all tables that Galvo shows.
NUMBERS = {
    "number",
    "for",
    "workers",
    "tasks",
    "errors",
    "busy",
    "cost",
    "took",
    "computed",
    "erred",
}


@pytest.mark.parametrize("width", [1200, 640])
def test_tables_look_right_in_jupyterlab(executed, tmp_path, width):
    """With JupyterLab's style sheet, text is left-aligned, numbers are right-aligned, and words are
    unbroken.
    """
    # Its template has JupyterLab's style sheets and the elements that surround outputs.
    exporter = HTMLExporter(template_name="lab", require_js_url="", mathjax_url="")
    page, _ = exporter.from_notebook_node(executed[0])
    assert ".jp-RenderedHTMLCommon td" in page
    found = browser.layout(page, tmp_path, width)
    heads = [tuple(cell["text"] for cell in table["head"]) for table in found["tables"]]
    assert {head[0] for head in heads if head} >= {
        "number",
        "cluster",
        "question",
        "function",
        "at",
    }
    for head, table in zip(heads, found["tables"], strict=True):
        assert table["scrolls"]
        for row in [table["head"], *table["rows"]]:
            for place, cell in enumerate(row):
                assert cell["broken"] == [], cell["text"]
                is_number = place < len(head) and head[place] in NUMBERS
                # The computed alignment of text without a direction is "start" or "left".
                expected = ["right"] if is_number else ["left", "start"]
                assert cell["align"] in expected, (head, cell)
                if is_number:
                    assert cell["lines"] <= 1, cell["text"]
        # All cells of a column share an edge.
        for place in range(len(head)):
            edge = "right" if head[place] in NUMBERS else "left"
            column = [row[place] for row in [table["head"], *table["rows"]]]
            edges = {round(cell[edge]) for cell in column if cell["text"]}
            assert max(edges) - min(edges) <= 1, (head[place], edges)
    assert found["items"] and all(item["align"] in ("left", "start") for item in found["items"])
