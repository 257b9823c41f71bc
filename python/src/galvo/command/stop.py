"""``galvo stop``: closes a cluster."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from galvo.client.cluster import close_cluster, key_to_close
from galvo.client.server import UNREADABLE_CODES, Server
from galvo.client.snapshot import SNAPSHOT, Snapshot
from galvo.client.terminal import printable


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="close a cluster",
        parents=[common],
        description="Closes a cluster: its scheduler, which takes its workers along. What runs is"
        " lost.",
    )
    parser.add_argument("cluster", help="its number, name, identifier or scheduler's identifier")
    parser.add_argument("--yes", action="store_true", help="do not ask; needed without a terminal")


def run(args: argparse.Namespace) -> int:
    with Server.configured(args.account, args.server) as server:
        cluster = key_to_close(server, args.cluster)
        snapshot = Snapshot(
            server.graphql(SNAPSHOT, {"id": cluster.id}, UNREADABLE_CODES)["cluster"]
        )
        print(printable(str(snapshot)))
        if snapshot.closed:
            return 0
        if not args.yes:
            if not sys.stdin.isatty():
                raise ValueError("nobody can be asked without a terminal: give --yes")
            if input("Close it? [y/N] ").strip().lower() not in ("y", "yes"):
                print("It goes on.")
                return 1
        close_cluster(server, cluster)
    print("It closes when its scheduler reports next.")
    return 0
