import logging

import dask
import pytest

from galvo.plugin import CoiledTelemetry, _server_of_module, read_settings, what_is_missing

COILED = {
    "coiled.server": "https://coiled.example",
    "coiled.token": "c-1",
    "coiled.account": "older",
    "coiled.workspace": "space",
    "coiled.analytics": {"disabled": True, "computation": {"interval": "20s"}},
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
        "server": None,
        "token": None,
        "account": None,
        "interval_seconds": 15.0,
        "disabled": False,
    }


def test_what_the_coiled_package_is_configured_with_is_used():
    assert settings_with(COILED) == {
        "server": "https://coiled.example",
        "token": "c-1",
        "account": "space",
        "interval_seconds": 20.0,
        "disabled": True,
    }
    assert settings_with(COILED, {"coiled.workspace": None})["account"] == "older"


def test_galvo_wins_over_coiled_and_arguments_win_over_both():
    assert settings_with(COILED, GALVO) == {
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
        ("galvo.example", "http://galvo.example"),
        ("10.0.0.1:8000/", "http://10.0.0.1:8000"),
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
    assert _server_of_module(name) == server


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
    problem = what_is_missing(settings_with(GALVO, changes))
    assert word in problem
    assert not any(secret in problem for secret in ("g-1", "pw@", "two", "clé"))


def test_complete_settings_miss_nothing():
    assert what_is_missing(settings_with(GALVO)) is None
    assert what_is_missing(settings_with(GALVO, {"galvo.token": " padded \n"})) is None


def test_the_plugin_keeps_the_settings_of_the_moment_it_was_made():
    with dask.config.set(GALVO):
        plugin = CoiledTelemetry()
    assert plugin._settings["token"] == "g-1"


def test_nothing_shows_the_token(caplog):
    with caplog.at_level(logging.DEBUG), dask.config.set({**GALVO, "galvo.token": "sekret"}):
        plugin = CoiledTelemetry()
        assert "sekret" not in repr(plugin) + str(plugin) + f"{plugin}"
    assert "sekret" not in caplog.text
