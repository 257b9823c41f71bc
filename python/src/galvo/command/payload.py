"""``galvo payload``: shows what a scheduler would send, and sends nothing."""

from __future__ import annotations

import argparse
from typing import Any

import dask
from distributed import Client

from galvo.plugin import read_settings
from galvo.registration import preview


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="what a scheduler would send, by class of data",
        parents=[common],
        description="Shows the first report of a scheduler by class of data, and what was removed"
        " from it as a secret. Nothing is registered or sent. The settings are those of this"
        " process. The account may refuse classes, which then are not sent.",
    )
    parser.add_argument(
        "scheduler",
        nargs="?",
        help="its address, such as tcp://10.0.0.1:8786; scheduler-address of Dask's configuration"
        " if not given",
    )
    parser.add_argument("--json", action="store_true", help="the report exactly as it is sent")


def run(args: argparse.Namespace) -> int:
    address = args.scheduler or dask.config.get("scheduler-address", None)
    if not address:
        raise ValueError("no scheduler: give its address, such as tcp://10.0.0.1:8786")
    settings = read_settings(args.server, None, args.account)
    if settings["disabled"]:
        print("Nothing is sent, because galvo.disabled is true.")
        return 0
    with Client(address, set_as_default=False, timeout="10s") as client:
        payload = preview(client, settings)
    print(payload.text if args.json else payload)
    return 0
