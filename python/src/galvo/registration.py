"""Registers the plugin with a client's scheduler, by the API of the installed release of Dask."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import sys
import warnings
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any

from distributed import Client, get_client
from distributed.versions import get_versions

from galvo.client.errors import GalvoError, RequestRefused
from galvo.client.exchange import EXCHANGED, exchange
from galvo.client.html import block, element, link
from galvo.client.payload import Payload
from galvo.client.remembered import remember
from galvo.plugin import (
    CoiledTelemetry,
    FirstAnswer,
    MakeRoom,
    Preview,
    find_configuration_problem,
    read_settings,
)
from galvo.plugin.exchange import BOUND_CODE, is_due, settings_without_token
from galvo.plugin.registry import SAME, digest
from galvo.plugin.values import make_sendable

logger = logging.getLogger("distributed.galvo")

# The longest time that a registration waits for the server: for the exchange of the token and the
# response to the first report together. And the time that the scheduler may take beyond that.
RESPONSE_SECONDS, LATE_SECONDS = 5.0, 10.0
LONGEST_PAUSE_SECONDS = 60.0
# Error codes of a response to a scheduler's token that has expired or is bound to another
# scheduler.
EXPIRED_CODES = ("UNAUTHENTICATED", BOUND_CODE)
ADVICE = {
    "MISSING_SCOPE": "galvo.token (DASK_GALVO__TOKEN) needs the scope `ingest`",
    "ACCOUNT_MISMATCH": "galvo.account (DASK_GALVO__ACCOUNT), or else coiled.workspace, names"
    " another account than that of galvo.token",
    "NOT_CLUSTER_OWNER": "galvo.token (DASK_GALVO__TOKEN) is of another user than the one who"
    " reported this cluster first, and whose token alone reports it",
    "CLUSTER_DELETED": "the cluster was deleted; a new scheduler is a new cluster",
    "CLUSTER_QUARANTINED": "an admin of the account has quarantined the cluster",
    "BROAD_TOKEN": "the account wants no tokens on schedulers that are good for more than reports:"
    " register without ship_token",
    BOUND_CODE: "galvo.token (DASK_GALVO__TOKEN) is that of another scheduler: use one of yours",
    "UNAUTHENTICATED": "galvo.token (DASK_GALVO__TOKEN) is no token of this server",
}


@dataclass(frozen=True)
class Registration:
    """The result of ``galvo.register()``. A notebook shows it as a link to the cluster.

    Two registrations are equal if they have the same ``server``, ``number``, ``url`` and
    ``refused``.

    Attributes
    ----------
    server:
        The address of the server that receives the reports, as the scheduler reaches it.
    number:
        The cluster's number. None until the server has responded.
    url:
        The address of the cluster's page. None until the server has responded.
    refused:
        The classes of data that the account does not accept, see docs/reporting.md.
    problem:
        The reason why the server has not accepted a report yet. None if it has accepted one. The
        plugin keeps trying.
    is_new:
        False if the plugin was already registered with the same settings.
    """

    server: str
    number: int | None = None
    url: str | None = None
    refused: tuple[str, ...] = ()
    problem: str | None = field(default=None, compare=False)
    is_new: bool = field(default=True, compare=False)

    @property
    def id(self) -> int | None:
        """The cluster's number, the same as ``number``.

        Other functions accept it as the cluster's id.
        """
        return self.number

    def __str__(self) -> str:
        if self.url is None:
            return f"reports to {self.server} once that answers"
        return self.url

    def __repr__(self) -> str:
        return f"<Registration: {self}>"

    def _repr_html_(self) -> str:
        if self.url is None:
            return block(element("p", f"Galvo: {self}."))
        parts = [element("p", link(self.url, f"Galvo: cluster {self.number}"))]
        if self.refused:
            parts.append(element("p", f"not accepted: {', '.join(self.refused)}", "note"))
        return block(*parts)


def register(
    client: Client | None = None,
    *,
    server: str | None = None,
    token: str | None = None,
    account: str | None = None,
    dry_run: bool = False,
    ship_token: bool | None = None,
) -> Registration | Awaitable[Registration | None] | None:
    """Reports the activity of this client's scheduler to a Galvo server until the scheduler closes.

    The token itself does not travel to the scheduler. The server exchanges it for a token that is
    valid for the reports of this scheduler only and that expires some days after the last report.

    The call waits for the response to the first report. It waits for the server at most 5 seconds,
    and then issues a warning while the plugin keeps trying. Registering again with the same
    settings changes nothing. Registering with other settings replaces the earlier registration,
    including one that another client made. With the same server and account, reporting continues
    where it stopped.

    Parameters
    ----------
    client:
        The client of the cluster to report on. By default the current client.
    server:
        The address of the Galvo server, as the *scheduler* reaches it. By default ``galvo.server``
        from Dask's configuration, then ``coiled.server``.
    token:
        A token of that server with the scope "ingest". By default ``galvo.token``, then
        ``coiled.token``.
    account:
        The account to report to. By default ``galvo.account``, then ``coiled.workspace``,
        ``coiled.account``, and the token's own account.
    ship_token:
        If True, the token itself is sent to the scheduler, where everyone who runs code on it can
        read it. This is for a server that the scheduler can reach and this process cannot. By
        default ``galvo.ship_token``, which is false.
    dry_run:
        If True, print the first report by class of data, and neither register nor send anything.

    Returns
    -------
    Registration
        A link to the cluster. With an asynchronous client, an awaitable of it. None with
        ``dry_run`` and if Galvo is disabled.

    Raises
    ------
    ValueError
        If there is no usable server or token, or no client.
    RequestRefused
        If the server does not accept the token, or not for this account. The message names the
        setting to change. A plugin that is already registered stays and tries again once a minute.
    """
    client = client or get_client()
    settings = read_settings(server, token, account)
    if ship_token is not None:
        settings["ship_token"] = bool(ship_token)
    if settings["disabled"]:
        logger.info("Galvo is disabled and reports nothing")
        return _return_none() if client.asynchronous else None
    if dry_run:
        return _show_async(client, settings) if client.asynchronous else _show(client, settings)
    settings["client"] = _describe_client()
    problem = find_configuration_problem(settings)
    if problem is not None:
        raise ValueError("galvo.register: " + problem)
    if client.asynchronous:
        return _register_and_evaluate(client, settings)
    return _evaluate_response(client, settings, *client.sync(_register, client, settings))


async def _return_none() -> None:
    pass


async def _register_and_evaluate(client: Client, settings: dict[str, Any]) -> Registration:
    return _evaluate_response(client, settings, *await _register(client, settings))


async def _register(client: Client, settings: dict[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Returns the response to the last report, and True if the plugin was newly registered.

    It runs on the client's event loop, on which the client's methods must be awaited.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + RESPONSE_SECONDS
    if not is_due(settings):
        return await _register_settings(client, settings, RESPONSE_SECONDS)
    stored_settings = EXCHANGED.settings_for(client, settings)
    if stored_settings is not None:
        answer, is_new = await _register_settings(client, stored_settings, RESPONSE_SECONDS)
        if answer.get("code") not in EXPIRED_CODES and answer.get("status") != 401:
            return answer, is_new
        # The scheduler is another one now, or its token has expired.
        EXCHANGED.forget(client)
    loop = asyncio.get_running_loop()
    exchange_future = asyncio.ensure_future(loop.run_in_executor(None, exchange, settings))
    await asyncio.wait([exchange_future], timeout=max(0.0, deadline - clock()))
    if exchange_future.done():
        try:
            exchanged_settings = exchange_future.result()
        except GalvoError as error:
            if not error.passes:
                raise
            problem = str(error)
        else:
            EXCHANGED.store(client, settings, exchanged_settings)
            answer, is_new = await _register_settings(
                client, exchanged_settings, deadline - clock()
            )
            if not is_new and (answer.get("code") in EXPIRED_CODES or answer.get("status") == 401):
                # The registered plugin has the same settings, but its token has expired.
                answer, is_new = await _register_settings(
                    client, exchanged_settings, deadline - clock(), replace=True
                )
            return answer, is_new
    else:
        problem = f"no answer within {RESPONSE_SECONDS:g} seconds"
    # The plugin collects data until it gets a token.
    await _register_settings(client, settings_without_token(settings), 0.0)
    retry_task = asyncio.ensure_future(_register_later(client, settings, exchange_future))
    _retry_tasks.add(retry_task)
    retry_task.add_done_callback(_retry_tasks.discard)
    return {"message": problem}, True


async def _register_settings(
    client: Client, settings: dict[str, Any], seconds: float, replace: bool = False
) -> tuple[Mapping[str, Any], bool]:
    """Registers the plugin with exactly these settings, unless an identical one is registered.

    It waits this many seconds for the server's response to the last report.
    """
    plugin_state = await _await_if_needed(
        client.run_on_scheduler(MakeRoom("" if replace else digest(settings)))
    )
    if plugin_state != SAME:
        await _await_if_needed(_register_plugin(client, CoiledTelemetry(settings)))
    seconds = max(0.0, seconds)
    response = _await_if_needed(client.run_on_scheduler(FirstAnswer(seconds)))
    try:
        answer = await asyncio.wait_for(response, seconds + LATE_SECONDS)
    except asyncio.TimeoutError:
        answer = {}
    return answer, plugin_state != SAME


async def _register_later(
    client: Client, settings: dict[str, Any], exchange_future: asyncio.Future[dict[str, Any]]
) -> None:
    """Retries the exchange while the client is open.

    The token does not leave this process before the exchange succeeds.
    """
    pause = 1.0
    while True:
        try:
            exchanged_settings = await exchange_future
            break
        except GalvoError as error:
            if not error.passes:
                logger.warning("Galvo reports nothing: %s", error)
                return
        await asyncio.sleep(random.uniform(pause / 2, pause))
        pause = min(LONGEST_PAUSE_SECONDS, pause * 2)
        if client.status in ("closing", "closed"):
            return
        loop = asyncio.get_running_loop()
        exchange_future = asyncio.ensure_future(loop.run_in_executor(None, exchange, settings))
    if client.status in ("closing", "closed"):
        return
    EXCHANGED.store(client, settings, exchanged_settings)
    try:
        await _register_settings(client, exchanged_settings, 0.0)
    except Exception:
        logger.warning("Galvo reports nothing: it could not be registered", exc_info=True)


_retry_tasks: set[asyncio.Future[None]] = (
    set()
)  # the event loop holds only weak references to tasks


async def _await_if_needed(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


def _evaluate_response(
    client: Client, settings: dict[str, Any], answer: Mapping[str, Any], is_new: bool
) -> Registration:
    """Turns the server's response into a link, a warning or an exception for the caller."""
    server, status = settings["server"], answer.get("status")
    if status in (401, 403) or (status == 409 and answer.get("code") in ADVICE):
        code = str(answer.get("code") or ("UNAUTHENTICATED" if status == 401 else ""))
        advice = ADVICE.get(code, "galvo.token (DASK_GALVO__TOKEN) may not report there")
        reason = f"{status} {answer.get('message')}".replace(settings["token"], "[token]")
        message = f"galvo.register: {server} refuses reports ({reason}): {advice}"
        raise RequestRefused(message, [code] if code else [], status)
    remember(client, settings)
    if status != 200:
        problem = answer.get("message") or f"no answer within {RESPONSE_SECONDS:g} seconds"
        _warn(
            f"the scheduler reports to {server}, which has taken nothing yet ({problem})."
            " It goes on trying; see galvo.server (DASK_GALVO__SERVER)"
        )
        return Registration(server, problem=str(problem), is_new=is_new)
    refused = tuple(answer.get("refused") or ())
    if refused and is_new:
        _warn(f"the account does not accept these classes of data: {', '.join(refused)}")
    number = answer.get("cluster")
    url = answer.get("url") or (None if number is None else f"{server}/clusters/{number}")
    return Registration(server, number, url, refused, is_new=is_new)


def _warn(message: str) -> None:
    warnings.warn(f"galvo.register: {message}", stacklevel=4)


def preview(client: Client, settings: Mapping[str, Any]) -> Payload:
    """Returns the first report with these settings. Nothing is registered or sent."""
    return Payload(client.run_on_scheduler(_preview(settings)), settings)


def _preview(settings: Mapping[str, Any]) -> Preview:
    # Dask records in its events every function that a client runs on the scheduler.
    return Preview({**settings, "client": _describe_client(), "token": None})


def _show(client: Client, settings: Mapping[str, Any]) -> None:
    print(preview(client, settings))


async def _show_async(client: Client, settings: Mapping[str, Any]) -> None:
    print(Payload(await client.run_on_scheduler(_preview(settings)), settings))


def _describe_client() -> Any:
    return make_sendable({"executable": sys.executable, "versions": get_versions()})


def _register_plugin(client: Client, plugin: CoiledTelemetry) -> object:
    # The plugin's class attribute declares it idempotent. But releases whose keyword has the
    # default False obey only the keyword, and the first releases lack the keyword.
    names = ("register_plugin", "register_scheduler_plugin")
    method = next(getattr(client, name) for name in names if hasattr(client, name))
    keyword = inspect.signature(method).parameters.get("idempotent")
    if keyword is not None and keyword.default is False:
        return method(plugin, idempotent=True)
    return method(plugin)
