"""``galvo rate``: manages the rates from which the costs of clusters are computed."""

from __future__ import annotations

import argparse
from datetime import date, datetime, timezone
from typing import Any

from galvo.client import quantities
from galvo.client.errors import GalvoError
from galvo.client.server import Row, Server
from galvo.client.terminal import table

RATE = "validFrom currency perThreadHour perGibHour perWorkerHour"
RATES = f"{{ viewer {{ account {{ costRates {{ {RATE} }} }} }} }}"
CHANGED = f"account {{ costRates {{ {RATE} }} }} userErrors {{ message }}"
SET = f"""
mutation ($input: CostRateInput!) {{ changed: setCostRate(input: $input) {{ {CHANGED} }} }}
"""
DELETE = f"""
mutation ($day: Date!) {{ changed: deleteCostRate(validFrom: $day) {{ {CHANGED} }} }}
"""
TITLES = ["FROM", "PER THREAD-HOUR", "PER GIB-HOUR", "PER WORKER-HOUR"]


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="show or set what an hour of a thread costs",
        description="Shows and sets the rates by which the costs of clusters are worked out. Days"
        " before the first one are estimated.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="show the rates, the first one first", parents=[common])
    setting = actions.add_parser(
        "set",
        help="set the rate from a day on",
        parents=[common],
        description="Sets what things cost from a day on, until the next rate begins; a rate of the"
        " same day is replaced. The token needs the scope `admin`.",
    )
    setting.add_argument("per_thread_hour", metavar="AMOUNT", type=float, help="of one thread-hour")
    setting.add_argument(
        "currency", nargs="?", default="USD", help="ISO 4217 code; USD if not given"
    )
    setting.add_argument(
        "--from",
        dest="day",
        metavar="DAY",
        type=_day,
        help="as 2026-01-31, in UTC; today if not given",
    )
    setting.add_argument("--per-gib-hour", metavar="AMOUNT", type=float, default=0.0)
    setting.add_argument("--per-worker-hour", metavar="AMOUNT", type=float, default=0.0)
    removing = actions.add_parser(
        "remove", help="remove the rate that begins on a day", parents=[common]
    )
    removing.add_argument("day", metavar="DAY", type=_day, help="as 2026-01-31")


def run(args: argparse.Namespace) -> int:
    with Server.configured(args.account, args.server) as server:
        if args.action == "list":
            account = server.graphql(RATES)["viewer"]["account"]
        elif args.action == "set":
            account = _changed(server.graphql(SET, {"input": _input(args)}))
        else:
            account = _changed(server.graphql(DELETE, {"day": args.day}))
    rates = account["costRates"]
    if rates:
        print(table(TITLES, [_cells(rate) for rate in rates]))
    else:
        print("There are no rates: all costs are estimated.")
    return 0


def _input(args: argparse.Namespace) -> Row:
    return {
        "validFrom": args.day or datetime.now(timezone.utc).date(),
        "currency": args.currency.upper(),
        "perThreadHour": args.per_thread_hour,
        "perGibHour": args.per_gib_hour,
        "perWorkerHour": args.per_worker_hour,
    }


def _changed(answer: Row) -> Row:
    """Returns the account after a change. Raises GalvoError if the server rejected the change."""
    payload = answer["changed"]
    if payload["userErrors"]:
        raise GalvoError("; ".join(error["message"] for error in payload["userErrors"]))
    account: Row = payload["account"]
    return account


def _cells(rate: Row) -> list[str]:
    amounts = (rate[name] for name in ("perThreadHour", "perGibHour", "perWorkerHour"))
    return [rate["validFrom"], *(quantities.amount(amount, rate["currency"]) for amount in amounts)]


def _day(text: str) -> date:
    return date.fromisoformat(text)
