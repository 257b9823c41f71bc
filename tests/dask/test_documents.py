"""The Python package's documents are correct: runnable examples run, others are well-formed."""

import ast
import re
from pathlib import Path

import dask
import pytest
import yaml
from accounts import cluster_id
from conftest import settings_for
from galvo.command import _parser
from galvo.plugin import read_settings
from processes import (
    REPOSITORY,
    WORKLOADS,
    DaskCluster,
    run_to_end,
    wait_until,
)
from stores import member

PYTHON_MD = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8")
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")

# The first lines of each script. Its examples run one after the other, as in a notebook.
SCRIPT_HEAD = "import dask, galvo\nif __name__ == '__main__':\n"


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_as_script(python, examples, directory, settings):
    script = directory / "examples.py"
    lines = "\n".join(examples).splitlines()
    script.write_text(SCRIPT_HEAD + "\n".join(f"    {line}" for line in lines), encoding="utf-8")
    return run_to_end([python, script], directory, settings)


@pytest.mark.parametrize("python", ["newest"], indirect=True)
def test_examples_of_the_package(galvo, processes, python):
    user = member(galvo, "documents")
    settings = {
        **settings_for(user.address, user.token),
        "galvo.profile.transmit": True,
        "galvo.profile.interval": "5s",
    }
    examples = blocks(PYTHON_MD, "python")
    assert len(examples) >= 7
    # Outside a notebook, ``watch`` would block the script.
    examples = [re.sub(r"^galvo\.watch\(.*$", "", one, flags=re.MULTILINE) for one in examples]
    # Waits for the first report and a profile, because the example's tasks take no time.
    waiting = (
        "import time\n"
        "work = client.submit(time.sleep, 3)\n"
        "while True:\n"
        "    try:\n"
        "        galvo.save_profile('first.speedscope.json', client)\n"
        "        break\n"
        "    except galvo.NotFound:\n"
        "        time.sleep(0.1)\n"
    )
    printed = run_as_script(
        python, [examples[0], waiting, *examples[1:]], processes.directory, settings
    )
    assert "GRAPHQL_VALIDATION_FAILED" in printed
    assert "Did my computation finish?" in (processes.directory / "report.html").read_text()
    header = (processes.directory / "usage.csv").read_text().splitlines()[0]
    assert header.startswith('"start"') or header.startswith("start")


@pytest.mark.parametrize("python", ["newest"], indirect=True)
def test_example_of_the_readme(galvo, processes, python):
    user = member(galvo, "readme")
    (example,) = (one for one in blocks(README, "python") if "to_pandas" in one)
    preparation = [
        "from dask.distributed import Client\nclient = Client(n_workers=1, dashboard_address=':0')"
    ]
    preparation += [
        "galvo.register()\nimport time\nwhile not galvo.list_clusters():\n    time.sleep(0.1)"
    ]
    run_as_script(
        python, [*preparation, example], processes.directory, settings_for(user.address, user.token)
    )


def test_the_rest_is_well_formed():
    written = [yaml.safe_load(block) for block in blocks(PYTHON_MD, "yaml")]
    assert len(written) == 4 and all(isinstance(block, dict) for block in written)
    for block in blocks(PYTHON_MD, "python no-run"):
        ast.parse(block)
    commands = [line for block in blocks(PYTHON_MD, "sh") for line in block.splitlines()]
    commands = [line.partition("#")[0].split() for line in commands if line.startswith("galvo ")]
    assert len(commands) >= 6
    for command in commands:
        _parser().parse_args(command[1:])
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", PYTHON_MD):
        assert (REPOSITORY / "docs" / link).exists(), link


def test_what_is_kept_back_is_kept_back():
    (written,) = (block for block in blocks(PYTHON_MD, "yaml") if "transmit" in block)
    with dask.config.set(yaml.safe_load(written)):
        settings = read_settings("http://galvo.example", "t-1")
    switches = {name: value for name, value in settings.items() if name.startswith("send_")}
    assert len(switches) == 4 and not any(switches.values())
    assert (settings["events_allow"], settings["worker_plugin"]) == ([], False)
    assert settings["disabled"] is False


def test_a_local_cluster_that_is_configured_reports(galvo, processes, python):
    """Besides server and token, LocalCluster only needs this file."""
    user = member(galvo, "configured-" + Path(python).parts[-3])
    (configuration,) = (
        block
        for block in blocks(PYTHON_MD, "yaml")
        if set(yaml.safe_load(block)) == {"distributed"}
    )
    directory = processes.directory / "dask"
    directory.mkdir()
    (directory / "galvo.yaml").write_text(configuration)
    example = """
from dask.distributed import Client, LocalCluster
with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
    with Client(cluster) as client:
        assert client.submit(sum, [1, 2]).result() == 3
        print(client.scheduler_info()["id"])
"""
    settings = {"galvo.server": user.address, "galvo.token": user.token}
    scheduler = run_as_script(python, [example], processes.directory, settings).split()[-1]
    assert cluster_id(user, scheduler)


def test_a_scheduler_of_a_gateway_reports(galvo, processes, python):
    """The gateway appends a preload with options to the command, which are not for Galvo."""
    user = member(galvo, "gateway-" + Path(python).parts[-3])
    (configuration,) = (one for one in blocks(PYTHON_MD, "python no-run") if "scheduler_cmd" in one)
    first = ast.parse(configuration).body[0].value
    command = ast.literal_eval(first)
    assert command == ["dask-scheduler", "--preload", "galvo"]
    environment = ast.parse(configuration).body[1].value
    names = {"DASK_GALVO__SERVER", "DASK_GALVO__TOKEN"}
    assert {ast.literal_eval(name) for name in environment.keys} == names
    dask = DaskCluster(
        processes,
        python,
        preloads=[*command[2:], WORKLOADS / "gateway.py"],
        settings={"galvo.server": user.address, "galvo.token": user.token},
        workers=0,
        arguments=["--dg-heartbeat-period", "15"],
    )
    dask.scheduler.wait_for_log("the gateway beats every 15 seconds")
    (scheduler,) = wait_until(
        lambda: re.findall(
            r"Scheduler-[0-9a-f-]+",
            str(user.query("{ viewer { account { clusters { nodes { schedulerId } } } } }")),
        ),
        "it reports",
    )
    assert scheduler
