"""Failures: errors, retries, workers killed by a task, events about them, and logs."""

import json
import re
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from accounts import everything, seconds
from observed import (
    EVENTS,
    LOGS,
    ObservedCluster,
    observe,
    postgres_database,
    worker_named,
    workers_of,
)
from processes import GalvoServer, Processes, python_named, wait_until

ERRORS = """
query ($id: ID!, $after: String) { cluster(id: $id) {
list: errors(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes {
    key type message traceback origin retries worker workerId at number
    source { file line firstLine lines }
    taskGroup { name } group { id title type origin }
  }
} } }
"""

GROUPS = """
query ($id: ID!, $after: String) { cluster(id: $id) {
list: taskGroups(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes { name prefix tasks tasksSucceeded tasksErred tasksBlamed tasksRetried }
} } }
"""

ERROR_GROUPS = """
query { viewer { account { errorGroups(first: 100) { nodes {
  id type title origin firstSeenAt lastSeenAt occurrenceCount clusterCount
  occurrences(first: 100) { totalCount nodes { key at message cluster { schedulerId } } }
} } } } }
"""

ROLES = ["NEWEST", "OLDEST"]
SECRET = "hunter2-of-the-turbine"


def group_named(galvo, observed, prefix):
    groups = everything(galvo, GROUPS, observed["scheduler_id"])
    (group,) = (group for group in groups if group["prefix"] == prefix)
    return group


def test_task_that_kills_its_workers(galvo, python, processes):
    """Each death has the key, each worker its last log lines, and the error's origin is Dask."""
    settings = {"distributed.scheduler.allowed-failures": 2}
    dask = ObservedCluster(processes, python, galvo.address, galvo.token, settings)
    dask.add_worker("patient", nanny=True)
    client = dask.client()
    killed = client.call("trouble", workload="lethal", words="I die of this task")
    assert killed["type"] == "KilledWorker"
    observed = observe(client, lambda o: len(o["workers"]) == 4, "the nanny has started a fourth")
    *dead, alive = observed["workers"]

    def find_workers():
        found = workers_of(galvo, observed)
        ends = [worker["end"] and worker["end"]["kind"] for worker in found]
        return ends == ["LOST", "LOST", "LOST", None] and found

    found = wait_until(find_workers, "Galvo knows of three deaths")
    assert [worker["daskId"] for worker in found] == [worker["id"] for worker in [*dead, alive]]
    assert len({worker["daskId"] for worker in found}) == 4
    assert {worker["name"] for worker in found} == {"patient"}
    for worker in found[:3]:
        assert worker["end"]["processingKeys"] == [killed["key"]]
        assert (worker["end"]["processing"], worker["end"]["lostResults"]) == (1, 0)

    (error,) = everything(galvo, ERRORS, observed["scheduler_id"])
    expected = {
        "key": killed["key"],
        "type": "KilledWorker",
        "message": killed["message"],
        "traceback": "",
        "origin": "DASK",
        "worker": killed["worker"],
        "workerId": dead[-1]["id"],
        "taskGroup": {"name": "kill_worker"},
    }
    assert {name: error[name] for name in expected} == expected
    assert (error["group"]["type"], error["group"]["origin"]) == ("KilledWorker", "DASK")
    assert seconds(error["at"]) == pytest.approx(dead[-1]["ended"], abs=0.5)
    group = group_named(galvo, observed, "kill_worker")
    assert (group["tasks"], group["tasksSucceeded"], group["tasksErred"]) == (1, 0, 1)

    def logged():
        lines = everything(galvo, LOGS, observed["scheduler_id"])
        words = [line for line in lines if line["message"] == "I die of this task"]
        killings = [line for line in lines if "killed by signal 9" in (line["message"] or "")]
        complete = len(words) == len(killings) == 3 and f"name: {alive['name']}" in str(lines)
        return complete and (words, killings)

    words, killings = wait_until(logged, "Galvo has the lines of all who died")
    ids = [worker["id"] for worker in dead]
    assert [line["workerId"] for line in words] == ids
    assert {(line["source"], line["logger"]) for line in words} == {("WORKER", "turbine")}
    assert [line["workerId"] for line in killings] == ids
    assert {line["source"] for line in killings} == {"NANNY"}
    for line, worker in zip(killings, dead, strict=True):
        assert str(worker["process"]) in line["message"]
    assert_log_of_scheduler(galvo, client)


def assert_log_of_scheduler(galvo, client):
    """Asserts that Galvo has each line of the scheduler's log that Dask remembers, since the plugin
    started.
    """
    observed = client.call("observed")
    remembered = [line.partition(" - INFO - ")[2] for line in observed["log"]]
    expected = since_first_worker(line for line in remembered if line)
    assert len(expected) > 5

    def logged():
        return since_first_worker(
            line["message"]
            for line in everything(galvo, LOGS, observed["scheduler_id"])
            for _ in range(line["repeated"])
            if (line["source"], line["logger"]) == ("SCHEDULER", "distributed.scheduler")
            and line["level"] == "INFO"
        )

    def missing():
        return list((Counter(expected) - Counter(logged())).elements())

    try:
        wait_until(lambda: not missing(), "Galvo has the scheduler's log")
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), "It lacks:", *missing()])) from None
    # Lines of the same millisecond are in order, too. Repeated lines may be merged.
    once = [line for line, number in Counter(expected).items() if number == 1]
    assert [line for line in logged() if line in once] == once


def since_first_worker(lines):
    # Dask formats its text on request, with the workers' activity at that time.
    lines = [re.sub(r"<WorkerState '([^']+)'[^>]*>", r"\1", line) for line in lines]
    first = (n for n, line in enumerate(lines) if line.startswith("Register worker"))
    return lines[next(first, len(lines)) :]


@pytest.fixture(scope="module")
def two_clusters(tmp_path_factory, request):
    """The same failures on two clusters of an account, with the newest and the oldest Dask.

    They report to a server on PostgreSQL. Yields Dask's own reports of them.
    """
    from proxy import Proxy

    with ExitStack() as stack:
        database_url = stack.enter_context(postgres_database())
        processes = Processes(tmp_path_factory.mktemp("failures"))
        stack.callback(processes.kill_all)
        server = GalvoServer(processes, database_url).start()
        proxy = Proxy(server.port)
        stack.callback(proxy.close)
        clusters = []
        for role, reading in (("NEWEST", 17.25), ("OLDEST", 4096)):
            python = python_named(role)
            allowed = {} if role == "NEWEST" else {"galvo.events.allow": "scores,worker-fail-hard"}
            dask = ObservedCluster(processes, python, proxy.address, server.token, allowed)
            for name in ("one", "two"):
                dask.add_worker(name)
            clusters.append((role, reading, dask))
        runs = {}
        for role, reading, dask in clusters:
            client = dask.client()
            attempts = processes.directory / role
            attempts.mkdir()
            client.call(
                "trouble",
                workload="failings",
                attempts=str(attempts),
                reading=reading,
                password=SECRET,
            )
            report = client.call("dask_report")
            client.call(
                "trouble",
                workload="announcements",
                topics=["scores", "moods"],
                count=3,
                password=SECRET,
            )
            runs[role] = {
                "reading": reading,
                "report": report,
                "observed": client.call("observed"),
                "scores": client.call("look", at="events", topic="scores"),
                "moods": client.call("look", at="events", topic="moods"),
                "client": client,
            }
        yield server, proxy, runs


@pytest.mark.parametrize("role", ROLES)
def test_retries_and_blame(two_clusters, role):
    galvo, _, runs = two_clusters
    run = runs[role]
    report = run["report"]
    # Dask retries a task as often as allowed.
    assert report["prefixes"]["patient"]["state_counts"]["processing"] == 3
    assert report["prefixes"]["hopeless"]["state_counts"]["processing"] == 3
    assert report["prefixes"]["summarise"]["state_counts"]["erred"] == 3

    names = ("tasks", "tasksSucceeded", "tasksErred", "tasksBlamed", "tasksRetried")

    def reported():
        groups = everything(galvo, GROUPS, report["scheduler_id"])
        counted = {group["prefix"]: {name: group[name] for name in names} for group in groups}
        return len({"fail", "hopeless", "log-in", "announce"} & set(counted)) == 4 and counted

    counted = wait_until(reported, "Galvo knows the groups")
    expected = {
        "patient": (1, 1, 0, 0, 2),
        "hopeless": (1, 0, 1, 0, 2),
        "fail": (1, 0, 1, 0, 0),
        "summarise": (3, 0, 0, 3, 0),
        "log-in": (1, 0, 1, 0, 0),
    }
    for prefix, values in expected.items():
        assert counted[prefix] == dict(zip(names, values)), prefix

    errors = everything(galvo, ERRORS, report["scheduler_id"])
    errors = {error["key"]: error for error in errors if error["origin"] == "USER"}
    dasks = {error["key"]: error for error in report["errors"]}
    assert errors.keys() == dasks.keys() and len(errors) == 3
    for key, error in errors.items():
        assert error["taskGroup"]["name"] == report["groups"][dasks[key]["group"]]["name"]
        assert error["retries"] == (2 if key == "hopeless" else 0)
        assert [error["worker"]] == dasks[key]["workers"]
        assert seconds(error["at"]) == pytest.approx(dasks[key]["at"], abs=0.5)
        (worker,) = (w for w in run["observed"]["workers"] if w["address"] == error["worker"])
        assert error["workerId"] == worker["id"]
        if key != "log-in":
            assert error["message"] == dasks[key]["message"]
            assert error["traceback"] == dasks[key]["traceback"]
            # Five lines of the file that failed, at the line that Dask names.
            source = error["source"]
            assert f'File "{source["file"]}", line {source["line"]}, in' in error["traceback"]
            assert source["firstLine"] == source["line"] - 2
            lines = Path(source["file"]).read_text().splitlines()
            assert source["lines"] == lines[source["line"] - 3 : source["line"] + 2]


def test_the_same_failure_on_two_clusters_is_one_group(two_clusters):
    galvo, _, runs = two_clusters
    schedulers = {run["report"]["scheduler_id"] for run in runs.values()}

    def complete():
        nodes = galvo.query(ERROR_GROUPS)["viewer"]["account"]["errorGroups"]["nodes"]
        user = {node["type"]: node for node in nodes if node["origin"] == "USER"}
        assert sum(node["origin"] == "USER" for node in nodes) == len(user)
        counts = {node["type"]: node["occurrenceCount"] for node in user.values()}
        return counts == {"ValueError": 2, "OSError": 2, "ConnectionError": 2} and user

    groups = wait_until(complete, "each failure is one group")
    for kind, group in groups.items():
        assert group["clusterCount"] == 2
        found = group["occurrences"]["nodes"]
        assert {error["cluster"]["schedulerId"] for error in found} == schedulers
        times = [
            error["at"]
            for run in runs.values()
            for error in run["report"]["errors"]
            if error["message"].startswith(kind)
        ]
        assert len(times) == 2
        assert seconds(group["firstSeenAt"]) == pytest.approx(min(times), abs=0.5)
        assert seconds(group["lastSeenAt"]) == pytest.approx(max(times), abs=0.5)
        assert group["firstSeenAt"] == min(error["at"] for error in found)
        assert group["lastSeenAt"] == max(error["at"] for error in found)
    # The differing parts are data.
    title = groups["ValueError"]["title"]
    assert not any(str(run["reading"]) in title for run in runs.values())
    messages = {error["message"] for error in groups["ValueError"]["occurrences"]["nodes"]}
    assert messages == {
        f"ValueError('no station sends a reading of {run['reading']!r}')" for run in runs.values()
    }


@pytest.mark.parametrize("role", ROLES)
def test_secrets_do_not_leave(two_clusters, role):
    """Secrets are redacted in exceptions, events and logs of tasks, even in those that Dask itself
    shows.
    """
    galvo, proxy, runs = two_clusters
    run = runs[role]
    (dasks,) = (error for error in run["report"]["errors"] if error["key"] == "log-in")
    assert SECRET in dasks["message"]

    def find():
        errors = everything(galvo, ERRORS, run["report"]["scheduler_id"])
        return next((error for error in errors if error["key"] == "log-in"), None)

    error = wait_until(find, "Galvo has the error")
    assert error["message"] == dasks["message"].replace(SECRET, "[removed]")

    def find_lines():
        lines = everything(galvo, LOGS, run["report"]["scheduler_id"])
        matching = [line for line in lines if "is what number" in line["message"]]
        return sum(line["repeated"] for line in matching) >= 6 and lines

    lines = wait_until(find_lines, "Galvo has the lines of the log")
    assert any("Compute Failed" in line["message"] for line in lines)
    messages = {line["message"] for line in lines if "is what number" in line["message"]}
    assert messages == {f"password=[removed] is what number {n} logs in with" for n in range(3)}
    answers = [error, lines, everything(galvo, EVENTS, run["report"]["scheduler_id"])]
    sent = [exchange.report for exchange in proxy.exchanges]
    assert "is what number" in json.dumps(sent)
    assert SECRET not in json.dumps(sent)
    assert SECRET not in json.dumps(answers)


@pytest.mark.parametrize("role", ROLES)
def test_user_events(two_clusters, role):
    """Each event is stored once per topic, as published, and not at all under forbidden topics."""
    galvo, proxy, runs = two_clusters
    run = runs[role]
    # Three of tasks, one of the client, and one under both topics.
    assert len(run["scores"]) == len(run["moods"]) == 5
    allowed = role == "NEWEST"
    expected = [("scores", at, data) for at, data in run["scores"]]
    if allowed:
        expected += [("moods", at, data) for at, data in run["moods"]]
    found = None

    def find():
        nonlocal found
        found = [
            event
            for event in everything(galvo, EVENTS, run["report"]["scheduler_id"])
            if event["topic"] in ("scores", "moods")
        ]
        return len(found) >= len(expected)

    wait_until(find, "Galvo has the events")
    ids = {worker["address"]: worker["id"] for worker in run["observed"]["workers"]}
    assert sorted(plain(e["topic"], e["data"]) for e in found) == sorted(
        plain(topic, {**data, **({"password": "[removed]"} if "password" in data else {})})
        for topic, _, data in expected
    )
    for event in found:
        assert event["workerId"] == ids.get(event["data"].get("worker"))
    times = sorted(at for _, at, _ in expected)
    # Releases without an event hook read events later, with their own time.
    assert sorted(seconds(e["at"]) for e in found) == pytest.approx(times, abs=0.25)
    if not allowed:
        topics = {
            event["topic"]
            for exchange in proxy.exchanges
            if exchange.report["scheduler_id"] == run["report"]["scheduler_id"]
            for event in exchange.report.get("events", [])
        }
        assert topics - {"worker-fail-hard"} == {"scores"}


def plain(topic, data):
    return topic, json.dumps(data, sort_keys=True)


@pytest.mark.parametrize("role", ROLES)
def test_failure_of_dask_itself(two_clusters, role):
    """A defect in a worker: the event with its traceback, and an error of origin Dask."""
    galvo, _, runs = two_clusters
    run = runs[role]
    client, worker = run["client"], worker_named(run["observed"], "one")
    client.call("trouble", workload="breakage", worker=worker["address"])
    scheduler_id = run["report"]["scheduler_id"]

    def find():
        events = everything(galvo, EVENTS, scheduler_id)
        errors = everything(galvo, ERRORS, scheduler_id)
        failures = [event for event in events if event["topic"] == "worker-fail-hard"]
        return failures and (failures, [error for error in errors if error["origin"] == "DASK"])

    failures, errors = wait_until(find, "Galvo knows of the failure")
    dasks = client.call("look", at="texts", topic="worker-fail-hard")
    assert len(dasks) == len(failures) == len(errors) == 1
    ((at, text),) = dasks
    assert failures[0]["data"]["exception_text"] == text
    assert failures[0]["workerId"] == errors[0]["workerId"] == worker["id"]
    assert seconds(failures[0]["at"]) == pytest.approx(at, abs=0.25)
    assert errors[0]["type"] == "WorkerFailHard"
    assert errors[0]["message"] == text
