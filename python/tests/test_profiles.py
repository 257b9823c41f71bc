import asyncio
import json
import math
import time
from types import SimpleNamespace

import pytest
from conftest import local_cluster, wait_until
from distributed import Client
from distributed import profile as dask_profile

from galvo.plugin import profiles
from galvo.plugin.collector import Context
from galvo.plugin.ledger import Ledger
from galvo.plugin.profiles import Profile, Profiles, totals_of_children

SETTINGS = {"send_profiles": True, "profile_interval_seconds": 1.0}


def tree(count, name="root", children=(), line="go()\n"):
    """Returns a profile node as in Dask."""
    return {
        "count": count,
        "identifier": f"{name};work.py;1",
        "description": {"filename": "work.py", "name": name, "line_number": 3, "line": line},
        "children": {child["identifier"]: child for child in children},
    }


def describe(trees, with_text=True):
    profile = Profile()
    for tree in trees:
        profile.add(tree)
    return profile.describe(with_text)


def shape(profile):
    """Returns the nodes of a profile by the names of their frames, with self and total."""
    names = [frame["function"] for frame in profile["frames"]]
    paths, found = [], {}
    for parent, frame, self, total in profile["nodes"]:
        above = paths[parent] if parent >= 0 else ()
        paths.append((*above, names[frame]))
        known = found.get("/".join(paths[-1]), (0, 0))
        found["/".join(paths[-1])] = (known[0] + self, known[1] + total)
    return found


def check_sums(profile):
    nodes = profile["nodes"]
    assert sum(node[2] for node in nodes) == profile["samples"]
    assert sum(total for parent, _, _, total in nodes if parent == -1) == profile["samples"]
    below = [0] * len(nodes)
    for i, (parent, frame, self, total) in enumerate(nodes):
        assert parent < i and 0 <= frame < len(profile["frames"])
        assert 0 <= self <= total > 0
        if parent >= 0:
            below[parent] += total
    for (_, _, self, total), children in zip(nodes, below):
        assert total >= children and self == total - children


def test_innermost_frames_get_the_samples_that_dask_does_not_count_for_them():
    # "work" was innermost 70 times, and called "helper" in 30 of 100 samples.
    work = tree(30, "work", [tree(0, "helper")])
    profile = describe([tree(100, children=[work])])
    assert shape(profile) == {"work": (70, 100), "work/helper": (30, 30)}
    assert profile["samples"] == 100
    check_sums(profile)


def test_samples_are_shared_by_those_that_may_have_them():
    leaves = [tree(0, "a"), tree(0, "b"), tree(5, "c", [tree(0, "d")])]
    assert totals_of_children(tree(12, children=leaves)) == [4, 3, 5]
    inner = [tree(30, "a", [tree(0, "x")]), tree(10, "b", [tree(0, "y")])]
    assert totals_of_children(tree(60, children=inner)) == [45, 15]
    assert totals_of_children(tree(40, children=inner)) == [30, 10]
    assert totals_of_children(tree(3)) == []
    # Impossible counts are used as they are, but still add up.
    profile = describe([tree(1, children=inner)])
    assert shape(profile) == {"a": (0, 30), "b": (0, 10), "a/x": (30, 30), "b/y": (10, 10)}
    check_sums(profile)


def test_counts_that_lack_nothing_stay_as_they_are():
    low_level = tree(60, "sin", line="")
    profile = describe([tree(100, children=[tree(100, "work", [low_level])])])
    assert shape(profile) == {"work": (40, 100), "work/sin": (60, 60)}


def test_trees_are_added_up_frame_by_frame():
    first = tree(10, children=[tree(4, "work", [tree(0, "a")])])
    second = tree(5, children=[tree(2, "work", [tree(0, "b")]), tree(0, "rest")])
    profile = describe([first, second, tree(0)])
    assert shape(profile) == {
        "work": (6, 12), "rest": (3, 3), "work/a": (4, 4), "work/b": (2, 2),
    }  # fmt: skip
    check_sums(profile)
    assert describe([tree(0)]) == {
        "samples": 0, "frames": [], "nodes": [], "functions": [], "by_worker": [],
    }  # fmt: skip


def by_part(profile, parts="functions", name="prefix"):
    """Returns the nodes of each function or worker, as ``shape`` does."""
    nodes, found = profile["nodes"], {}
    for part in profile[parts]:
        own = set()
        for i, (parent, *_) in enumerate(nodes):
            if i in part["roots"] or parent in own:
                own.add(i)
        rows = [
            [sorted(own).index(parent) if parent >= 0 else -1, *rest]
            for i, (parent, *rest) in enumerate(nodes)
            if i in own
        ]
        found[part[name]] = shape({**profile, "nodes": rows})
    return found


def test_functions_have_nodes_of_their_own():
    load = tree(10, children=[tree(4, "work", [tree(0, "a")])])
    fit = tree(5, children=[tree(2, "work", [tree(0, "b")]), tree(0, "rest")])
    profile = Profile()
    for prefix, part in [("load", load), ("fit", fit), ("load", load)]:
        profile.add(part, prefix)
    described = profile.describe()
    check_sums(described)
    assert by_part(described) == {
        "load": {"work": (12, 20), "work/a": (8, 8)},
        "fit": {"work": (0, 2), "work/b": (2, 2), "rest": (3, 3)},
    }
    # Without them, they are added up, frame by frame.
    merged = {"work": (12, 22), "rest": (3, 3), "work/a": (8, 8), "work/b": (2, 2)}
    kept_back = profile.describe(with_functions=False)
    assert (shape(kept_back), kept_back["functions"]) == (merged, [])
    profile.add(tree(0))
    unknown = profile.describe()
    assert (shape(unknown), unknown["functions"]) == (merged, [])


def test_workers_have_nodes_of_their_own():
    load = tree(10, children=[tree(4, "work", [tree(0, "a")])])
    fit = tree(5, children=[tree(2, "work", [tree(0, "b")]), tree(0, "rest")])
    profile = Profile()
    for part in [(load, "load", "1"), (fit, "fit", "1"), (load, "load", "2"), (load, "load", None)]:
        profile.add(*part)
    described = profile.describe()
    check_sums(described)
    first = {"work": (6, 12), "rest": (3, 3), "work/a": (4, 4), "work/b": (2, 2)}
    assert by_part(described)["load"] == {"work": (18, 30), "work/a": (12, 12)}
    # One worker left before it was known.
    second = {"work": (6, 10), "work/a": (4, 4)}
    workers = by_part(described, "by_worker", "worker")
    assert workers == {"1": first, "2": second}
    roots = [part["roots"] for part in described["by_worker"] if part["worker"] == "1"]
    totals = sorted(described["nodes"][root][3] for root in roots[0])
    assert totals == [2, 3, 10]  # the functions of a worker have a node each
    kept_back = profile.describe(with_functions=False)
    check_sums(kept_back)
    assert by_part(kept_back, "by_worker", "worker") == {"1": first, "2": second}
    assert kept_back["functions"] == []


def test_frames_are_described_once_and_without_secrets():
    line = "    connect(password='hunter2hunter2')\n"
    trees = [tree(9, children=[tree(6, "a", [tree(3, "b", [tree(0, "b")], line)], "\n")])]
    profile = describe(trees)
    assert profile["frames"][0] == {"file": "work.py", "function": "a", "line": 3, "text": None}
    assert profile["frames"][1]["text"].startswith("connect(password=")
    assert "hunter2" not in json.dumps(profile)
    assert len(profile["frames"]) == 3  # one function, at two lines
    assert {frame["text"] for frame in describe(trees, with_text=False)["frames"]} == {None}


def test_large_profiles_are_pruned(monkeypatch):
    monkeypatch.setattr(profiles, "MOST_NODES", 50)
    leaves = [tree(0, f"leaf{i}") for i in range(200)]
    heavy = tree(1000, "heavy", [tree(0, "inside")])
    profile = describe([tree(2200, "root", [tree(1200, "many", leaves), heavy])])
    check_sums(profile)
    assert profile["samples"] == 2200 and len(profile["nodes"]) <= 50
    found = shape(profile)
    assert found["heavy/inside"] == (1000, 1000)
    assert found["many"] == (1200, 1200)  # including the leaves


# With real workers.


def busy(seconds):
    deadline = time.time() + seconds
    x = 0
    while time.time() < deadline:
        x = sum(i * i for i in range(20_000))  # the busy line
    return x


def idle_briefly(seconds):
    time.sleep(seconds)


class Driver:
    """Reads a collector on the scheduler's event loop."""

    def __init__(self, cluster, **settings):
        self.cluster = cluster
        self.ledger = Ledger(1)
        self.context = Context(cluster.scheduler, {**SETTINGS, **settings}, self.ledger)
        self.collector = Profiles(self.context)
        self.longest = 0.0
        self.bodies = []

    def call(self, function):
        async def on_loop():
            return function()

        return asyncio.run_coroutine_threadsafe(
            on_loop(), self.cluster.scheduler.loop.asyncio_loop
        ).result(20)

    def read(self, now=None, **kwargs):
        def read():
            begun = time.thread_time()
            self.collector.read(time.time() if now is None else now, **kwargs)
            self.longest = max(self.longest, time.thread_time() - begun)

        self.call(read)

    def drain(self):
        taken = self.call(lambda: self.ledger.outboxes["profiles"].take(100))
        self.bodies.extend(body for _, body in taken)
        return self.bodies

    def finish(self):
        wait_until(lambda: self.collector._collection is None)
        return self.drain()


def samples_of(worker, since, until):
    return sum(node["count"] for at, node in worker.profile_history if since < at < until)


def samples_by_function(body):
    return {
        function["prefix"]: sum(body["nodes"][root][3] for root in function["roots"])
        for function in body["functions"]
    }


def dask_samples_by_function(worker, since, until):
    found = {}
    for at, prefixes in worker.profile_keys_history:
        if since < at < until:
            for prefix, node in prefixes.items():
                found[prefix] = found.get(prefix, 0) + node["count"]
    return {prefix: samples for prefix, samples in found.items() if samples}


def test_windows_have_each_sample_once_and_find_what_is_busy(cluster, client):
    driver = Driver(cluster)
    driver.read()
    (worker,) = cluster.workers.values()
    for number in range(10):
        futures = [
            client.submit(busy, 3.0, key=f"busy-{number}"),
            client.submit(idle_briefly, 2.0, pure=False),
        ]
        deadline = time.time() + 7.0
        while time.time() < deadline:
            driver.read()
            time.sleep(0.2)
        client.gather(futures)
        # On a busy machine a worker takes few samples.
        if samples_of(worker, 0, math.inf) >= 100:
            break
    bodies = driver.finish()
    assert len(bodies) >= 2
    for body in bodies:
        check_sums(body)
        window = body["started_at"], body["stopped_at"]
        assert window[1] - window[0] >= 1.0 and body["workers"] == 1
        assert body["samples"] == samples_of(worker, *window)
        assert samples_by_function(body) == dask_samples_by_function(worker, *window)
    for earlier, later in zip(bodies, bodies[1:]):
        assert earlier["stopped_at"] <= later["started_at"]
    everything = samples_of(worker, 0, math.inf)
    assert sum(body["samples"] for body in bodies) == everything > 50
    # Waiting threads count like computing ones, each for its own tasks.
    selfs = {}
    for body in bodies:
        for _, frame, self, _ in body["nodes"]:
            frame = body["frames"][frame]
            key = (frame["function"], frame["text"])
            selfs[key] = selfs.get(key, 0) + self
    (function, text), most = max(
        ((key, n) for key, n in selfs.items() if key[0] != "idle_briefly"), key=lambda item: item[1]
    )
    assert function == "<genexpr>" and "# the busy line" in text
    assert selfs["idle_briefly", "time.sleep(seconds)"] > 0 and most > 20
    assert driver.longest < 0.005  # of the event loop's thread
    # An idle cluster has no profiles.
    driver.bodies.clear()
    driver.read(time.time() + 60)
    assert driver.finish() == []


def test_a_profile_has_what_dask_has(cluster, client):
    driver = Driver(cluster)
    driver.read()
    client.submit(busy, 1.5, key="busy-1").result()
    time.sleep(3.5)
    driver.read()
    (body,) = driver.finish()
    (worker,) = cluster.workers.values()
    # By kind of task, as requested. For the sum over all kinds Dask examines each frame a second
    # time, and running code may have moved on by then.
    cycles = [
        tree
        for at, prefixes in worker.profile_keys_history
        if body["started_at"] < at < body["stopped_at"]
        for tree in prefixes.values()
    ]
    theirs = dask_profile.merge(*cycles)

    def paths(node, above=()):
        for child in node["children"].values():
            description = child["description"]
            path = (*above, (description["filename"], description["name"]))
            yield path, child
            yield from paths(child, path)

    expected = dict(paths(theirs))
    names = [(frame["file"], frame["function"]) for frame in body["frames"]]
    mine, below = [], {}
    for parent, frame, self, total in body["nodes"]:
        mine.append(((*(mine[parent][0] if parent >= 0 else ()), names[frame]), self, total))
        if parent >= 0:
            below[mine[parent][0]] = below.get(mine[parent][0], 0) + total
    assert {path for path, _, _ in mine} == set(expected)
    assert body["samples"] == theirs["count"] > 0
    for path, self, total in mine:
        # Dask counts only the calls below, which are never estimated.
        assert below.get(path, 0) == expected[path]["count"] == total - self


def test_workers_are_separated_on_request(cluster, client):
    driver = Driver(cluster, profile_by_worker=True)
    (worker,) = cluster.workers.values()
    driver.context.workers = {worker.address: "worker-1"}
    driver.read()
    client.submit(busy, 1.5, key="busy-1").result()
    time.sleep(3.5)
    driver.read()
    (body,) = driver.finish()
    (part,) = body["by_worker"]
    window = body["started_at"], body["stopped_at"]
    assert part["worker"] == "worker-1"
    assert sum(body["nodes"][root][3] for root in part["roots"]) == samples_of(worker, *window) > 0


def test_workers_take_turns(cluster):
    driver = Driver(cluster)
    driver.context.scheduler = SimpleNamespace(workers=dict.fromkeys(map(str, range(45))))
    turns = [driver.collector._choose() for _ in range(3)]
    assert [len(turn) for turn in turns] == [20, 20, 20]
    assert set(turns[0] + turns[1] + turns[2][:5]) == set(map(str, range(45)))
    assert turns[2][5:] == turns[0][:15]
    driver.context.scheduler.workers = {"1": None, "new": None}
    assert driver.collector._choose() == ["new", "1"]
    assert driver.collector._choose() == ["new", "1"]


def test_a_worker_that_does_not_answer_is_left_out(monkeypatch):
    monkeypatch.setattr(profiles, "RESPONSE_SECONDS", 0.5)
    with local_cluster(n_workers=2) as cluster, Client(cluster) as client:
        driver = Driver(cluster)
        driver.read()
        first, second = cluster.workers.values()
        client.submit(busy, 1.0, workers=[first.address]).result()
        time.sleep(3.2)

        async def hang(**kwargs):
            await asyncio.sleep(60)

        second.handlers["profile_metadata"] = hang
        begun = time.time()
        driver.read()
        assert driver.collector._collection is not None and time.time() - begun < 0.25
        (body,) = driver.finish()
        assert body["workers"] == 2 and body["samples"] == samples_of(
            first, body["started_at"], body["stopped_at"]
        )
        # A worker that is gone is not queried; one that leaves in the meantime causes no failure.
        cluster.scheduler.workers["tcp://127.0.0.1:1"] = None
        try:
            driver.read(time.time() + 1)
            driver.finish()
        finally:
            del cluster.scheduler.workers["tcp://127.0.0.1:1"]


def test_a_window_that_cannot_be_read_is_counted(cluster, client, monkeypatch):
    driver = Driver(cluster)
    driver.read()
    client.submit(busy, 1.0).result()
    time.sleep(2.2)

    def fail(self, addresses=None):
        raise RuntimeError("unreadable")

    monkeypatch.setattr(Profiles, "_choose", fail)
    driver.read()
    assert driver.finish() == []
    assert driver.ledger.outboxes["profiles"].dropped == 1


def test_many_kinds_of_tasks_are_queried_at_once(cluster, client, monkeypatch):
    monkeypatch.setattr(profiles, "PREFIXES", 1)
    requested_keys = []
    (worker,) = cluster.workers.values()
    original = worker.handlers["profile"]

    async def watched(**kwargs):
        requested_keys.append(kwargs["key"])
        return await original(**kwargs)

    worker.handlers["profile"] = watched
    driver = Driver(cluster)
    driver.read()
    client.gather([client.submit(busy, 1.0), client.submit(idle_briefly, 1.0)])
    time.sleep(3.2)
    driver.read()
    (body,) = driver.finish()
    check_sums(body)
    assert requested_keys == [None] and body["functions"] == []
    assert body["samples"] == samples_of(worker, body["started_at"], body["stopped_at"])


@pytest.mark.parametrize("why", ["setting", "policy", "older settings"])
def test_no_worker_is_queried_when_profiles_are_not_to_be_sent(cluster, why):
    driver = Driver(cluster)
    if why == "setting":
        driver.context.settings["send_profiles"] = False
    elif why == "policy":
        driver.ledger.receipt.accept(["tasks"])
    else:
        del driver.context.settings["send_profiles"]
    driver.read()
    driver.read(time.time() + 100)
    assert driver.collector._collection is None


def test_lines_are_left_out_with_the_code(cluster, client):
    driver = Driver(cluster)
    driver.ledger.receipt.accept(["tasks", "profiles"])
    driver.read()
    client.submit(busy, 1.0).result()
    time.sleep(3.2)
    driver.read()
    (body,) = driver.finish()
    assert body["frames"] and {frame["text"] for frame in body["frames"]} == {None}


def test_closing_ends_what_is_under_way(cluster):
    async def hang(**kwargs):
        await asyncio.sleep(60)

    (worker,) = cluster.workers.values()
    worker.handlers["profile_metadata"] = hang
    driver = Driver(cluster)
    driver.read()
    driver.read(time.time() + 10)
    assert driver.collector._collection is not None
    driver.call(driver.collector.close)
    assert driver.finish() == []
    driver.read(time.time() + 100, closed_at=time.time())
    assert driver.collector._collection is None


def test_dask_still_does_not_count_innermost_frames():
    """If this fails, Dask has begun to count them: ``totals_of_children`` is then obsolete."""
    root = dask_profile.create()
    frame = __import__("sys")._getframe()
    dask_profile.process(frame, True, root, stop="_pytest/python.py")
    node = root
    while node["children"]:
        (node,) = node["children"].values()
    assert node["count"] == 0 and root["count"] == 1
