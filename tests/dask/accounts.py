"""Compares Dask's account of a run with Galvo's responses.

``workloads/witness.py`` provides Dask's own account. Both sides become plain values of one shape,
so that a difference is easy to read.
"""

from collections import Counter
from datetime import datetime

import pytest
from processes import wait_until

CLUSTERS = """
query { viewer { account { clusters(first: 100) { nodes { id schedulerId } } } } }
"""

CLUSTER = """
query ($id: ID!) { cluster(id: $id) {
  id schedulerId name address dashboardUrl state desiredState
  startedAt endedAt closeReason lastSeenAt
  now { workers threads }
  dropped { computations taskGroups errors }
  totals {
    tasks tasksSucceeded tasksErred errors bytes workers peakWorkers peakThreads
    computeSeconds transferSeconds threadSeconds
  }
} }
"""

TASK_GROUPS = """
query ($id: ID!, $after: String) { cluster(id: $id) {
list: taskGroups(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes {
    name prefix startedAt endedAt states { state count } durations { action seconds }
    tasks tasksSucceeded tasksErred tasksBlamed bytes types dependencies { name }
  }
} } }
"""

COMPUTATIONS = """
query ($id: ID!, $after: String) { cluster(id: $id) {
list: computations(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes {
    daskId state startedAt endedAt taskGroups(first: 100) { nodes { name } }
    totals { tasks states { state count } }
  }
} } }
"""

ERRORS = """
query ($id: ID!, $after: String) { cluster(id: $id) {
list: errors(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes { key type message traceback worker origin at taskGroup { name } computation { daskId } }
} } }
"""


def cluster_id(galvo, scheduler_id):
    """Returns the identifier of a scheduler's cluster; None until it has reported."""
    nodes = galvo.query(CLUSTERS)["viewer"]["account"]["clusters"]["nodes"]
    return next((node["id"] for node in nodes if node["schedulerId"] == scheduler_id), None)


def cluster(galvo, scheduler_id):
    id_ = cluster_id(galvo, scheduler_id)
    return id_ and galvo.query(CLUSTER, id=id_)["cluster"]


def everything(galvo, query, scheduler_id):
    """Returns all pages of a list."""
    nodes, after, id_ = [], None, cluster_id(galvo, scheduler_id)
    while True:
        page = galvo.query(query, id=id_, after=after)["cluster"]["list"]
        nodes += page["nodes"]
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            return nodes


def seconds(time):
    return None if time is None else datetime.fromisoformat(time).timestamp()


def close_to(value):
    """A duration, which may have been summed in another order."""
    return value and pytest.approx(value, rel=1e-6, abs=1e-6)


def moment(time):
    """A time, which the server stores in milliseconds."""
    return time and pytest.approx(time, rel=0, abs=1.1e-3)


# ------------------------------------------------------------------------------------ Galvo's side


def galvo_values(galvo, scheduler_id):
    found = cluster(galvo, scheduler_id)
    if found is None:
        return None
    nodes = everything(galvo, TASK_GROUPS, scheduler_id)
    groups = [
        {
            "name": group["name"],
            "prefix": group["prefix"],
            "start": seconds(group["startedAt"]),
            "stop": seconds(group["endedAt"]),
            "states": {state["state"]: state["count"] for state in group["states"]},
            "tasks": group["tasks"],
            "erred": group["tasksErred"],
            "durations": {spent["action"]: spent["seconds"] for spent in group["durations"]},
            "bytes": group["bytes"],
            "types": sorted(group["types"]),
            "dependencies": sorted(other["name"] for other in group["dependencies"]),
        }
        for group in nodes
    ]
    prefixes = {}
    for group in nodes:
        prefix = prefixes.setdefault(group["prefix"], {"succeeded": 0, "failed": 0})
        prefix["succeeded"] += group["tasksSucceeded"]
        prefix["failed"] += group["tasksErred"] + group["tasksBlamed"]
    computations = {
        computation["daskId"]: {
            "start": seconds(computation["startedAt"]),
            "stop": seconds(computation["endedAt"]),
            "state": computation["state"],
            "groups": sorted(group["name"] for group in computation["taskGroups"]["nodes"]),
            "tasks": computation["totals"]["tasks"],
            "states": {of["state"]: of["count"] for of in computation["totals"]["states"]},
        }
        for computation in everything(galvo, COMPUTATIONS, scheduler_id)
    }
    errors = {
        error["key"]: {
            "at": seconds(error["at"]),
            "type": error["type"],
            "message": error["message"],
            "traceback": error["traceback"],
            "worker": error["worker"],
            "group": error["taskGroup"] and error["taskGroup"]["name"],
            "computation": error["computation"] and error["computation"]["daskId"],
        }
        for error in everything(galvo, ERRORS, scheduler_id)
    }
    totals = dict(found["totals"])
    del totals["threadSeconds"]  # it grows while the cluster runs
    return {
        "address": found["address"],
        "dashboard": found["dashboardUrl"],
        "started": seconds(found["startedAt"]),
        # A running cluster can become idle or busy between two reads.
        "state": found["state"] if found["state"] in ("CLOSED", "LOST") else "RUNNING",
        "now": found["now"],
        "dropped": found["dropped"],
        "totals": totals,
        "prefixes": prefixes,
        "groups": sorted(groups, key=by_name_and_time),
        "computations": computations,
        "errors": errors,
    }


def by_name_and_time(group):
    start = group.get("started_at") or group.get("start") or 0.0
    return group["name"], start, group["tasks"], group["bytes"]


# ------------------------------------------------------------------------------------- Dask's side


def galvo_states(states):
    return {state.upper().replace("-", "_"): count for state, count in states.items() if count}


def galvo_durations(durations):
    known = ("compute", "transfer", "disk-read", "disk-write", "serialize", "deserialize")
    assert set(durations) <= set(known)
    spent = {action: seconds for action, seconds in durations.items() if seconds}
    return {action.upper().replace("-", "_"): close_to(spent[action]) for action in spent}


def dask_values(report, closed=False):
    """Returns the expected response of Galvo, from Dask's own account of an idle cluster."""
    groups, prefixes = report["groups"], report["prefixes"]

    def total(kind, what):
        return sum(prefix[kind].get(what, 0) for prefix in prefixes.values())

    totals = {
        "tasks": sum(group["tasks"] for group in groups),
        "tasksSucceeded": total("state_counts", "memory"),
        "tasksErred": sum(group["erred"] for group in groups),
        "errors": len(report["errors"]),
        "bytes": sum(group["bytes"] for group in groups),
        "workers": report["workers"],
        "peakWorkers": report["peak_workers"],
        "peakThreads": report["peak_threads"],
        "computeSeconds": close_to(total("durations", "compute")),
        "transferSeconds": close_to(total("durations", "transfer")),
    }
    now = {"workers": report["workers_now"], "threads": report["threads_now"]}
    return {
        "address": report["address"],
        "dashboard": report["dashboard"],
        "started": moment(report["started_at"]),
        "state": "CLOSED" if closed else "RUNNING",
        "now": None if closed else now,
        "dropped": {"computations": 0, "taskGroups": 0, "errors": 0},
        "totals": totals,
        "prefixes": {
            name: {
                "succeeded": prefix["state_counts"].get("memory", 0),
                "failed": prefix["state_counts"].get("erred", 0),
            }
            for name, prefix in prefixes.items()
        },
        "groups": [
            {
                "name": group["name"],
                "prefix": group["prefix"],
                # Dask has 0.0 if nothing has finished.
                "start": moment(group["start"] or None),
                "stop": moment(group["stop"] or None),
                "states": galvo_states(group["states"]),
                "tasks": group["tasks"],
                "erred": group["erred"],
                "durations": galvo_durations(group["durations"]),
                "bytes": group["bytes"],
                "types": sorted(group["types"]),
                "dependencies": sorted(groups[place]["name"] for place in group["dependencies"]),
            }
            for group in sorted(groups, key=by_name_and_time)
        ],
        "computations": {
            computation["id"]: computation_of(computation, report)
            for computation in report["computations"]
        },
        "errors": {error["key"]: error_of(error, report) for error in report["errors"]},
    }


def computation_of(computation, report):
    id_ = computation["id"]
    errors = [error["at"] for error in report["errors"] if error["computation"] == id_]
    stop = moment(computation["stop"])
    if errors:
        # Dask counts only tasks that succeeded, but a computation lasts until its last error.
        stop = pytest.approx(max(computation["stop"], *errors), rel=0, abs=0.5)
    groups = [report["groups"][place] for place in computation["groups"]]
    return {
        "start": moment(computation["start"]),
        "stop": stop,
        "state": "ERRED" if errors else "FINISHED",
        "groups": sorted(group["name"] for group in groups),
        **work_of(groups),
    }


def work_of(groups):
    """Returns the equivalent of Dask's `Computation.states` and `__len__`: the sums over its
    groups.
    """
    states = Counter()
    for group in groups:
        states.update(galvo_states(group["states"]))
    return {"tasks": sum(group["tasks"] for group in groups), "states": dict(states)}


def error_of(error, report):
    (worker,) = error["workers"]
    return {
        "at": pytest.approx(error["at"], rel=0, abs=0.5),
        "type": error.get("type", error["message"].partition("(")[0]),
        "message": error["message"],
        "traceback": error["traceback"],
        "worker": worker,
        "group": report["groups"][error["group"]]["name"],
        "computation": error["computation"],
    }


# ------------------------------------------------------------------------------ the reports


def reports_say(reports):
    """Returns the expected response of Galvo after exactly these reports, in this order."""
    newest, links = {}, {}
    for report in reports:
        for kind in ("task_groups", "computations", "errors"):
            newest.setdefault(kind, {}).update((item["id"], item) for item in report[kind])
        for computation in report["computations"]:
            links.setdefault(computation["id"], set()).update(computation["task_group_ids"])
    groups, reported = newest["task_groups"], reports[-1]["cluster"]
    totals = reported["totals"]
    prefixes = {}
    for group in groups.values():
        prefix = prefixes.setdefault(group["prefix"], {"succeeded": 0, "failed": 0})
        prefix["succeeded"] += group["tasks_succeeded"]
        prefix["failed"] += group["tasks_erred"] + group["tasks_blamed"]
    return {
        "address": reported["address"],
        "dashboard": reported["dashboard_url"],
        "started": moment(reported["started_at"]),
        "state": "RUNNING",
        "now": {"workers": reported["workers"], "threads": reported["threads"]},
        "dropped": {"computations": 0, "taskGroups": 0, "errors": 0},
        "totals": {
            "tasks": totals["tasks"],
            "tasksSucceeded": totals["tasks_succeeded"],
            "tasksErred": totals["tasks_erred"],
            "errors": totals["errors"],
            "bytes": totals["bytes"],
            "workers": totals["workers"],
            "peakWorkers": totals["peak_workers"],
            "peakThreads": totals["peak_threads"],
            "computeSeconds": close_to(totals["compute_seconds"]),
            "transferSeconds": close_to(totals["transfer_seconds"]),
        },
        "prefixes": prefixes,
        "groups": [
            {
                "name": group["name"],
                "prefix": group["prefix"],
                "start": moment(group["started_at"]),
                "stop": moment(group["stopped_at"]),
                "states": galvo_states(group["states"]),
                "tasks": group["tasks"],
                "erred": group["tasks_erred"],
                "durations": galvo_durations(group["durations"]),
                "bytes": group["bytes"],
                "types": sorted(group["types"]),
                "dependencies": sorted(groups[id_]["name"] for id_ in group["dependencies"]),
            }
            for group in sorted(groups.values(), key=by_name_and_time)
        ],
        "computations": {
            id_: {
                "start": moment(computation["started_at"]),
                "stop": moment(computation["stopped_at"]),
                "state": computation["state"].upper(),
                "groups": sorted(groups[group]["name"] for group in links[id_]),
                **work_of([groups[group] for group in links[id_]]),
            }
            for id_, computation in newest["computations"].items()
        },
        "errors": {
            error["key"]: {
                "at": moment(error["at"]),
                "type": error["type"],
                "message": error["message"],
                "traceback": error["traceback"],
                "worker": error["worker"],
                "group": groups[error["task_group_id"]]["name"],
                "computation": error["computation_id"],
            }
            for error in newest["errors"].values()
        },
    }


# ------------------------------------------------------------------------------------- comparison


def assert_agreement(galvo, report, closed=False):
    """Asserts that Galvo agrees with Dask within a few report intervals."""
    assert_galvo_has(dask_values(report, closed), galvo, report)


def assert_galvo_has(expected, galvo, report):
    found = None

    def agree():
        nonlocal found
        found = galvo_values(galvo, report["scheduler_id"])
        return found == expected

    try:
        wait_until(agree, "Galvo says the same as Dask")
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *differences(found, expected)])) from None


def differences(found, expected, where=""):
    """Yields a line for each place where two values differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in sorted({*found, *expected}):
            if name not in found or name not in expected:
                what = "Galvo makes it up" if name in found else "Galvo lacks it"
                yield f"{where}/{name}: {what}"
            else:
                yield from differences(found[name], expected[name], f"{where}/{name}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for n, pair in enumerate(zip(found, expected, strict=True)):
            yield from differences(*pair, f"{where}/{n}")
    elif found != expected:
        yield f"{where}: Galvo says {found!r}, right is {expected!r}"
