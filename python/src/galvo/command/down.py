"""``galvo down``: stops the server that ``galvo up`` started."""

from __future__ import annotations

import argparse
from typing import Any

from galvo.client.errors import NotConfigured


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    commands.add_parser(
        name,
        help="stop the server of this machine",
        description="Stops the server that `galvo up` started. Its data stays.",
    )


def run(args: argparse.Namespace) -> int:
    try:
        from galvo.local_server import LocalServer
    except ImportError:
        raise NotConfigured("the server does not run on this system") from None
    process_id = LocalServer().stop()
    if process_id is None:
        print("There is no server to stop.")
    else:
        print(f"The server, process {process_id}, is stopped.")
    return 0
