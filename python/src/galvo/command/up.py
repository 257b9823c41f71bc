"""``galvo up``: runs a server for this user on this machine, and configures Dask for it."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import webbrowser
from typing import TYPE_CHECKING, Any

from galvo.client.errors import NotConfigured, RequestRefused
from galvo.client.login import (
    UNAUTHENTICATED,
    configuration_file,
    identify,
    overriding_variables,
    store_configuration,
)
from galvo.command.server import INSTALL_HELP, environment, server_program
from galvo.plugin import read_settings

if TYPE_CHECKING:
    from galvo.local_server import LocalServer


def add_parser(commands: Any, name: str, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        name,
        help="run a server on this machine, and configure Dask for it",
        description="Starts a server with its data in $XDG_DATA_HOME/galvo, stores its address and"
        " a token in galvo.yaml in Dask's directory of configuration, and opens a browser. If the"
        " server runs already, it only does the rest. Without --detach, the server ends with this"
        " command.",
    )
    parser.add_argument(
        "--detach",
        action="store_true",
        help="run the server in the background; `galvo down` stops it",
    )
    parser.add_argument(
        "--port",
        type=int,
        help="the port; by default the last one or 8000, or any if that is in use",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="configure Dask for this server even if it is configured for another one",
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")


def run(args: argparse.Namespace) -> int:
    if args.server is not None or args.account is not None:
        raise ValueError("--server and --account are not for up: it runs a server of its own")
    program = server_program()
    if program is None:
        raise NotConfigured(f"the server's program is not installed here: {INSTALL_HELP}")
    # The module needs file locks, which only the systems have that the server runs on.
    from galvo.local_server import LocalServer

    server = LocalServer()
    last_address = server.last_address
    start = None
    running = server.running()
    if running is None:
        start = server.start(program, environment(), args.port)
        running = start.running
    try:
        verb = "runs" if start else "runs already"
        print(f"Galvo {verb} at {running.address} (process {running.process_id}).")
        print(f"Its data is in {server.directory}, its log in {server.log}.")

        def create_token() -> str:
            label = f"galvo up on {socket.gethostname()}"[:200]
            return server.create_token(program, environment(), label)

        token = start.token if start else None
        own = {running.address, last_address}
        _configure_dask(running.address, own, token, create_token, args.replace)
        print("To report: galvo.register(client) in Python, or dask scheduler --preload galvo.")
        _open_browser((start.sign_in if start else None) or f"{running.address}/", server, args)
        sys.stdout.flush()
        if start is None or args.detach:
            print("`galvo down` stops it.")
            return 0
        _pass_on_signals(start.process)
        print("Ctrl-C stops it.", flush=True)
        return start.process.wait()
    except BaseException:
        if start is not None and not args.detach:
            start.process.terminate()
            start.process.wait()
        raise


def _configure_dask(
    address: str,
    own: set[str | None],
    token: str | None,
    create_token: Any,
    may_replace: bool,
) -> None:
    """Stores the address and a token in Dask's configuration, unless it names another server.

    ``own`` are the addresses of this server, now and the last time.
    """
    settings = read_settings()
    if settings["server"] and settings["server"] not in own and not may_replace:
        print(
            f"Dask stays configured for another server, {settings['server']}:"
            " `galvo up --replace` configures it for this one."
        )
        return
    if token is None and settings["server"] == address and settings["token"]:
        try:
            identify(settings["token"], address)
        except RequestRefused as error:
            if error.status != UNAUTHENTICATED:
                raise
        else:
            print("Dask is configured for it.")
            return
    file = configuration_file()
    if token is None:
        token = create_token()
    identity = identify(token, address)
    store_configuration(identity, token)
    print(f"Dask is configured for it: {file} has the address and a token of {identity.user}.")
    for variable in overriding_variables():
        print(f"galvo: {variable} is set, and overrides that file", file=sys.stderr)


def _open_browser(page: str, server: LocalServer, args: argparse.Namespace) -> None:
    """Opens the page in a browser if this session has one, and names it otherwise."""
    if not args.no_browser and not _is_headless() and webbrowser.open(page):
        print(f"A browser shows {page}.")
    else:
        print(f"In a browser: {page}")
    if page.endswith("/sign-in"):
        print(
            "To sign in there, set a password:"
            f" GALVO_DATABASE_URL='{server.database_url}' galvo user password admin"
        )


def _is_headless() -> bool:
    """True if a browser would open nowhere, in the terminal, or on another machine."""
    if os.environ.get("BROWSER"):
        return False
    if os.environ.get("SSH_CONNECTION") or os.environ.get("CI"):
        return True
    screens = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.platform.startswith("linux") and not screens


def _pass_on_signals(process: subprocess.Popen[bytes]) -> None:
    """Makes the signals that would end this command end the server, for which it waits."""

    def stop(number: int, frame: object) -> None:
        process.terminate()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
