"""``galvo service`` on the root directory of a system that does not run, and its documentation."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY, blocks
from processes import clean_environment

SOURCES = REPOSITORY / "docker" / "systemd"
FILES = {
    "usr/lib/sysusers.d/galvo.conf": ("galvo.sysusers", 0o644),
    "etc/galvo/galvo.env": ("galvo.env", 0o600),
    "etc/systemd/system/galvo.service": ("galvo.service", 0o644),
}
ENABLED = "etc/systemd/system/multi-user.target.wants/galvo.service"


@pytest.fixture
def root(tmp_path):
    directory = tmp_path / "root"
    directory.mkdir()
    return directory


def service(galvo_bin, *arguments):
    return subprocess.run(
        [galvo_bin, "service", *arguments],
        env=clean_environment(),
        umask=0o077,
        capture_output=True,
        text=True,
        timeout=60,
    )


def installed(root):
    """Returns the paths of all files, and of links."""
    files = (path for path in root.rglob("*") if path.is_symlink() or path.is_file())
    return {str(path.relative_to(root)) for path in files}


def test_it_installs_all_that_the_service_needs(root, galvo_bin):
    done = service(galvo_bin, "install", f"--root={root}")
    assert done.returncode == 0, done.stderr
    made = (
        r"Creating group 'galvo' with GID \d+\.\nCreating user 'galvo' \(Galvo server\) with .+\n"
    )
    assert re.fullmatch(made, done.stderr)
    for name, (source, mode) in FILES.items():
        assert (root / name).read_bytes() == (SOURCES / source).read_bytes()
        assert stat.S_IMODE((root / name).stat().st_mode) == mode, name
    program = root / "usr/local/bin/galvo"
    assert program.read_bytes() == Path(galvo_bin).read_bytes()
    # All users run it, whatever the mask of root's shell is.
    assert stat.S_IMODE(program.stat().st_mode) == 0o755
    for directory in {parent for name in FILES for parent in (root / name).parents}:
        if root in directory.parents:
            assert stat.S_IMODE(directory.stat().st_mode) == 0o755, directory
    assert os.readlink(root / ENABLED) == "/etc/systemd/system/galvo.service"
    assert re.search(r"^galvo:", (root / "etc/passwd").read_text(), re.MULTILINE)
    written = {"usr/local/bin/galvo", *FILES}
    assert done.stdout.splitlines() == [
        f"{root}/{name}: written" for name in ["usr/local/bin/galvo", *FILES]
    ]
    of_users = {f"etc/{name}" for name in ("passwd", "group", "shadow", "gshadow", ".pwd.lock")}
    assert installed(root) - of_users == written | {ENABLED}


def test_a_later_program_keeps_the_settings_and_the_program_before(root, galvo_bin):
    assert service(galvo_bin, "install", f"--root={root}").returncode == 0
    program, previous = root / "usr/local/bin/galvo", root / "usr/local/bin/galvo.previous"
    settings = root / "etc/galvo/galvo.env"
    settings.write_text("GALVO_LISTEN=127.0.0.1:9000\n")
    (root / "etc/systemd/system/galvo.service").write_text("[Service]\n")
    again = service(galvo_bin, "install", f"--root={root}")
    assert (again.returncode, again.stderr) == (0, "")
    assert f"{program}: kept\n" in again.stdout and f"{settings}: kept\n" in again.stdout
    assert settings.read_text() == "GALVO_LISTEN=127.0.0.1:9000\n"
    unit = root / "etc/systemd/system/galvo.service"
    assert unit.read_bytes() == (SOURCES / "galvo.service").read_bytes()
    assert not previous.exists()
    program.write_bytes(b"of an earlier release")
    upgraded = service(galvo_bin, "install", f"--root={root}")
    assert (upgraded.returncode, upgraded.stderr) == (0, "")
    assert previous.read_bytes() == b"of an earlier release"
    assert program.read_bytes() == Path(galvo_bin).read_bytes()
    # The way back: the earlier program installs itself, though it loses its name by that.
    os.replace(program, previous)
    program.write_bytes(b"of a later release")
    back = service(previous, "install", f"--root={root}")
    assert (back.returncode, back.stderr) == (0, "")
    assert previous.read_bytes() == b"of a later release"
    assert program.read_bytes() == Path(galvo_bin).read_bytes()


def test_what_cannot_be_written_is_named_and_leaves_what_was_there(root, galvo_bin):
    (root / "etc/systemd/system/galvo.service").mkdir(parents=True)
    done = service(galvo_bin, "install", f"--root={root}")
    assert done.returncode == 1
    unit = root / "etc/systemd/system/galvo.service"
    assert done.stderr == f"galvo: cannot write {unit}: Is a directory (os error 21)\n"
    assert not [name for name in installed(root) if name.endswith(".new")]


def test_uninstalling_keeps_settings_and_data(root, galvo_bin):
    assert service(galvo_bin, "install", f"--root={root}").returncode == 0
    database = root / "var/lib/galvo/galvo.db"
    database.parent.mkdir(parents=True)
    database.touch()
    done = service(galvo_bin, "uninstall", f"--root={root}")
    assert (done.returncode, done.stderr) == (0, "")
    assert {"etc/galvo/galvo.env", "var/lib/galvo/galvo.db"} <= installed(root)
    assert not installed(root) & {"usr/local/bin/galvo", ENABLED, *FILES} - {"etc/galvo/galvo.env"}
    assert done.stdout.splitlines()[-2:] == [
        f"{root}/var/lib/galvo: remains",
        f"{root}/etc/galvo/galvo.env: remains",
    ]
    again = service(galvo_bin, "uninstall", f"--root={root}")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == (
        "galvo: the service is not installed: `galvo service install` installs it\n"
    )


def test_a_script_of_the_python_package_is_not_replaced(root, galvo_bin):
    program = root / "usr/local/bin/galvo"
    program.parent.mkdir(parents=True)
    program.write_text("#!/usr/bin/python3\n")
    done = service(galvo_bin, "install", f"--root={root}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"galvo: {program} is a script, such as the command of the Py")
    assert installed(root) == {"usr/local/bin/galvo"}
    assert program.read_text() == "#!/usr/bin/python3\n"


@pytest.mark.parametrize("command", [["install"], ["uninstall"], ["run", "user", "list"]])
def test_where_it_cannot_be_managed_the_command_fails_and_changes_nothing(command, galvo_bin):
    words, message = [galvo_bin], "systemd does not run this machine: start `galvo serve` "
    if Path("/run/systemd/system").exists() and os.geteuid() == 0:
        # The command sees a machine without systemd.
        hide = 'mount -t tmpfs tmpfs /run/systemd && exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", hide, "sh", galvo_bin]
    elif Path("/run/systemd/system").exists():
        message = "only root can manage the service: run the command with sudo"
    done = subprocess.run(
        [*words, "service", *command],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"galvo: {message}")


def test_the_documented_commands_are_those_of_the_program(galvo_bin):
    commands = blocks("linux.md", "sh")
    for block in commands:
        checked = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
    named = set(re.findall(r"galvo(?:\.previous)? service (\w+)", "\n".join(commands)))
    listed = subprocess.run([galvo_bin, "service", "--help"], capture_output=True, text=True)
    known = re.findall(r"^  (\w+) ", listed.stdout.partition("Commands:\n")[2], re.MULTILINE)
    assert named == set(known) - {"help"} == {"install", "run", "uninstall"}
    # The arguments of `service run` begin with a command of the program.
    passed_on = re.findall(
        r"galvo service run ([a-z ]+?)(?= ada| team| --| /|$)", "\n".join(commands), re.M
    )
    assert {"doctor", "user create", "token create", "backup"} <= set(passed_on)
    for words in passed_on:
        arguments = [galvo_bin, *words.split(), "--help"]
        assert subprocess.run(arguments, capture_output=True).returncode == 0, words
    (drop_in,) = blocks("linux.md", "ini")
    assert drop_in.startswith("[Service]\n")
