"""Brings the plugin from a client to its scheduler, in the words of each release of Dask."""

from __future__ import annotations

import inspect
import json
import logging
import sys
from collections.abc import Awaitable

from distributed import Client, get_client
from distributed.versions import get_versions

from galvo.plugin import CoiledTelemetry, Preview, read_settings, what_is_missing

logger = logging.getLogger("distributed.galvo")


def register(
    client: Client | None = None,
    *,
    server: str | None = None,
    token: str | None = None,
    account: str | None = None,
    dry_run: bool = False,
) -> Awaitable[None] | None:
    """Report what the scheduler of this client does to a Galvo server, until the scheduler closes.

    Registering once more changes nothing, not even the settings: for other settings, first call
    ``client.unregister_scheduler_plugin("galvo")``. With the same server and account, reporting
    then goes on where it ended.

    Parameters
    ----------
    client:
        The client of the cluster to report on; by default the current one.
    server:
        The address of the Galvo server, as the *scheduler* reaches it. By default
        ``galvo.server`` from Dask's configuration, then ``coiled.server``.
    token:
        A token of that server with the scope "ingest". By default ``galvo.token``, then
        ``coiled.token``.
    account:
        The account to report to. By default ``galvo.account``, ``coiled.workspace``,
        ``coiled.account``, and then the token's own.
    dry_run:
        Print what would be reported first, as JSON, and neither register nor send anything.

    Returns
    -------
    None, or with an asynchronous client something to await.

    Raises
    ------
    ValueError
        If there is no usable server or token, or no client.
    """
    client = client or get_client()
    settings = read_settings(server, token, account)
    if settings["disabled"]:
        logger.info("Galvo is disabled and reports nothing")
        return _nothing() if client.asynchronous else None
    settings["client"] = {"executable": sys.executable, "versions": get_versions()}
    if dry_run:
        return _show(client, settings)
    problem = what_is_missing(settings)
    if problem is not None:
        raise ValueError("galvo.register: " + problem)
    result = _register_plugin(client, CoiledTelemetry(settings))
    return result if inspect.isawaitable(result) else None


async def _nothing() -> None:
    pass


def _show(client: Client, settings: dict[str, object]) -> Awaitable[None] | None:
    answer = client.run_on_scheduler(Preview(settings))
    if inspect.isawaitable(answer):
        return _show_later(answer)
    _print(answer)
    return None


async def _show_later(answer: Awaitable[str]) -> None:
    _print(await answer)


def _print(report: str) -> None:
    print(json.dumps(json.loads(report), indent=2, ensure_ascii=False))


def _register_plugin(client: Client, plugin: CoiledTelemetry) -> object:
    # The plugin's class attribute says that it is idempotent, but releases that know the keyword
    # with the default False obey only the keyword, and the first ones do not know it at all.
    names = ("register_plugin", "register_scheduler_plugin")
    method = next(getattr(client, name) for name in names if hasattr(client, name))
    keyword = inspect.signature(method).parameters.get("idempotent")
    if keyword is not None and keyword.default is False:
        return method(plugin, idempotent=True)
    return method(plugin)
