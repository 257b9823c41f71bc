import logging

import dask
import pytest

from galvo.plugin import CoiledTelemetry, find_configuration_problem, read_settings
from galvo.plugin.settings import server_of_module

COILED = {
    "coiled.server": "https://coiled.example",
    "coiled.token": "c-1",
    "coiled.account": "older",
    "coiled.workspace": "space",
    "coiled.analytics": {"disabled": True, "computation": {"interval": "20s"}},
}
DEFAULTS = {
    "exchanged_for": None,
    "ship_token": False,
    "disabled": False,
    "interval_seconds": 15.0,
    "send_code": True,
    "send_profiles": False,
    "profile_interval_seconds": 60.0,
    "profile_by_worker": False,
    "events_interval_seconds": 10.0,
    "events_allow": ["*"],
    "idle_timeout_seconds": None,
    "send_logs": True,
    "send_errors": True,
    "worker_plugin": True,
    "spool_directory": None,
}
GALVO = {
    "galvo.server": "https://galvo.example",
    "galvo.token": "g-1",
    "galvo.account": "mine",
    "galvo.disabled": False,
    "galvo.computation.interval": "5s",
}


def settings_with(*configurations, **arguments):
    merged = {key: value for part in configurations for key, value in part.items()}
    with dask.config.set(merged):
        return read_settings(**arguments)


def test_without_configuration():
    assert read_settings() == {
        **DEFAULTS,
        "server": None,
        "token": None,
        "account": None,
    }


def test_what_the_coiled_package_is_configured_with_is_used():
    assert settings_with(COILED) == {
        **DEFAULTS,
        "server": "https://coiled.example",
        "token": "c-1",
        "account": "space",
        "interval_seconds": 20.0,
        "disabled": True,
    }
    assert settings_with(COILED, {"coiled.workspace": None})["account"] == "older"


def test_galvo_wins_over_coiled_and_arguments_win_over_both():
    assert settings_with(COILED, GALVO) == {
        **DEFAULTS,
        "server": "https://galvo.example",
        "token": "g-1",
        "account": "mine",
        "interval_seconds": 5.0,
        "disabled": False,
    }
    given = {"server": "http://given", "token": "t", "account": "a"}
    settings = settings_with(COILED, GALVO, **given)
    assert {name: settings[name] for name in given} == given


def test_each_setting_falls_back_by_itself():
    settings = settings_with(COILED, {"galvo.server": "http://here"})
    assert (settings["server"], settings["token"]) == ("http://here", "c-1")


def test_the_server_that_coiled_presets_is_not_taken_for_galvo():
    assert settings_with({"coiled.server": "https://cloud.coiled.io/"})["server"] is None


@pytest.mark.parametrize(
    "text, server",
    [
        # Plain HTTP is assumed only for this machine and private networks.
        ("galvo.example", "https://galvo.example"),
        ("galvo.example:8000/x", "https://galvo.example:8000/x"),
        ("8.8.8.8:80", "https://8.8.8.8:80"),
        ("[2606:4700::1111]:80", "https://[2606:4700::1111]:80"),
        ("http://galvo.example", "http://galvo.example"),
        ("10.0.0.1:8000/", "http://10.0.0.1:8000"),
        ("192.168.7.1", "http://192.168.7.1"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("[fd00::1]", "http://[fd00::1]"),
        ("localhost:8000", "http://localhost:8000"),
        ("galvo", "http://galvo"),
        ("galvo.analytics.svc:80", "http://galvo.analytics.svc:80"),
        ("galvo.svc.cluster.local", "http://galvo.svc.cluster.local"),
        ("notlocal.example", "https://notlocal.example"),
        (" https://galvo.example/prefix// ", "https://galvo.example/prefix"),
        ("https://galvo.example?x=1#y", "https://galvo.example"),
    ],
)
def test_servers_are_normalised(text, server):
    assert settings_with({"galvo.server": text})["server"] == server


@pytest.mark.parametrize(
    "name, server",
    [
        ("http://h:8000/api/v2/analytics/preload", "http://h:8000"),
        ("https://h/some/prefix/api/v2/analytics/preload", "https://h/some/prefix"),
        ("https://h//api/v2/analytics/preload/", "https://h"),
        ("https://h/api/v2/analytics/preload?v=1", "https://h"),
        ("https://files.example/plugin.py", None),
        ("galvo.plugin", None),
        ("h:8000/api/v2/analytics/preload", None),
    ],
)
def test_the_address_a_preload_came_from_names_the_server(name, server):
    assert server_of_module(name) == server


@pytest.mark.parametrize(
    "value, seconds",
    [("2 minutes", 120.0), ("250ms", 0.5), (0, 0.5), (3, 3.0), ("2h", 600.0), ("often", 15.0)],
)
def test_intervals_are_understood_and_bounded(value, seconds):
    settings = settings_with({"galvo.computation.interval": value})
    assert settings["interval_seconds"] == seconds


@pytest.mark.parametrize(
    "value, disabled", [(True, True), ("true", True), ("Yes", True), (1, True), ("off", False)]
)
def test_disabled_may_be_written_in_several_ways(value, disabled):
    assert settings_with({"galvo.disabled": value})["disabled"] is disabled


# Pairs of an option of the coiled package, below "coiled.analytics.", and one of Galvo.
SHARED = [
    ("computation.interval", "20s", "interval_seconds", 20.0),
    ("computation.code.transmit", "false", "send_code", False),
    ("computation.code.transmit", 0, "send_code", False),
    ("profile.transmit", "on", "send_profiles", True),
    ("profile.interval", "2 minutes", "profile_interval_seconds", 120.0),
    ("profile.interval", "1ms", "profile_interval_seconds", 5.0),
    ("profile.interval", "1d", "profile_interval_seconds", 3600.0),
    ("profile.by-worker", "true", "profile_by_worker", True),
    ("events.interval", 30, "events_interval_seconds", 30.0),
    ("events.allow", [], "events_allow", []),
    ("events.allow", ("a", "b"), "events_allow", ["a", "b"]),
    ("events.allow", "a, b", "events_allow", ["a", "b"]),
    ("events.allow", "*", "events_allow", ["*"]),
    ("idle.timeout", "20 minutes", "idle_timeout_seconds", 1200.0),
    ("idle.timeout", 0, "idle_timeout_seconds", None),
]


@pytest.mark.parametrize("name, value, key, meaning", SHARED)
def test_settings_shared_with_coiled(name, value, key, meaning, caplog):
    settings = settings_with({f"coiled.analytics.{name}": value})
    assert {**settings_with(), key: meaning} == settings
    other = {f"coiled.analytics.{name}": "?", f"galvo.{name}": value}
    assert settings_with(other) == settings
    assert caplog.text == ""


@pytest.mark.parametrize(
    "name, key",
    [
        ("logs.transmit", "send_logs"),
        ("errors.transmit", "send_errors"),
        ("workers.plugin", "worker_plugin"),
    ],
)
def test_settings_of_galvo_alone(name, key):
    assert settings_with({f"galvo.{name}": "no"})[key] is False
    assert settings_with({f"coiled.analytics.{name}": "no"})[key] is True


@pytest.mark.parametrize(
    "value, meaning",
    [("types", "types"), (" Types ", "types"), ("full", True), (True, True), ("no", False)],
)
def test_of_exceptions_there_may_be_types_alone(value, meaning):
    assert settings_with({"galvo.errors.transmit": value})["send_errors"] == meaning


@pytest.mark.parametrize(
    "name, value, key",
    [
        ("galvo.disabled", "perhaps", "disabled"),
        ("coiled.analytics.computation.interval", "often", "interval_seconds"),
        ("galvo.computation.interval", True, "interval_seconds"),
        ("galvo.computation.interval", float("nan"), "interval_seconds"),
        ("galvo.computation.code.transmit", 2, "send_code"),
        ("galvo.profile.transmit", [], "send_profiles"),
        ("galvo.profile.interval", "-1s", "profile_interval_seconds"),
        ("galvo.events.interval", {}, "events_interval_seconds"),
        ("galvo.events.allow", [1], "events_allow"),
        ("galvo.events.allow", 7, "events_allow"),
        ("galvo.idle.timeout", "inf", "idle_timeout_seconds"),
        ("galvo.logs.transmit", "x" * 300, "send_logs"),
        ("galvo.errors.transmit", "type", "send_errors"),
    ],
)
def test_wrong_values_are_named_once_and_the_default_taken(name, value, key, caplog):
    settings = settings_with({name: value})
    assert settings == {**settings_with(), key: DEFAULTS[key]}
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        f"Galvo does not understand {name} = {repr(value)[:100]} and takes the default,"
        f" {DEFAULTS[key]!r}"
    )


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"galvo.server": None}, "no server"),
        ({"galvo.server": "ftp://x"}, "not an http"),
        ({"galvo.server": "http://"}, "not an http"),
        ({"galvo.server": "http://ada:pw@host"}, "user names"),
        ({"galvo.server": "http://host:notaport"}, "not an http"),
        ({"galvo.token": None}, "no token"),
        ({"galvo.token": "   "}, "no token"),
        ({"galvo.token": "two\r\nlines"}, "spaces"),
        ({"galvo.token": "clé"}, "spaces"),
    ],
)
def test_what_is_missing_says_so_and_shows_no_secret(changes, word):
    problem = find_configuration_problem(settings_with(GALVO, changes))
    assert word in problem
    assert not any(secret in problem for secret in ("g-1", "pw@", "two", "clé"))


def test_complete_settings_miss_nothing():
    assert find_configuration_problem(settings_with(GALVO)) is None
    assert find_configuration_problem(settings_with(GALVO, {"galvo.token": " padded \n"})) is None


def test_the_plugin_keeps_the_settings_of_the_moment_it_was_made():
    with dask.config.set(GALVO):
        plugin = CoiledTelemetry()
    assert plugin._settings["token"] == "g-1"


def test_nothing_shows_the_token(caplog):
    with caplog.at_level(logging.DEBUG), dask.config.set({**GALVO, "galvo.token": "sekret"}):
        plugin = CoiledTelemetry()
        assert "sekret" not in repr(plugin) + str(plugin) + f"{plugin}"
    assert "sekret" not in caplog.text


@pytest.mark.parametrize(
    "server, root",
    [
        ("http://galvo.example/graphql", "http://galvo.example"),
        ("https://galvo.example:8443/graphql/", "https://galvo.example:8443"),
        ("galvo.example/api/v2/analytics/preload", "https://galvo.example"),
        ("https://hub.example/services/galvo/graphql?x=1", "https://hub.example/services/galvo"),
    ],
)
def test_an_address_below_the_server_is_not_the_server(server, root):
    problem = find_configuration_problem(read_settings(server, "t-1"))
    assert problem is not None
    assert f"the address of the server itself, {root}, and not" in problem
    assert find_configuration_problem(read_settings(root, "t-1")) is None
    assert (
        find_configuration_problem(read_settings("http://galvo.example/graphqlite", "t-1")) is None
    )
