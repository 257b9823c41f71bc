"""``galvo report``: prints the report of a cluster."""

from __future__ import annotations

import argparse
from typing import Any

from galvo.client.cluster import NEWEST
from galvo.client.report import report_of
from galvo.client.server import Server
from galvo.command.arguments import CLUSTER_HELP


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="did it finish, did anything fail, what did it cost, what took the time",
        parents=[common],
        description=__doc__,
    )
    parser.add_argument("cluster", nargs="?", help=CLUSTER_HELP)
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write it there: a page if the name ends in .html, a text otherwise",
    )


def run(args: argparse.Namespace) -> int:
    with Server.configured(args.account, args.server) as server:
        report = report_of(server, args.cluster or NEWEST)
    if args.output:
        print(f"Written to {report.save(args.output)}")
    else:
        print(report, end="")
    return 0
