import asyncio
import inspect
import logging
import sys
import threading
import time
import warnings
from types import SimpleNamespace

import dask
import pytest
from conftest import local_cluster, on_loop
from distributed import Client
from fake_galvo import SCHEDULER_TOKEN, TOKEN
from test_settings import DEFAULTS

import galvo
from galvo import registration
from galvo.plugin.identity import fingerprint
from galvo.plugin.registry import FirstAnswer


def plugin_of(cluster):
    return cluster.scheduler.plugins["galvo"]


def test_settings_travel_from_the_client_to_the_scheduler(configured, cluster, client):
    with dask.config.set({"galvo.account": "ada", "galvo.computation.interval": "3s"}):
        galvo.register()
    # Dask's configuration on the scheduler is not used.
    settings = dict(plugin_of(cluster)._settings)
    client_info = settings.pop("client")
    assert client_info["executable"] == sys.executable
    assert client_info["versions"]["packages"]["dask"] == dask.__version__
    assert settings == {
        **DEFAULTS,
        "server": configured.address,
        "token": SCHEDULER_TOKEN,
        "exchanged_for": fingerprint(TOKEN),
        "account": "ada",
        "interval_seconds": 3.0,
    }
    configured.wait_for(lambda: configured.accepted)
    report = configured.accepted[0]
    assert report["scheduler_id"] == cluster.scheduler.id
    assert (report["account"], report["interval_seconds"]) == ("ada", 3.0)


def test_arguments_win(configured, cluster, client):
    with pytest.warns(UserWarning, match="somewhere:1"):
        galvo.register(client, server="somewhere:1/", token="t-2", account="b", ship_token=True)
    settings = plugin_of(cluster)._settings
    assert [settings[k] for k in ("server", "token", "account")] == [
        "http://somewhere:1",
        "t-2",
        "b",
    ]


def galvo_plugins(cluster):
    return [name for name in cluster.scheduler.plugins if "galvo" in name]


def test_registering_the_same_again_changes_nothing(configured, cluster, client):
    first = galvo.register(client)
    plugin = plugin_of(cluster)
    assert (first.number, first.id, first.url) == (1, 1, configured.address + "/ada/clusters/1")
    assert (first.problem, first.refused, first.is_new) == (None, (), True)
    assert repr(first) == f"<Registration: {configured.address}/ada/clusters/1>"
    assert f'href="{configured.address}/ada/clusters/1"' in first._repr_html_()
    again = galvo.register(client)
    assert (again, again.is_new) == (first, False)
    assert plugin_of(cluster) is plugin
    # Another client makes no difference.
    with Client(cluster) as other:
        assert galvo.register(other) == first
    assert plugin_of(cluster) is plugin and galvo_plugins(cluster) == ["galvo"]


def test_other_settings_take_the_place_of_the_first(configured, cluster, client):
    with dask.config.set({"galvo.account": "ada", "galvo.computation.interval": "1s"}):
        first = galvo.register(client)
    assert client.submit(abs, -4).result() == 4
    before = plugin_of(cluster)
    with dask.config.set({"galvo.account": "ada", "galvo.computation.interval": "0.5s"}):
        assert galvo.register(client) == first
    assert plugin_of(cluster) is not before and galvo_plugins(cluster) == ["galvo"]
    assert client.submit(sum, [1, 2]).result() == 3
    configured.wait_for(lambda: {row["prefix"] for row in configured.groups()} == {"abs", "sum"})
    # Reporting continues: each group is one row, and the totals grow.
    assert len(configured.groups()) == 2
    sequences = [report["sequence"] for report in configured.accepted]
    assert sequences == sorted(sequences)
    last = configured.accepted[-1]
    assert (last["account"], last["interval_seconds"]) == ("ada", 0.5)
    assert on_loop(cluster, lambda: before._timer) is None


def refusing(status, code):
    return lambda report: (status, {}, {"code": code, "message": "no"})


REFUSALS = [
    (401, "UNAUTHENTICATED", "galvo.token"),
    (401, None, "galvo.token"),
    (403, "MISSING_SCOPE", "galvo.token.*ingest"),
    (403, "ACCOUNT_MISMATCH", "galvo.account"),
    (403, "SOMETHING_NEW", "galvo.token"),
    (409, "NOT_CLUSTER_OWNER", "another user"),
    (409, "CLUSTER_DELETED", "was deleted"),
]


@pytest.mark.parametrize("status, code, named", REFUSALS)
def test_what_is_refused_is_reported_and_can_be_corrected(
    status, code, named, configured, cluster, client
):
    configured.answers = [refusing(status, code)] * 2
    for _ in range(2):  # the same settings again are tried at once
        with pytest.raises(galvo.RequestRefused, match=named) as refused:
            galvo.register(client, token="wrong")
        assert refused.value.status == status
        assert refused.value.code == (code or "UNAUTHENTICATED")
        assert str(status) in str(refused.value) and "wrong" not in str(refused.value)
    assert not configured.accepted
    assert galvo.register(client).number == 1
    configured.wait_for(lambda: configured.accepted)
    # A cause that is resolved elsewhere requires no new settings. The plugin tries once more with
    # the token of the cluster's owner, which this scheduler has.
    attempts = 2 if code == "NOT_CLUSTER_OWNER" else 1
    configured.answers = [refusing(status, code)] * attempts
    with pytest.raises(galvo.RequestRefused):
        galvo.register(client, account="b")
    assert galvo.register(client, account="b").number == 1


def test_a_server_that_is_away_is_warned_of_and_reported_to_later(configured, cluster, client):
    configured.answers = [lambda report: (503, {"Retry-After": "0"}, {"message": "busy"})]
    with pytest.warns(UserWarning, match=r"(?s)busy.*galvo\.server"):
        link = galvo.register(client)
    assert (link.url, link.number, link.problem) == (None, None, "busy")
    assert "once that answers" in repr(link) and configured.address in link._repr_html_()
    configured.wait_for(lambda: configured.accepted)
    assert galvo.register(client).url == configured.address + "/ada/clusters/1"


def test_a_server_that_is_silent_is_waited_for_so_long_and_holds_up_nothing(
    hung, cluster, client, monkeypatch
):
    monkeypatch.setattr(registration, "RESPONSE_SECONDS", 2.0)
    other, done = Client(cluster), []

    def work():
        while not done:
            begun = time.monotonic()
            assert other.submit(abs, -4, pure=False).result(15) == 4
            took.append(time.monotonic() - begun)

    took, thread = [], threading.Thread(target=work, daemon=True)
    thread.start()
    begun = time.monotonic()
    try:
        with pytest.warns(UserWarning, match="no answer within 2 seconds"):
            link = galvo.register(client, server=hung.address, token="t")
    finally:
        waited = time.monotonic() - begun
        done.append(True)
        thread.join(20)
        other.close()
    assert link.url is None and 2.0 <= waited < 6.0
    assert len(took) > 3 and max(took) < 1.9


def test_a_slow_server_is_waited_for_no_longer_in_two_steps(
    configured, cluster, client, monkeypatch
):
    """The limit holds for the exchange of the token and for the first report together."""
    monkeypatch.setattr(registration, "RESPONSE_SECONDS", 3.0)
    exchange, released = configured.exchange, threading.Event()

    def slow_exchange(headers, body):
        time.sleep(2.0)
        return exchange(headers, body)

    def silent(report):
        released.wait(20)
        return 503, {}, {}

    configured.exchange, configured.answers = slow_exchange, [silent]
    begun = time.monotonic()
    with pytest.warns(UserWarning, match="no answer within 3 seconds"):
        link = galvo.register(client)
    waited = time.monotonic() - begun
    released.set()
    assert link.url is None and configured.exchanges
    assert 3.0 <= waited < 4.7  # 5 seconds with a limit for each


def test_classes_that_the_account_refuses_cause_a_warning(configured, cluster, client):
    configured.accepts = ["basic", "tasks", "dask_errors", "user_errors", "events", "logs"]
    with pytest.warns(UserWarning, match="code, profiles"):
        link = galvo.register(client)
    assert link.refused == ("code", "profiles")
    assert "code, profiles" in link._repr_html_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert galvo.register(client) == link


def test_the_servers_own_address_is_the_link(configured, cluster, client):
    fields = {"url": "https://galvo.example/clusters/7", "cluster_id": 7}
    configured.answers = [lambda report: (200, {}, configured.acknowledgement(report, **fields))]
    link = galvo.register(client)
    assert (link.url, link.number) == ("https://galvo.example/clusters/7", 7)


@pytest.mark.parametrize("path", [None, "@elsewhere.example/", 7])
def test_a_server_without_a_path_has_the_page_of_all_accounts(configured, cluster, client, path):
    fields = {"path": path, "cluster_id": 7}
    configured.answers = [lambda report: (200, {}, configured.acknowledgement(report, **fields))]
    assert galvo.register(client).url == configured.address + "/clusters/7"


def test_what_is_run_on_the_scheduler_holds_no_token(configured, cluster, client):
    galvo.register(client)
    galvo.register(client, dry_run=True)
    events = on_loop(cluster, lambda: repr(cluster.scheduler.get_events("all")))
    assert "run-function" in events and TOKEN not in events


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
                assert (await result).url == galvo_server.address + "/ada/clusters/1"
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
    # A server's answer contains the token that it was sent.
    configured.answers = [lambda report: (401, {}, {"message": SCHEDULER_TOKEN})]
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(galvo.RequestRefused) as refused:
            galvo.register(client)
        assert SCHEDULER_TOKEN not in str(refused.value)
        configured.wait_for(lambda: configured.reports)
        on_loop(cluster, lambda: plugin_of(cluster)._sender.pause)
        shown = on_loop(cluster, lambda: repr(plugin_of(cluster)) + repr(cluster.scheduler.plugins))
    assert TOKEN not in shown + caplog.text and SCHEDULER_TOKEN not in shown + caplog.text


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
    assert shown.startswith(f"The report of {cluster.scheduler.id} to no server")
    assert '"prefix": "abs"' in shown and '"prefix": "sum"' in shown
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
    assert '"workers": [' in capsys.readouterr().out
    assert configured.requests == []


def test_a_dry_run_where_galvo_is_disabled_shows_that_nothing_is_sent(client, capsys):
    with dask.config.set({"galvo.disabled": True}):
        assert galvo.register(client, dry_run=True) is None
    assert capsys.readouterr().out == ""


class Fake:
    asynchronous = False

    def sync(self, function, *args):
        return asyncio.run(function(*args))

    def run_on_scheduler(self, function):
        if isinstance(function, FirstAnswer):
            return {"status": 200, "cluster": 5}
        return function(SimpleNamespace(plugins={}))


class Clients:
    """One client for each way in which releases of Dask accept a scheduler plugin."""

    class From20220500(Fake):
        def register_scheduler_plugin(self, plugin, name=None):
            self.called = {}

    class From20220501(Fake):
        def register_scheduler_plugin(self, plugin, name=None, idempotent=False):
            self.called = {"idempotent": idempotent}

    class From20230902(Fake):
        def register_scheduler_plugin(self, plugin, name=None, idempotent=False):
            raise AssertionError("deprecated")

        def register_plugin(self, plugin, name=None, idempotent=False):
            self.called = {"idempotent": idempotent}

    class From20240800(Fake):
        def register_plugin(self, plugin, name=None, idempotent=None):
            self.called = {"idempotent": idempotent}

    class From20260600(Fake):
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
def test_each_release_is_called_with_its_own_arguments(client, called):
    assert galvo.register(client, server="http://x", token="t", ship_token=True).number == 5
    assert client.called == called
