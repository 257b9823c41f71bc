"""The invariants reject numbers that contradict each other.

They are checked after every other test, which would pass with an invariant that accepts anything.
"""

import copy

import pytest
from invariants import assert_account, assert_cluster


def usage_of(seconds):
    """Returns the usage of one worker with two threads for that time, by arithmetic."""
    threads = 2.0 * seconds
    parts = {"CPU": 0.3, "WAITING": 0.1, "FAILED": 0.05, "IDLE": 0.25, "UNACCOUNTED": 0.1}
    causes = {cause: share * threads for cause, share in parts.items()}
    causes["UNOBSERVED"] = 0.2 * threads
    price = 0.05 / 3600
    return {
        "threadSeconds": threads,
        "unobservedSeconds": 0.2 * threads,
        "computeSeconds": 0.4 * threads,
        "idleSeconds": 0.25 * threads,
        "utilization": 0.5,
        "causes": [{"cause": cause, "seconds": spent} for cause, spent in causes.items()],
        "costs": [
            {
                "amount": threads * price,
                "causes": [
                    {"cause": cause, "amount": spent * price} for cause, spent in causes.items()
                ],
            }
        ],
        "transferSeconds": 0.0,
        "spillSeconds": 0.0,
        "workerSeconds": seconds,
        "memoryGibSeconds": 4 * seconds,
        **{"tasks": seconds, "tasksErred": 2, "retries": 0, "errors": 2, "bytes": 8 * seconds},
        **{"spilledBytes": 0, "workers": 1},
    }


def sum_of(first, second):
    total = copy.deepcopy(first)
    for name, value in second.items():
        if name not in ("utilization", "causes", "costs"):
            total[name] += value
    for one, other in zip(total["causes"], second["causes"]):
        one["seconds"] += other["seconds"]
    for cost, more in zip(total["costs"], second["costs"]):
        cost["amount"] += more["amount"]
        for one, other in zip(cost["causes"], more["causes"]):
            one["amount"] += other["amount"]
    return total


def consistent_cluster():
    hours = [usage_of(100), usage_of(40)]
    work = {"tasks": 60, "tasksSucceeded": 70, "tasksErred": 2}
    states = [{"state": "FORGOTTEN", "count": 60}]
    return {
        "number": 1,
        "totals": {
            **{"tasks": 130, "tasksSucceeded": 150, "tasksErred": 4},
            **{"computeSeconds": 140.0, "threadSeconds": 280.0},
        },
        "usage": sum_of(*hours),
        "usageHours": [
            {"start": f"2026-11-20T0{hour}:00:00Z", "usage": usage}
            for hour, usage in enumerate(hours)
        ],
        "functions": [
            {"prefix": "one", "computeSeconds": 90.0, "tasks": 100},
            {"prefix": "other", "computeSeconds": 22.0, "tasks": 40},
        ],
        "taskGroups": {
            "totalCount": 2,
            "nodes": [{**work, "id": number, "bytes": 8, "states": states} for number in "12"],
        },
        "computations": {
            "nodes": [
                {"totals": {**work, "states": states, "includesOtherComputations": False}}
                for _ in range(2)
            ]
        },
        "spans": {
            "nodes": [
                {"totals": {"computeSeconds": 60.0, "threadSeconds": 90.0, "idleSeconds": 30.0}}
            ]
        },
    }


def consistent_account():
    users = [usage_of(100), usage_of(40)]
    return {
        "usage": sum_of(*users),
        "usageTable": [{"user": {"name": str(n)}, "usage": used} for n, used in enumerate(users)],
    }


CONTRADICTIONS = [
    # More or less than all of the observed time.
    ("usage idleSeconds", 75.0),
    ("usage computeSeconds", 230.0),
    ("usage causes 0 seconds", 90.0),
    ("usage causes 3 seconds", 60.0),
    ("usage causes 5 seconds", 50.0),
    ("usage causes 0 seconds", -1.0),
    ("usage unobservedSeconds", 300.0),
    ("usage utilization", 0.6),
    ("usage utilization", 1.2),
    ("usage costs 0 amount", 0.01),
    ("usage costs 0 causes 0 amount", 0.01),
    # The same number in two places.
    ("usageHours 1 usage threadSeconds", 85.0),
    ("usageHours 1 usage tasks", 41),
    ("usageHours 1 usage bytes", 0),
    ("totals threadSeconds", 290.0),
    # A part is more than its whole.
    ("functions 0 computeSeconds", 100.0),
    ("functions 1 tasks", 41),
    ("totals computeSeconds", 100.0),
    ("totals tasksSucceeded", 139),
    ("totals tasksErred", 3),
    ("totals tasks", 119),
    ("taskGroups nodes 0 states 0 count", 61),
    ("taskGroups nodes 0 tasksErred", 3),
    ("computations nodes 0 totals tasks", 61),
    ("computations nodes 1 totals tasksSucceeded", 90),
    ("spans nodes 0 totals idleSeconds", 40.0),
]


def changed(document, path, value):
    """Returns a copy with another value at a path of keys and positions."""
    document = copy.deepcopy(document)
    *way, last = [int(step) if step.isdigit() else step for step in path.split()]
    place = document
    for step in way:
        place = place[step]
    assert place[last] != value
    place[last] = value
    return document


def test_consistent_numbers_pass():
    assert_cluster(consistent_cluster())
    assert_account(consistent_account())


@pytest.mark.parametrize("path, value", CONTRADICTIONS, ids=[p for p, _ in CONTRADICTIONS])
def test_a_contradiction_is_found(path, value):
    with pytest.raises(AssertionError):
        assert_cluster(changed(consistent_cluster(), path, value))


def test_users_that_do_not_add_up_to_their_account_are_found():
    for path, value in (("usage tasks", 141), ("usageTable 0 usage workerSeconds", 99.0)):
        with pytest.raises(AssertionError):
            assert_account(changed(consistent_account(), path, value))
