"""``galvo import``: imports files that Dask wrote as clusters with a history."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from galvo.client import quantities
from galvo.client.errors import NotImportable
from galvo.client.moments import format_duration, format_time
from galvo.client.server import Server
from galvo.client.terminal import printable
from galvo.importing import Imported, import_file, import_with

SHOWN = ("workers", "task_groups", "errors", "events", "logs", "samples")


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="make clusters of Dask's cluster dumps and performance reports",
        parents=[common],
        description="Makes a cluster with history of each cluster dump"
        " (Client.dump_cluster_state, .msgpack.gz or .yaml) and performance report"
        " (performance_report, .html). The same file becomes a cluster only once.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", type=Path)
    parser.add_argument("--name", help="what the cluster is called; the file's name if not given")
    parser.add_argument(
        "--no-usage",
        dest="usage",
        action="store_false",
        help="do not count what the cluster used: for one that reported itself",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="send nothing, and print the reports as JSON"
    )


def run(args: argparse.Namespace) -> int:
    if args.name is not None and len(args.files) > 1:
        raise ValueError("--name is for a single file")
    name, usage = args.name, args.usage
    if args.dry_run:
        return _import_each(args, lambda path: import_file(path, name, usage=usage, dry_run=True))
    with Server.configured(args.account, args.server) as server:
        return _import_each(args, lambda path: import_with(server, path, name, usage))


def _import_each(args: argparse.Namespace, import_one: Any) -> int:
    """Imports each file. A file that cannot be imported must not prevent the others."""
    status = 0
    for path in args.files:
        try:
            imported: Imported = import_one(path)
        except (NotImportable, OSError) as error:
            print(f"galvo: {printable(str(error))}", file=sys.stderr)
            status = 1
            continue
        if imported.reports:
            for report in imported.reports:
                print(report)
        else:
            print(printable(_describe_import(imported)))
        for note in [] if imported.already else imported.notes:
            print(f"  {printable(note)}", file=sys.stderr if imported.reports else sys.stdout)
    return status


def _describe_import(imported: Imported) -> str:
    number = imported.number
    if imported.already:
        return f"{imported.path}: had been imported before, as cluster {number}"
    duration = format_duration((imported.ended_at - imported.started_at).total_seconds())
    counts = [
        quantities.count(imported.counts[section], section.replace("_", " "))
        for section in SHOWN
        if imported.counts[section]
    ]
    return (
        f"{imported.path}: cluster {number}, of a {imported.kind} from"
        f" {format_time(imported.started_at)} over {duration}: {', '.join(counts)};"
        f" see `galvo report {number}`"
    )
