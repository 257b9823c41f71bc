"""Tests of the removal of tokens from the configuration of schedulers, workers and nannies."""

import copy
import os
import re
import sys
from types import SimpleNamespace

import dask
import pytest

from galvo.plugin import configured
from galvo.plugin.configured import (
    INHERITED,
    find_tokens,
    remove_tokens,
    remove_tokens_from_nanny,
    runs_only_dask,
)
from galvo.plugin.identity import fingerprint
from galvo.plugin.worker_side import NannySide, WorkerSide

TOKEN, OLDER, OTHER = "seal-2f1c9d7a40", "seal-of-last-year", "seal-of-coiled"
SETTINGS = {"name": "n", "logs": False, "scheduler_id": "x", "owner": fingerprint(TOKEN)}


@pytest.fixture
def everywhere(monkeypatch):
    """A process that got tokens in each way."""
    first = {"galvo": {"token": OLDER}}
    inherited = {
        "galvo": {"token": OLDER},
        "distributed": {
            "nanny": {"environ": {"A": OLDER, INHERITED: dask.config.serialize(first)}},
        },
        # Of the process that the parent of this one inherited from.
        "internal_inherit_config": dask.config.serialize(first),
    }
    serialized = dask.config.serialize(inherited)
    monkeypatch.setenv(INHERITED, serialized)
    monkeypatch.setenv("DASK_GALVO__TOKEN", f"'{TOKEN}'")
    monkeypatch.setenv("TOKEN_OF_MINE", TOKEN)
    environ = {"DASK_GALVO__TOKEN": TOKEN, "B": "b"}
    handed = {"distributed.nanny.environ": environ, "distributed.nanny.preload-argv": [TOKEN]}
    handed["internal_inherit_config"] = serialized  # as Dask reads the variable
    with dask.config.set(
        {"galvo": {"token": TOKEN, "server": "s"}, "other": 1, "mine": TOKEN, **handed}
    ):
        yield


def held():
    """Returns all that this process and its children are configured with, as text."""
    text = repr((dask.config.config, dict(os.environ)))
    return text + "".join(map(inherited_from, re.findall(r"[\w-]{40,}={0,2}", text)))


def inherited_from(serialized):
    try:
        config = dask.config.deserialize(serialized)
    except ValueError:
        return ""
    return repr(config) + inherited_from(config.get("internal_inherit_config", "{"))


def test_tokens_are_removed_wherever_they_are(everywhere):
    assert find_tokens() == {TOKEN, OLDER}
    remove_tokens(find_tokens())
    assert TOKEN not in held() and OLDER not in held()
    assert dask.config.get("galvo") == {"token": None, "server": "s"}
    assert dask.config.get("distributed.nanny.environ") == {"B": "b"}
    assert find_tokens() == set()


def test_only_these_tokens_are_removed(everywhere):
    remove_tokens([OLDER])
    assert dask.config.get("galvo.token") == TOKEN and OLDER not in held()
    before = held()
    assert TOKEN in before
    remove_tokens([])
    remove_tokens(["unknown"])
    assert held() == before


@pytest.mark.parametrize(
    ("coiled", "known", "found"),
    [
        ({"token": OTHER}, [], set()),
        ({"token": OTHER, "server": "https://cloud.coiled.io"}, [], set()),
        ({"token": OTHER, "server": "cloud.staging.coiled.io"}, [], set()),
        ({"token": OTHER, "server": "https://galvo.example"}, [], {OTHER}),
        ({"token": OTHER, "server": "https://notcoiled.io"}, [], {OTHER}),
        ({"token": OTHER, "server": "https://[galvo"}, [], set()),
        ({"token": OTHER}, [fingerprint(OTHER)], {OTHER}),
        ({"token": None}, [None], set()),
        ("no mapping", [], set()),
    ],
)
def test_a_token_of_another_service_stays(coiled, known, found):
    with dask.config.set({"coiled": coiled}):
        assert find_tokens(known) == found


@pytest.mark.parametrize(
    ("server", "found"),
    [
        ("https://galvo.example/base", {OTHER}),
        ("galvo.example", {OTHER}),
        ("https://galvo.other", set()),
    ],
)
def test_a_token_is_of_the_server_that_is_reported_to(server, found):
    coiled = {"token": OTHER, "server": "https://galvo.example"}
    with dask.config.set({"coiled": coiled, "galvo.server": server}):
        assert find_tokens() == found


def test_a_placeholder_is_no_token(monkeypatch):
    monkeypatch.setenv("DASK_GALVO__TOKEN", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert find_tokens() == set()


def test_settings_that_others_hold_or_change_meanwhile_stay(everywhere, monkeypatch):
    held_by_others = dask.config.get("galvo")
    mine = dask.config.set({"others.alone": 1})
    without = configured.clean_config

    def change_then_copy(*args):
        mine.__exit__(None, None, None)
        monkeypatch.setattr(configured, "clean_config", without)
        return without(*args)

    monkeypatch.setattr(configured, "clean_config", change_then_copy)
    remove_tokens(find_tokens())
    assert dask.config.get("others.alone", None) is None
    assert dask.config.get("galvo") is held_by_others
    assert TOKEN not in held()


def test_what_is_configured_strangely_does_no_harm(monkeypatch):
    monkeypatch.setenv(INHERITED, "no configuration")
    monkeypatch.setenv("DASK_GALVO__TOKEN", "")
    with dask.config.set({"galvo": None}):
        assert find_tokens() == set()
    with dask.config.set({"galvo.token": TOKEN}):
        remove_tokens([TOKEN])
        assert dask.config.get("galvo.token") is None
    assert os.environ[INHERITED] == "no configuration"


@pytest.mark.parametrize("command", configured.COMMANDS)
def test_the_commands_of_dask_are_known_however_they_were_started(command, monkeypatch):
    assert not runs_only_dask()
    with monkeypatch.context() as context:
        context.setitem(sys.modules, command, sys)
        assert runs_only_dask()
    # As ``python -m`` does it, which does not add the module under its name.
    program = SimpleNamespace(__spec__=SimpleNamespace(name=command))
    with monkeypatch.context() as context:
        context.setitem(sys.modules, "__main__", program)
        assert command not in sys.modules and runs_only_dask()
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=None))
    assert not runs_only_dask()


def test_a_worker_in_a_process_of_its_own_forgets_all_tokens(everywhere):
    WorkerSide(SETTINGS).setup(SimpleNamespace(nanny="tcp://127.0.0.1:1", metrics={}))
    assert TOKEN not in held() and OLDER not in held()


def test_a_worker_of_dask_s_command_forgets_all_tokens(everywhere, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed.cli.dask_worker", sys)
    WorkerSide(SETTINGS).setup(SimpleNamespace(nanny=None, metrics={}))
    assert TOKEN not in held() and OLDER not in held()


def test_a_worker_in_a_user_s_process_leaves_it_its_token(everywhere):
    before = held()
    WorkerSide(SETTINGS).setup(SimpleNamespace(nanny=None, metrics={}))
    assert held() == before


def nanny():
    """A nanny as Dask creates it, with parts of its process's configuration."""
    config = {**dask.config.config, "coiled": {"token": TOKEN, "user": "ada"}}
    environment = {"DASK_GALVO__TOKEN": "third-token", "C": "c"}
    return SimpleNamespace(
        config=config,
        env=dict(environment),
        pre_spawn_env={},
        process=SimpleNamespace(config=dict(config), env=dict(environment), pre_spawn_env=None),
    )


def test_a_nanny_hands_no_tokens_to_the_workers_it_starts(everywhere):
    before, one = copy.deepcopy(held()), nanny()
    NannySide(SETTINGS).setup(one)
    for holder in (one, one.process):
        assert holder.env == {"C": "c"}
        assert TOKEN not in repr(holder.config)
        assert holder.config["galvo"] == {"server": "s"}
        assert (holder.config["coiled"], holder.config["other"]) == ({"user": "ada"}, 1)
    # The process of a user keeps what it has.
    assert held() == before


def test_a_nanny_of_dask_s_command_forgets_all_tokens(everywhere, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed.cli.dask_worker", sys)
    one = nanny()
    NannySide(SETTINGS).setup(one)
    assert TOKEN not in held() and OLDER not in held()
    assert "token" not in repr(one.env)


def test_a_nanny_without_these_attributes_does_no_harm():
    one = SimpleNamespace()
    remove_tokens_from_nanny(one, [])
    assert vars(one) == {}
