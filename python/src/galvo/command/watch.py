"""``galvo watch``: follows a cluster until it is closed."""

from __future__ import annotations

import argparse
from typing import Any

from galvo.client.cluster import NEWEST, key_of
from galvo.client.moments import parse_duration
from galvo.client.server import Server
from galvo.client.watch import Terminal, Watch
from galvo.command.arguments import CLUSTER_HELP


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name, help="follow a cluster until it is closed", parents=[common], description=__doc__
    )
    parser.add_argument("cluster", nargs="?", help=CLUSTER_HELP)
    parser.add_argument("--interval", default="2s", help="how often to look; 2s if not given")


def run(args: argparse.Namespace) -> int:
    server = Server.configured(args.account, args.server)
    seconds = parse_duration(args.interval).total_seconds()
    Watch(server, key_of(server, args.cluster or NEWEST), seconds).follow(Terminal())
    return 0
