import asyncio
import inspect
import json
import logging
import sys

import dask
import pytest
from conftest import local_cluster, on_loop
from distributed import Client
from fake_galvo import TOKEN, check
from test_settings import DEFAULTS

import galvo


def plugin_of(cluster):
    return cluster.scheduler.plugins["galvo"]


def test_settings_travel_from_the_client_to_the_scheduler(configured, cluster, client):
    with dask.config.set({"galvo.account": "ada", "galvo.computation.interval": "3s"}):
        assert galvo.register() is None
    # Dask's configuration on the scheduler plays no part.
    settings = dict(plugin_of(cluster)._settings)
    told = settings.pop("client")
    assert told["executable"] == sys.executable
    assert told["versions"]["packages"]["dask"] == dask.__version__
    assert settings == {
        **DEFAULTS,
        "server": configured.address,
        "token": TOKEN,
        "account": "ada",
        "interval_seconds": 3.0,
    }
    configured.wait_for(lambda: configured.accepted)
    report = configured.accepted[0]
    assert report["scheduler_id"] == cluster.scheduler.id
    assert (report["account"], report["interval_seconds"]) == ("ada", 3.0)


def test_arguments_win(configured, cluster, client):
    galvo.register(client, server="somewhere:1/", token="t-2", account="b")
    settings = plugin_of(cluster)._settings
    assert [settings[k] for k in ("server", "token", "account")] == [
        "http://somewhere:1",
        "t-2",
        "b",
    ]


def test_registering_again_changes_nothing(configured, cluster, client):
    galvo.register(client)
    first = plugin_of(cluster)
    galvo.register(client, token="another")
    assert plugin_of(cluster) is first
    assert [name for name in cluster.scheduler.plugins if "galvo" in name] == ["galvo"]


def test_other_settings_after_unregistering(configured, cluster, client):
    galvo.register(client)
    on_loop(cluster, lambda: cluster.scheduler.remove_plugin(name="galvo"))
    galvo.register(client, account="other")
    configured.wait_for(lambda: any(r["account"] == "other" for r in configured.accepted))
    last = configured.accepted[-1]["sequence"]
    configured.wait_for(lambda: configured.accepted[-1]["sequence"] >= last + 2)
    later = [r for r in configured.accepted if r["sequence"] > last]
    assert {r["account"] for r in later} == {"other"}


@pytest.mark.parametrize("name", ["server", "token"])
def test_missing_settings_are_named(configured, client, name):
    with dask.config.set({f"galvo.{name}": None}), pytest.raises(ValueError, match=f"galvo.{name}"):
        galvo.register(client)


def test_without_a_client():
    with pytest.raises(ValueError, match=r"(?i)client"):
        galvo.register(server="http://x", token="t")


def test_disabled_registers_nothing(cluster, client, caplog):
    with dask.config.set({"galvo.disabled": True}):
        with caplog.at_level(logging.INFO, "distributed.galvo"):
            assert galvo.register(client) is None
    assert "galvo" not in cluster.scheduler.plugins
    assert "disabled" in caplog.text


def test_asynchronous_clients(galvo_server_settings):
    galvo_server, settings = galvo_server_settings

    async def main():
        async with local_cluster(asynchronous=True) as cluster:
            async with Client(cluster, asynchronous=True) as client:
                result = galvo.register(client, **settings)
                assert inspect.isawaitable(result)
                assert "galvo" not in cluster.scheduler.plugins
                await result
                assert "galvo" in cluster.scheduler.plugins
                with dask.config.set({"galvo.disabled": True}):
                    await galvo.register(client)
                assert await client.submit(sum, [1, 2]) == 3

    asyncio.run(main())
    assert galvo_server.accepted[-1]["final"]
    assert galvo_server.accepted[-1]["cluster"]["totals"]["tasks_succeeded"] == 1


@pytest.fixture
def galvo_server_settings(configured):
    return configured, {"server": configured.address, "token": TOKEN}


def test_the_token_is_nowhere_to_be_seen(configured, cluster, client, caplog):
    configured.answers = [lambda report: (401, {}, {"message": TOKEN})]
    with caplog.at_level(logging.DEBUG):
        galvo.register(client)
        configured.wait_for(lambda: configured.reports)
        on_loop(cluster, lambda: plugin_of(cluster)._courier.pause)
        shown = on_loop(cluster, lambda: repr(plugin_of(cluster)) + repr(cluster.scheduler.plugins))
    assert TOKEN not in shown + caplog.text


def test_the_environment_of_the_client_is_reported(configured, cluster, client):
    galvo.register(client)
    configured.wait_for(lambda: configured.rows.environments)
    environments = {row["executable"]: row for row in configured.rows_of("environments")}
    row = environments[sys.executable]
    assert row["packages"]["dask"] == dask.__version__
    assert row["python"].startswith(".".join(map(str, sys.version_info[:3])))
    environments = configured.rows.environments
    configured.wait_for(lambda: configured.rows.cluster[1].get("environment_id") in environments)


def test_a_dry_run_shows_the_report_and_sends_nothing(configured, cluster, client, capsys):
    assert client.submit(sum, [1, 2]).result() == 3
    assert client.submit(abs, -4).result() == 4
    plugins, handlers = list(cluster.scheduler.plugins), logging.getLogger().handlers[:]
    with dask.config.set({"galvo.token": None, "galvo.server": None, "galvo.account": "ada"}):
        assert galvo.register(client, dry_run=True) is None
    shown = capsys.readouterr().out
    report = json.loads(shown)
    assert shown == json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    check(report)
    assert report["account"] == "ada" and report["scheduler_id"] == cluster.scheduler.id
    assert {row["prefix"] for row in report["task_groups"]} == {"abs", "sum"}
    assert len(report["workers"]) == 1 and report["receipt"]["tasks"]["sent"] >= 4
    assert list(cluster.scheduler.plugins) == plugins
    assert logging.getLogger().handlers == handlers
    assert configured.requests == []


def test_a_dry_run_with_an_asynchronous_client(configured, capsys):
    async def main():
        async with local_cluster(asynchronous=True) as cluster:
            async with Client(cluster, asynchronous=True) as client:
                shown = galvo.register(client, dry_run=True)
                assert inspect.isawaitable(shown)
                await shown
                assert "galvo" not in cluster.scheduler.plugins

    asyncio.run(main())
    check(json.loads(capsys.readouterr().out))
    assert configured.requests == []


def test_a_dry_run_where_galvo_is_disabled_shows_that_nothing_is_sent(client, capsys):
    with dask.config.set({"galvo.disabled": True}):
        assert galvo.register(client, dry_run=True) is None
    assert capsys.readouterr().out == ""


class Clients:
    """One client per way in which releases of Dask take a scheduler plugin."""

    class From20220500:
        def register_scheduler_plugin(self, plugin, name=None):
            self.called = {}

    class From20220501:
        def register_scheduler_plugin(self, plugin, name=None, idempotent=False):
            self.called = {"idempotent": idempotent}

    class From20230902:
        def register_scheduler_plugin(self, plugin, name=None, idempotent=False):
            raise AssertionError("deprecated")

        def register_plugin(self, plugin, name=None, idempotent=False):
            self.called = {"idempotent": idempotent}

    class From20240800:
        def register_plugin(self, plugin, name=None, idempotent=None):
            self.called = {"idempotent": idempotent}

    class From20260600:
        def register_plugin(self, plugin, name=None):
            self.called = {}


@pytest.mark.parametrize(
    "client, called",
    [
        (Clients.From20220500(), {}),
        (Clients.From20220501(), {"idempotent": True}),
        (Clients.From20230902(), {"idempotent": True}),
        (Clients.From20240800(), {"idempotent": None}),
        (Clients.From20260600(), {}),
    ],
)
def test_each_release_is_asked_in_its_own_words(client, called):
    galvo.register(client, server="http://x", token="t")
    assert client.called == called
