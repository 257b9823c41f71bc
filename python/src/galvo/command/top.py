"""``galvo top``: shows the clusters that run now, the most expensive ones first."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from galvo.client.live import Screen, follow, live_clusters
from galvo.client.moments import parse_duration
from galvo.client.pace import Pace
from galvo.client.server import Server


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="show what runs now and what it costs per hour",
        parents=[common],
        description="Shows the clusters that run now, the most expensive ones first, until Ctrl-C."
        " Without a terminal, it prints them once.",
    )
    parser.add_argument("--user", help="only those of this user")
    parser.add_argument("--interval", default="2s", help="how often to look; 2s if not given")
    parser.add_argument("--once", action="store_true", help="print them once")
    parser.add_argument("--json", action="store_true", help="write JSON, once")


def run(args: argparse.Namespace) -> int:
    pace = Pace(parse_duration(args.interval).total_seconds())
    with Server.configured(args.account, args.server) as server:
        if args.json or args.once or not sys.stdout.isatty():
            live = live_clusters(server, args.user)
            if args.json:
                json.dump({"total": live.total, "clusters": live.clusters}, sys.stdout, indent=2)
                print()
            else:
                print("\n".join(live.lines()))
            return 0
        screens = follow(server, args.user, pace)
        first = next(screens)  # an error is printed on the ordinary screen
        try:
            with Screen() as screen:
                screen.show(first)
                for lines in screens:
                    screen.show(lines)
        except KeyboardInterrupt:
            pass
    return 0
