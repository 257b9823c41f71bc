"""``galvo preload``: writes a preload file for a scheduler without this package."""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path
from typing import Any

import dask.config

from galvo import preload
from galvo.plugin.settings import find_configuration_problem, normalise_server

DEFAULT_NAME = "galvo_preload.py"
UNSET_SERVER_LINE = "SERVER: Optional[str] = None\n"


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="write a file for `dask scheduler --preload`, where this package is not installed",
        parents=[common],
        description="Writes a file for `dask scheduler --preload` that fetches the plugin from the"
        " server in the background. Dask starts whatever the server does. Where this package is"
        " installed, `--preload galvo` needs no file.",
    )
    parser.add_argument(
        "file",
        nargs="?",
        default=DEFAULT_NAME,
        help=f"where to write it, by default {DEFAULT_NAME}; - prints it",
    )


def run(args: argparse.Namespace) -> int:
    server = args.server or dask.config.get("galvo.server", None)
    text = preload_text(None if server is None else str(server))
    if args.file == "-":
        sys.stdout.write(text)
        return 0
    path = Path(args.file)
    # Dask imports it by its name.
    if path.suffix != ".py" or not path.stem.isidentifier() or path.stem == "galvo":
        raise ValueError(
            f"Dask cannot preload a file of this name: {path.name}; say {DEFAULT_NAME}"
        )
    path.write_text(text, encoding="utf-8")
    print(f"Wrote {path}. Settings and token are read from Dask's configuration there:")
    print(f"  DASK_GALVO__TOKEN=<token> dask scheduler --preload {path}")
    return 0


def preload_text(server: str | None) -> str:
    """Returns the text of the file, with the server's address unless the configuration has it."""
    text = inspect.getsource(preload)
    if server is None:
        return text
    address = normalise_server(server)
    # The token is not part of the file, and is not checked.
    problem = find_configuration_problem({"server": address, "token": "-"})
    if problem is not None:
        raise ValueError(problem)
    assert text.count(UNSET_SERVER_LINE) == 1
    return text.replace(
        UNSET_SERVER_LINE, UNSET_SERVER_LINE.replace("None\n", repr(address) + "\n")
    )
