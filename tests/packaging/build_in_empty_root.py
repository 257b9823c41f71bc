"""`make run` in an empty system with a compiler, as README.md describes it.

It compiles the server and its libraries, some 12 minutes on two cores, so no test run includes it:
``scripts/packages.sh tests/packaging/build_in_empty_root.py``. It needs Rust on this machine, and
6 GiB of disk and of memory. The packages of Debian, Rust, Python and Node.js are downloaded.
"""

import json
import os
import re
import subprocess
import time

from empty_root import Browser, Terminal, typed_lines

LINES, SECONDS, BUILD_SECONDS = 5, 120, 3600


def wait_for_start(terminal):
    """Waits until `make run` listens, and returns what it printed."""
    started = "grep -q ^store: ~/run.log"
    done = terminal.type(
        f"while kill -0 $run 2>/dev/null && ! {started}; do sleep 0.2; done; {started}"
    )
    assert done.status == 0, terminal.run("tail -n 50 ~/run.log")
    return terminal.run("cat ~/run.log")


def test_make_run_takes_five_lines_and_two_minutes_beside_the_compiler(sources, tmp_path):
    make, *lines = typed_lines("Run it from source")
    assert 1 + len(lines) <= LINES
    rust = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True)
    assert rust.returncode == 0, rust.stderr
    mounts = f"{rust.stdout.strip()} /opt/rust\n{tmp_path} /root/galvo/target"
    with Terminal(os.environ, sources, BUILD_SECONDS, EMPTY_ROOT_MOUNTS=mounts) as terminal:
        terminal.run("apt-get -qq update && apt-get -qq install --yes build-essential >/dev/null")
        terminal.run("cd galvo && export PATH=/opt/rust/bin:$PATH CARGO_PROFILE_DEV_DEBUG=0")
        # Another port, because the network is that of this machine.
        terminal.run("export GALVO_LISTEN=127.0.0.1:0")

        begun = time.monotonic()
        terminal.run(f"{{ {make}; }} </dev/null >~/run.log 2>&1 & run=$!")
        printed = wait_for_start(terminal)
        built = time.monotonic()
        (address,) = re.findall(r"^listening on (\S+)$", printed, re.MULTILINE)
        (token,) = re.findall(r"^token: +(\S+)", printed, re.MULTILINE)
        (link,) = re.findall(r"^sign in: +(\S+)", printed, re.MULTILINE)
        done = []
        for line in lines:
            line = line.replace("http://127.0.0.1:8000", address).replace("<token>", token)
            done.append(terminal.type(line))
        assert [one.status for one in done] == [0] * len(lines), done
        browser = Browser(address)
        browser.open_dashboard()
        seconds = time.monotonic() - built
        times = ", ".join(f"{one.seconds:.1f} s" for one in done)
        print(f"the build took {built - begun:.0f} s, the other lines {times}, all {seconds:.1f} s")
        assert seconds < SECONDS

        assert done[-1].output.splitlines()[-1] == str(sum(range(100)))
        (cluster,) = json.loads(terminal.run("galvo clusters --json"))
        totals = cluster["totals"]
        assert cluster["state"] == "CLOSED"
        assert (totals["tasks"], totals["tasksSucceeded"], totals["tasksErred"]) == (100, 100, 0)
        browser.sign_in(link)
        query = "{ viewer { account { clusters { totalCount } } } }"
        assert browser.query(query) == {"viewer": {"account": {"clusters": {"totalCount": 1}}}}
