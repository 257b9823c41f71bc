"""Tests of hostile files: defects are reported, and nothing in a file is executed."""

import base64
import gzip
import json
import struct
from array import array

import dask
import msgpack
import pytest

from galvo import NotImportable
from galvo.importing import artefact, performance_history, read, selection
from galvo.importing import history as history_module
from galvo.importing.bokeh import Page, columns_in, lines_of

WHEN = 1_790_000_000.0
SCHEDULER = {"id": "Scheduler-1", "started": WHEN, "address": "tcp://10.0.0.1:8786"}
SUMMARY = """
<h1> Dask Performance Report </h1><h2> Duration: 2.00 s </h2>
<li> number of tasks: 1 </li><li> Workers: 1 </li><li> Threads: 2 </li><li> Memory: 1.00 GiB </li>
<h2> Calling Code </h2><pre>\nif 1 < 2 and "<t:":\n    pass\n</pre>
"""
STREAM = {
    "start": [WHEN * 1000 + 500],
    "duration": [1000.0],
    "key": ["double-1"],
    "name": ["double"],
    "color": ["#1E978A"],
    "worker": ["tcp://10.0.0.2:1"],
    "worker_thread": ["tcp://10.0.0.2:1-1"],
}
FLAMES = {
    "bottom": [0, 1, 2, 1],
    "width": [1.0, 0.75, 0.25, 0.25],
    "time": ["200.00 ms", "150.00 ms", "50.00 ms", "50.00 ms"],
    "filename": ["", "a.py", "b.py", "c.py"],
    "name": ["", "a", "b", "c"],
    "line_number": [0, 1, 2, 3],
    "line": ["", "a()", "b()", "c()"],
}


@pytest.fixture
def file(tmp_path):
    def write(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def dump(**parts):
    scheduler = {**SCHEDULER, **parts}
    return msgpack.packb({"scheduler": scheduler, "workers": {}, "versions": {}})


def source(columns, id="s1"):
    return {"id": id, "type": "ColumnDataSource", "attributes": {"data": columns}}


def page(models=(), summary=SUMMARY, stream=STREAM):
    """Returns a page in the format that Bokeh has used since version 1."""
    text = {"id": "d1", "type": "Div", "attributes": {"text": summary}}
    references = [text, source(stream), *models]
    document = {"x": {"roots": {"references": references, "root_ids": ["d1"]}, "version": "2.4"}}
    written = json.dumps(document).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f'<!DOCTYPE html><script type="application/json" id="1">{written}</script>'


def stream(*rows):
    """Returns a task stream of rows (key, name, color, worker, start, stop), in seconds."""
    columns = {name: [] for name in STREAM}
    for key, name, color, worker, start, stop in rows:
        for column, value in (
            ("start", (WHEN + (start + stop) / 2) * 1000),
            ("duration", (stop - start) * 1000),
            ("key", key),
            ("name", name),
            ("color", color),
            ("worker", worker),
            ("worker_thread", worker + "-1"),
        ):
            columns[column].append(value)
    return columns


def profile(columns):
    panel = {"id": "p1", "attributes": {"title": "Worker Profile (compute)", "child": {"id": "f1"}}}
    figure = {"id": "f1", "attributes": {"renderers": [{"id": "r1"}]}}
    renderer = {"id": "r1", "attributes": {"data_source": {"id": "s2"}, "view": {"id": "f1"}}}
    return [panel, figure, renderer, source(columns, "s2")]


def test_a_page_that_is_well(file):
    history = read(file(page(profile(FLAMES))))
    assert history.started_at == WHEN and history.ended_at == WHEN + 2
    (code,) = history.sections["code"]
    assert code["text"] == 'if 1 < 2 and "<t:":\n    pass'
    (profiled,) = history.sections["profiles"]
    assert profiled["samples"] == 20
    # Each node is (parent, frame, self, total).
    frames = [frame["function"] for frame in profiled["frames"]]
    nodes = [(parent, frames[frame], own, all) for parent, frame, own, all in profiled["nodes"]]
    assert nodes == [(-1, "a", 10, 15), (-1, "c", 5, 5), (0, "b", 5, 5)]
    assert history.totals["compute_seconds"] == pytest.approx(1.0)
    assert history.totals["thread_seconds"] == pytest.approx(4.0)


def test_keys_and_measurements_that_are_none(file):
    """Invalid keys and measurements are imported as far as possible, or left out."""
    keys = [[], "", [[]], None, {"a": 1}, 7, ["x", 0]]
    stream = {name: values * len(keys) for name, values in STREAM.items()}
    panel = {"id": "p1", "attributes": {"title": "System", "child": {"id": "s3"}}}
    system = source({"time": [WHEN * 1000] * 3, "cpu": [1e300, 50, "x"], "memory": [0, 1e300, 7]})
    history = read(file(page([panel, {**system, "id": "s3"}], stream={**stream, "key": keys})))
    assert "x" in {group["name"] for group in history.sections["task_groups"]}
    metrics = [sample["metrics"] for sample in history.sections["samples"]]
    assert metrics == [
        {"scheduler_memory_bytes": 0},
        {"scheduler_cpu_cores": 0.5},
        {"scheduler_memory_bytes": 7},
    ]


def test_the_notations_of_numbers(file):
    numbers = [1.5, -2.25, 1e300]

    def packed(order="little", compressed=False):
        content = struct.pack(("<" if order == "little" else ">") + "3d", *numbers)
        return base64.b64encode(gzip.compress(content) if compressed else content).decode()

    shape = {"dtype": "float64", "shape": [3]}
    notations = [
        numbers,
        {"__ndarray__": packed(), "order": "little", **shape},
        {"__ndarray__": packed("big"), "order": "big", **shape},
        {
            "type": "ndarray",
            "array": {"type": "bytes", "data": packed()},
            "order": "little",
            **shape,
        },
        {
            "type": "ndarray",
            "array": {"type": "bytes", "data": packed("big", True)},
            "order": "big",
            **shape,
        },
        {"type": "typed_array", "array": {"type": "bytes", "data": packed()}, "dtype": "float64"},
        {"type": "ndarray", "array": numbers, "dtype": "object", "shape": [3], "order": "little"},
    ]
    for notation in notations:
        assert columns_in(source({"x": notation}), "x") == {"x": numbers}
    integers = base64.b64encode(array("i", [7, -7]).tobytes()).decode()
    found = columns_in(
        source({"type": "map", "entries": [["x", {"__ndarray__": integers, "dtype": "int32"}]]}),
        "x",
    )
    assert found == {"x": [7, -7]}
    assert columns_in(source({"x": [1]}), "x", "y") is None
    nan = columns_in(source({"x": [{"type": "number", "value": "nan"}]}), "x")["x"][0]
    assert nan != nan


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ({"__ndarray__": "!!!", "dtype": "float64"}, "damaged"),
        ({"__ndarray__": "AAAA", "dtype": "float64"}, "damaged"),
        ({"__ndarray__": "AAAAAAAAAAA=", "dtype": "object"}, "a type that is not known"),
        ({"__ndarray__": "AAAAAAAAAAA=", "dtype": "float64", "shape": [9]}, "no list of 1"),
        ({"type": "slice", "start": 0}, "in no notation"),
        ("text", "in no notation"),
    ],
)
def test_columns_that_cannot_be_read(column, problem):
    with pytest.raises(NotImportable, match=problem):
        columns_in(source({"x": column}), "x")


def test_a_compressed_column_is_bounded(monkeypatch):
    monkeypatch.setattr("galvo.importing.bokeh.LARGEST_ARRAY", 1000)
    bomb = base64.b64encode(gzip.compress(bytes(10_000_000))).decode()
    with pytest.raises(NotImportable, match="too large"):
        columns_in(source({"x": {"__ndarray__": bomb, "dtype": "uint8"}}), "x")


DEEP = 200_000
FILES = {
    "empty": (b"", "it is empty"),
    "text": (b"hello, world", "it is no cluster dump"),
    "latin-1": (b"caf\xe9 au lait", "cannot be read as YAML"),
    "a number": (b"\x80", "there is no scheduler in it"),
    "an array": (msgpack.packb([1, 2]), "there is no scheduler in it"),
    "another map": (msgpack.packb({"scheduler": 1}), "there is no scheduler in it"),
    "no time": (dump(started="now"), "scheduler.started is no time"),
    "half a dump": (dump(task_groups={"x": {}})[:-5], "cannot be read as MessagePack"),
    "long ago": (dump(started=1.0, clients={"c": {"last_seen": WHEN}}), "two years apart"),
    "years": (
        dump(clients={"c": {"last_seen": WHEN + 800 * 86_400.0}}),
        "two years apart",
    ),
    "endless": (dump(started=float("inf")), "scheduler.started is no time"),
    "a huge array": (b"\x81\xa9scheduler\xdd\xff\xff\xff\xff", "cannot be read as MessagePack"),
    "a deep array": (b"\x81\xa9scheduler" + b"\x91" * DEEP, "cannot be read as MessagePack"),
    "a map as a key": (b"\x81\xa9scheduler\x81\x81\x01\x01\x01", "there is no scheduler in it"),
    "a map as a key of what is read": (
        b"\x81\xa9scheduler\x81\xabtask_groups\x81\xa1x\x81\x81\x01\x01\x01",
        "cannot be read as MessagePack",
    ),
    "never used": (b"\x81\xa9scheduler\xc1", "cannot be read as MessagePack"),
    "code in YAML": (
        b"scheduler: !!python/object/apply:os.system ['touch executed']",
        "there is no scheduler in it",
    ),
    "code in what is read": (
        b"scheduler: {id: !!python/object/apply:os.system ['touch executed']}",
        "there is no scheduler in it",
    ),
    "names in YAML": (b"scheduler: {id: !!python/name:os.system ''}", "a value of the kind"),
    "laughs": (
        b"a: &a [x, x]\nb: &b [*a, *a]\nscheduler: {id: *b}",
        "it has references",
    ),
    "a circle": (b"scheduler: &a [*a]", "it has references"),
    "deep YAML": (b"scheduler: " + b"[" * 250, "it has more than 200 levels"),
    "deep YAML that is not read": (b"x: " + b"[" * 250, "it has more than 200 levels"),
    # Newer releases of the parser refuse nesting beyond any realistic depth themselves.
    "very deep YAML": (b"scheduler: " + b"[" * DEEP, "it has more than 200 levels|nesting depth"),
    "very deep YAML that is not read": (
        b"x: " + b"[" * DEEP,
        "it has more than 200 levels|nesting depth",
    ),
    "half of YAML": (b"scheduler: {id: 'a", "cannot be read as YAML"),
    "no document": (b"<p>Dask Performance Report</p>", "no document of Bokeh"),
    "broken JSON": (b"<script type='application/json'>{]</script>", "cannot be read"),
    "deep JSON": (
        b"<script type='application/json'>" + b"[" * DEEP + b"</script>",
        "cannot be read",
    ),
    "no summary": (page(summary="Something else").encode(), "no summary in it"),
    "no stream": (page(stream={"start": []}).encode(), "no task stream in it"),
    "no tasks": (page(stream={name: [] for name in STREAM}).encode(), "it has no time"),
    "uneven": (page(stream={**STREAM, "key": []}).encode(), "not equally long"),
    "no number": (page(stream={**STREAM, "start": ["x"]}).encode(), "no time in row 0"),
    "no moment": (page(stream={**STREAM, "start": [1e300]}).encode(), "an impossible time"),
    "no tree": (
        page(profile({**FLAMES, "bottom": [0, 5, 1, 1]})).encode(),
        "the profile is no tree in row 1",
    ),
    "two roots": (
        page(profile({**FLAMES, "bottom": [0, 1, 0, 1]})).encode(),
        "a second root in row 2",
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("compressed", [False, True])
def test_what_is_no_artefact_is_refused(file, name, compressed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, problem = FILES[name]
    path = file(gzip.compress(content) if compressed else content, "some.file")
    with pytest.raises(NotImportable, match=problem) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert len(str(raised.value)) < 600
    assert not (tmp_path / "executed").exists()


def test_damaged_and_overlong_compression(file, monkeypatch):
    packed = gzip.compress(dump())
    for damaged in (packed[:-9], packed[:20], packed[:15] + b"\xff" * 9 + packed[24:]):
        with pytest.raises(NotImportable, match="damaged"):
            read(file(damaged))
    # A file may have several gzip members, and padding after them.
    half = len(dump()) // 2
    members = gzip.compress(dump()[:half]) + gzip.compress(dump()[half:]) + bytes(100)
    assert read(file(members)).started_at == WHEN
    monkeypatch.setattr(artefact, "MOST_INFLATED", 1 << 20)
    with pytest.raises(NotImportable, match="more than 1 MiB in it"):
        read(file(gzip.compress(dump(tasks={"x": bytes(4 << 20)}))))
    monkeypatch.setattr(artefact, "MOST_BYTES", 10)
    with pytest.raises(NotImportable, match="it is larger than"):
        read(file(packed))


def test_the_longest_that_a_cluster_can_be_there(file):
    day = 86_400.0
    history = read(file(dump(clients={"c": {"last_seen": WHEN + 731 * day}})))
    assert (history.started_at, history.ended_at) == (WHEN, WHEN + 731 * day)


def test_many_workers_that_are_there_for_years(file):
    worker = {"nthreads": 2, "memory_limit": 3 << 30}
    workers = {f"tcp://10.0.0.2:{port}": worker for port in range(1, 101)}
    end = {"c": {"last_seen": WHEN + 731 * 86_400.0}}
    usage = read(file(dump(clients=end, workers=workers))).sections["usage"]
    # The cluster begins 800 seconds after the hour, so the last hour has 800 seconds.
    assert [hour["hour"] for hour in usage] == list(range(497_222, 497_222 + 731 * 24 + 1))
    assert [hour["workers"] for hour in usage] == [100] + [0] * 731 * 24
    seconds = [2800.0] + [3600.0] * (731 * 24 - 1) + [800.0]
    assert [hour["worker_seconds"] for hour in usage] == [100 * s for s in seconds]
    assert [hour["thread_seconds"] for hour in usage] == [200 * s for s in seconds]
    assert [hour["memory_gib_seconds"] for hour in usage] == [300 * s for s in seconds]


def test_values_are_bounded(file, monkeypatch):
    monkeypatch.setattr(selection, "LARGEST", 1 << 20)
    many = {"x": {"states": {}, "types": ["y"] * 8_000_000}}
    with pytest.raises(NotImportable, match="a value in it is larger than 1 MiB"):
        read(file(dump(task_groups=many)))
    # Sections that are not read may be of any size.
    history = read(file(dump(extensions={"x": ["y"] * 8_000_000})))
    assert history.totals["tasks"] == 0


def test_items_beyond_the_limits_are_counted(file, monkeypatch):
    monkeypatch.setitem(history_module.MOST, "task_groups", 3)
    group = {"states": {"memory": 1}, "types": []}
    history = read(file(dump(task_groups={f"x{i}": group for i in range(5)})))
    assert len(history.sections["task_groups"]) == 3 and history.dropped == {"task_groups": 2}
    history.finish(usage=False)
    assert "2 task groups are more than one import takes" in history.notes


def test_nothing_is_opened_that_was_pickled(file):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("it was executed",))

    import pickle

    task = {"state": "erred", "key": "x", "group_key": "x", "suspicious": 4}
    group = {"name": "x", "states": {"erred": 1}, "prefix": "<x: erred: 1>"}
    killed = {**task, "exception": repr(b"...distributed.scheduler\x94\x8c\x0cKilledWorker")}
    history = read(file(dump(tasks={"x": killed}, task_groups={"x": group})))
    (error,) = history.sections["errors"]
    assert (error["type"], error["origin"]) == ("KilledWorker", "dask")
    assert error["message"] == "4 workers died that were running x"
    trap = {**task, "exception": pickle.dumps(Trap())}
    (error,) = read(file(dump(tasks={"x": trap}, task_groups={"x": group}))).sections["errors"]
    assert (error["type"], error["message"]) == (None, "")


def test_a_name_that_was_used_again_is_counted_anew(file):
    log = []
    for n in range(3):
        key = f"double-{n}"
        for start, finish in (("released", "waiting"), ("waiting", "processing")):
            log.append([key, start, finish, {}, "s", WHEN + n])
        log.append([key, "processing", "memory", {}, "s", WHEN + n])
        if n < 2:  # then Dask forgets the group as well
            log.append([key, "memory", "forgotten", {}, "s", WHEN + n])
    log.insert(-1, ["double-2", "processing", "released", {}, "task-erred-1", WHEN + 2])
    log.insert(-1, ["double-2", "released", "processing", {}, "s", WHEN + 2])
    group = {"states": {"memory": 1}, "prefix": "<double: memory: 1>", "start": WHEN + 2.5}
    parts = {"transition_log": log, "task_groups": {"double": group}}
    (row,) = read(file(dump(transition_counter=len(log), **parts))).sections["task_groups"]
    assert (row["tasks_succeeded"], row["tasks_retried"]) == (1, 1)
    assert row["first_seen_at"] == WHEN + 2
    # In a truncated log, released tasks count as done, as in Dask.
    group["states"] = {"memory": 1, "released": 30, "forgotten": 4, "processing": 2}
    history = read(file(dump(transition_counter=10_000, **parts)))
    (row,) = history.sections["task_groups"]
    assert (row["tasks"], row["tasks_succeeded"]) == (37, 35)
    assert any("counted as done" in note for note in history.notes)


@pytest.mark.parametrize("section", ["<![@ x]>", "<![x[ ]]>", "<![CDATA[x]]>", "<![x", "<!x>"])
def test_sections_of_sgml_are_comments(file, section):
    assert read(file(f"{section}<p>{section}</p>{page()}")).started_at == WHEN
    assert lines_of(f"<p>one</p>{section}<p>two</p>")[0] == "one"


def test_models_that_refer_to_each_other_for_ever():
    loop = [
        {"id": "p1", "attributes": {"title": "System", "child": {"id": "a"}}},
        {"id": "a", "attributes": {"next": {"id": "b"}, "self": {"id": "a"}}},
        {"id": "b", "attributes": {"next": {"id": "a"}, "gone": {"id": "nothing"}}},
    ]
    found = Page(page(loop))
    assert [model["id"] for model in found.descendants(found.panel("System"))] == ["p1", "a", "b"]
    assert list(found.descendants(None)) == []


GREEN, BLACK, HERE, THERE = "#1E978A", "black", "tcp://10.0.0.2:1", "tcp://10.0.0.3:1"


def test_each_run_of_a_task_is_counted_as_it_ended(file):
    rows = [
        ("add-1", "transfer-add", "red", HERE, 0.0, 0.25),
        ("add-1", "add", GREEN, HERE, 0.25, 0.5),
        ("sum-1", "sum", GREEN, HERE, 0.5, 1.0),
        # Its worker left, and another one computed it again.
        ("add-1", "transfer-add", "red", THERE, 1.0, 1.125),
        ("add-1", "add", GREEN, THERE, 1.125, 1.5),
        # It failed twice after fetching its inputs, and then succeeded.
        ("odd-1", "transfer-odd", "red", THERE, 0.0, 0.5),
        ("odd-1", "odd", BLACK, THERE, 0.5, 0.75),
        ("odd-1", "odd", BLACK, THERE, 0.75, 1.0),
        ("odd-1", "odd", GREEN, THERE, 1.0, 1.25),
    ]
    summary = SUMMARY.replace("number of tasks: 1", "number of tasks: 6")
    history = read(file(page(stream=stream(*rows), summary=summary)))
    groups = {
        group["name"]: [group[n] for n in ("tasks", "tasks_succeeded", "tasks_erred", "durations")]
        for group in history.sections["task_groups"]
    }
    assert groups == {
        "add": [1, 2, 0, pytest.approx({"compute": 0.625, "transfer": 0.375}, abs=1e-6)],
        "sum": [1, 1, 0, pytest.approx({"compute": 0.5}, abs=1e-6)],
        "odd": [1, 1, 2, pytest.approx({"compute": 0.25}, abs=1e-6)],
    }
    totals = [history.totals[n] for n in ("tasks", "tasks_succeeded", "tasks_erred", "errors")]
    assert totals == [3, 4, 2, 2]
    (usage,) = history.sections["usage"]
    assert [usage[name] for name in ("tasks", "tasks_erred", "errors")] == [4, 2, 2]
    assert len({error["id"] for error in history.sections["errors"]}) == 2
    (note,) = [note for note in history.notes if "more than once" in note]
    assert note.startswith("2 of 3 tasks ran more than once") and "6 runs" in note
    # Every task that ran is drawn.
    assert not any("drawn" in note for note in history.notes)


def test_runs_that_are_not_drawn_are_missed(file):
    summary = SUMMARY.replace("number of tasks: 1", "number of tasks: 5")
    history = read(file(page(summary=summary)))
    part = "its summary counts 5 runs of tasks, of which 1 are drawn"
    assert f"it holds a part of the work: {part}" in history.notes
    assert history.describe_cluster(True)["partial"] == (
        "The imported file holds a part of the work: a performance report does not contain the"
        f" tasks that never ran; {part}."
    )


def test_a_stream_that_is_full_may_have_been_longer(file, monkeypatch):
    monkeypatch.setattr(performance_history, "STREAM_LENGTH", 2)
    rows = [(f"add-{n}", "add", GREEN, HERE, n, n + 1) for n in range(3)]
    for number, is_full in ((1, False), (2, True), (3, False)):
        notes = read(file(page(stream=stream(*rows[:number])))).notes
        assert any("earlier ones may be missing" in note for note in notes) == is_full


def test_what_never_ran_has_not_finished(file):
    # It was about to run: its inputs were fetched.
    fetched = stream(("add-1", "transfer-add", "red", HERE, 0.0, 0.25))
    panel = {"id": "p1", "attributes": {"title": "System", "child": {"id": "s3"}}}
    system = source({"time": [WHEN * 1000], "cpu": [50], "memory": [7]})
    nothing = {name: [] for name in STREAM}
    for models, drawn in (((), fetched), ([panel, {**system, "id": "s3"}], nothing)):
        history = read(file(page(models, stream=drawn)))
        assert history.sections["computations"] == [] and history.sections["code"] == []
        assert history.totals["tasks_succeeded"] == 0
        assert "no task ran in its block of code, so there is no computation" in history.notes
        assert history.partial


def test_why_a_task_failed_is_not_known(file):
    failed = stream(("add-1", "add", BLACK, HERE, 0.0, 0.25))
    history = read(file(page(stream=failed)))
    (error,) = history.sections["errors"]
    assert "origin" not in error and error["message"] == ""
    # The same for an error in a dump without any text.
    task = {"state": "erred", "key": "x", "group_key": "x", "exception": "<Serialize>"}
    group = {"name": "x", "states": {"erred": 1}, "prefix": "<x: erred: 1>"}
    (error,) = read(file(dump(tasks={"x": task}, task_groups={"x": group}))).sections["errors"]
    assert "origin" not in error and error["type"] is None
    with dask.config.set({"galvo.errors.transmit": False}):
        history = read(file(page(stream=failed)))
    assert not history.sections["errors"]
    assert history.receipt.describe()["user_errors"]["withheld"] == 1


@pytest.mark.parametrize("version", ["2.3.3", "2.0.2", "1.4.0"])
def test_a_report_that_an_old_bokeh_drew_is_called_that(file, version):
    old = page().replace('"version": "2.4"', f'"version": "{version}"')
    assert version in old
    (note,) = [note for note in read(file(old)).notes if "Bokeh" in note]
    assert note.startswith(f"Bokeh {version} drew it, which is older than 2.4")
    # So that its other defects are not taken for damage.
    for broken in (
        old.replace("color", "colour"),
        old.replace("Dask Performance", "Another"),
        page(stream={**STREAM, "start": ["x"]}).replace('"2.4"', f'"{version}"'),
        f"<script src='https://cdn.example.org/bokeh-{version}.min.js'></script><p>Report</p>",
    ):
        with pytest.raises(NotImportable) as raised:
            read(file(broken))
        problem = f": Bokeh {version} drew it, and pages of Bokeh 2.4 to 3 are known alone: "
        assert problem in str(raised.value)


@pytest.mark.parametrize("version", ["2.4", "2.4.3", "3.9.2", "3.10.0", "unknown"])
def test_a_report_that_a_known_bokeh_drew_has_no_note_of_it(file, version):
    known = page().replace('"version": "2.4"', f'"version": "{version}"')
    assert not any("Bokeh" in note for note in read(file(known)).notes)
    with pytest.raises(NotImportable) as raised:
        read(file(known.replace("color", "colour")))
    assert "drew it" not in str(raised.value)


def test_tasks_that_dask_had_forgotten_are_missed(file):
    def moves(key, *states):
        return [[key, a, b, {}, "s", WHEN + 1] for a, b in zip(states, states[1:])]

    done = ("released", "waiting", "processing", "memory")
    log = [*moves("early-1", *done), *moves("early-2", *done), *moves("late-1", *done)]
    group = {"states": {"memory": 1, "forgotten": 1}, "prefix": "<late: memory: 1>"}
    groups = {"late": group}
    # One task is forgotten while its group stays, and two with their group; then the name is
    # reused.
    log += [*moves("late-2", *done, "forgotten")]
    whole = read(file(dump(transition_log=log, transition_counter=len(log), task_groups=groups)))
    assert whole.partial == [] and "partial" not in whole.describe_cluster(True)
    log += [*moves("early-1", "memory", "forgotten"), *moves("early-2", "memory", "forgotten")]
    log += moves("early-3", *done)
    groups["early"] = {"states": {"memory": 1}, "prefix": "<early: memory: 1>"}
    part = read(file(dump(transition_log=log, transition_counter=len(log), task_groups=groups)))
    assert part.partial == ["Dask had forgotten 2 tasks when it was written"]
    # If the log begins late, the number of tasks is unknown.
    cut = read(file(dump(transition_log=log, transition_counter=5000, task_groups=groups)))
    (reason,) = cut.partial
    assert "may be missing" in reason and f"it holds a part of the work: {reason}" in cut.notes
