"""The ``galvo`` command for users of clusters, and ``python -m galvo``.

The server's own program has other commands, for operators, which this command passes on.

The exit status is 0 for success, 2 for wrong usage or missing settings, 130 after Ctrl-C, and 1
otherwise. No message shows a token or a traceback.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from galvo.client.errors import GalvoError, NotConfigured
from galvo.command import (
    clusters,
    down,
    import_,
    login,
    logs,
    payload,
    preload,
    profile,
    rate,
    report,
    spool,
    stop,
    top,
    up,
    watch,
)
from galvo.command import server as server_commands
from galvo.plugin import VERSION

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
COMMANDS = {
    "up": up,
    "down": down,
    "login": login,
    "clusters": clusters,
    "top": top,
    "logs": logs,
    "watch": watch,
    "report": report,
    "profile": profile,
    "stop": stop,
    "rate": rate,
    "import": import_,
    "preload": preload,
    "payload": payload,
    "spool": spool,
}
# Options allowed before or after the command, with their value's name and description.
OPTIONS = {
    "--server": ("URL", "the server, instead of galvo.server"),
    "--account": ("SLUG", "the account, instead of galvo.account"),
}
ADVICE = {
    "ACCOUNT_MISMATCH": "galvo.account, or else coiled.workspace, names another than the token's",
    "UNAUTHENTICATED": "the token is none that is good there: sign in with `galvo login`",
    "FORBIDDEN": "this takes a token with the scope `admin`, or an object of your own",
    "MISSING_SCOPE": "this takes a token with the scope `read`",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, and returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    command = _find_command(arguments)
    if command is not None and command not in COMMANDS:
        return _pass_on(command, arguments)
    try:
        args = _parser().parse_args(arguments)
    except SystemExit as end:  # argparse has printed the reason
        return end.code if isinstance(end.code, int) else WRONG_USAGE
    _show_warnings()
    try:
        status: int = COMMANDS[args.command].run(args)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe. Python would print another error on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except NotConfigured as error:
        return _print_error(str(error), WRONG_USAGE)
    except GalvoError as error:
        # Advice to sign in is of no use while signing in.
        advice = None if args.command == "login" else ADVICE.get(error.code or "")
        return _print_error(f"{error}; {advice}" if advice else str(error), FAILED)
    except (ValueError, TypeError) as error:
        return _print_error(str(error), WRONG_USAGE)
    except OSError as error:
        return _print_error(str(error), FAILED)


def _pass_on(command: str, arguments: Sequence[str]) -> int:
    try:
        return server_commands.pass_on(command, arguments, COMMANDS)
    except NotConfigured as error:
        return _print_error(str(error), WRONG_USAGE)


def _find_command(arguments: Sequence[str]) -> str | None:
    """Returns the first argument that is neither an option nor the value of one of our options."""
    remaining = iter(arguments)
    for argument in remaining:
        if argument in OPTIONS:
            next(remaining, None)
        elif not argument.startswith("-"):
            return argument
    return None


def _show_warnings() -> None:
    """Sends the client's warnings to stderr, in the format of the command's other messages."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("galvo: %(message)s"))
    client = logging.getLogger("galvo.client")
    client.handlers, client.propagate = [handler], False


def _print_error(problem: str, status: int) -> int:
    print(f"galvo: {problem}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="galvo",
        allow_abbrev=False,  # options before the command are parsed before the command is known
        description="Asks a Galvo server about Dask clusters.",
        epilog="Server and token come from Dask's configuration (galvo.server, galvo.token), where"
        " `galvo login` and `galvo up` put them. Commands of the server itself are passed on to its"
        f" own program: {', '.join(server_commands.COMMANDS)}.",
    )
    parser.add_argument("--version", action="version", version=f"galvo {VERSION} (client)")
    common = argparse.ArgumentParser(add_help=False)
    for name, (metavar, description) in OPTIONS.items():
        parser.add_argument(name, metavar=metavar, help=description)
        # An option missing after the command must not replace one before it.
        common.add_argument(name, metavar=metavar, help=description, default=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        command.add_parser(commands, name, common)
    return parser
