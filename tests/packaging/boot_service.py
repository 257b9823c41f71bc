"""The steps of docs/linux.md on a machine that systemd runs, with the unit's confinement.

It boots a Debian in a container of systemd-nspawn, which not every machine allows, so no test run
includes it: ``scripts/packages.sh tests/packaging/boot_service.py`` as root. It takes a minute
where target/ has no such system yet, and 40 seconds afterwards. It needs mmdebstrap and
systemd-container.
"""

import json
import shutil
import subprocess

import pytest
from conftest import REPOSITORY
from empty_root import typed_blocks

PACKAGES = "systemd-sysv,dbus,sudo,curl"
# The headings of the page, each with a command that checks the result of its commands.
CHECKS = {
    "Install": "systemctl is-active galvo; curl -s http://127.0.0.1:8000/readyz; echo; "
    "stat -c '%U %a' /var/lib/galvo /var/lib/galvo/galvo.db /etc/galvo/galvo.env",
    # systemd replaces variables in the arguments of commands.
    "Run commands": "galvo service run user list; galvo service run token create --user ada "
    "--account team --label 'a $HOME' >/dev/null; galvo service run token list --account team",
    "Upgrade": "cmp galvo /usr/local/bin/galvo && echo upgraded; galvo service run user list",
    "Roll back": "cmp galvo /usr/local/bin/galvo.previous && echo rolled back; "
    "galvo service run user list",
    "Uninstall": "ls /usr/local/bin; ls /var/lib/galvo; systemctl is-active galvo",
}
UNIT = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
WorkingDirectory=/opt
Environment=HOME=/root
ExecStart=/bin/bash /opt/steps.sh
[Install]
WantedBy=multi-user.target
"""
PASSWORD = "correct horse battery staple"


@pytest.fixture
def machine(tmp_path):
    """The root directory of a Debian with systemd, which is the test's own."""
    system = REPOSITORY / "target" / "booted-root"
    if not system.is_dir():
        unfinished = system.with_name("booted-root.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        options = ["--quiet", "--mode=root", "--variant=minbase", f"--include={PACKAGES}"]
        old_lists = '--aptopt=Acquire::Check-Valid-Until "false"'
        subprocess.run(["mmdebstrap", *options, old_lists, "bookworm", unfinished], check=True)
        unfinished.rename(system)
    root = tmp_path / "machine"
    subprocess.run(["cp", "-a", system, root], check=True)
    return root


def boot(root, steps):
    """Boots the machine, runs the steps, and returns what each printed and its status."""
    script = []
    for name, command in steps.items():
        # Each step is run as typed into a shell that ends with the first command that fails.
        (root / "opt" / f"{name}.sh").write_text(command)
        script += [
            f"bash -e '/opt/{name}.sh' >'/opt/{name}.out' 2>&1 </opt/input",
            f"echo $? >'/opt/{name}.status'",
        ]
    script.append("systemctl poweroff")
    (root / "opt" / "steps.sh").write_text("\n".join(script))
    (root / "opt" / "input").write_text(PASSWORD + "\n")
    (root / "etc/systemd/system/steps.service").write_text(UNIT)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "steps.service").symlink_to("../steps.service")
    container = ["systemd-nspawn", "--register=no", "--keep-unit", "--boot", f"--directory={root}"]
    # Its network is that of this machine otherwise, where a server may listen already.
    done = subprocess.run(
        [*container, "--private-network"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    def read(name, kind):
        return (root / "opt" / f"{name}.{kind}").read_text()

    return {name: (int(read(name, "status")), read(name, "out")) for name in steps}


def test_the_documented_steps(machine, galvo_bin):
    shutil.copy(galvo_bin, machine / "opt" / "galvo")
    steps = {}
    for heading, check in CHECKS.items():
        if heading == "Upgrade":
            # Another program that does the same.
            steps["a new release"] = "echo >>galvo"
        steps[heading] = typed_blocks("docs/linux.md", heading)[0]
        steps[f"{heading}, checked"] = f"{check} || true"
    found = boot(machine, steps)
    assert {name: status for name, (status, _) in found.items() if status} == {}, found
    output = {name.removesuffix(", checked"): text for name, (_, text) in found.items()}

    active, ready, *files = output["Install"].splitlines()
    assert (active, json.loads(ready)["status"]) == ("active", "ok")
    assert files == ["galvo 700", "galvo 600", "root 600"]
    members = [line.split() for line in output["Run commands"].splitlines()]
    assert ["ada", "team", "owner", "-"] in members
    assert any("clusters" in line and "ingest" in line for line in members)
    assert any(line[-2:] == ["a", "$HOME"] for line in members)
    assert output["Upgrade"].startswith("upgraded\n") and "ada" in output["Upgrade"]
    assert output["Roll back"].startswith("rolled back\n") and "ada" in output["Roll back"]
    assert "galvo\n" not in output["Uninstall"] and "galvo.db\n" in output["Uninstall"]
    assert output["Uninstall"].splitlines()[-1] == "inactive"


def test_wrong_settings_are_in_the_log(machine, galvo_bin):
    shutil.copy(galvo_bin, machine / "opt" / "galvo")
    steps = {
        "install": "./galvo service install",
        "wrong": "echo GALVO_LISTEN=everywhere >/etc/galvo/galvo.env; ./galvo service install",
        "log": "journalctl --unit galvo --no-pager --output cat",
        "started": "systemctl show galvo --property=NRestarts",
    }
    found = boot(machine, steps)
    assert [found[name][0] for name in steps] == [0, 1, 0, 0], found
    assert found["wrong"][1].endswith(
        "galvo: the service did not start: `journalctl --unit galvo` has the reason\n"
    )
    assert "--listen (GALVO_LISTEN): must be an IP address and a port" in found["log"][1]
    # Wrong settings do not become right by a restart.
    assert found["started"][1] == "NRestarts=0\n"
