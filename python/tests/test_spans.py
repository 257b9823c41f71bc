import math
from time import time
from types import SimpleNamespace

import pytest
from conftest import on_loop, wait_until
from dask import delayed
from distributed import get_worker
from stand_ins import Group

from galvo.plugin import spans
from galvo.plugin.collector import Context
from galvo.plugin.ledger import Ledger
from galvo.plugin.spans import SETTLED_SECONDS, SWEPT_SPANS, Spans

spans_of_dask = pytest.importorskip("distributed.spans")
span = spans_of_dask.span


class Reader:
    """A collector on a scheduler, and the newest values that it has put into outboxes."""

    def __init__(self, scheduler, loop):
        self.scheduler, self.loop = scheduler, loop
        self.ledger = Ledger(1)
        self.context = Context(scheduler, {}, self.ledger)
        self.spans = Spans(self.context)
        self.items, self.metrics = {}, {}

    def read(self, later=0.0, closed_at=None, also=lambda: None):
        """Reads, and returns the result of ``also`` at the same moment."""

        def read():
            self.spans.read(time() + later, closed_at)
            return also()

        result = self.loop(read)
        return self.drain(), result

    def drain(self):
        """Takes the unsent data; returns its spans in their order."""
        spans = self.ledger.outboxes["spans"].take(10_000)
        self.items.update((record.id, body) for record, body in spans)
        for _, body in self.ledger.outboxes["fine_metrics"].take(10_000):
            self.metrics[body.get("span_id")] = body["cells"]
        return [body for _, body in spans]

    def cells(self, span_id=None):
        cells = self.metrics.get(span_id, [])
        return {tuple(texts): value for *texts, value in cells}


@pytest.fixture
def reader(cluster):
    return Reader(cluster.scheduler, lambda function: on_loop(cluster, function))


def extension(cluster):
    return cluster.scheduler.extensions["spans"]


def inc(x):
    return x + 1


def run(client, name, n=3):
    """Computes tasks in a group of this name; those of one name may end up in one span."""
    keys = [f"{name}-{i}" for i in range(n)]
    return client.gather(client.map(inc, range(n), key=keys))


def heartbeats(cluster):
    """Waits until workers have reported all of their work."""
    seen = {}

    def quiet():
        now = dict(cluster.scheduler.cumulative_worker_metrics)
        now = {key: value for key, value in now.items() if isinstance(key, tuple)}
        first = seen.setdefault("at", time())
        if not now or now != seen.get("now"):
            seen.update(now=now, at=time())
        return now and time() - first > 1.5

    wait_until(quiet)


def test_nested_spans_are_reported_as_dask_has_them(cluster, client, reader):
    with span("outer") as outer:
        with span("first") as first:
            run(client, "load")
        with span("a", "b") as b:
            run(client, "clean")
            run(client, "sum", n=2)
    run(client, "other")
    wait_until(lambda: not cluster.scheduler.tasks)
    bodies, known = reader.read(also=lambda: dict(extension(cluster).spans))
    by_path = {tuple(body["path"]): body for body in bodies}
    assert [tuple(body["path"]) for body in bodies] == [
        ("outer",),
        ("outer", "first"),
        ("outer", "a"),
        ("outer", "a", "b"),
        ("default",),
    ]
    assert [body["id"] for body in bodies] == list(known)
    assert by_path["outer",]["id"] == outer and by_path["outer", "a", "b"]["id"] == b
    a = by_path["outer", "a"]["id"]
    parents = {body["id"]: body["parent_id"] for body in bodies}
    default = by_path["default",]["id"]
    assert parents == {outer: None, first: outer, a: outer, b: a, default: None}
    for id_, theirs in known.items():
        mine = reader.items[id_]
        assert mine["path"] == list(theirs.name)
        assert (mine["enqueued_at"], mine["done"]) == (theirs.enqueued, True)
        if theirs.groups:
            assert (mine["started_at"], mine["stopped_at"]) == (theirs.start, theirs.stop)
        else:
            assert mine["id"] in (outer, a)
            assert mine["started_at"] is mine["stopped_at"] is None
        types = [c["type"] for c in (getattr(theirs, "metadata", None) or {"collections": []})[
            "collections"
        ]]  # fmt: skip
        assert mine["collections"] == list(dict.fromkeys(types))
        assert mine["code"] == []
    assert reader.read()[0] == []


def test_a_span_is_not_done_while_it_has_something_to_compute(cluster, client, reader):
    def wait():
        worker = get_worker()
        worker.entered = True
        while not hasattr(worker, "go_on"):
            math.sqrt(2)

    worker = next(iter(cluster.workers.values()))
    with span("slow") as slow:
        future = client.submit(wait)
    try:
        wait_until(lambda: hasattr(worker, "entered"))
        reader.read()
        assert (reader.items[slow]["done"], reader.items[slow]["stopped_at"]) == (False, None)
        # However long that takes, nothing more is reported, and the span is not forgotten.
        described = reader.spans.described
        reader.read(later=10 * SETTLED_SECONDS)
        assert reader.spans.described <= described + 2  # metrics of the workers
    finally:
        worker.go_on = True
    future.result()
    reader.read(later=10 * SETTLED_SECONDS)
    body, theirs = reader.items[slow], extension(cluster).spans[slow]
    assert (body["done"], body["stopped_at"]) == (True, theirs.stop)


def test_a_span_without_a_result_ends_where_dask_ends_it(cluster, client, reader):
    def fail():
        raise ValueError

    with span("failing") as failing:
        future = client.submit(fail)
        assert future.exception() is not None
    reader.read()
    body, theirs = reader.items[failing], extension(cluster).spans[failing]
    assert body["started_at"] is None and body["done"] is True
    assert body["stopped_at"] == theirs.stop == theirs.enqueued


def test_many_spans_cost_nothing_once_they_are_settled(cluster, client, reader):
    for i in range(300):
        client.submit(inc, i, pure=False).result()
        if i % 30 == 0:
            reader.read()
    wait_until(lambda: not cluster.scheduler.tasks)
    heartbeats(cluster)
    reader.read()
    assert len(reader.items) == len(extension(cluster).spans) > 10
    # Once for its description, and once for each later change of its metrics or its end.
    assert reader.spans.described < 5 * len(reader.items) + 20
    described = reader.spans.described
    for _ in range(5):
        assert reader.read()[0] == []
    assert reader.spans.described <= described + 5  # metrics that belong to no span
    reader.read(later=SETTLED_SECONDS + 1)
    assert not reader.spans._live
    # Only the new span is described.
    described = reader.spans.described
    client.submit(inc, 1).result()
    new, _ = reader.read(later=SETTLED_SECONDS + 2)
    assert len(new) == 1 and len(reader.spans._live) == 1
    assert reader.spans.described <= described + 3


def test_fine_metrics_are_those_of_dask(cluster, client, reader):
    with span("outer"):
        run(client, "load")
        with span("inner"):
            total = delayed(sum)([delayed(inc)(i) for i in range(20)])
            assert total.compute() == 210
    run(client, "other")
    heartbeats(cluster)

    def expected():
        spans = extension(cluster).spans
        return (
            {id_: dict(s._cumulative_worker_metrics) for id_, s in spans.items()},
            dict(cluster.scheduler.cumulative_worker_metrics),
        )

    _, (by_span, total) = reader.read(also=expected)
    of_dask = {k: v for k, v in total.items() if isinstance(k, tuple)}
    for id_, metrics in by_span.items():
        assert reader.cells(id_) == {k: v for k, v in metrics.items()}
    assert sum(map(bool, by_span.values())) == 3
    seconds = sum(
        value
        for id_ in by_span
        for (context, _, _, unit), value in reader.cells(id_).items()
        if (context, unit) == ("execute", "seconds")
    )
    of_dask_seconds = sum(v for k, v in of_dask.items() if k[0] == "execute" and k[-1] == "seconds")
    assert seconds == pytest.approx(of_dask_seconds, rel=1e-9) and seconds > 0
    rest = {(k[0], None, *k[1:]): v for k, v in of_dask.items() if k[0] not in ("execute", "p2p")}
    assert reader.cells() == rest


def test_metrics_of_users_may_be_anything(cluster, client, reader):
    def work():
        from distributed.metrics import context_meter

        context_meter.digest_metric(("tuple", 1), 2.5, "furlongs")
        context_meter.digest_metric("('tuple', 1)", 1.0, "furlongs")
        context_meter.digest_metric("no number", math.nan, "seconds")
        context_meter.digest_metric("endless", math.inf, "seconds")
        context_meter.digest_metric("x" * 5000, 3, "count")

    with span("custom") as custom:
        client.submit(work, key="work").result()
    heartbeats(cluster)
    reader.read()
    cells = reader.cells(custom)
    assert cells["execute", "work", "('tuple', 1)", "furlongs"] == 3.5
    assert not {"no number", "endless"} & {activity for _, _, activity, _ in cells}
    (long,) = [cell for cell in cells if cell[2].startswith("xxx")]
    assert len(long[2]) == 1024 and cells[long] == 3
    # Although NaN differs from itself, the span is not described repeatedly.
    described = reader.spans.described
    reader.read()
    reader.read()
    assert reader.spans.described <= described + 2


def stand_in(n=1, metrics=None):
    """Returns a scheduler with spans that the test controls."""
    spans = {}
    for _ in range(n):
        add_span(spans)
    return SimpleNamespace(
        extensions={"spans": SimpleNamespace(spans=spans)},
        cumulative_worker_metrics=metrics or {},
        task_groups={},
        tasks={},
    )


def add_span(spans, parent=None, id_=None):
    id_ = id_ or f"00000000-0000-4000-8000-{len(spans):012}"
    group = Group(f"sum-{len(spans)}")
    group.span_id, group.states, group.start, group.stop = id_, {"memory": 1}, 101.0, 102.0
    spans[id_] = SimpleNamespace(
        id=id_,
        name=("default",) if parent is None else (*parent.name, "child"),
        parent=parent,
        groups={group},
        enqueued=100.0,
        _code={},
        _cumulative_worker_metrics={("execute", "sum", "executor", "seconds"): 1.0},
    )
    return spans[id_]


@pytest.fixture
def by_hand():
    return Reader(stand_in(), lambda function: function())


def settle(reader):
    reader.read()
    reader.read(later=SETTLED_SECONDS + 1)
    assert not reader.spans._live


def test_metrics_that_come_late_are_found(by_hand):
    settle(by_hand)
    (theirs,) = by_hand.scheduler.extensions["spans"].spans.values()
    theirs._cumulative_worker_metrics["execute", "sum", "executor", "seconds"] += 1.0
    by_hand.read()
    assert by_hand.cells(theirs.id) == {("execute", "sum", "executor", "seconds"): 2.0}
    assert list(by_hand.spans._live) == [theirs.id]


def test_metrics_of_shuffles_name_the_place_where_others_name_the_function(by_hand):
    (theirs,) = by_hand.scheduler.extensions["spans"].spans.values()
    theirs._cumulative_worker_metrics = {
        ("p2p", "background-disk", "disk-write", "bytes"): 10,
        ("new", "with", "more", "parts", "seconds"): 1.5,
        ("execute", "N/A", "idle or other spans", "seconds"): 4.0,
    }
    by_hand.scheduler.cumulative_worker_metrics["p2p", "background-disk", "x", "bytes"] = 1
    by_hand.read()
    assert by_hand.metrics == {
        theirs.id: [
            ["p2p", "background-disk", "disk-write", "bytes", 10],
            ["new", "with more", "parts", "seconds", 1.5],
        ]
    }


def test_settled_spans_are_looked_at_in_turn():
    reader = Reader(stand_in(3 * SWEPT_SPANS), lambda function: function())
    settle(reader)
    spans = list(reader.scheduler.extensions["spans"].spans.values())
    for theirs in spans:
        theirs._cumulative_worker_metrics["execute", "sum", "executor", "seconds"] += 1.0
    found = []
    for _ in range(4):
        described = reader.spans.described
        reader.read()
        found.append(reader.spans.described - described)
    assert max(found) == SWEPT_SPANS and sum(found) == len(spans)
    # The last report contains all that is left.
    settle(reader)
    for theirs in spans:
        theirs._cumulative_worker_metrics["execute", "sum", "executor", "seconds"] += 1.0
    reader.read(closed_at=1.0)
    assert {cells[0][-1] for cells in reader.metrics.values()} == {3.0}


def test_a_settled_span_is_revived_by_a_task_to_compute_again(by_hand):
    settle(by_hand)
    (theirs,) = by_hand.scheduler.extensions["spans"].spans.values()
    (group,) = theirs.groups
    assert by_hand.items[theirs.id]["stopped_at"] == 102.0
    by_hand.scheduler.task_groups[group.name] = group
    group.states = {"processing": 1}
    (body,), _ = by_hand.read()
    assert (body["done"], body["stopped_at"], body["started_at"]) == (False, None, 101.0)
    group.states, group.start, group.stop = {"memory": 1}, 50.0, 103.0
    (body,), _ = by_hand.read()
    # Clocks of workers may be wrong: nothing begins before the span itself.
    assert (body["done"], body["stopped_at"], body["started_at"]) == (True, 103.0, 100.0)


def test_a_settled_span_is_looked_at_when_a_graph_adds_to_it():
    reader = Reader(stand_in(3 * SWEPT_SPANS), lambda function: function())
    settle(reader)
    last = list(reader.scheduler.extensions["spans"].spans.values())[-1]
    (group,) = last.groups
    reader.scheduler.tasks["key"] = SimpleNamespace(group=group)
    reader.spans.graph({"unknown", "key"})
    group.stop = 200.0
    (body,), _ = reader.read()
    assert (body["id"], body["stopped_at"]) == (last.id, 200.0)


def test_everything_is_sent_again_with_parents_first(by_hand):
    spans = by_hand.scheduler.extensions["spans"].spans
    (parent,) = spans.values()
    by_hand.read()
    child = add_span(spans, parent)
    by_hand.spans.read(time())  # the child is unsent when the server loses its store
    by_hand.metrics.clear()
    by_hand.spans.resend()
    bodies = by_hand.drain()
    assert [body["id"] for body in bodies] == [parent.id, child.id]
    assert bodies[1]["parent_id"] == parent.id and bodies[1]["path"] == ["default", "child"]
    assert set(by_hand.metrics) == {parent.id, child.id}


def test_an_id_that_the_server_would_refuse_is_left_out(by_hand):
    spans = by_hand.scheduler.extensions["spans"].spans
    add_span(spans, id_="mine")
    settle(by_hand)
    assert list(by_hand.items) == list(by_hand.metrics) == [next(iter(spans))]


def test_without_spans_the_metrics_of_tasks_belong_to_none():
    metrics = {
        "latency": 1.0,
        ("execute", "sum", "executor", "seconds"): 2.0,
        ("gather-dep", "network", "seconds"): 3,
        ("execute", "N/A", "idle or other spans", "seconds"): 4.0,
        ("two", "parts"): 5.0,
    }
    scheduler = SimpleNamespace(extensions={}, cumulative_worker_metrics=metrics, task_groups={})
    reader = Reader(scheduler, lambda function: function())
    assert reader.read()[0] == []
    assert reader.metrics == {
        None: [
            ["execute", "sum", "executor", "seconds", 2.0],
            ["gather-dep", None, "network", "seconds", 3],
        ]
    }
    metrics["get-data", "network", "seconds"] = 1.0
    reader.read()
    assert len(reader.metrics[None]) == 3


def test_a_scheduler_of_the_oldest_releases_has_neither():
    scheduler = SimpleNamespace(extensions={}, task_groups={})
    reader = Reader(scheduler, lambda function: function())
    assert reader.read()[0] == [] and reader.metrics == {}


def test_cells_beyond_the_bound_are_counted_once(monkeypatch):
    monkeypatch.setattr(spans, "CELLS", 3)
    scheduler = SimpleNamespace(task_groups={}, extensions={}, cumulative_worker_metrics={})
    context = Context(scheduler, {}, Ledger(1))
    collector, outbox = Spans(context), context.outboxes["fine_metrics"]
    for number, dropped in ((3, 0), (5, 2), (5, 2), (6, 3)):
        for i in range(number):
            scheduler.cumulative_worker_metrics["get-data", f"a{i}", "seconds"] = number
        collector.read(1.0)
        assert outbox.dropped == dropped
        assert [len(body["cells"]) for _, body in outbox.take(10)] in ([3], [])
