"""Spans, fine performance metrics, code and profiles: Galvo's data equals Dask's."""

import itertools
import json
from pathlib import Path

import pytest
from accounts import cluster_id, differences, moment, seconds
from processes import GalvoServer, Processes, python_named, wait_until
from proxy import Proxy
from stores import empty_store, rows
from studies import Study

TAGS = ["fold=1", "train", "parquet"]
ROUNDS, PAUSES, WORKERS, THREADS = 3, 24, 2, 2

SPANS = """
query ($id: ID!, $after: String, $roots: Boolean!, $tags: [String!]) { cluster(id: $id) {
list: spans(first: 50, after: $after, roots: $roots, tags: $tags) {
  pageInfo { hasNextPage endCursor }
  nodes {
    daskId path tag parent { daskId } children(first: 100) { nodes { daskId } }
    enqueuedAt startedAt stoppedAt done collections clientStartedAt clientStoppedAt
    own: totals(inclusive: false) { ...sums }
    inclusive: totals { ...sums threadSeconds idleSeconds }
  }
} } }
fragment sums on SpanTotals {
  tasks tasksSucceeded tasksErred tasksRetried computeSeconds transferSeconds bytes
}
"""

SPAN_METRICS = """
query ($id: ID!, $after: String) { cluster(id: $id) {
list: spans(first: 10, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes {
    daskId
    own: fineMetrics(inclusive: false, first: 500) { ...cells }
    inclusive: fineMetrics(first: 500) { ...cells idleSeconds }
  }
} } }
fragment cells on FineMetrics {
  units rowCount rows { context function activity unit value spanAttributable }
}
"""

CLUSTER_METRICS = """
query ($id: ID!, $unit: String) { cluster(id: $id) { fineMetrics(unit: $unit, first: 5000) {
  units rowCount total idleSeconds
  rows { context function activity unit value spanAttributable }
} } }
"""

CODE = """
query ($id: ID!) { cluster(id: $id) {
  spans(first: 10, tags: ["calls"]) {
    nodes { code { file line relativeLine snippet { hash text } } }
  }
  computations(first: 100) {
    nodes { spans { tag } code { file line relativeLine snippet { hash text } } }
  }
} }
"""

PROFILE = """
query (
  $id: ID!, $from: DateTime, $to: DateTime, $functions: [String!], $workers: [ID!]
) { cluster(id: $id) {
  profile(from: $from, to: $to, minShare: 0, functions: $functions, workers: $workers) {
    from to windows complete workers samples functions { prefix samples }
    byWorker { worker { id name } samples }
    frames { file function line text } nodes { parent frame self total }
  }
} }
"""

IDLE = ("execute", "N/A", "idle or other spans", "seconds")


class Run:
    """A cluster that has done everything that these tests examine."""

    def __init__(self, processes, kind, store):
        galvo = GalvoServer(processes, store).start()
        self.galvo, self.proxy = galvo, Proxy(galvo.port)
        self.python = {"postgres": "NEWEST", "sqlite": "OLDEST"}[kind]
        profiling = {
            "galvo.profile.transmit": True,
            "galvo.profile.interval": "5s",
            "galvo.profile.by-worker": True,
        }
        coiled = {"coiled.server": galvo.address, "coiled.token": galvo.token}
        self.study = Study(
            processes,
            python_named(self.python),
            galvo,
            server=self.proxy.address,
            workers=WORKERS,
            threads=THREADS,
            **profiling,
            **coiled,
        )
        study = self.study.begin().ready()
        self.calls = study.run("call_often", times=5)
        attempts = str(processes.directory / "attempts")
        # The oldest release has no fine metrics of P2P transfers.
        study.run("nested", attempts=attempts, p2p=self.python == "NEWEST")
        self.shift = study.run("shift", rounds=ROUNDS, threads=WORKERS * THREADS, pauses=PAUSES)
        self.id = cluster_id(galvo, study.scheduler_id)
        number = int(galvo.query(NUMBER, id=self.id)["cluster"]["number"])
        self.coiled_span = study.run("spans_of_coiled", number=number)
        wait_until(lambda: self.profile()["windows"] >= 2, "two windows of the profile", 30)

    def all_spans(self, query=SPANS, **arguments):
        nodes, after = {}, None
        while True:
            page = self.galvo.query(query, id=self.id, after=after, **arguments)["cluster"]["list"]
            nodes.update((node["daskId"], node) for node in page["nodes"])
            after = page["pageInfo"]["endCursor"]
            if not page["pageInfo"]["hasNextPage"]:
                return nodes

    def profile(self, **range_):
        return self.galvo.query(PROFILE, id=self.id, **range_)["cluster"]["profile"] or NO_PROFILE

    def profile_is_over(self):
        """True once two intervals brought no window: idle workers take no samples."""
        reports = [exchange.report for exchange in self.proxy.exchanges if exchange.acknowledged]
        last = max(report["sent_at"] for report in reports if report.get("profiles"))
        return max(report["sent_at"] for report in reports) - last > 10

    def dask(self):
        return self.study.call("dask_spans", tags=TAGS)


NUMBER = "query ($id: ID!) { cluster(id: $id) { number } }"
NO_PROFILE = {"windows": 0}


@pytest.fixture(scope="module", params=["postgres", "sqlite"], ids=["newest", "oldest"])
def run(request, tmp_path_factory):
    processes = Processes(tmp_path_factory.mktemp("spans"))
    try:
        with empty_store(request.param) as store:
            run = Run(processes, request.param, store)
            yield run
            run.proxy.close()
            processes.kill_all()
    finally:
        processes.kill_all()


def agree(run, galvo_values, dask_values):
    """Asserts that Galvo agrees with Dask, once the last heartbeats and reports have arrived."""
    found = expected = None

    def look():
        nonlocal found, expected
        found, expected = galvo_values(), dask_values(run.dask())
        return found == expected

    try:
        wait_until(look, "Galvo has the same data as Dask")
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *differences(found, expected)])) from None
    return expected


def exact(value):
    """A number measured once, though perhaps summed in another order."""
    return value if isinstance(value, int) else pytest.approx(value, rel=1e-9, abs=1e-12)


def sums(totals):
    return {name: totals[name] for name in ("tasks", "bytes", "computeSeconds", "transferSeconds")}


def dask_sums(totals):
    return {
        "tasks": totals["tasks"],
        "bytes": totals["bytes"],
        # Groups store whole microseconds, and the server sums these.
        "computeSeconds": pytest.approx(totals["durations"].get("compute", 0), abs=1e-5),
        "transferSeconds": pytest.approx(totals["durations"].get("transfer", 0), abs=1e-5),
    }


def test_spans(run):
    def galvo_values():
        return {
            id_: {
                "path": span["path"],
                "tag": span["tag"],
                "parent": span["parent"] and span["parent"]["daskId"],
                "children": [child["daskId"] for child in span["children"]["nodes"]],
                "enqueued": seconds(span["enqueuedAt"]),
                "start": seconds(span["startedAt"]),
                "stop": seconds(span["stoppedAt"]),
                "done": span["done"],
                "collections": span["collections"],
                "own": sums(span["own"]),
                "inclusive": sums(span["inclusive"]),
                "thread_seconds": span["inclusive"]["threadSeconds"],
            }
            for id_, span in run.all_spans(roots=False).items()
        }

    def dask_values(report):
        return {
            id_: {
                "path": span["path"],
                "tag": span["path"][-1],
                "parent": span["parent"],
                "children": span["children"],
                "enqueued": moment(span["enqueued"]),
                "start": moment(span["start"] or None),
                "stop": moment(span["stop"]),
                "done": True,
                "collections": span["collections"],
                "own": dask_sums(span["own"]),
                "inclusive": dask_sums(span["inclusive"]),
                "thread_seconds": pytest.approx(span["thread_seconds"], rel=0.01, abs=0.01),
            }
            for id_, span in report["spans"].items()
        }

    agree(run, galvo_values, dask_values)
    spans = run.all_spans(roots=False)
    assert sorted(tuple(s["path"]) for s in spans.values() if s["path"] != ["default"]) == sorted(
        [
            *[("calls",), ("pipeline",), ("pipeline", "train"), ("fold=1",), ("fold=1", "train")],
            *[("pipeline", "train", f"fold={fold}") for fold in range(3)],
            *[("pipeline", "store"), ("pipeline", "store", "parquet")],
            *[("risky",), ("risky", "parquet"), ("shift",), ("told",)],
            *[("shuffle",)] * (run.python == "NEWEST"),
        ]
    )
    by_path = {tuple(span["path"]): span for span in spans.values()}
    assert by_path["risky", "parquet"]["own"] | {"computeSeconds": 0, "bytes": 0} == {
        "tasks": 2, "tasksSucceeded": 1, "tasksErred": 1, "tasksRetried": 2,
        "computeSeconds": 0, "transferSeconds": 0, "bytes": 0,
    }  # fmt: skip
    assert bool(by_path["pipeline",]["collections"]) == (run.python == "NEWEST")
    assert by_path["pipeline", "store"]["own"]["tasks"] == 0
    assert by_path["pipeline", "store"]["inclusive"]["tasks"] > 0


def test_spans_found_by_tags(run):
    report = run.dask()
    for tag in TAGS:
        found = set(run.all_spans(roots=False, tags=[tag]))
        assert found == set(report["with_tag"][tag])
    assert len(report["with_tag"]["fold=1"]) == 3  # at the first and the third level, and below
    assert set(run.all_spans(roots=True)) == set(report["roots"])
    assert set(run.all_spans(roots=True, tags=TAGS)) == set(report["outermost"])
    assert run.all_spans(roots=False, tags=["fold"]) == {}


def cells(metrics):
    if metrics is None:
        return {}
    assert metrics["rowCount"] == len(metrics["rows"])
    names = ("context", "function", "activity", "unit")
    found = {tuple(row[name] for name in names): row["value"] for row in metrics["rows"]}
    assert len(found) == len(metrics["rows"])
    assert metrics["units"] == sorted({unit for *_, unit in found})
    return found


def dask_cells(metrics):
    expected = {}
    for (context, *function, activity, unit), value in metrics:
        if (context, *function, activity, unit) != IDLE:
            expected[context, " ".join(function) or None, activity, unit] = exact(value)
    return expected


def dask_idle(metrics):
    idle = next(value for key, value in metrics if tuple(key) == IDLE)
    return pytest.approx(idle, rel=0.01, abs=0.02)


def test_fine_metrics_of_spans(run):
    def galvo_values():
        return {
            id_: {
                "own": cells(span["own"]),
                "inclusive": cells(span["inclusive"]),
                "idle": span["inclusive"] and span["inclusive"]["idleSeconds"],
            }
            for id_, span in run.all_spans(SPAN_METRICS).items()
        }

    def dask_values(report):
        return {
            id_: {
                "own": dask_cells(span["own"]["metrics"]),
                "inclusive": dask_cells(span["inclusive"]["metrics"]),
                "idle": dask_idle(span["inclusive"]["metrics"]),
            }
            for id_, span in report["spans"].items()
        }

    expected = agree(run, galvo_values, dask_values)
    contexts = {cell[0] for span in expected.values() for cell in span["own"]}
    assert contexts == ({"execute", "p2p"} if run.python == "NEWEST" else {"execute"})
    for span in run.all_spans(SPAN_METRICS).values():
        assert all(row["spanAttributable"] for row in span["inclusive"]["rows"])


def test_fine_metrics_of_the_cluster(run):
    def galvo_values():
        found = run.galvo.query(CLUSTER_METRICS, id=run.id)["cluster"]["fineMetrics"]
        return {"cells": cells(found), "idle": found["idleSeconds"]}

    def dask_values(report):
        return {"cells": dask_cells(report["metrics"]), "idle": dask_idle(report["merged"])}

    expected = agree(run, galvo_values, dask_values)["cells"]
    rest = {"gather-dep", "get-data", "memory-monitor"}
    assert {"gather-dep", "get-data"} <= {cell[0] for cell in expected}
    found = run.galvo.query(CLUSTER_METRICS, id=run.id)["cluster"]["fineMetrics"]
    for row in found["rows"]:
        assert row["spanAttributable"] == (row["context"] not in rest), row
    for unit in found["units"]:
        some = run.galvo.query(CLUSTER_METRICS, id=run.id, unit=unit)["cluster"]["fineMetrics"]
        assert some["rows"] == [row for row in found["rows"] if row["unit"] == unit]
        assert some["total"] == pytest.approx(sum(row["value"] for row in some["rows"]))


def test_threads_of_a_span_are_busy_or_idle(run):
    (span,) = run.all_spans(roots=False, tags=["shift"]).values()
    (metrics,) = (
        node for id_, node in run.all_spans(SPAN_METRICS).items() if id_ == span["daskId"]
    )
    busy = sum(
        row["value"]
        for row in metrics["inclusive"]["rows"]
        if row["context"] == "execute" and row["unit"] == "seconds"
    )
    idle = metrics["inclusive"]["idleSeconds"]
    threads = WORKERS * THREADS
    assert busy + idle == pytest.approx(run.shift["wall"] * threads, rel=0.05)
    assert busy == pytest.approx(ROUNDS * PAUSES * 0.1 * threads, rel=0.1)
    assert idle >= (ROUNDS - 1) * 0.5 * threads
    assert span["inclusive"]["idleSeconds"] == pytest.approx(idle)


def test_code(run):
    def complete():
        code = run.galvo.query(CODE, id=run.id)["cluster"]
        return code if code["spans"]["nodes"] else None

    found = wait_until(complete, "the span with code is there")
    (span,) = found["spans"]["nodes"]
    (computation,) = {
        json.dumps(node["code"])
        for node in found["computations"]["nodes"]
        if [span["tag"] for span in node["spans"]] == ["calls"]
    }
    assert json.loads(computation) == span["code"]
    (stack,) = span["code"]  # of all calls
    outer, inner = stack
    assert inner["snippet"]["text"] == run.calls["source"]
    assert inner["file"] == run.calls["file"]
    line = inner["snippet"]["text"].splitlines()[inner["relativeLine"]]
    assert line.strip() == run.calls["calling"]
    assert Path(inner["file"]).read_text().splitlines()[inner["line"] - 1] == line
    assert outer["file"].endswith("study_client.py")
    lines = outer["snippet"]["text"].splitlines()
    assert "getattr(module, workload)(self.client" in lines[outer["relativeLine"]]

    # Each text was sent once, and is stored once.
    sent = [
        item["hash"] for exchange in run.proxy.exchanges for item in exchange.report.get("code", ())
    ]
    assert len(sent) == len(set(sent)) > 1
    assert inner["snippet"]["hash"] in sent
    hashes = rows(run.galvo, "SELECT hash FROM code_snippets")
    assert len(hashes) == len(set(hashes)) == len({*sent, *hashes_of_client_code(run)})


def hashes_of_client_code(run):
    return {frame["snippet"]["hash"] for frame in coiled_span(run)["clientCode"]}


def coiled_span(run):
    query = """query ($id: ID!) { cluster(id: $id) { spans(tags: ["told"]) { nodes {
        clientStartedAt clientStoppedAt startedAt stoppedAt
        clientCode { file line relativeLine snippet { hash text } } } } } }"""
    (span,) = run.galvo.query(query, id=run.id)["cluster"]["spans"]["nodes"]
    return span


def test_what_the_coiled_client_reports_of_a_span(run):
    wait_until(lambda: run.all_spans(roots=False, tags=["told"]), "the span is reported")
    span = coiled_span(run)
    begun, ended = seconds(span["clientStartedAt"]), seconds(span["clientStoppedAt"])
    assert run.coiled_span["begun"] - 0.001 <= begun < ended <= run.coiled_span["ended"]
    # Workers estimate the scheduler's clock, which is off by some 0.1 s on a busy machine.
    assert begun - 0.5 <= seconds(span["startedAt"]) < seconds(span["stoppedAt"]) <= ended + 0.5
    (frame,) = span["clientCode"]
    assert frame["snippet"]["text"] == run.coiled_span["code"]
    assert (frame["file"], frame["line"], frame["relativeLine"]) == ("etl.py", None, 1)


def test_profile(run):
    wait_until(run.profile_is_over, "the profile has no more windows")
    profile = run.profile()
    frames, nodes = profile["frames"], profile["nodes"]
    assert profile["complete"] and profile["workers"] == WORKERS
    by_line = {}
    for node in nodes:
        frame = frames[node["frame"]]
        line = frame["file"].rpartition("/")[2], frame["function"], frame["line"], frame["text"]
        by_line[line] = by_line.get(line, 0) + node["self"]
    (file, function, number, text), most = max(by_line.items(), key=lambda item: item[1])
    source = (Path(__file__).parent / "workloads/spanned.py").read_text().splitlines()
    assert (file, function, text) == ("spanned.py", "pause", source[number - 1].strip())
    assert text == "time.sleep(PAUSE)  # all the time is spent here"
    assert most > 0.8 * profile["samples"]

    assert profile["samples"] == sum(node["self"] for node in nodes)
    assert profile["samples"] == sum(node["total"] for node in nodes if node["parent"] is None)
    below = [0] * len(nodes)
    for node in nodes:
        if node["parent"] is not None:
            below[node["parent"]] += node["total"]
    assert [node["total"] for node in nodes] == [
        node["self"] + sum_ for node, sum_ in zip(nodes, below, strict=True)
    ]

    # Merging adds windows up, and adjacent ranges share none.
    sent = [
        window
        for exchange in run.proxy.exchanges
        for window in exchange.report.get("profiles", ())
        if exchange.acknowledged
    ]
    assert profile["windows"] == len({window["id"] for window in sent}) >= 2
    assert profile["samples"] == sum(window["samples"] for window in sent)
    starts = sorted(window["started_at"] for window in sent)
    parts = [
        run.profile(**{"from": time_of(since), "to": until and time_of(until)})
        for since, until in itertools.pairwise([*starts, None])
    ]
    assert [part["windows"] for part in parts] == [1] * len(parts)
    assert sum(part["samples"] for part in parts) == profile["samples"]

    # The functions of a window have all of its samples.
    for part, since, until in zip(parts, starts, [*starts[1:], None], strict=True):
        functions = {function["prefix"]: function["samples"] for function in part["functions"]}
        if functions:
            assert sum(functions.values()) == part["samples"]
        period = {"from": time_of(since), "to": until and time_of(until)}
        for prefix, samples in functions.items():
            own = run.profile(functions=[prefix], **period)
            assert (own["samples"], own["complete"]) == (samples, True)
    spending = run.profile(functions=["spend"])
    functions = {function["prefix"]: function["samples"] for function in spending["functions"]}
    assert spending["samples"] == functions["spend"] > 0.8 * profile["samples"]
    lines = {spending["frames"][node["frame"]]["function"] for node in spending["nodes"]}
    assert {"spend", "pause"} <= lines and "square" not in lines

    # Each sample belongs to a worker.
    by_worker = {row["worker"]["id"]: row["samples"] for row in profile["byWorker"]}
    assert len(by_worker) == WORKERS and sum(by_worker.values()) == profile["samples"]
    for worker, samples in by_worker.items():
        own = run.profile(workers=[worker])
        assert (own["samples"], own["complete"]) == (samples, True)
        assert own["samples"] == sum(node["self"] for node in own["nodes"])


def time_of(moment):
    from datetime import datetime, timezone

    # A millisecond earlier: the server stores no fractions of them.
    return datetime.fromtimestamp(moment - 0.001, timezone.utc).isoformat()
