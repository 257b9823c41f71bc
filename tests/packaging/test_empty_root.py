"""The quick start of README.md in an empty system, line by line, from the wheels.

The file takes some 20 seconds, a minute if other tests keep the processors busy, and another minute
if target/ has no such system yet, for which Debian's packages are needed. pip gets Dask from the
package index. ``build_in_empty_root.py`` does the same from the sources, and runs only if it is
named, because it compiles the server for many minutes.
"""

import json
import os
import re
import shutil
import time

import pytest
from empty_root import Browser, Terminal, typed_lines

LINES, SECONDS = 5, 120
ANSWER = sum(range(100))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory, release):
    """A directory with nothing but the two wheels of a release."""
    directory = tmp_path_factory.mktemp("wheels")
    for wheel in release.glob("*.whl"):
        shutil.copy(wheel, directory)
    return directory


def test_the_quick_start_takes_five_lines_and_two_minutes(wheels):
    lines = typed_lines("Quick start")
    assert len(lines) <= LINES
    with Terminal(os.environ, wheels) as terminal:
        # Nothing of this machine is there but its network.
        assert terminal.type("command -v cargo cc make git galvo").output == ""
        names = terminal.run("ls -A ~").split()
        assert sum(name.endswith(".whl") for name in names) == 2
        assert "externally-managed-environment" in terminal.type("pip install galvo*.whl").output

        begun = time.monotonic()
        done = [terminal.type(line) for line in lines]
        assert [one.status for one in done] == [0] * len(lines), done
        _, _, up, workload, report = (one.output for one in done)
        (address,) = re.findall(r"^Galvo runs at (http://127\.0\.0\.1:\d+) ", up, re.MULTILINE)
        browser = Browser(address)
        browser.open_dashboard()
        seconds = time.monotonic() - begun
        times = ", ".join(f"{one.seconds:.1f} s" for one in done)
        print(f"{len(lines)} lines took {times}; with the dashboard's page {seconds:.1f} s")
        assert seconds < SECONDS

        assert workload.splitlines()[-1] == str(ANSWER)
        assert "Tasks: 100 done, 0 erred\n" in report
        assert "The 1 computation finished.\n" in report
        (cluster,) = json.loads(terminal.run("galvo clusters --json"))
        totals = cluster["totals"]
        assert cluster["state"] == "CLOSED"
        assert (totals["tasks"], totals["tasksSucceeded"], totals["tasksErred"]) == (100, 100, 0)

        # There is no browser in the system: the command prints the link.
        (link,) = re.findall(r"^In a browser: (\S+)$", up, re.MULTILINE)
        browser.sign_in(link)
        viewer = browser.query(
            "{ viewer { user { name } account { clusters { nodes { totals { tasks } } } } } }"
        )["viewer"]
        assert viewer == {
            "user": {"name": "admin"},
            "account": {"clusters": {"nodes": [{"totals": {"tasks": 100}}]}},
        }
        assert re.search(r"^The server, process \d+, is stopped\.$", terminal.run("galvo down"))

        # The package alone says how to get the server, and that works.
        terminal.run("pip uninstall --quiet --yes galvo-server")
        alone = terminal.type("galvo up")
        assert alone.status == 2 and alone.output.count("\n") == 1
        assert "`pip install 'galvo[server]'`" in alone.output
        assert "`--find-links DIRECTORY`" in alone.output
        terminal.run("pip install --quiet --find-links . 'galvo[server]'")
        assert re.fullmatch(r"galvo \d+\.\d+\.\d+\n", terminal.run("galvo-server --version"))


@pytest.mark.parametrize("script", ["run.sh", "demo.sh"])
def test_a_build_names_all_that_is_missing_at_once(script, sources):
    with Terminal(os.environ, sources) as terminal:
        terminal.run("cd galvo")
        state = "{ find ~ -printf '%p %s\\n'; dpkg --list; } | sha256sum"
        before = terminal.run(state)
        rust, compiler, dashboard = (
            "\n  - Rust 1.",
            "\n  - a C compiler ",
            "\n  - for the dashboard",
        )

        def missing(setup=""):
            done = terminal.type(f"( {setup} scripts/{script} )")
            # It takes a quarter of a second, unless other tests keep the processors busy.
            assert (done.status, done.seconds < 3) == (1, True), done
            assert done.output.startswith("error: this machine cannot build Galvo. ")
            return [one for one in (rust, compiler, dashboard) if one in done.output], done.output

        assert missing()[0] == [rust, compiler]
        # Nothing is downloaded, created or installed.
        assert terminal.run(state) == before

        terminal.run("mkdir ~/programs && PATH=$HOME/programs:$PATH")
        for name, prints in [("cargo", ""), ("rustc", "rustc 1.85.0 (4d91de4e4 2025-02-17)")]:
            terminal.run(f"printf '#!/bin/sh\\necho \"{prints}\"\\n' > ~/programs/{name}")
        terminal.run("chmod +x ~/programs/*")
        found, output = missing()
        assert found == [rust, compiler] and "this is rustc 1.85.0 (" in output
        terminal.run("sed -i s/1.85.0/9.0.0/ ~/programs/rustc")
        assert missing()[0] == [compiler]
        # Without Python there is no Node.js either.
        assert missing("rm /usr/bin/python3*;")[0] == [compiler, dashboard]
