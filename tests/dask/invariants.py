"""Invariants of Galvo's numbers, for any activity of clusters.

They hold for every cluster, hour, user, function and span: observed thread time is busy, idle or
unaccounted for; a part never exceeds its whole; the same number in two places is equal.
``conftest.py`` checks them after every test, on every running server.
"""

import json
import time
import urllib.error
import urllib.request

# Times are stored in microseconds, and each of many rows is rounded.
ROUNDING = 0.001
# Workers time tasks by their own clocks, and join after their threads started.
CLOCKS, CLOCKS_SHARE = 0.25, 0.01
ATTEMPTS = 4  # a running cluster reports between two statements of one query
CLUSTERS = 10  # the newest of an account
BUSY = ("CPU", "WAITING", "SERIALIZATION", "SPILL", "OVERHEAD", "FAILED")
SUMS = (
    "threadSeconds", "unobservedSeconds", "computeSeconds", "transferSeconds", "workerSeconds",
    "memoryGibSeconds", "tasks", "tasksErred", "retries", "errors", "bytes", "spilledBytes",
    "workers",
)  # fmt: skip

USAGE = """
fragment used on Usage {
  threadSeconds unobservedSeconds computeSeconds transferSeconds workerSeconds memoryGibSeconds
  idleSeconds spillSeconds utilization causes { cause seconds } tasks tasksErred retries errors
  bytes spilledBytes workers costs { amount currency basis causes { cause amount } }
}
"""
CLUSTER = """
query ($id: ID!) { cluster(id: $id) {
  number state
  totals { tasks tasksSucceeded tasksErred computeSeconds threadSeconds }
  usage { ...used }
  usageHours { start usage { ...used } }
  functions(first: 100) { prefix computeSeconds tasks }
  taskGroups(first: 100) { totalCount nodes {
    id tasks tasksSucceeded tasksErred bytes states { state count }
  } }
  computations(first: 100) { totalCount nodes {
    state
    totals { tasks tasksSucceeded tasksErred includesOtherComputations states { state count } }
  } }
  spans(first: 50) { nodes { totals { computeSeconds threadSeconds idleSeconds tasks } } }
} }
"""
ACCOUNT = """
{ viewer { account {
  usage(from: "2000-01-01", to: "2120-01-01") { ...used }
  usageTable(from: "2000-01-01", to: "2120-01-01", by: USER) { user { name } usage { ...used } }
} } }
"""
NEWEST = """
query ($clusters: Int!) { viewer { account {
  clusters(first: $clusters) { nodes { id lastSeenAt state } }
} } }
"""

# Servers with an account's token, each with the clusters already found consistent in their present
# state.
_seen = []


def watch(server):
    """Registers a server whose account is checked after each test."""
    _seen.append((server, {}))


def check_all(clusters=CLUSTERS):
    """Checks all changes of the newest clusters on all running servers.

    Returns the number of clusters checked.
    """
    checked = 0
    for server, known in list(_seen):
        if server.process is None or not server.process.is_running():
            continue
        newest = _ask(server, NEWEST, clusters=clusters)
        if newest is None:  # the test removed its store or its token, or it is suspended
            continue
        # The clusters first: a message about one of them says more than one about their sum.
        for node in newest["viewer"]["account"]["clusters"]["nodes"]:
            id_, state = node["id"], (node["lastSeenAt"], node["state"])
            if known.get(id_) == state:
                continue
            try:
                found = _check(server, CLUSTER + USAGE, _assert_found_cluster, id=id_)
            except AssertionError:
                known[id_] = state  # other tests are not to blame
                raise
            if found:
                known[id_] = state
                checked += 1
        if not known.get("account wrong"):  # reported once; the sum remains wrong afterwards
            known["account wrong"] = True
            _check(
                server, ACCOUNT + USAGE, lambda found: assert_account(found["viewer"]["account"])
            )
            known["account wrong"] = False
    return checked


def _assert_found_cluster(found):
    if found["cluster"] is not None:
        assert_cluster(found["cluster"])


def _check(server, query, check, **variables):
    """Checks a response, and further ones in case a report arrived between two of its statements.

    Returns False without a response.
    """
    for left in reversed(range(ATTEMPTS)):
        found = _ask(server, query, **variables)
        if found is None:
            return False
        try:
            check(found)
        except AssertionError:
            if left == 0:
                raise
            time.sleep(0.5)
        else:
            break
    return True


def request(server, query, variables):
    """Returns a GraphQL request with the token of this server."""
    return urllib.request.Request(
        server.address + "/graphql",
        json.dumps({"query": query, "variables": variables}).encode(),
        {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"},
    )


def _ask(server, query, **variables):
    """Returns the data of a response; None without a server or a valid response for this token."""
    if server.token is None:
        return None
    try:
        with urllib.request.urlopen(request(server, query, variables), timeout=20) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        assert error.code in (401, 403, 429, 503), error.read().decode()
        return None
    except OSError:
        return None
    for error in answer.get("errors", ()):
        assert error["extensions"]["code"] in ("UNAVAILABLE", "RATE_LIMITED"), answer["errors"]
    return None if answer.get("errors") else answer["data"]


def assert_account(account):
    """Checks the usage of an account and that of its users."""
    assert_usage(account["usage"], "the account")
    rows = account["usageTable"]
    for row in rows:
        assert_usage(row["usage"], f"user {row['user']}")
    assert_sums([row["usage"] for row in rows], account["usage"], "users")


def assert_cluster(cluster):
    name = f"cluster {cluster['number']}"
    usage, totals = cluster["usage"], cluster["totals"]
    if usage is not None:
        assert_usage(usage, name)
        hours = cluster["usageHours"]
        for hour in hours:
            assert_usage(hour["usage"], f"{name}, hour {hour['start']}")
        assert_sums([hour["usage"] for hour in hours], usage, f"hours of {name}")
        functions = cluster["functions"]
        computed = sum(function["computeSeconds"] for function in functions)
        assert computed <= usage["computeSeconds"] + ROUNDING, (name, functions, usage)
        assert sum(int(function["tasks"]) for function in functions) <= int(usage["tasks"]), name
        # Both count the threads from the scheduler's start.
        slack = tolerance(totals["threadSeconds"])
        both = usage["threadSeconds"], totals["threadSeconds"]
        assert abs(both[0] - both[1]) <= slack, f"{name}: thread time {both}"
        # Work before the registration is only in the totals.
        within = usage["computeSeconds"], totals["computeSeconds"] + ROUNDING
        assert within[0] <= within[1], f"{name}: computed {within}"
        assert int(usage["tasks"]) <= int(totals["tasksSucceeded"]), name
        assert int(usage["tasksErred"]) <= int(totals["tasksErred"]), name
    assert_work(cluster, name)
    for span in cluster["spans"]["nodes"]:
        span = span["totals"]
        if span["threadSeconds"] is not None and span["idleSeconds"] is not None:
            slack = tolerance(span["threadSeconds"])
            both = span["idleSeconds"] + span["computeSeconds"]
            assert both <= span["threadSeconds"] + slack, f"{name}: span {span}"


def assert_work(cluster, name):
    """Checks task groups and computations against their cluster."""
    totals, groups = cluster["totals"], cluster["taskGroups"]
    for group in groups["nodes"]:
        # A performance report lacks the states of tasks.
        counted = sum(int(state["count"]) for state in group["states"])
        assert counted in (0, int(group["tasks"])), f"{name}: states of {group}"
    complete = groups["totalCount"] == len(groups["nodes"])
    for total in ("tasks", "tasksSucceeded", "tasksErred"):
        summed = sum(int(group[total]) for group in groups["nodes"])
        assert summed <= int(totals[total]), f"{name}: {total} of groups"
    computations = cluster["computations"]
    own = [node["totals"] for node in computations["nodes"] if node["totals"] is not None]
    for one in own:
        counted = sum(int(state["count"]) for state in one["states"])
        assert counted in (0, int(one["tasks"])), f"{name}: states of {one}"
        # A computation has no more tasks than its cluster, whether it shares its groups or not.
        assert int(one["tasks"]) <= int(totals["tasks"]), name
    separate = [one for one in own if not one["includesOtherComputations"]]
    for total in ("tasks", "tasksSucceeded", "tasksErred"):
        summed = sum(int(one[total]) for one in separate)
        if complete:
            assert summed <= int(totals[total]), f"{name}: {total} of computations"


def assert_usage(usage, name):
    """Checks that thread time is attributed only once."""
    whole, unobserved = usage["threadSeconds"], usage["unobservedSeconds"]
    causes = {row["cause"]: row["seconds"] for row in usage["causes"]}
    assert all(seconds >= 0 for seconds in causes.values()), f"{name}: {causes}"
    assert sum(causes.values()) == approximately(whole), f"{name}: causes"
    assert causes.get("UNOBSERVED", 0.0) == approximately(unobserved), f"{name}: unobserved"
    observed = whole - unobserved
    assert observed >= -ROUNDING, f"{name}: observed {observed} of {whole}"
    idle, computed = usage["idleSeconds"], usage["computeSeconds"]
    slack = tolerance(observed)
    assert computed <= observed + slack, f"{name}: computed {computed} of {observed}"
    assert causes.get("IDLE", 0.0) == approximately(idle or 0.0), f"{name}: idle"
    if idle is not None:
        assert idle + computed <= observed + slack, f"{name}: idle {idle}, computed {computed}"
        busy = sum(causes.get(cause, 0.0) for cause in BUSY)
        parts = idle + busy + causes["UNACCOUNTED"]
        assert parts == approximately(observed), f"{name}: {causes} of {observed}"
    if usage["utilization"] is not None:
        assert 0.0 <= usage["utilization"] <= 1.0, name
        if observed > 1.0:
            share = min(1.0, computed / observed)
            assert abs(usage["utilization"] - share) < 0.001, f"{name}: {usage}"
    for cost in usage["costs"]:
        parts = sum(cause["amount"] for cause in cost["causes"])
        assert abs(parts - cost["amount"]) <= 1e-6 + 1e-6 * cost["amount"], f"{name}: {cost}"


def assert_sums(parts, whole, name):
    for total in SUMS:
        summed = sum(float(part[total]) for part in parts)
        assert summed == approximately(float(whole[total]), len(parts)), f"{name}: {total}"


def tolerance(seconds):
    return ROUNDING + CLOCKS + CLOCKS_SHARE * max(0.0, seconds)


class approximately:
    """Equals values that differ only by rounding."""

    def __init__(self, value, rows=1):
        self.value, self.slack = value, ROUNDING * max(1, rows) + 1e-9 * abs(value)

    def __eq__(self, other):
        return abs(self.value - other) <= self.slack

    def __repr__(self):
        return f"{self.value} ± {self.slack}"
