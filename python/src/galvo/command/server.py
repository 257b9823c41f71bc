"""Finds the server's own program, and passes the server's commands on to it.

The wheel ``galvo-server`` installs that program as ``galvo-server``. Elsewhere it is called
``galvo``, as this command is.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from galvo.client.errors import NotConfigured

NAME = "galvo"
WHEEL_NAME = "galvo-server"
# Names the program. The program itself would take the variable for an unknown setting.
VARIABLE = "GALVO_SERVER_BIN"
# The commands of the server's program, to distinguish them from unknown commands.
COMMANDS = (
    "serve",
    "migrate",
    "ready",
    "status",
    "schema",
    "backup",
    "doctor",
    "account",
    "user",
    "token",
    "rollup",
    "key",
    "cluster",
    "retention",
    "session",
    "service",
)
INSTALL_HELP = (
    "`pip install 'galvo[server]'` installs it beside this command, with `--find-links DIRECTORY`"
    " from a release's files, and GALVO_SERVER_BIN names one that is elsewhere"
)


def pass_on(command: str, arguments: Sequence[str], own_commands: Collection[str]) -> int:
    """Replaces this process by the server's program. Returns only if that is not found."""
    program = server_program()
    if command not in COMMANDS and (program is None or not _has_command(program, arguments)):
        print(f"galvo: {_describe_unknown_command(command, own_commands)}", file=sys.stderr)
        return 2
    if program is None:
        print(f"galvo: {_describe_missing_program(command)}", file=sys.stderr)
        return 2
    sys.stdout.flush()
    os.execve(program, [str(program), *arguments], environment())


def environment() -> dict[str, str]:
    """Returns the environment for the server's program."""
    return {name: value for name, value in os.environ.items() if name != VARIABLE}


def _has_command(program: Path, arguments: Sequence[str]) -> bool:
    """True if one of the arguments is a command of the program.

    It is not the first word if options precede it. A newer program may have commands that the list
    here lacks.
    """
    return any(word in COMMANDS for word in arguments) or not _list_commands(program).isdisjoint(
        arguments
    )


def _list_commands(program: Path) -> set[str]:
    """Returns the commands that the program's help lists."""
    try:
        result = subprocess.run(
            [str(program), "--help"],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return set()
    listed = result.stdout.partition("Commands:\n")[2].partition("\n\n")[0]
    return {line.split()[0] for line in listed.splitlines() if line.strip()}


def _describe_missing_program(command: str) -> str:
    return (
        f"`galvo {command}` is a command of the server's own program, which is not installed here."
        f" {INSTALL_HELP}. To manage a server that runs elsewhere, run the command there, with"
        f" the same GALVO_DATABASE_URL: `docker exec CONTAINER galvo {command}` in a container"
    )


def _describe_unknown_command(command: str, own_commands: Collection[str]) -> str:
    matches = difflib.get_close_matches(command, [*own_commands, *COMMANDS], 1)
    suggestion = f", did you mean `{matches[0]}`?" if matches else ""
    return f"there is no command `{command}`{suggestion or ': see --help'}"


def server_program() -> Path | None:
    """Returns the server's program; None if there is none.

    It is the one that ``GALVO_SERVER_BIN`` names, that of the wheel in the environment of this
    Python, or the first one on PATH that is not a script, unlike this command. Raises NotConfigured
    if the variable names no program.
    """
    if os.name != "posix":
        return None
    configured_path = os.environ.get(VARIABLE)
    if configured_path:
        program = Path(configured_path).absolute()
        if not _is_program(program):
            raise NotConfigured(f"{VARIABLE} names no program: {program}")
        return program
    return next(
        (path for path in _candidates() if _is_program(path) and not _is_script(path)), None
    )


def _candidates() -> Iterator[Path]:
    # The command that runs may be that of another environment than the first on PATH.
    yield Path(sys.argv[0]).absolute().parent / WHEEL_NAME
    yield Path(sysconfig.get_path("scripts")) / WHEEL_NAME
    for directory in os.get_exec_path():
        yield Path(directory) / WHEEL_NAME
        yield Path(directory) / NAME


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True
