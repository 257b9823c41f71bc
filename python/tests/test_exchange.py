"""Tests of the exchange of tokens: a scheduler reports with its own token, which can do nothing
else.
"""

import asyncio
import os
import sys

import dask
import pytest
from conftest import local_cluster, on_loop, wait_until
from distributed import Client
from fake_galvo import SCHEDULER_TOKEN, TOKEN

import galvo
from galvo import registration
from galvo.plugin import CoiledTelemetry, dask_setup, exchange, scrub
from galvo.plugin.configured import INHERITED
from galvo.plugin.identity import fingerprint


def plugin_of(cluster):
    return cluster.scheduler.plugins["galvo"]


def bearers(server):
    return {headers["Authorization"] for _, headers in server.requests}


def test_a_client_exchanges_its_token_before_anything_leaves_it(configured, cluster, client):
    with dask.config.set({"galvo.account": "ada"}):
        galvo.register(client)
    configured.wait_for(lambda: configured.accepted)
    ((headers, body),) = configured.exchanges
    assert (headers["Authorization"], headers["Galvo-Account"]) == ("Bearer " + TOKEN, "ada")
    # A client does not claim to be a scheduler: its token has never been on one.
    assert body == {}
    assert bearers(configured) == {"Bearer " + SCHEDULER_TOKEN}
    found = on_loop(cluster, lambda: repr(vars(plugin_of(cluster)._sender)))
    assert TOKEN not in found and SCHEDULER_TOKEN in found


def test_registering_again_exchanges_nothing_while_the_token_is_good(configured, cluster, client):
    galvo.register(client)
    plugin = plugin_of(cluster)
    assert not galvo.register(client).is_new
    assert len(configured.exchanges) == 1 and plugin_of(cluster) is plugin
    # Another client has no record of the exchange, and the plugin stays the same.
    with Client(cluster) as other:
        assert not galvo.register(other).is_new
    assert len(configured.exchanges) == 2 and plugin_of(cluster) is plugin


@pytest.mark.parametrize("status, code", [(401, "UNAUTHENTICATED"), (403, "TOKEN_BOUND")])
def test_a_token_that_has_ended_is_replaced(status, code, configured, cluster, client):
    galvo.register(client)
    configured.wait_for(lambda: configured.accepted)

    def refuse(report):
        return status, {}, {"code": code, "message": "no"}

    configured.always = refuse
    configured.wait_for(lambda: configured.reports[-1] not in configured.accepted)
    wait_until(lambda: on_loop(cluster, lambda: plugin_of(cluster)._sender.is_failing))
    # Refuses reports as long as the old token is sent.
    shown = "Bearer " + SCHEDULER_TOKEN
    configured.always = lambda report: (
        refuse(report) if configured.requests[-1][1]["Authorization"] == shown else None
    )
    assert galvo.register(client).is_new
    assert on_loop(cluster, lambda: plugin_of(cluster)._settings["token"]) == SCHEDULER_TOKEN + "2"
    assert len(configured.exchanges) == 2


def test_a_token_is_shipped_as_it_is_when_that_is_asked_for_by_name(configured, cluster, client):
    galvo.register(client, ship_token=True)
    assert configured.exchanges == [] and bearers(configured) == {"Bearer " + TOKEN}
    with dask.config.set({"galvo.ship_token": True, "galvo.account": "b"}):
        galvo.register(client)
    assert configured.exchanges == []
    with dask.config.set({"galvo.ship_token": True}):
        galvo.register(client, ship_token=False)
    assert len(configured.exchanges) == 1
    assert plugin_of(cluster)._settings["token"] == SCHEDULER_TOKEN


def test_a_schedulers_token_stays_what_it_is(configured, cluster, client):
    configured.exchange_status, configured.exchange_code = 403, "TOKEN_BOUND"
    galvo.register(client)
    assert bearers(configured) == {"Bearer " + TOKEN} and len(configured.exchanges) == 1


MISSING = {"errors": [{"message": "no", "extensions": {"code": "MISSING_SCOPE"}}]}


def test_an_older_server_gets_a_token_that_can_only_report(configured, cluster, client):
    configured.exchange_status = 404
    configured.scopes = 403, {}, MISSING
    galvo.register(client)
    assert plugin_of(cluster)._settings["token"] == TOKEN
    configured.wait_for(lambda: configured.accepted)


def test_an_older_server_gets_no_other_token(configured, cluster, client):
    configured.exchange_status = 404
    with pytest.raises(galvo.RequestRefused, match=r"too old.*ingest.*ship_token") as refused:
        galvo.register(client)
    assert refused.value.code == "BROAD_TOKEN" and TOKEN not in str(refused.value)
    assert "galvo" not in cluster.scheduler.plugins and not configured.accepted
    galvo.register(client, ship_token=True)
    configured.wait_for(lambda: configured.accepted)


@pytest.mark.parametrize(
    "status, code, named",
    [
        (401, "UNAUTHENTICATED", "galvo.token"),
        (403, "MISSING_SCOPE", "ingest"),
        (403, "ACCOUNT_MISMATCH", "galvo.account"),
        (409, "CONFLICT", "use another token"),
    ],
)
def test_what_the_server_refuses_is_said(status, code, named, configured, cluster, client):
    configured.exchange_status, configured.exchange_code = status, code
    with pytest.raises(galvo.RequestRefused, match=named) as refused:
        galvo.register(client)
    assert (refused.value.status, refused.value.code) == (status, code)
    assert TOKEN not in str(refused.value)
    assert "galvo" not in cluster.scheduler.plugins


def test_what_happens_before_there_is_a_token_is_kept(configured, cluster, client, monkeypatch):
    monkeypatch.setattr(registration, "LONGEST_PAUSE_SECONDS", 0.2)
    configured.exchange_status = 503
    with pytest.warns(UserWarning, match="no"):
        link = galvo.register(client)
    assert link.url is None
    found = on_loop(cluster, lambda: dict(plugin_of(cluster)._settings))
    assert found["token"] is None and TOKEN not in repr(found)
    assert client.submit(abs, -4).result() == 4
    assert client.submit(int, "x").exception() is not None
    assert not configured.reports
    configured.exchange_status = 201
    configured.wait_for(lambda: configured.accepted and configured.errors())
    assert {row["prefix"] for row in configured.groups()} == {"abs", "int"}
    assert bearers(configured) == {"Bearer " + plugin_of(cluster)._settings["token"]}


def test_trying_ends_with_the_client(hung, cluster, monkeypatch):
    monkeypatch.setattr(registration, "RESPONSE_SECONDS", 0.1)
    monkeypatch.setattr(registration, "LONGEST_PAUSE_SECONDS", 0.1)
    with Client(cluster) as client, pytest.warns(UserWarning, match="no answer"):
        galvo.register(client, server=hung.address, token=TOKEN)
    wait_until(lambda: not registration._retry_tasks)


# On the scheduler itself.


def preloaded(cluster):
    """Starts the plugin as a preload or ``coiled.analytics`` does: with the original token."""
    on_loop(cluster, lambda: asyncio.ensure_future(dask_setup(cluster.scheduler)))
    wait_until(lambda: "galvo" in cluster.scheduler.plugins)


@pytest.fixture
def own_process(monkeypatch):
    """Simulates a process that runs only a scheduler."""
    monkeypatch.setitem(sys.modules, "distributed.cli.dask_scheduler", sys)


def test_a_scheduler_exchanges_what_it_was_configured_with(
    configured, cluster, own_process, monkeypatch
):
    monkeypatch.setenv("DASK_GALVO__TOKEN", TOKEN)
    preloaded(cluster)
    configured.wait_for(lambda: len(configured.accepted) > 1)
    ((headers, body),) = configured.exchanges
    assert headers["Authorization"] == "Bearer " + TOKEN
    assert body == {"schedulerId": cluster.scheduler.id}
    assert bearers(configured) == {"Bearer " + SCHEDULER_TOKEN}
    settings = on_loop(cluster, lambda: dict(plugin_of(cluster)._settings))
    assert (settings["token"], settings["exchanged_for"]) == (SCHEDULER_TOKEN, fingerprint(TOKEN))
    # The original token is no longer anywhere that a client of the scheduler could read.
    assert dask.config.get("galvo.token") is None and TOKEN not in os.environ.values()
    assert TOKEN not in repr(scrub._secrets) and TOKEN not in repr(dask.config.config)


def test_a_notebook_keeps_its_token(configured, cluster, monkeypatch):
    monkeypatch.setenv("DASK_GALVO__TOKEN", TOKEN)
    preloaded(cluster)
    configured.wait_for(lambda: configured.accepted)
    assert plugin_of(cluster)._settings["token"] == SCHEDULER_TOKEN
    assert dask.config.get("galvo.token") == os.environ["DASK_GALVO__TOKEN"] == TOKEN


def test_configuration_that_is_handed_on_is_rid_of_the_token(own_process, monkeypatch):
    config = {"galvo": {"token": TOKEN, "server": "s"}, "coiled": {"token": "another"}}
    monkeypatch.setenv(INHERITED, dask.config.serialize(config))
    exchange.forget_token(TOKEN)
    handed_on = dask.config.deserialize(os.environ[INHERITED])
    assert handed_on == {"galvo": {"server": "s"}, "coiled": {"token": "another"}}


@pytest.mark.parametrize("shipped", [False, True])
def test_registering_rids_a_scheduler_of_the_tokens_it_inherited(
    shipped, configured, cluster, client, own_process, monkeypatch
):
    older = "seal-of-last-year"
    inherited = {"galvo": {"token": older, "server": "s"}, "coiled": {"token": TOKEN}}
    monkeypatch.setenv(INHERITED, dask.config.serialize(inherited))
    monkeypatch.setenv("DASK_GALVO__TOKEN", TOKEN)
    galvo.register(client, ship_token=shipped)
    configured.wait_for(lambda: configured.accepted)
    handed_on = dask.config.deserialize(os.environ[INHERITED])
    if shipped:  # the token that the plugin itself reports with
        assert dask.config.get("galvo.token") == os.environ["DASK_GALVO__TOKEN"] == TOKEN
        assert handed_on == {"galvo": {"server": "s"}, "coiled": {"token": TOKEN}}
    else:
        assert dask.config.get("galvo.token") is None
        assert "DASK_GALVO__TOKEN" not in os.environ
        assert handed_on == {"galvo": {"server": "s"}, "coiled": {}}


def test_registering_leaves_the_user_s_process_its_token(configured, cluster, client, monkeypatch):
    monkeypatch.setenv("DASK_GALVO__TOKEN", TOKEN)
    galvo.register(client)
    configured.wait_for(lambda: configured.accepted)
    assert dask.config.get("galvo.token") == os.environ["DASK_GALVO__TOKEN"] == TOKEN


def test_registering_with_what_the_scheduler_was_configured_with_changes_nothing(
    configured, cluster, client
):
    preloaded(cluster)
    configured.wait_for(lambda: configured.accepted)
    plugin = plugin_of(cluster)
    assert not galvo.register(client).is_new
    assert plugin_of(cluster) is plugin


def test_an_older_server_gets_what_a_scheduler_was_configured_with(configured, cluster):
    configured.exchange_status = 404
    preloaded(cluster)
    configured.wait_for(lambda: len(configured.accepted) > 1)
    assert bearers(configured) == {"Bearer " + TOKEN} and len(configured.exchanges) == 1


@pytest.mark.parametrize("status, code", [(403, "BROAD_TOKEN"), (401, "UNAUTHENTICATED")])
def test_a_scheduler_that_gets_no_token_says_why(status, code, configured, cluster, caplog):
    configured.exchange_status, configured.exchange_code = status, code
    preloaded(cluster)
    wait_until(lambda: f"did not accept a report: {status} no" in caplog.text)
    assert on_loop(cluster, lambda: plugin_of(cluster).verdict)["code"] == code
    assert TOKEN not in caplog.text and not configured.reports


def test_a_server_that_is_away_is_asked_again(configured, cluster, monkeypatch):
    configured.exchange_status = 503
    monkeypatch.setattr(galvo.plugin.report_sender, "_backoff", lambda failures: 0.1)
    preloaded(cluster)
    configured.wait_for(lambda: len(configured.exchanges) > 1)
    assert not configured.reports
    configured.exchange_status = 201
    configured.wait_for(lambda: configured.accepted)


def test_a_pickled_plugin_carries_no_other_token_once_it_was_exchanged(configured, cluster):
    plugin = CoiledTelemetry()
    settings = exchange.settings_without_token(plugin._settings)
    assert TOKEN not in repr(settings) and settings["exchanged_for"] == fingerprint(TOKEN)
    with local_cluster() as other:
        preloaded(other)
        configured.wait_for(lambda: configured.accepted)
        assert TOKEN not in repr(on_loop(other, lambda: plugin_of(other).__reduce__()))
