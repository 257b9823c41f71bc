"""``galvo logs``: shows the logs of a cluster, also after it is gone."""

from __future__ import annotations

import argparse
import json
from typing import Any

from galvo.client.cluster import NEWEST, key_of
from galvo.client.log import LogFilter, tail
from galvo.client.moments import parse_duration
from galvo.client.pace import Pace
from galvo.client.server import Row, Server
from galvo.client.terminal import printable
from galvo.command.arguments import CLUSTER_HELP


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name, help="show a cluster's logs", parents=[common], description=__doc__
    )
    parser.add_argument("cluster", nargs="?", help=CLUSTER_HELP)
    parser.add_argument(
        "--filter",
        metavar="TEXT",
        help="only lines that contain this text, in upper or lower case",
    )
    parser.add_argument("--follow", action="store_true", help="show what comes, until it is closed")
    parser.add_argument(
        "--tail",
        type=int,
        default=100,
        metavar="N",
        help="begin with the last so many lines; 100 if not given",
    )
    parser.add_argument("--level", action="append", help="only lines of this level; several times")
    parser.add_argument(
        "--source",
        action="append",
        choices=["scheduler", "worker", "nanny"],
        help="only lines of this kind of process; several times",
    )
    parser.add_argument("--interval", default="2s", help="how often to look; 2s if not given")
    parser.add_argument("--json", action="store_true", help="write a line of JSON for each line")


def run(args: argparse.Namespace) -> int:
    if args.tail < 0:
        raise ValueError("--tail has to be 0 or more")
    pace = Pace(parse_duration(args.interval).total_seconds()) if args.follow else None
    log_filter = LogFilter(args.filter, args.level, args.source)
    with Server.configured(args.account, args.server) as server:
        cluster = key_of(server, args.cluster or NEWEST)
        for lines in tail(server, cluster, log_filter, args.tail, pace):
            for line in lines:
                print(
                    json.dumps(line, default=str) if args.json else _format_line(line), flush=True
                )
    return 0


def _format_line(line: Row) -> str:
    time = line["at"].astimezone().isoformat(sep=" ", timespec="milliseconds")
    source = line["source"].lower() + (f" {line['worker']}" if line["worker"] else "")
    message = line["message"]
    first, *continuation = (message or "").split("\n") if message is not None else ["[unreadable]"]
    repetition = f" ({line['repeated']} times)" if line["repeated"] > 1 else ""
    head = printable(f"{time} {line['level']} {source} {line['logger']}: {first}{repetition}")
    # Continuation lines are indented, so that only a real log line looks like one.
    return "\n".join([head, *("    " + printable(line_text) for line_text in continuation)])
