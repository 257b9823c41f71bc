"""The command ``galvo`` of people who use clusters, and ``python -m galvo``.

The server's own program has the same name and other commands, for operators. Where this one comes
first on PATH, it passes those on; ``python -m galvo`` is this one in any case.

It ends with 0 when all is well, with 2 when what was asked for makes no sense or settings are
missing, with 130 after Ctrl-C, and with 1 otherwise. It never shows a token, nor a traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from galvo.client.errors import GalvoError, NotConfigured
from galvo.command import clusters, import_, login, logs, report, stop, watch
from galvo.command.server import pass_on
from galvo.plugin import VERSION

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
COMMANDS = {
    "login": login,
    "clusters": clusters,
    "logs": logs,
    "watch": watch,
    "report": report,
    "stop": stop,
    "import": import_,
}
# What may stand before the command or behind it: what is given, and what that is.
OPTIONS = {
    "--server": ("URL", "the server, instead of galvo.server"),
    "--account": ("SLUG", "the account, instead of galvo.account"),
}
ADVICE = {
    "ACCOUNT_MISMATCH": "galvo.account, or else coiled.workspace, names another than the token's",
    "UNAUTHENTICATED": "the token is none that is good there: sign in with `galvo login`",
    "FORBIDDEN": "this takes a token with the scope `admin`",
    "MISSING_SCOPE": "this takes a token with the scope `read`",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, and tells the exit status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    word = _word(arguments)
    if word is not None and word not in COMMANDS:
        return pass_on(word, arguments)
    try:
        asked = _parser().parse_args(arguments)
    except SystemExit as end:  # argparse has said why
        return end.code if isinstance(end.code, int) else WRONG_USAGE
    try:
        status: int = COMMANDS[asked.command].run(asked)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read it has seen enough; Python would complain once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except NotConfigured as error:
        return _complain(str(error), WRONG_USAGE)
    except GalvoError as error:
        advice = ADVICE.get(error.code or "")
        return _complain(f"{error}; {advice}" if advice else str(error), FAILED)
    except (ValueError, TypeError) as error:
        return _complain(str(error), WRONG_USAGE)
    except OSError as error:
        return _complain(str(error), FAILED)


def _word(arguments: Sequence[str]) -> str | None:
    """The first argument that is neither an option nor the value of one of ours."""
    left = iter(arguments)
    for argument in left:
        if argument in OPTIONS:
            next(left, None)
        elif not argument.startswith("-"):
            return argument
    return None


def _complain(problem: str, status: int) -> int:
    print(f"galvo: {problem}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="galvo",
        allow_abbrev=False,  # what stands before the command is read before it is known
        description="Asks a Galvo server about Dask clusters.",
        epilog="Server and token come from Dask's configuration (galvo.server, galvo.token), where"
        " `galvo login` puts them. Commands of the server itself, such as `serve`, are passed on to"
        " its own program.",
    )
    parser.add_argument("--version", action="version", version=f"galvo {VERSION} (client)")
    common = argparse.ArgumentParser(add_help=False)
    for name, (given, described) in OPTIONS.items():
        parser.add_argument(name, metavar=given, help=described)
        # What is not said behind the command must not replace what was said before it.
        common.add_argument(name, metavar=given, help=described, default=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        command.describe(commands, name, common)
    return parser
