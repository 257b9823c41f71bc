"""``galvo report``: what there is to say of a cluster."""

from __future__ import annotations

import argparse
from typing import Any

from galvo.client.report import report_of
from galvo.client.server import Server


def describe(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="did it finish, did anything fail, what did it cost, what took the time",
        parents=[common],
        description=__doc__,
    )
    parser.add_argument("cluster", help="its number, identifier or scheduler's identifier")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write it there: a page if the name ends in .html, a text otherwise",
    )


def run(asked: argparse.Namespace) -> int:
    with Server.configured(asked.account, asked.server) as server:
        report = report_of(server, asked.cluster)
    if asked.output:
        print(f"Written to {report.save(asked.output)}")
    else:
        print(report, end="")
    return 0
