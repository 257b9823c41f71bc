"""The server's own program, which is called ``galvo`` as well and has other commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

NAME = "galvo"


def pass_on(word: str, arguments: Sequence[str]) -> int:
    """Becomes the server's program; only where that is not found does it come back."""
    program = server_program()
    if program is None:
        print(
            f"galvo: there is no command `{word}`, see --help; commands of the server itself are"
            " passed on to its own program, which is not on PATH",
            file=sys.stderr,
        )
        return 2
    sys.stdout.flush()
    os.execv(program, [str(program), *arguments])


def server_program() -> Path | None:
    """The first program on PATH that has the name and is no script, as our own is."""
    if os.name != "posix":
        return None
    for directory in os.get_exec_path():
        candidate = Path(directory) / NAME
        if candidate.is_file() and os.access(candidate, os.X_OK) and not _is_script(candidate):
            return candidate
    return None


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True
