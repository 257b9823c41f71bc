"""``galvo spool``: sends the reports that closed schedulers could not send."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import datetime, timezone
from typing import Any

from galvo.client.errors import RequestRefused
from galvo.client.server import Server
from galvo.client.terminal import printable
from galvo.plugin import read_settings
from galvo.plugin.settings import normalise_server
from galvo.plugin.spool import (
    Spooled,
    Unusable,
    directory_of,
    list_files,
    read_file,
    set_aside,
    split_report,
)
from galvo.plugin.values import compress

# Statuses that neither a retry nor another token can turn into success.
UNUSABLE_STATUSES = (400, 404, 413, 422)
TOO_LARGE = 413


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="what schedulers could not send before they closed",
        parents=[common],
        description="Lists, sends or deletes what schedulers of this machine could not send before"
        " they closed, and kept in the directory that galvo.spool.directory names. Without files,"
        " all of it is meant: to be sent, what is for the configured server and account.",
    )
    parser.add_argument("action", choices=("list", "send", "delete"))
    parser.add_argument("files", nargs="*", metavar="FILE", help="instead of all there are")
    parser.add_argument("--directory", help="instead of galvo.spool.directory")


def run(args: argparse.Namespace) -> int:
    paths = args.files
    if not paths:
        directory = args.directory or directory_of(read_settings())
        if directory is None:
            raise ValueError("no directory is configured: set galvo.spool.directory")
        paths = list_files(directory)
    if args.action == "delete":
        for path in paths:
            os.remove(path)
            print(f"Deleted {path}.")
        return 0
    spooled_files, status = [], 0
    for path in paths:
        try:
            spooled_files.append(read_file(path))
        except Unusable as problem:
            status = 1
            print(f"galvo: {path} cannot be used: {printable(str(problem))}", file=sys.stderr)
            if args.action == "send" and os.path.exists(path):
                print(f"galvo: it is set aside as {set_aside(path)}", file=sys.stderr)
    if args.action == "list":
        for spooled in spooled_files:
            print(_describe_file(spooled))
        return status
    return max(status, _send_files(args, spooled_files)) if spooled_files else status


def _describe_file(spooled: Spooled) -> str:
    head = spooled.head
    closed = datetime.fromtimestamp(float(head.get("closed_at") or 0), timezone.utc)
    summary = f"{closed:%Y-%m-%d %H:%M:%S} UTC  {head.get('scheduler_id')}  {head.get('server')}"
    account = f"  account {head['account']}" if head.get("account") else ""
    return printable(f"{spooled.path}  {summary}{account}  {len(spooled.reports)} reports")


def _send_reports(server: Server, spooled: Spooled) -> None:
    """Sends the reports of a file, and those that are too large in parts."""
    pending_reports = list(spooled.reports)
    while pending_reports:
        report = pending_reports.pop(0)
        try:
            server.report(str(spooled.head.get("scheduler_id")), *compress(report))
        except RequestRefused as refusal:
            halves = split_report(report) if refusal.status == TOO_LARGE else []
            if not halves:
                raise
            pending_reports[:0] = halves


def _send_files(args: argparse.Namespace, spooled_files: list[Spooled]) -> int:
    status = 0
    with Server.configured(args.account, args.server) as server:
        for spooled in spooled_files:
            account = spooled.head.get("account")
            # A file named explicitly is sent to the server given.
            is_for_server = normalise_server(spooled.head.get("server")) == server.address
            is_for_server = is_for_server and (
                not account or not server.account or account == server.account
            )
            if not is_for_server and not args.files:
                print(f"{spooled.path} is for {printable(str(spooled.head.get('server')))}.")
                continue
            try:
                _send_reports(server, spooled)
            except RequestRefused as refusal:
                if refusal.status not in UNUSABLE_STATUSES:
                    raise
                status = 1
                print(
                    f"galvo: {spooled.path} is refused: {printable(str(refusal))}", file=sys.stderr
                )
                print(f"galvo: it is set aside as {set_aside(spooled.path)}", file=sys.stderr)
                continue
            os.remove(spooled.path)
            print(f"Sent {spooled.path}.")
    return status
