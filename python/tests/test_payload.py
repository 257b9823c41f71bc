"""``galvo payload`` and ``register(dry_run=True)``: what a scheduler would send, by class."""

import json
import logging

import dask
import pytest
from conftest import local_cluster
from distributed import Client, wait
from fake_galvo import TOKEN, check

import galvo
from galvo.client.payload import Payload
from galvo.command import main
from galvo.plugin import read_settings
from galvo.plugin.sections import DATA_CLASSES
from galvo.registration import preview

SETTINGS = {
    "galvo.server": "https://galvo.example.com",
    "galvo.token": TOKEN,
    "galvo.account": "ada",
}
WITHHOLDING_SETTINGS = {
    "user_errors": {"galvo.errors.transmit": False},
    "code": {"galvo.computation.code.transmit": False},
    "events": {"galvo.events.allow": []},
}


def connect(url):
    raise ValueError(f"no answer from {url}")


@pytest.fixture(scope="module")
def scheduler():
    with dask.config.set(SETTINGS), local_cluster() as cluster, Client(cluster) as client:
        futures = client.map(abs, range(4))
        futures.append(client.submit(connect, "postgres://ada:hunter2@db/x", pure=False))
        wait(futures)
        client.log_event("mine", {"password": "swordfish", "a/b~c": ["token=Xy7" + "k" * 20]})
        yield cluster.scheduler


def payload(capsys, *arguments):
    assert main(["payload", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_the_exact_report_is_shown_and_nothing_is_sent(scheduler, capsys):
    plugins, handlers = list(scheduler.plugins), logging.getLogger().handlers[:]
    with dask.config.set(SETTINGS):
        text = payload(capsys, scheduler.address, "--json")
    report = json.loads(text)
    check(report)
    assert report["account"] == "ada" and report["scheduler_id"] == scheduler.id
    assert {row["prefix"] for row in report["task_groups"]} == {"abs", "connect"}
    assert len(report["workers"]) == 1 and report["receipt"]["tasks"]["sent"] >= 4
    assert list(scheduler.plugins) == plugins and logging.getLogger().handlers == handlers
    for secret in (TOKEN, "hunter2", "swordfish"):
        assert secret not in text


def test_all_of_the_report_is_of_one_class(scheduler, capsys):
    with dask.config.set(SETTINGS):
        text = payload(capsys, scheduler.address, "--json")
    found = Payload(text.strip(), {})
    classes = found.by_class()
    assert list(classes) == list(DATA_CLASSES)
    together = {}
    for part in classes.values():
        for name, value in part.items():
            is_list = isinstance(value, list)
            together[name] = together.get(name, []) + value if is_list else value
    # Empty sections belong to no class.
    assert together == {name: value for name, value in found.report.items() if value != []}
    assert [error["type"] for error in classes["user_errors"]["errors"]] == ["ValueError"]
    assert {"computations", "task_groups"} <= set(classes["tasks"])
    assert {"cluster", "workers", "environments"} <= set(classes["basic"])


def test_classes_have_sizes_and_removed_secrets_have_places(scheduler):
    with dask.config.set(SETTINGS), Client(scheduler.address) as client:
        found = preview(client, read_settings())
    report, shown = found.report, str(found)
    head, *parts, removed = shown.strip().split("\n\n")
    assert head.startswith(
        f"The report of {scheduler.id} to https://galvo.example.com. Nothing was sent.\n"
    )
    titles = {part.partition(":")[0]: part.splitlines()[0] for part in parts}
    assert list(titles) == list(DATA_CLASSES)
    assert titles["dask_errors"] == "dask_errors: 0 items, 0 bytes"
    groups, computations = report["task_groups"], report["computations"]
    others = report.get("spans", []) + report.get("fine_metrics", [])
    others += report.get("function_activity", [])
    number = len(groups) + len(computations) + len(others)
    assert titles["tasks"].startswith(f"tasks: {number} items, ")
    assert titles["profiles"] == "profiles: not sent, because galvo.profile.transmit is false"
    # Each part is the JSON of its items.
    tasks = next(part for part in parts if part.startswith("tasks"))
    assert json.loads(tasks.partition("\n")[2])["task_groups"] == groups
    counts = dict(line.strip().rsplit(": ", 1) for line in removed.splitlines()[1:])
    assert int(counts["/errors/0/message"]) == 1
    total = sum(map(int, counts.values()))
    assert removed.startswith(f"removed as secrets or inputs of tasks: {total}\n")


def test_places_are_json_pointers():
    report = {"events": [{"data": {"a/b~c": ["x", "[removed] [removed]"], "[removed]": 1}}]}
    assert Payload(json.dumps(report), {}).removed() == {
        "/events/0/data/a~1b~0c/1": 2,
        "/events/0/data/[removed]": 1,
    }


def test_no_text_of_a_cluster_moves_the_cursor():
    report = {"logs": [{"message": "a\x1b[2Jb\u202ec"}], "scheduler_id": "S\u202e"}
    shown = str(Payload(json.dumps(report), {}))
    assert "\x1b" not in shown and "\u202e" not in shown
    assert "\\u202ec" in shown


@pytest.mark.parametrize("name", WITHHOLDING_SETTINGS)
def test_classes_that_the_settings_withhold_are_marked(scheduler, capsys, name):
    with dask.config.set({**SETTINGS, **WITHHOLDING_SETTINGS[name]}):
        shown = payload(capsys, scheduler.address)
    (setting,) = WITHHOLDING_SETTINGS[name]
    line = next(line for line in shown.splitlines() if line.startswith(f"{name}:"))
    assert line.startswith(f"{name}: not sent, because {setting} is ")


def test_the_scheduler_of_the_configuration_is_used(scheduler, capsys):
    with dask.config.set({**SETTINGS, "scheduler-address": scheduler.address}):
        assert scheduler.id in payload(capsys)
    with dask.config.set({"galvo.disabled": True}):
        shown = payload(capsys, scheduler.address)
    assert shown == "Nothing is sent, because galvo.disabled is true.\n"


def test_without_a_scheduler_the_command_prints_what_to_give(capsys):
    with dask.config.set({"scheduler-address": None}):
        assert main(["payload"]) == 2
    assert capsys.readouterr().err == (
        "galvo: no scheduler: give its address, such as tcp://10.0.0.1:8786\n"
    )


def test_a_dry_run_shows_the_same(scheduler, capsys):
    with dask.config.set(SETTINGS), Client(scheduler.address) as client:
        assert galvo.register(client, dry_run=True) is None
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.startswith("tasks: ")]
    assert "/errors/0/message: 1" in shown
