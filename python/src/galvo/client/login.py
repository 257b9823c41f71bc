"""Obtains a token through the browser, and stores it."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import dask.config
import yaml

from galvo.client.errors import GalvoError, NotConfigured, RequestRefused
from galvo.client.server import Server
from galvo.client.transport import Transport
from galvo.plugin import find_configuration_problem, read_settings

# The server discards a token that nobody activates within 10 minutes.
PATIENCE_SECONDS = 600.0
POLL_SECONDS = 1.0
FILE_NAME = "galvo.yaml"
SCOPES = ("ingest", "read", "admin")
UNAUTHENTICATED, FORBIDDEN = 401, 403


class Activation(NamedTuple):
    """The page that the user must open in a browser to activate a token."""

    address: str  # the page to open
    code: str  # the code on that page, for comparison


class Identity(NamedTuple):
    """The owner of a token."""

    user: str
    account: str
    address: str  # the server's address


def login(
    server: str | None = None,
    show: Callable[[Activation], None] | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
    scopes: Collection[str] | None = None,
) -> Identity:
    """Signs in: creates a token that is activated in the browser, and stores it in Dask's
    configuration.

    It shows the address of a page of the server and waits until a signed-in user activates the
    token there. Then it writes server, account and token to ``galvo.yaml`` in Dask's configuration
    directory, readable by its owner only. The settings take effect in this process immediately.

    Parameters
    ----------
    server:
        The address of the Galvo server. By default the configured server.
    show:
        A function that shows the address. By default it is printed.
    patience_seconds:
        The longest time to wait for the activation, in seconds, at most 600.
    scopes:
        The scopes of the token: some of ``"ingest"``, ``"read"`` and ``"admin"``. By default all
        scopes of the user who activates it. That user can choose fewer scopes, but not more.

    Returns
    -------
    Identity
        ``user``, ``account`` and ``address``: the owner of the token, the account and the server.

    Raises
    ------
    NotConfigured
        If there is no usable server, or if the configuration file cannot be changed.
    ValueError
        If ``scopes`` is empty or has an unknown scope.
    GalvoError
        If the token is not activated in time, or is rejected.
    """
    address = _address(server)
    transport = Transport(address)
    scope_parameter = {"scope": " ".join(_check_scopes(scopes))} if scopes is not None else {}
    label = f"{_user_name()}@{socket.gethostname()}"[:200]
    response = transport.send(
        "POST",
        "/api/v1/api-tokens-no-user/",
        {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
        urlencode({"label": label, **scope_parameter}).encode(),
        repeatable=True,
    )
    created = _parse_response(response)
    transport.close()
    identifier, token = created.get("identifier"), created.get("token")
    if not isinstance(identifier, str) or not isinstance(token, str):
        problem = created.get("message") or f"{address} does not answer as Galvo does"
        raise RequestRefused(str(problem), [], response.status)
    page = f"{address}/activate-token?id={quote(identifier, safe='')}"
    (show or _print)(Activation(page, identifier))
    identity = _wait(address, token, min(patience_seconds, PATIENCE_SECONDS))
    store_configuration(identity, token)
    return identity


def login_with(token: str, server: str | None = None) -> Identity:
    """Stores an existing token if the server accepts it. Raises RequestRefused otherwise."""
    address = _address(server)
    try:
        identity = identify(token.strip(), address)
    except RequestRefused as error:
        if error.status != UNAUTHENTICATED:
            raise
        problem = (
            f"{address} does not accept this token (unknown, expired or revoked): nothing was kept"
        )
        raise RequestRefused(problem, error.codes, error.status) from None
    store_configuration(identity, token.strip())
    return identity


def identify(token: str, address: str) -> Identity:
    """Returns the owner of a token. Raises RequestRefused if the server does not accept it."""
    with _server(address, token) as server:
        return _read_identity(server)


def store_configuration(identity: Identity, token: str) -> Path:
    """Writes server, account and token to Dask's configuration, and applies them in this process.

    The account is written, too, because the ``coiled`` package may have configured another one.
    Other settings in the file are kept; comments are lost. The file is replaced atomically, and
    only its owner can read it at any time.
    """
    path = configuration_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise NotConfigured(f"{path} is not valid YAML: correct or remove it") from None
    content = {} if content is None else content
    galvo_section = content.get("galvo") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(galvo_section, (dict, type(None))):
        raise NotConfigured(f"{path} is not a Dask configuration: correct or remove it")
    settings = {"server": identity.address, "account": identity.account, "token": token}
    content["galvo"] = {**(galvo_section or {}), **settings}
    # mkstemp creates the file with mode 0600, in the same directory so that it can be renamed.
    handle, temporary_path = tempfile.mkstemp(prefix=".galvo-", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yaml.safe_dump(content, file, default_flow_style=False, allow_unicode=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary_path, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary_path)
        raise
    dask.config.set({f"galvo.{name}": value for name, value in settings.items()})
    return path


def configuration_file() -> Path:
    """Returns the file for server and token, in the directory of Dask's configuration.

    Raises NotConfigured if ``DASK_CONFIG`` names a file.
    """
    directory = Path(dask.config.PATH).expanduser()
    if directory.is_file():
        raise NotConfigured(
            f"DASK_CONFIG names a file, {directory}: write galvo.server and galvo.token there"
        )
    return directory / FILE_NAME


def overriding_variables() -> list[str]:
    """Returns the environment variables that override the file."""
    names = [f"DASK_GALVO__{name}" for name in ("SERVER", "ACCOUNT", "TOKEN")]
    return [name for name in names if os.environ.get(name)]


def _address(server: str | None) -> str:
    settings = {**read_settings(server=server), "token": "-"}
    problem = find_configuration_problem(settings)
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
                return _read_identity(server)
            except GalvoError as error:
                # The server returns 401 until the token is activated.
                status = error.status if isinstance(error, RequestRefused) else None
                if status not in (UNAUTHENTICATED, FORBIDDEN) and not error.passes:
                    raise
            if time.monotonic() + POLL_SECONDS > deadline:
                raise GalvoError("nobody activated the token in time, or it was refused: try again")
            time.sleep(POLL_SECONDS)


def _read_identity(server: Server) -> Identity:
    user = server.get("/api/v2/user/me")
    account = user.get("default_account")
    slug = account.get("slug") if isinstance(account, dict) else None
    return Identity(str(user.get("username")), str(slug), server.address)


def _check_scopes(scopes: Collection[str]) -> list[str]:
    requested = [scopes] if isinstance(scopes, str) else list(scopes)
    if not requested or not set(requested) <= set(SCOPES):
        raise ValueError(f"scopes={scopes!r}: give some of {', '.join(SCOPES)}")
    return [scope for scope in SCOPES if scope in requested]


def _parse_response(response: Any) -> dict[str, Any]:
    try:
        answer = json.loads(response.data)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # this user's number has no name
        return "somebody"


def _print(activation: Activation) -> None:
    print(f"Open {activation.address}\nand activate the token there. Its code: {activation.code}")
