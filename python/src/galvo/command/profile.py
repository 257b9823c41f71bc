"""``galvo profile``: writes the profile of a cluster as a file for speedscope or pprof."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from galvo.client.cluster import NEWEST, key_of
from galvo.client.profile import write_profile
from galvo.client.server import Server
from galvo.command.arguments import CLUSTER_HELP


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="write a cluster's profile as a file for speedscope or pprof",
        parents=[common],
        description=__doc__,
    )
    parser.add_argument("cluster", nargs="?", help=CLUSTER_HELP)
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write it there: for pprof if the name ends in .pb.gz, .pprof or .prof, for speedscope"
        " otherwise; cluster-NUMBER.speedscope.json if not given",
    )
    parser.add_argument(
        "--function",
        action="append",
        default=[],
        metavar="PREFIX",
        help="only samples in tasks of this function; it may be given several times",
    )
    parser.add_argument(
        "--worker",
        action="append",
        default=[],
        metavar="ID",
        help="only samples on the worker with this identifier, if galvo.profile.by-worker is set;"
        " it may be given several times",
    )


def run(args: argparse.Namespace) -> int:
    with Server.configured(args.account, args.server) as server:
        cluster_key = key_of(server, args.cluster or NEWEST)
        path = Path(args.output or f"cluster-{cluster_key.number}.speedscope.json")
        filters = {"functions": args.function, "workers": args.worker}
        output_path = write_profile(server, path, cluster_key.number, **filters)
        print(f"Written to {output_path}")
    return 0
