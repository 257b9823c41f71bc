"""Coming to a token by way of a browser, and keeping it."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import dask.config
import yaml

from galvo.client.errors import GalvoError, NotConfigured, RequestRefused
from galvo.client.server import Server
from galvo.client.transport import Transport
from galvo.plugin import read_settings, what_is_missing

# The server forgets what nobody activated within 10 minutes.
PATIENCE_SECONDS = 600.0
LOOK_SECONDS = 1.0
FILE_NAME = "galvo.yaml"


class Activation(NamedTuple):
    """What somebody has to do in a browser so that a token becomes good."""

    address: str  # the page to open
    code: str  # what it shows, to compare


class Identity(NamedTuple):
    """Whom a token stands for."""

    user: str
    account: str
    address: str  # of the server


def login(
    server: str | None = None,
    show: Callable[[Activation], None] | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Identity:
    """Sign in: have a token made by way of a browser, and keep it in Dask's configuration.

    Shows the address of a page of the server, waits until somebody who is signed in activates the
    token there, and writes server, account and token to ``galvo.yaml`` in Dask's directory of
    configuration, readable by its owner alone. This process uses them at once.

    Parameters
    ----------
    server:
        The address of the Galvo server; by default the configured one.
    show:
        What shows the address; by default it is printed.
    patience_seconds:
        How long to wait, 600 at most.

    Returns
    -------
    Identity
        ``user``, ``account`` and ``address``: whom the token stands for, and where.
    """
    address = _address(server)
    transport = Transport(address)
    label = f"{_user_name()}@{socket.gethostname()}"[:200]
    response = transport.send(
        "POST",
        "/api/v1/api-tokens-no-user/",
        {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
        urlencode({"label": label}).encode(),
        repeatable=True,
    )
    asked = _parsed(response)
    transport.close()
    identifier, token = asked.get("identifier"), asked.get("token")
    if not isinstance(identifier, str) or not isinstance(token, str):
        problem = asked.get("message") or f"{address} does not answer as Galvo does"
        raise RequestRefused(str(problem), [], response.status)
    page = f"{address}/activate-token?id={quote(identifier, safe='')}"
    (show or _print)(Activation(page, identifier))
    identity = _wait(address, token, min(patience_seconds, PATIENCE_SECONDS))
    keep(identity, token)
    return identity


def login_with(token: str, server: str | None = None) -> Identity:
    """Keep a token that is there already, if the server takes it."""
    identity = _whose(_server(_address(server), token.strip()))
    keep(identity, token.strip())
    return identity


def keep(identity: Identity, token: str) -> Path:
    """Writes server, account and token to Dask's configuration, and uses them in this process.

    The account stands there because another one may be left from the ``coiled`` package. Other
    settings in the file stay; its comments do not. It is replaced as a whole, and nobody but its
    owner can read it, not for a moment either.
    """
    path = configuration_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise NotConfigured(f"{path} is no YAML: mend or remove it") from None
    content = {} if content is None else content
    own = content.get("galvo") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(own, (dict, type(None))):
        raise NotConfigured(f"{path} is no configuration of Dask: mend or remove it")
    kept = {"server": identity.address, "account": identity.account, "token": token}
    content["galvo"] = {**(own or {}), **kept}
    # Made with mode 0600, in the same directory so that it can take the other's place.
    handle, part = tempfile.mkstemp(prefix=".galvo-", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yaml.safe_dump(content, file, default_flow_style=False, allow_unicode=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    dask.config.set({f"galvo.{name}": value for name, value in kept.items()})
    return path


def configuration_file() -> Path:
    """Where server and token are kept: in the directory from which Dask reads its configuration."""
    directory = Path(dask.config.PATH).expanduser()
    if directory.is_file():
        raise NotConfigured(
            f"DASK_CONFIG names a file, {directory}: write galvo.server and galvo.token there"
        )
    return directory / FILE_NAME


def overriding_variables() -> list[str]:
    """Variables of the environment that win over the file."""
    names = [f"DASK_GALVO__{name}" for name in ("SERVER", "ACCOUNT", "TOKEN")]
    return [name for name in names if os.environ.get(name)]


def _address(server: str | None) -> str:
    settings = {**read_settings(server=server), "token": "-"}
    problem = what_is_missing(settings)
    if problem is not None:
        raise NotConfigured(problem)
    return str(settings["server"])


def _server(address: str, token: str) -> Server:
    return Server({"server": address, "token": token, "account": None})


def _wait(address: str, token: str, seconds: float) -> Identity:
    deadline = time.monotonic() + seconds
    server = _server(address, token)
    with server:
        while True:
            try:
                return _whose(server)
            except GalvoError as error:
                # With 401 it is answered until somebody activates it.
                status = error.status if isinstance(error, RequestRefused) else None
                if status not in (401, 403) and not error.passes:
                    raise
            if time.monotonic() + LOOK_SECONDS > deadline:
                raise GalvoError("nobody activated the token in time, or it was refused: try again")
            time.sleep(LOOK_SECONDS)


def _whose(server: Server) -> Identity:
    told = server.get("/api/v2/user/me")
    account = told.get("default_account")
    slug = account.get("slug") if isinstance(account, dict) else None
    return Identity(str(told.get("username")), str(slug), server.address)


def _parsed(response: Any) -> dict[str, Any]:
    try:
        answer = json.loads(response.data)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no name for this user's number
        return "somebody"


def _print(activation: Activation) -> None:
    print(f"Open {activation.address}\nand activate the token there. Its code: {activation.code}")
