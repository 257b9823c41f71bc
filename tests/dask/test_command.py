"""The package's ``galvo`` command: its output matches the data of Dask and the server."""

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import settings_for
from galvo.command import COMMANDS, server
from inquiries import ANNOUNCED, Inquiry
from processes import clean_environment, dask_environment, run_to_end, wait_until
from stores import member
from test_coiled_login import PASSWORD, Browser, own_galvo  # noqa: F401

READER = """
mutation { createToken(input: { label: "reader", scopes: [READ] }) { secret } }
"""


@pytest.fixture
def inquiry(processes, python, galvo, request):
    return Inquiry(processes, python, galvo, "command-" + request.node.name).work()


def test_logs(inquiry):
    """Followed lines appear once, until the scheduler closes; a filter finds existing lines."""
    number = inquiry.wait_for_row()["number"]
    arguments = ["--interval", "0.2s", "--tail", "1000", "--filter", "is what number"]
    following = inquiry.start("logs", number, "--follow", *arguments)
    inquiry.announce(["later"], 40)
    expected = 2 * ANNOUNCED + 40

    def numbers(log):
        """Returns the logged numbers, each as often as it was logged: repetitions are one line."""
        line = r"^\d.* WARNING worker .* is what number (\d+) logs in with(?: \((\d+) times\))?$"
        found = re.findall(line, log, re.MULTILINE)
        return [int(number) for number, times in found for _ in range(int(times or 1))]

    wait_until(lambda: len(numbers(following.log())) >= expected, "all lines are followed", 40)
    found = inquiry.run("logs", number, "--filter", "IS WHAT NUMBER 39 ", "--tail", "10")
    assert found.returncode == 0
    assert numbers(found.stdout) == [39] * 3
    assert inquiry.run("logs", number, "--level", "critical").stdout == ""
    inquiry.client.call("shutdown")
    assert following.wait(40) == 0
    assert sorted(numbers(following.log())) == sorted([*range(ANNOUNCED)] * 2 + [*range(40)])
    # The logs remain after the cluster is gone.
    filtered = inquiry.run("logs", "--filter", "is what number", "--tail", 500)
    assert len(numbers(filtered.stdout)) == expected


def test_stop_and_watch(inquiry):
    number = inquiry.wait_for_row()["number"]
    watching = inquiry.start("watch", number, "--interval", "0.2s")
    watching.wait_for_log(r"^cluster .* · 2 workers, 2 threads · ")
    live = inquiry.run("top").stdout
    mine = next(line for line in live.splitlines() if line.startswith(f"{number} "))
    assert re.search(r" ada +(running|idle for .+?) +\d.* +2 +2 +\S+ \S+ ", mine), live
    assert mine.endswith("~0.10 USD"), "two threads at the server's estimate of 0.05 USD an hour"
    unconfirmed = inquiry.run("stop", number)
    assert (unconfirmed.returncode, inquiry.dask.dask.scheduler.is_running()) == (2, True)
    assert "--yes" in unconfirmed.stderr
    # A read-only token stops nothing.
    reader = inquiry.galvo.query(READER)["createToken"]["secret"]
    refused = inquiry.run("stop", number, "--yes", token=reader)
    assert refused.returncode == 1 and refused.stderr.startswith("galvo: ")
    assert "scope `admin`" in refused.stderr
    assert reader not in refused.stdout + refused.stderr
    assert inquiry.dask.dask.scheduler.is_running()
    done = inquiry.run("stop", number, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert inquiry.dask.dask.scheduler.wait(15) == 0
    assert watching.wait(40) == 0
    assert "closed after" in watching.log().splitlines()[-1]
    left = inquiry.run("top", "--json")
    assert number not in [row["number"] for row in json.loads(left.stdout)["clusters"]]
    listing = inquiry.run("clusters")
    line = listing.stdout.splitlines()[1]
    errors = str(len(inquiry.report["errors"]))
    # How much a few seconds cost depends on the machine.
    assert re.search(rf"^{number} +\S+ +ada +closed .* {errors} +~(less than )?\d", line), line
    assert inquiry.galvo.token not in done.stdout + listing.stdout + watching.log()
    page = inquiry.processes.directory / "report.html"
    assert inquiry.run("report", number, "--output", page).returncode == 0
    assert "closed after" in page.read_text(encoding="utf-8")


def test_login(own_galvo, processes, python):  # noqa: F811
    """A browser activates the token. It is stored readable by its owner only, and works."""
    galvo, directory = own_galvo, processes.directory
    environment = dask_environment(directory, {})
    login = processes.start(
        "login", [python, "-m", "galvo", "login", "--server", galvo.address], environment
    )
    found = login.wait_for_log(r"(http\S+/activate-token\?id=(\w+))", 60)
    address, identifier = found.groups()
    browser = Browser(galvo.address)
    browser.open(address)
    _, page = browser.submit(browser.open(address)[1], username="admin", password=PASSWORD)
    assert identifier in page and login.is_running()
    browser.submit(page, button={"decision": "approve"})
    assert login.wait(30) == 0
    file = directory / "dask" / "galvo.yaml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    saved = yaml.safe_load(file.read_text())["galvo"]
    assert saved["server"] == galvo.address
    assert saved["token"].startswith(f"{identifier}-")
    assert f"as admin, account default.\nThe token is stored in {file}." in login.log()
    assert saved["token"] not in login.log()
    used = subprocess.run(
        [python, "-m", "galvo", "clusters"], env=environment, capture_output=True, text=True
    )
    assert (used.returncode, used.stdout) == (0, "There are no such clusters.\n")


def test_the_server_and_the_package_have_commands_of_their_own(processes, python):
    """No command exists in both programs, and the package passes the server's commands on."""
    binary = Path(os.environ.get("GALVO_BIN", "target/debug/galvo")).resolve()
    usage = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    listed = usage.partition("Commands:\n")[2].partition("\n\n")[0]
    commands = set(re.findall(r"^  (\w[\w-]*) ", listed, re.MULTILINE))
    assert {"serve", "token", "help"} <= commands
    assert commands.isdisjoint(COMMANDS)
    directory = processes.directory / "bin"
    directory.mkdir()
    (directory / "galvo").symlink_to(binary)
    first = Path(python).parent
    environment = {**clean_environment(), "PATH": f"{first}{os.pathsep}{directory}"}
    schema = subprocess.run(
        ["galvo", "schema"], env=environment, executable=first / "galvo", capture_output=True
    )
    assert schema.returncode == 0
    assert schema.stdout.startswith(b'"""') or b"type Query" in schema.stdout


def test_the_package_knows_the_commands_of_the_server():
    binary = os.environ.get("GALVO_BIN", "target/debug/galvo")
    usage = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    listed = usage.partition("Commands:\n")[2].partition("\n\n")[0]
    commands = re.findall(r"^  (\w[\w-]*) ", listed, re.MULTILINE)
    assert set(commands) - {"help"} == set(server.COMMANDS)


def test_a_rate_prices_what_was_estimated(galvo, processes, python):
    """``galvo rate`` with a real server, and the server's error for an invalid rate."""
    seen = member(galvo, "rates-" + Path(python).parts[-3])
    environment = dask_environment(processes.directory, settings_for(seen.address, seen.token))

    def run(*arguments):
        command = [python, "-m", "galvo", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    none = (0, "There are no rates: all costs are estimated.\n", "")
    assert run("rate", "list") == none
    status, out, err = run("rate", "set", "0.05", "USD", "--from", "2026-01-31")
    assert (status, err) == (0, "") and out.splitlines()[1].split() == [
        "2026-01-31",
        *["0.0500", "USD", "0.00", "USD", "0.00", "USD"],
    ]
    query = "{ viewer { account { costRates { validFrom currency perThreadHour } } } }"
    (rate,) = seen.query(query)["viewer"]["account"]["costRates"]
    assert rate == {"validFrom": "2026-01-31", "currency": "USD", "perThreadHour": 0.05}
    assert run("rate", "list") == (0, out, "")
    status, out, err = run("rate", "set", "-1")
    assert (status, out) == (1, "") and err.startswith("galvo: ")
    assert run("rate", "remove", "2026-01-31") == none


def test_wrong_arguments_are_named_by_what_there_is(galvo, processes, python):
    """The errors show the server's own lists of valid values."""
    seen = member(galvo, "arguments-" + Path(python).parts[-3])
    script = """
import galvo
for call in (
    lambda: galvo.list_clusters(filter={"state": ["RUNNING"]}),
    lambda: galvo.list_clusters(filter={"states": ["RUNING"]}),
    lambda: galvo.list_clusters(filter={"tags": {"name": "x"}}),
    lambda: galvo.list_clusters(filter={"hasErrors": "no"}),
    lambda: galvo.export("cluster").save("x.csv"),
    lambda: galvo.export("clusters/12/workers").save("x.csv"),
    lambda: galvo.list_clusters("elsewhere"),
    lambda: galvo.report("etl"),
    lambda: galvo.report(),
):
    try:
        call()
    except (ValueError, galvo.GalvoError) as error:
        print(type(error).__name__, error)
assert galvo.list_clusters(user="nobody") == []
"""
    settings = settings_for(seen.address, seen.token)
    lines = run_to_end([python, "-c", script], processes.directory, settings).splitlines()
    expected = [
        "ValueError filter: there is no 'state', did you mean 'states'? There are ids, states,",
        "ValueError filter['states']: there is no 'RUNING', did you mean 'RUNNING'? There are",
        "ValueError filter['tags']: there is no 'name'",
        "ValueError filter: could not coerce input field ClusterFilter.hasErrors to type Boolean",
        "NotFound there is no export 'cluster', but there are alert-deliveries, ",
        "NotFound there is no such cluster in this account",
        "GraphQLError the credentials give no access to this account (ACCOUNT_MISMATCH)",
        "NotFound 'etl' was taken for a cluster, and this account has none",
        "NotFound no cluster has reported to this account yet",
    ]
    assert len(lines) == len(expected)
    for line, beginning in zip(lines, expected):
        assert line.startswith(beginning), line
