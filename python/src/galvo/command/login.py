"""``galvo login``: obtains a token and stores it."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import Any

from galvo.client.login import (
    SCOPES,
    Activation,
    configuration_file,
    login,
    login_with,
    overriding_variables,
)


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="obtain a token through the browser, and store it",
        description="Shows a page of the server on which somebody who is signed in activates a"
        " token, and writes it to galvo.yaml in Dask's configuration directory, readable by its"
        " owner alone.",
    )
    # An account option makes no sense here: the token determines the account.
    parser.add_argument(
        "--server",
        metavar="URL",
        default=argparse.SUPPRESS,
        help="the server, instead of galvo.server",
    )
    parser.add_argument(
        "--scope",
        dest="scopes",
        choices=SCOPES,
        nargs="+",
        help="the scopes of the token; by default, all scopes of your role",
    )
    parser.add_argument(
        "--token-stdin",
        action="store_true",
        help="read an existing token from standard input; a typed token is not shown",
    )


def run(args: argparse.Namespace) -> int:
    if args.account is not None:
        raise ValueError("--account cannot be used with login: the token determines the account")
    file = configuration_file()
    if args.token_stdin and args.scopes:
        raise ValueError("--scope cannot be used with --token-stdin: the token exists already")
    if args.token_stdin:
        token = getpass.getpass("Token: ") if sys.stdin.isatty() else sys.stdin.readline()
        if not token.strip():
            raise ValueError("there is no token on standard input")
        identity = login_with(token, args.server)
    else:
        identity = login(args.server, _show, scopes=args.scopes)
    print(f"Signed in at {identity.address} as {identity.user}, account {identity.account}.")
    print(f"The token is stored in {file}.")
    for variable in overriding_variables():
        print(f"galvo: {variable} is set, and overrides that file", file=sys.stderr)
    return 0


def _show(activation: Activation) -> None:
    print("Open this page, compare the code, and activate the token:")
    print(f"  {activation.address}\n  code: {activation.code}")
    print("Waiting…", flush=True)
