"""All analytics functions of the published ``coiled`` client, compared with Dask's own data."""

import json
import re
import subprocess
import urllib.request
import uuid
from datetime import datetime

import pytest
from accounts import close_to, computation_of, error_of, moment
from processes import WORKLOADS, Client, DaskCluster, python_named, wait_until
from stores import command_line, member
from test_coiled_login import CoiledClient

# The pinned release, and the one that users get today.
PYTHONS = ["coiled", "newest"]
FAILURES = 3
EVENTS = 130  # more than a page
COMPUTATIONS = 105
INTERVAL = "0.5s"


@pytest.fixture(params=PYTHONS)
def python(request):
    return python_named(request.param.upper())


class Customer:
    """A user of the client, signed in to an otherwise empty account."""

    def __init__(self, processes, python, galvo):
        self.galvo = member(galvo, f"turbines-{uuid.uuid4().hex[:12]}")
        self.processes, self.python = processes, python
        self.command = CoiledClient(processes, python)
        self.command.run("login", "--server", self.galvo.address, "--token", self.galvo.token)

    def start(self, **options):
        """Starts a cluster, and a client in it that uses the saved login."""
        dask = DaskCluster(self.processes, self.python, **options)
        environment = {
            **self.command.environment,
            "DASK_COILED__ANALYTICS__COMPUTATION__INTERVAL": INTERVAL,
            "DASK_COILED__ANALYTICS__EVENTS__INTERVAL": INTERVAL,
            # The thread of coiled's gilknocker can abort an exiting process.
            "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "False",
            "PYTHONPATH": str(WORKLOADS),
        }
        client = self.processes.start(
            "customer",
            [self.python, WORKLOADS / "customer.py", dask.scheduler_file],
            environment,
            kind=Client,
        )
        client.call("wait_for_workers", count=len(dask.workers))
        return dask, client


@pytest.fixture
def customer(processes, python, galvo):
    return Customer(processes, python, galvo)


def seconds(text):
    return datetime.fromisoformat(text).timestamp()


def only(rows):
    (row,) = rows
    return row


def test_everything(customer, processes, galvo):
    dask, client = customer.start()
    client.call("register_with_coiled")
    client.call("work", failures=FAILURES, events=EVENTS, computations=COMPUTATIONS)
    report = client.call("dask_report")
    done = sum(prefix["state_counts"].get("memory", 0) for prefix in report["prefixes"].values())
    assert len(report["computations"]) > 100
    assert len(report["errors"]) == FAILURES

    def known():
        rows = client.call("analytics", function="list_clusters")
        if rows and (rows[0]["n_tasks_succeeded"], rows[0]["n_errors"]) == (done, FAILURES):
            return only(rows)

    row = wait_until(known, "Galvo knows of all tasks", 60)
    number = row["id"]
    analytics = lists_of(client, report, row)
    computations_and_exceptions(analytics, report, number)
    the_events(analytics, number)
    logs(customer, client, number, report)
    numbers(client, number)
    reports(customer, client, processes)
    tokens(client)
    spans(customer, client, number)
    views(customer, client, row, report)

    # The scheduler closes with a reason.
    assert client.call("analytics", function="close", cluster_id=number) is None
    assert dask.scheduler.wait(20) == 0
    client.kill()
    command = customer.command
    rows = json.loads(
        command.python(
            "import coiled.analytics, json; print(json.dumps(coiled.analytics.list_clusters()))"
        ).splitlines()[-1]
    )
    assert (only(rows)["status"], only(rows)["state"]) == ("stopped", "closed")
    assert only(rows)["close_reason"] == "requested through Galvo by ada"


def lists_of(client, report, row):
    """Clusters match Dask's data, and are found by age and by user."""
    assert row["scheduler_id"] == report["scheduler_id"]
    assert (row["status"], row["user"], row["workers"], row["threads"]) == ("running", "ada", 2, 2)
    assert seconds(row["created"]) == moment(report["started_at"])
    assert row["memory_limit"] == 2 * 2**30
    assert 0 < row["memory"] < row["memory_limit"]
    assert row["n_tasks"] == sum(group["tasks"] for group in report["groups"])
    compute = sum(p["durations"].get("compute", 0) for p in report["prefixes"].values())
    assert row["compute_seconds"] == close_to(compute)
    assert row["thread_seconds"] > 0
    assert row["cost"] == pytest.approx(row["thread_seconds"] / 3600 * 0.05, rel=0.2)

    def analytics(function, **arguments):
        return client.call("analytics", function=function, **arguments)

    for which, count in (
        ({"since": "1 hour", "user": "ada"}, 1),
        ({"since": None}, 1),
        ({"since": "1 ms"}, 0),
        ({"user": "admin"}, 0),
    ):
        assert len(analytics("list_clusters", **which)) == count, which
    refusal = client.call("refused", function="list_clusters", account="others")
    assert refusal == "the credentials give no access to this account"
    return analytics


def computations_and_exceptions(analytics, report, number):
    computations = analytics("list_computations", cluster_id=number)
    assert computations == analytics("list_computations", scheduler_id=number)
    expected = {one["id"]: computation_of(one, report) for one in report["computations"]}
    assert len(computations) == len(expected)
    assert {one["id"]: one["state"] for one in computations} == {
        id_: one["state"].lower() for id_, one in expected.items()
    }
    starts = [seconds(one["start"]) for one in computations]
    assert starts == sorted(starts, reverse=True)
    assert all(
        seconds(one["stop"]) >= start for one, start in zip(computations, starts, strict=True)
    )
    groups = {group["name"]: group for group in report["groups"]}
    failed = only([one for one in computations if one["state"] == "erred"])
    assert failed["n_errors"] == FAILURES
    assert [group["prefix"] for group in failed["task_groups"]] == ["stall"]
    assert failed["task_groups"][0]["n_tasks_erred"] == FAILURES
    assert groups[failed["task_groups"][0]["name"]]["erred"] == FAILURES
    assert [span["name"] for span in failed["spans"]] == [["nightly", "turbines"]]
    # The client's package configures Dask to keep the calling code.
    assert "self.client.map(stall" in failed["code"]

    errors = {error["key"]: error_of(error, report) for error in report["errors"]}
    for which in (
        {},
        {"cluster_id": number},
        {"scheduler_id": number, "since": None},
        {"user": "ada", "since": "1 hour"},
    ):
        found = analytics("list_exceptions", **which)
        listed = {
            error["key"]: {
                "at": seconds(error["timestamp"]),
                "type": error["type"],
                "message": error["message"],
                "traceback": error["traceback"],
                "worker": error["worker"],
                "group": error["task_group"],
                "computation": error["computation_id"],
            }
            for error in found
        }
        assert listed == errors, which
        assert {error["cluster_id"] for error in found} == {number}
    for which in ({"user": "admin"}, {"since": "1 ms"}):
        assert analytics("list_exceptions", **which) == []


def the_events(analytics, number):
    def scores():
        rows = analytics("list_events", cluster_id=number)
        return [row for row in rows if row["topic"] == "scores"]

    rows = wait_until(lambda: len(found := scores()) >= EVENTS and found, "all events arrive", 30)
    assert sorted(row["data"]["number"] for row in rows) == list(range(EVENTS))
    times = [seconds(row["timestamp"]) for row in rows]
    assert times == sorted(times)
    assert all(row["worker_id"] for row in rows)


def logs(customer, client, number, report):
    command = customer.command

    def hums(text):
        return [int(number) for number in re.findall(r"turbine (\d+) hums", text)]

    arguments = ["cluster", "logs", str(number), "--no-color", "--label", "name"]
    everything = command.run(*arguments, "--filter", "TURBINE")
    assert sorted(hums(everything)) == list(range(EVENTS))
    assert "turbine - WARNING - " in everything
    assert hums(command.run(*arguments, "--filter", "turbine 17 hums")) == [17]
    assert hums(command.run(*arguments, "--workers", "none", "--filter", "turbine")) == []
    # Followed lines appear as they are written.
    following = command.start(
        *arguments, "--tail", "--interval", "1", "--filter", "hums", stdin=subprocess.DEVNULL
    )
    client.call("announce", first=1000, count=10)
    expected = set(range(1000, 1010))
    wait_until(lambda: expected <= set(hums(following.log())), "all lines are followed", 40)
    following.kill()
    followed = [line for line in hums(following.log()) if line >= 1000]
    assert len(followed) == len(set(followed))
    client.call("complain_on_scheduler", message="the wind is still")

    def by_process():
        logs = client.call("coiled", function="cluster_logs", cluster_id=number)
        return logs if any("the wind is still" in text for text in logs.values()) else None

    found = wait_until(by_process, "the scheduler's log arrives", 30)
    assert len(found) == 1 + report["workers"]
    lines = client.call("coiled", function="better_cluster_logs", cluster_id=number, dask=True)
    assert len(hums("\n".join(line["message"] for line in lines))) == EVENTS + 10


def numbers(client, number):
    def metric(query, over_time):
        return client.call("metric", number=number, query=query, over_time=over_time)

    memory = "scheduler:(host_memory_total-host_memory_available)&scheduler"
    most = wait_until(lambda: metric(memory, "max"), "something was measured", 30)
    assert 10e6 < metric(memory, "min") <= metric(memory, "avg") <= most < 10e9
    assert 0 <= metric("scheduler:cpu_rate&scheduler | sum", "avg") < 8
    for query in ("worker_max_tick|max", "scheduler_max_tick|max"):
        assert 0 <= metric(query, "quantile(0.80)") <= metric(query, "max") < 60
    assert metric("threads", "max") == 2


def reports(customer, client, processes):
    directory = processes.directory
    for kind in ("public", "private"):
        path = directory / f"{kind} report.html"
        url = client.call("draw", path=str(path), private=kind == "private")
        assert url.startswith(customer.galvo.address + "/reports/")
        page, question, account = url.partition("?")
        request = urllib.request.Request(
            f"{page}/content{question}{account}",
            headers={"Authorization": f"Bearer {customer.galvo.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as content:
            assert content.headers["Content-Disposition"].startswith("attachment;")
            assert content.read() == path.read_bytes()
    rows = client.call("coiled", function="list_performance_reports")
    assert [(row["filename"], row["private"]) for row in rows] == [
        ("private report.html", True),
        ("public report.html", False),
    ]
    assert rows[0]["url"] == url
    assert rows[0]["size"] == path.stat().st_size


def tokens(client):
    made = client.call("coiled", function="create_api_token", label="laptop", days_to_expire=3)
    listed = client.call("coiled", function="list_api_tokens")
    assert {key: made[key] for key in made if key != "token"} == listed[made["identifier"]]
    client.call("coiled", function="revoke_api_token", label="laptop")
    assert made["identifier"] not in client.call("coiled", function="list_api_tokens")


def spans(customer, client, number):
    identifier = client.call("timed_span", number=number)
    query = """
    query ($id: ID!) { cluster(id: $id) { spans(tags: ["timed"], first: 10) {
      nodes { daskId tag clientStartedAt clientStoppedAt } } } }
    """

    def find_spans():
        nodes = customer.galvo.query(query, id=str(number))["cluster"]["spans"]["nodes"]
        return [node for node in nodes if node["clientStoppedAt"]]

    (span,) = wait_until(find_spans, "the span is reported", 20)
    assert (span["daskId"], span["tag"]) == (identifier, "timed")
    assert seconds(span["clientStartedAt"]) < seconds(span["clientStoppedAt"])


def views(customer, client, row, report):
    command, number = customer.command, row["id"]
    listed = only(client.call("coiled", function="list_clusters"))
    assert (listed["id"], listed["name"]) == (number, report["scheduler_id"])
    assert listed["current_state"]["state"] == "ready"
    assert report["scheduler_id"] in command.run("cluster", "list")
    details = client.call("cloud", method="cluster_details", cluster_id=number)
    assert len(details["workers"]) == 2
    assert command.run("cluster", "address", str(number)) == "127.0.0.1"
    assert command.run("cluster", "address") == "127.0.0.1", (
        "the newest of one's own is the default"
    )
    assert client.call("coiled", function="list_core_usage")["cores"] == 2
    me = client.call("coiled", function="list_user_information")
    assert me["username"] == "ada"
    assert client.call("coiled", function="get_billing_activity")["results"] == []


def test_preload_and_stop(customer):
    """``--preload coiled.analytics``, and the command that stops a cluster with a reason."""
    settings = {
        "coiled.server": customer.galvo.address + "/",
        "coiled.token": customer.galvo.token,
        "coiled.analytics.computation.interval": INTERVAL,
    }
    dask, client = customer.start(preloads=["coiled.analytics"], settings=settings)
    scheduler = client.call("dask_report")["scheduler_id"]

    def known():
        return client.call("analytics", function="list_clusters")

    row = only(wait_until(known, "the cluster is known", 30))
    assert row["scheduler_id"] == scheduler
    # A read-only token stops nothing.
    reader = command_line(
        customer.galvo,
        "token",
        "create",
        "--user",
        "ada",
        "--account",
        account(customer),
        "--scope",
        "read",
    ).split()[-1]
    program = f"import coiled.analytics; coiled.analytics.close({row['id']})"
    refused = customer.command.python(
        f"import dask; dask.config.set({{'coiled.token': {reader!r}}})\n"
        f"try:\n    {program}\nexcept Exception as error:\n    print(type(error).__name__, error)"
    )
    assert "ServerError the token lacks the scope 'admin'" in refused
    assert dask.scheduler.is_running()
    # By the name, which is Dask's own identifier by default.
    printed = customer.command.run("cluster", "stop", scheduler)
    assert f"Requesting stop for {scheduler} ({row['id']})" in printed
    assert dask.scheduler.wait(20) == 0
    client.kill()
    found = customer.galvo.query(
        "query ($id: ID!) { cluster(id: $id) { state closeReason } }", id=str(row["id"])
    )["cluster"]
    reason = "requested through Galvo by ada: User requested stop via CLI"
    assert found == {"state": "CLOSED", "closeReason": reason}
    # The logs of a closed cluster are read, not followed.
    output = customer.command.run("cluster", "logs", scheduler, "--tail", "--no-color")
    assert "is stopped so not tailing" in output


def account(customer):
    return customer.galvo.query("{ viewer { account { slug } } }")["viewer"]["account"]["slug"]
