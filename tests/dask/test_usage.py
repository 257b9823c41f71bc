"""The usage and cost of clusters equal the sums of Dask's own numbers."""

import itertools

import pytest
from accounts import cluster_id, computation_of, seconds
from processes import GalvoServer, Processes, python_named, wait_until
from proxy import Proxy
from stores import empty_store, member
from studies import Study

RATE = {"perThreadHour": 7.25, "perGibHour": 0.5, "perWorkerHour": 1.5}
GIB = 2**30
DAYS = {"from": "2020-01-01", "to": "2120-01-01"}

CLUSTER = """
query ($id: ID!) { cluster(id: $id) {
  user { name }
  totals { tasksSucceeded tasksErred bytes computeSeconds transferSeconds threadSeconds }
  usage { ...all }
  usageHours { start usage { ...all } }
  functions { prefix computeSeconds costs { amount currency basis } }
  answers {
    finished { ...answer } exceptions { ...answer } cost { ...answer } topTime { ...answer }
    network { ...answer } spill { ...answer } cpu { ...answer }
  }
} }
fragment answer on Answer { verdict headline value unit share confidence evidence { label value } }
"""

ACCOUNT = """
query ($from: Date!, $to: Date!) { viewer { account {
  usage(from: $from, to: $to) { ...all }
  usageTable(from: $from, to: $to, by: USER) { user { name } usage { ...all } }
  functions(from: $from, to: $to) {
    prefix computeSeconds transferSeconds tasks tasksErred bytes
  }
  costRates { validFrom currency perThreadHour perGibHour perWorkerHour }
} } }
"""

USERS_FUNCTIONS = """
query ($user: ID!) { viewer { account { functions(user: $user) {
  prefix computeSeconds transferSeconds tasks tasksErred bytes
} } } }
"""

FRAGMENT = """
fragment all on Usage {
  threadSeconds computeSeconds transferSeconds workerSeconds memoryGibSeconds idleSeconds
  utilization causes { cause seconds } tasks tasksErred retries errors bytes spilledBytes workers
  costs { amount currency basis causes { cause amount } }
}
"""

SET_RATE = """
mutation ($rate: CostRateInput!) { setCostRate(input: $rate) { userErrors { message } } }
"""

# Additive fields.
SUMS = [
    *["threadSeconds", "computeSeconds", "transferSeconds", "workerSeconds", "memoryGibSeconds"],
    *[
        "idleSeconds",
        "tasks",
        "tasksErred",
        "retries",
        "errors",
        "bytes",
        "spilledBytes",
        "workers",
    ],
]

# The workers' metrics of thread time within tasks; all others are Dask's own overhead.
CAUSE_OF = {
    **{"thread-cpu": "CPU", "thread-noncpu": "WAITING"},
    **dict.fromkeys(["serialize", "deserialize"], "SERIALIZATION"),
    **dict.fromkeys(["disk-read", "disk-write", "memory-read", "compress", "decompress"], "SPILL"),
    **dict.fromkeys(["failed", "cancelled"], "FAILED"),
}


class Year:
    """Two closed clusters of two users of one account."""

    def __init__(self, processes, store):
        galvo = GalvoServer(processes, store).start()
        ada = member(galvo, "team", "ada")
        bob = member(galvo, "team", "bob", new=False)
        rate = {"validFrom": "2020-01-01", "currency": "EUR", **RATE}
        assert ada.query(SET_RATE, rate=rate)["setCostRate"]["userErrors"] == []
        self.galvo, self.proxies, self.studies = ada, [], {}
        for name, seen, python, workers in (("ada", ada, "NEWEST", 2), ("bob", bob, "OLDEST", 1)):
            proxy = Proxy(galvo.port)
            self.proxies.append(proxy)
            study = Study(
                processes,
                python_named(python),
                seen,
                server=proxy.address,
                workers=workers,
                threads=2,
            )
            self.studies[name] = study.begin()
        for name, study in self.studies.items():
            study.ready()
            attempts = str(processes.directory / f"attempts-{name}")
            study.start("shift_of_kinds", attempts=attempts, pauses=15)
        self.dask = {}
        for name, study in self.studies.items():
            study.outcome()
            study.id = cluster_id(ada, study.scheduler_id)
            study.call("release")
            self.dask[name] = study.call("dask_report")
            self.dask[name]["metrics"] = study.call("dask_metrics")
            study.close()
        self.reports = {
            name: [exchange.report for exchange in proxy.exchanges if exchange.acknowledged]
            for name, proxy in zip(self.studies, self.proxies, strict=True)
        }
        self.clusters = {
            name: ada.query(CLUSTER + FRAGMENT, id=study.id)["cluster"]
            for name, study in self.studies.items()
        }
        # Days are summed up in the background.
        self.account = wait_until(self.folded, "the hours are in the days", 60)

    def folded(self):
        account = self.galvo.query(ACCOUNT + FRAGMENT, **DAYS)["viewer"]["account"]
        hours = sum(cluster["usage"]["threadSeconds"] for cluster in self.clusters.values())
        complete = account["usage"]["threadSeconds"] == pytest.approx(hours, abs=1e-3)
        return account if complete else None


@pytest.fixture(scope="module", params=["postgres"])
def year(request, tmp_path_factory):
    processes = Processes(tmp_path_factory.mktemp("usage"))
    try:
        with empty_store(request.param) as store:
            year = Year(processes, store)
            yield year
            for proxy in year.proxies:
                proxy.close()
            processes.kill_all()
    finally:
        processes.kill_all()


def causes_of(metrics, thread_seconds):
    """Returns how all threads spent their time, from Dask's own sums over all workers."""
    causes = dict.fromkeys([*CAUSE_OF.values(), "OVERHEAD", "UNACCOUNTED"], 0.0)
    for (context, *_, activity, unit), value in metrics:
        if context == "execute" and unit == "seconds":
            causes[CAUSE_OF.get(activity, "OVERHEAD")] += value
    return {**causes, "IDLE": thread_seconds - sum(causes.values())}


def functions_of(report):
    """Returns Dask's own sums by prefix; the witness provides erred tasks."""
    functions = {}
    for name, prefix in report["prefixes"].items():
        groups = [group for group in report["groups"] if group["prefix"] == name]
        functions[name] = {
            "computeSeconds": prefix["durations"].get("compute", 0.0),
            "transferSeconds": prefix["durations"].get("transfer", 0.0),
            "tasks": prefix["state_counts"].get("memory", 0),
            "tasksErred": sum(group["erred"] for group in groups),
            "bytes": sum(group["bytes"] for group in groups),
        }
    return functions


def added(*values):
    """Returns the sums of all these values, by name and field."""
    sums = {}
    for value in values:
        for name, fields in value.items():
            known = sums.setdefault(name, dict.fromkeys(fields, 0))
            for field, number in fields.items():
                known[field] += number
    return sums


def close(number):
    return number if isinstance(number, int) else pytest.approx(number, rel=1e-6, abs=2e-5)


@pytest.mark.parametrize("name", ["ada", "bob"])
def test_a_cluster(year, name):
    dask, found = year.dask[name], year.clusters[name]
    usage = found["usage"]
    assert found["user"] == {"name": name}
    # The number of threads over time, up to the last report.
    ended = year.reports[name][-1]["cluster"]["closed_at"]
    history = [(at, n) for at, n in dask["threads_history"] if at <= ended] + [(ended, 0)]
    offered = sum(n * (until - at) for (at, n), (until, _) in itertools.pairwise(history))
    assert usage["threadSeconds"] == pytest.approx(offered, rel=0.005)
    assert found["totals"]["threadSeconds"] == pytest.approx(offered, rel=0.005)

    functions = functions_of(dask)
    for field in ("computeSeconds", "transferSeconds", "tasks", "tasksErred", "bytes"):
        expected = close(sum(function[field] for function in functions.values()))
        assert usage[field] == expected, field
        total = {"tasks": "tasksSucceeded"}.get(field, field)
        assert found["totals"][total] == expected, field
    assert (usage["tasksErred"], usage["errors"], usage["retries"]) == (3, 3, 2)
    assert usage["workers"] == dask["workers"] == {"ada": 2, "bob": 1}[name]
    # Workers have two threads and 1 GiB each.
    assert usage["workerSeconds"] == pytest.approx(offered / 2, rel=0.02)
    assert usage["memoryGibSeconds"] == pytest.approx(usage["workerSeconds"])
    assert usage["utilization"] == pytest.approx(usage["computeSeconds"] / usage["threadSeconds"])
    assert usage["computeSeconds"] > 4 * 15 * 0.1
    causes = {cause["cause"]: cause["seconds"] for cause in usage["causes"]}
    assert sum(causes.values()) == pytest.approx(usage["threadSeconds"])
    expected = causes_of(dask["metrics"], usage["threadSeconds"])
    assert expected["WAITING"] > 4 * 15 * 0.1  # the function only waits
    assert causes == {cause: close(spent) for cause, spent in expected.items()}
    assert causes["IDLE"] == pytest.approx(usage["idleSeconds"])

    hours = found["usageHours"]
    for field in SUMS:
        assert sum(hour["usage"][field] for hour in hours) == close(usage[field]), field
    # Each hour from that of the first thread, which may start an hour after its scheduler.
    starts = [seconds(hour["start"]) for hour in hours]
    began = next(at for at, n in history if n)
    assert starts == [*range(int(began // 3600) * 3600, int(starts[-1]) + 1, 3600)]
    assert starts[-1] <= ended
    assert_priced(usage)


def assert_priced(usage):
    (cost,) = usage["costs"]
    assert (cost["currency"], cost["basis"]) == ("EUR", "RATE_CARD")
    expected = (
        usage["threadSeconds"] / 3600 * RATE["perThreadHour"]
        + usage["memoryGibSeconds"] / 3600 * RATE["perGibHour"]
        + usage["workerSeconds"] / 3600 * RATE["perWorkerHour"]
    )
    assert cost["amount"] == pytest.approx(expected, rel=1e-4, abs=2e-6)
    parts = {part["cause"]: part["amount"] for part in cost["causes"]}
    assert sum(parts.values()) == pytest.approx(cost["amount"], rel=1e-4, abs=2e-6)
    for cause in usage["causes"]:
        share = cause["seconds"] / usage["threadSeconds"]
        assert parts.get(cause["cause"], 0) == pytest.approx(
            share * cost["amount"], rel=1e-3, abs=1e-5
        )


@pytest.mark.parametrize("name", ["ada", "bob"])
def test_answers(year, name):
    """The answers agree with Dask's own numbers."""
    dask, found = year.dask[name], year.clusters[name]
    answers = found["answers"]

    def assert_answered(question, value, unit, share, confidence="MEASURED"):
        answer = answers[question]
        assert (answer["unit"], answer["confidence"]) == (unit, confidence), answer
        assert answer["value"] == close(value), answer
        assert answer["share"] == (share if share is None else pytest.approx(share, rel=1e-4)), (
            answer
        )

    functions = functions_of(dask)
    succeeded = sum(function["tasks"] for function in functions.values())
    assert_answered("exceptions", 3, "exceptions", 3 / (succeeded + 3))
    assert answers["exceptions"]["verdict"] == "BAD"

    states = [computation_of(run, dask)["state"] for run in dask["computations"]]
    finished = states.count("FINISHED")
    assert_answered("finished", finished, "computations", finished / len(states))

    computed = {prefix: function["computeSeconds"] for prefix, function in functions.items()}
    longest = max(computed, key=computed.get)
    assert longest == "spend"
    assert_answered(
        "topTime", computed[longest], "thread-seconds", computed[longest] / sum(computed.values())
    )
    assert longest in answers["topTime"]["headline"]

    offered = found["usage"]["threadSeconds"]
    causes = causes_of(dask["metrics"], offered)
    (cost,) = found["usage"]["costs"]
    assert_answered("cost", cost["amount"], "EUR", causes["IDLE"] / offered, "ESTIMATED")
    assert_answered(
        "cpu",
        causes["WAITING"],
        "thread-seconds",
        causes["WAITING"] / (causes["WAITING"] + causes["CPU"]),
    )
    assert_answered("spill", causes["SPILL"], "thread-seconds", causes["SPILL"] / offered)
    received = sum(
        value
        for (context, *_, activity, unit), value in dask["metrics"]
        if (context, activity, unit) == ("gather-dep", "network", "seconds")
    )
    if received:
        assert_answered("network", received, "seconds", causes["IDLE"] / offered)

    for function in found["functions"]:
        assert function["computeSeconds"] == close(computed[function["prefix"]])
        (part,) = function["costs"]
        assert (part["currency"], part["basis"]) == ("EUR", "RATE_CARD")
        assert part["amount"] == pytest.approx(
            cost["amount"] * function["computeSeconds"] / offered, rel=1e-3, abs=1e-5
        )


def test_an_account(year):
    usage = year.account["usage"]
    for field in SUMS:
        expected = sum(cluster["usage"][field] for cluster in year.clusters.values())
        assert usage[field] == close(expected), field
    assert_priced(usage)
    by_user = {row["user"]["name"]: row["usage"] for row in year.account["usageTable"]}
    assert sorted(by_user) == ["ada", "bob"]
    for name, usage in by_user.items():
        for field in SUMS:
            assert usage[field] == close(year.clusters[name]["usage"][field]), (name, field)
        assert_priced(usage)


def named(functions):
    named = {function.pop("prefix"): function for function in map(dict, functions)}
    assert len(named) == len(functions)
    return named


def test_functions(year):
    expected = added(*map(functions_of, year.dask.values()))
    assert named(year.account["functions"]) == {
        name: {field: close(number) for field, number in fields.items()}
        for name, fields in expected.items()
        if any(fields.values())
    }
    longest = [function["computeSeconds"] for function in year.account["functions"]]
    assert longest == sorted(longest, reverse=True)
    assert year.account["functions"][0]["prefix"] == "spend"
    for name, study in year.studies.items():
        query = "{ viewer { user { id } } }"
        user = study.galvo.query(query)["viewer"]["user"]["id"]
        found = year.galvo.query(USERS_FUNCTIONS, user=user)["viewer"]["account"]["functions"]
        assert named(found) == {
            prefix: {field: close(number) for field, number in fields.items()}
            for prefix, fields in functions_of(year.dask[name]).items()
            if any(fields.values())
        }
