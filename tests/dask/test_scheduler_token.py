"""Everyone who runs code on a scheduler only finds a token that can report for that scheduler."""

import base64
import json
import urllib.error
import urllib.request

import pytest
from conftest import REPORT_INTERVAL, settings_for
from processes import (
    WORKLOADS,
    Client,
    GalvoServer,
    dask_environment,
    run_to_end,
    wait_until,
)

TOKENS = """{ viewer { account {
  tokenPolicy { refusesBroadTokens }
  tokens(first: 100) { nodes { identifier broadUseAt } }
  schedulerTokens(first: 100) { nodes { identifier schedulerId scopes expiresAt } }
} } }"""
CLUSTERS = """{ viewer { account {
  clusters(first: 100) { nodes { schedulerId totals { tasks } } }
} } }"""
POLICY = """mutation { setTokenPolicy(input: { refusesBroadTokens: true }) {
  tokenPolicy { refusesBroadTokens } } }"""
READ = json.dumps({"query": "{ viewer { account { clusters { totalCount } } } }"}).encode()
CLOSE = json.dumps({"desired_status": "stopped"}).encode()


def prober(processes, dask, settings=None):
    """Starts a client that searches for tokens, once the cluster is complete."""
    client = processes.start(
        "prober",
        [dask.python, WORKLOADS / "prober.py", dask.scheduler_file],
        dask_environment(processes.directory, settings or {}),
        kind=Client,
    )
    client.call("wait_for_workers", count=len(dask.workers))
    return client


def status(galvo, token, path, body=None):
    """Returns status and code of the response to a request with this token."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(galvo.address + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer).get("code")
    except urllib.error.HTTPError as error:
        error_body = json.load(error)
        return error.code, error_body.get("code") or error_body["errors"][0]["extensions"]["code"]


def reported(galvo, scheduler_id):
    nodes = galvo.query(CLUSTERS)["viewer"]["account"]["clusters"]["nodes"]
    return next((node for node in nodes if node["schedulerId"] == scheduler_id), None)


def assert_only_good_for_reports(galvo, looked, was_there=False):
    """Asserts that only one token is found, not the user's, and that it permits reporting only.

    A token that was there before the exchange may remain in memory that Python does not wipe.
    """
    assert was_there or galvo.token not in looked["anywhere"]
    for place in ("configuration", "environment", "inheritance"):
        assert looked["found"].pop(place) == []
    found = {token for tokens in looked["found"].values() for token in tokens}
    assert galvo.token not in found
    (token,) = looked["found"]["settings"]
    assert found == {token}
    assert looked["found"]["events"] == []
    for path, body in [
        ("/graphql", READ),
        ("/api/v2/user/me", None),
        ("/api/v1/api-tokens/", None),
        ("/api/v1/api-tokens/", b"{}"),
        ("/api/v1/scheduler-tokens", b"{}"),
        ("/api/v1/export/clusters?format=csv", None),
        ("/api/v2/analytics/default/1/desired-state", CLOSE),
    ]:
        assert status(galvo, token, path, body) == (403, "TOKEN_BOUND"), path
    # It is bound to this scheduler, which the server lists.
    account = galvo.query(TOKENS)["viewer"]["account"]
    of_scheduler = [
        node
        for node in account["schedulerTokens"]["nodes"]
        if node["identifier"] == token.partition("-")[0]
    ]
    assert [(node["schedulerId"], node["scopes"]) for node in of_scheduler] == [
        (looked["scheduler"], ["INGEST"])
    ]
    return token


def test_register_ships_a_token_that_can_only_report(galvo, python, start_cluster, processes):
    dask = start_cluster(python, miss="coiled galvo")
    client = prober(processes, dask, settings_for(galvo.address, galvo.token))
    client.call("register")
    client.call("run", workload="mixture", attempts=str(processes.directory / "attempts"))
    looked = client.call("look")
    token = assert_only_good_for_reports(galvo, looked)
    wait_until(lambda: reported(galvo, looked["scheduler"])["totals"]["tasks"] > 0, "its tasks")
    # Registering again, and from another client, adds no other token.
    client.call("register")
    other = prober(processes, dask, settings_for(galvo.address, galvo.token))
    other.call("register")
    assert assert_only_good_for_reports(galvo, other.call("look")) == token
    # Another scheduler cannot use it.
    second = start_cluster(python, miss="coiled galvo")
    client = prober(processes, second, settings_for(galvo.address, token))
    name, message = client.call("try_to_register")
    assert name == "RequestRefused" and "TOKEN_BOUND" not in message and "bound" in message


def test_what_a_scheduler_was_configured_with_is_exchanged(galvo, python, start_cluster, processes):
    dask = start_cluster(
        python, preloads=["galvo"], settings=settings_for(galvo.address, galvo.token)
    )
    client = prober(processes, dask)
    wait_until(lambda: client.call("look")["found"]["settings"] != [galvo.token], "an exchange")
    looked = client.call("look")
    wait_until(lambda: reported(galvo, looked["scheduler"]), "a report")
    looked = client.call("look")
    assert_only_good_for_reports(galvo, looked, was_there=True)


def handed_on(how, settings):
    """Returns settings that give a process these, as a cluster manager hands on its own."""
    if how == "variables":
        return settings
    config = {}
    for name, value in settings.items():
        *sections, key = name.split(".")
        held = config
        for section in sections:
            held = held.setdefault(section, {})
        held[key] = value
    # As ``dask.config.serialize`` does it for DASK_INTERNAL_INHERIT_CONFIG.
    serialized = base64.urlsafe_b64encode(json.dumps(config).encode()).decode()
    return {"internal_inherit_config": serialized}


@pytest.mark.parametrize("how", ["variables", "inheritance"])
def test_registering_rids_a_cluster_of_the_token_that_it_inherited(
    how, galvo, python, start_cluster, processes
):
    settings = settings_for(galvo.address, galvo.token)
    inherited = handed_on(how, settings)
    dask = start_cluster(
        python, miss="coiled galvo", settings=inherited, worker_settings=inherited, nanny=True
    )
    client = prober(processes, dask, settings)
    assert client.call("look_around") == [[galvo.token], [galvo.token]]
    client.call("register")
    assert client.call("look_around") == [[], []]
    assert_only_good_for_reports(galvo, client.call("look"), was_there=True)
    # Nannies start workers anew, in the environment of the process.
    client.call("restart")
    assert client.call("look_around") == [[], []]
    # The client's own token is still in use.
    assert isinstance(client.call("try_to_register")[0], int)


def test_workers_without_a_nanny_forget_the_token_that_they_inherited(
    galvo, python, start_cluster, processes
):
    settings = settings_for(galvo.address, galvo.token)
    dask = start_cluster(python, miss="coiled galvo", worker_settings=settings)
    client = prober(processes, dask, settings)
    assert client.call("look_around") == [[galvo.token], []]
    client.call("register")
    assert client.call("look_around") == [[], []]


LOCAL_CLUSTER = """
import os
import sys

import dask
import distributed
import galvo


def configured():
    return dask.config.get("galvo.token", None), os.environ.get("DASK_GALVO__TOKEN")


if __name__ == "__main__":
    # Older releases start a program of this name.
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    kind, place = getattr(distributed, sys.argv[1]), {"dashboard_address": "127.0.0.1:0"}
    with kind(n_workers=2, threads_per_worker=1, **place) as cluster:
        with distributed.Client(cluster) as client:
            client.wait_for_workers(2)
            own, none = configured(), (None, None)
            assert None not in own and set(client.run(configured).values()) == {own}
            assert client.run_on_scheduler(configured) == own
            galvo.register()
            # The scheduler of a LocalCluster is in the user's process.
            expected = own if sys.argv[1] == "LocalCluster" else none
            assert client.run_on_scheduler(configured) == expected
            assert set(client.run(configured).values()) == {none}
            client.restart()
            assert set(client.run(configured).values()) == {none}
            assert configured() == own
            print(len(galvo.list_clusters()))
"""


@pytest.mark.parametrize("kind", ["LocalCluster", "SubprocessCluster"])
def test_what_a_program_starts_has_no_token_of_its_user_who_keeps_it(
    kind, galvo, processes, python
):
    script = processes.directory / "script.py"
    script.write_text(LOCAL_CLUSTER, encoding="utf-8")
    settings = settings_for(galvo.address, galvo.token)
    assert int(run_to_end([python, script, kind], processes.directory, settings)) > 0


@pytest.fixture
def strict(processes):
    """A server whose account refuses tokens with more rights than reporting on schedulers."""
    galvo = GalvoServer(processes).start()
    assert galvo.query(POLICY)["setTokenPolicy"]["tokenPolicy"] == {"refusesBroadTokens": True}
    return galvo


def test_an_account_can_refuse_what_can_do_more(strict, python, start_cluster, processes):
    dask = start_cluster(python)
    settings = {"coiled.server": strict.address, "coiled.token": strict.token}
    client = prober(processes, dask, {**settings, "galvo.computation.interval": REPORT_INTERVAL})
    # `coiled.analytics` ships its own token.
    client.call("try_to_register", package="coiled")
    wait_until(
        lambda: "wants no" in dask.scheduler.log() or "refuses tokens" in dask.scheduler.log(),
        "the refusal in the scheduler's log",
    )
    looked = client.call("look")
    assert reported(strict, looked["scheduler"]) is None
    strict_tokens = strict.query(TOKENS)["viewer"]["account"]["tokens"]["nodes"]
    assert [node["identifier"] for node in strict_tokens] == [strict.token.partition("-")[0]]
    # So does an explicit ``ship_token``, with an error message.
    name, message = client.call("try_to_register", ship_token=True)
    assert name == "RequestRefused" and "without ship_token" in message
    # Other users need to do nothing.
    number, warned = client.call("try_to_register")
    assert isinstance(number, int) and warned == []
    assert_only_good_for_reports(strict, client.call("look"), was_there=True)
