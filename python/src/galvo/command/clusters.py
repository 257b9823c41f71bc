"""``galvo clusters``: lists clusters."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any

from galvo.client import quantities
from galvo.client.cluster import clusters_of, state_of
from galvo.client.moments import format_duration, format_time
from galvo.client.server import Row, Server
from galvo.client.terminal import table

STATES = ["starting", "running", "idle", "closing", "closed", "lost"]
TITLES = ["NUMBER", "NAME", "USER", "STATE", "STARTED", "FOR", "WORKERS", "TASKS", "ERRORS", "COST"]


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name, help="list clusters, the newest first", parents=[common], description=__doc__
    )
    parser.add_argument(
        "--since", default="7 days", help="how long ago they started at most; `all` for ever"
    )
    parser.add_argument("--user", help="only those of this user")
    parser.add_argument(
        "--state",
        type=str.lower,
        choices=STATES,
        help="only those in this state",
    )
    parser.add_argument("--limit", type=int, default=50, help="so many at most; 50 if not given")
    parser.add_argument("--json", action="store_true", help="write JSON, with all that is known")


def run(args: argparse.Namespace) -> int:
    since = None if args.since == "all" else args.since
    filter = {"states": [args.state.upper()]} if args.state else None
    with Server.configured(args.account, args.server) as server, warnings.catch_warnings():
        # A message below states that there are more.
        warnings.simplefilter("ignore", UserWarning)
        rows = clusters_of(server, since, args.user, filter, args.limit)
    if args.json:
        json.dump(rows, sys.stdout, indent=2, default=str)
        print()
    elif rows:
        print(table(TITLES, [_cells(row) for row in rows]))
    if not rows and not args.json:
        print("There are no such clusters.")
    if not rows.complete:
        print(f"galvo: there are more than {args.limit}, see --limit", file=sys.stderr)
    return 0


def _cells(row: Row) -> list[str]:
    now, totals = row["now"], row["totals"]
    return [
        str(row["number"]),
        row["name"] or row["schedulerId"],
        row["user"]["name"] if row["user"] else "",
        state_of(row),
        format_time(row["startedAt"]),
        format_duration(row["durationSeconds"]),
        quantities.count(totals["peakWorkers"] if now is None else now["workers"]),
        quantities.count(totals["tasks"]),
        quantities.count(totals["errors"]),
        quantities.costs(row["usage"]["costs"]),
    ]
