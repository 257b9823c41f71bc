"""Tests that clusters registered in this process are found without a configuration."""

import gc

import dask
import pytest
from conftest import wait_until
from distributed import Client
from fake_api import TOKEN, FakeApi, data, errors, pages_of
from fake_galvo import TOKEN as INGEST_TOKEN

import galvo
from galvo.client import cluster as cluster_module
from galvo.client import watch as watch_module
from galvo.client.remembered import MEMORY
from galvo.client.server import Server

# The answer if there is no cluster of the scheduler.
NONE_FOUND = data({"viewer": {"account": {"clusters": {"nodes": []}}}})


@pytest.fixture
def second():
    fake = FakeApi(pages_of([]))
    yield fake
    fake.close()


def asked_of(fake):
    """Returns the tokens and accounts of the requests."""
    return [
        (request.headers["Authorization"].partition(" ")[2], request.headers.get("Galvo-Account"))
        for request in fake.requests
    ]


def remembered(client, server, token, account=None):
    MEMORY.remember(client, {"server": server, "token": token, "account": account})


class FakeClient:
    """The part of a client that the queries use."""

    cluster = None
    status = "closed"

    def __init__(self, scheduler):
        self._scheduler_identity = {"id": scheduler}

    def scheduler_info(self):
        return self._scheduler_identity


def test_a_registration_is_remembered(request, client):
    fake = request.getfixturevalue("galvo")
    with pytest.raises(ValueError, match="token"):
        galvo.register(client, server=fake.address)
    assert MEMORY.last() is None
    galvo.register(client, server=fake.address + "/", token=INGEST_TOKEN, account="team")
    expected = (fake.address, INGEST_TOKEN, "team")
    assert MEMORY.last() == MEMORY.find(client) == MEMORY.find(client.cluster) == expected
    wait_until(lambda: fake.reports)


def test_without_a_configuration_the_last_registration_counts(second):
    remembered(FakeClient("Scheduler-1"), "http://elsewhere.example", "t-0")
    remembered(FakeClient("Scheduler-2"), second.address, TOKEN, "team")
    assert galvo.list_clusters() == []
    assert galvo.list_clusters("other") == []
    assert asked_of(second) == [(TOKEN, "team"), (TOKEN, "other")]


def test_a_configuration_counts_for_what_is_not_a_registered_client(api, second):
    api.answers = [pages_of([]), NONE_FOUND]
    client = FakeClient("Scheduler-1")
    remembered(client, second.address, "t-1", "team")
    assert galvo.list_clusters() == []
    assert asked_of(api) == [(TOKEN, None)]
    with pytest.raises(galvo.NotFound):
        galvo.list_computations(FakeClient("Scheduler-2"))
    assert len(api.requests) == 2 and second.requests == []
    # This one was registered at the second server, and is known nowhere else.
    second.answers = [NONE_FOUND]
    with pytest.raises(galvo.NotFound, match="Scheduler-1"):
        galvo.list_computations(client)
    assert asked_of(second) == [("t-1", "team")]
    assert len(api.requests) == 2


def test_the_current_client_is_asked_about_where_it_was_registered(
    api, second, client, monkeypatch
):
    monkeypatch.setattr(watch_module, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(cluster_module, "FIRST_REPORT_SECONDS", 0.0)
    remembered(client, second.address, "t-1")
    second.answers = [NONE_FOUND]
    with Client(client.cluster) as other:
        for ask in (galvo.report, galvo.watch):
            with pytest.raises(galvo.NotFound):
                ask()
            with pytest.raises(galvo.NotFound):
                ask(other)
    assert asked_of(second) == [("t-1", None)] * 4
    assert api.requests == []


def test_a_token_is_for_no_other_server(second):
    remembered(FakeClient("Scheduler-1"), second.address, "t-1")
    with dask.config.set({"galvo.server": "http://other.example"}):
        with pytest.raises(galvo.NotConfigured, match="token"):
            Server.configured()
    with dask.config.set({"galvo.server": second.address}):
        assert galvo.list_clusters() == []
    assert asked_of(second) == [("t-1", None)]


def test_where_the_registered_token_may_not_read_the_configured_one_does(api):
    client = FakeClient("Scheduler-1")
    remembered(client, api.address, "t-ingest")
    api.answers = [errors("MISSING_SCOPE", status=403), NONE_FOUND]
    with pytest.raises(galvo.NotFound, match="Scheduler-1"):
        galvo.list_computations(client)
    assert [token for token, _ in asked_of(api)] == ["t-ingest", TOKEN]
    with dask.config.set({"galvo.token": None}):
        api.answers = [errors("MISSING_SCOPE", status=403)]
        with pytest.raises(galvo.GraphQLError, match="MISSING_SCOPE"):
            galvo.list_computations(client)


def test_a_client_that_is_gone_is_forgotten():
    client = FakeClient("Scheduler-1")
    remembered(client, "http://galvo.example", "t-1")
    del client
    gc.collect()
    assert len(MEMORY._registration_by_object) == 0
    assert MEMORY.find([]) is None and MEMORY.find(12) is None


def test_what_is_missing_is_told_with_the_ways_to_give_it():
    for settings in ({}, {"galvo.server": "http://galvo.example"}):
        with dask.config.set(settings):
            with pytest.raises(galvo.NotConfigured) as error:
                galvo.list_clusters()
        assert "`galvo login`" in str(error.value)
        assert "galvo.register(server=…, token=…)" in str(error.value)
