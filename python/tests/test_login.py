"""Tests of signing in: prepared answers act as the browser, and the files are checked."""

import os
import stat
from urllib.parse import parse_qs

import dask
import pytest
import yaml
from fake_api import NOTHING, Answer, errors

import galvo
from galvo.client import login as login_module
from galvo.client import transport
from galvo.client.login import Identity, configuration_file, login_with, store_configuration

CREATED = Answer(201, b'{"identifier": "otter", "token": "otter-secret"}')
WHO = Answer(200, b'{"username": "ada", "default_account": {"slug": "team"}}')
ADA = Identity("ada", "team", "http://galvo.example")
NOT_YET = errors("UNAUTHENTICATED", status=401)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(dask.config, "PATH", str(tmp_path / "dask"))
    monkeypatch.setattr(login_module, "POLL_SECONDS", 0.01)
    return tmp_path / "dask"


def test_a_token_is_waited_for_and_kept(api, home, impatient, capsys, monkeypatch):
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0)
    api.answers = [CREATED, NOT_YET, NOTHING, Answer(502, b""), NOT_YET, WHO]
    assert galvo.login() == Identity("ada", "team", api.address)
    first, *others = api.requests
    assert (first.method, first.path) == ("POST", "/api/v1/api-tokens-no-user/")
    assert parse_qs(first.body.decode())["label"][0].count("@") == 1
    assert "Authorization" not in first.headers
    assert {request.path for request in others} == {"/api/v2/user/me"}
    assert {request.headers["Authorization"] for request in others} == {"Bearer otter-secret"}
    printed = capsys.readouterr()
    assert f"{api.address}/activate-token?id=otter" in printed.out
    assert "secret" not in printed.out + printed.err
    # This process uses the token at once, and so do processes that read the file.
    assert dask.config.get("galvo.token") == "otter-secret"
    saved = yaml.safe_load((home / "galvo.yaml").read_text())
    assert saved == {"galvo": {"server": api.address, "account": "team", "token": "otter-secret"}}


@pytest.mark.parametrize(
    "scopes, sent", [(None, None), (["ingest"], "ingest"), (("read", "ingest"), "ingest read")]
)
def test_no_more_scopes_are_requested_than_given(scopes, sent, api, home):
    api.answers = [CREATED, WHO]
    galvo.login(show=lambda activation: None, scopes=scopes)
    form = parse_qs(api.requests[0].body.decode())
    assert form.get("scope") == (None if sent is None else [sent])


@pytest.mark.parametrize("scopes", [[], ["write"], "write", ["ingest", "all"]])
def test_scopes_that_there_are_not(scopes, api, home):
    with pytest.raises(ValueError, match="ingest, read, admin"):
        galvo.login(scopes=scopes)
    assert api.requests == []


def test_nobody_but_the_owner_reads_the_file(api, home):
    old = os.umask(0)
    try:
        path = store_configuration(ADA, "t-1")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    store_configuration(ADA, "t-2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in home.iterdir()] == ["galvo.yaml"]


def test_other_settings_stay(home, plain_configuration):
    home.mkdir()
    (home / "galvo.yaml").write_text(
        "galvo:\n  token: old\n  idle: {timeout: 20 minutes}\ndistributed: {scheduler: {x: 1}}\n"
    )
    store_configuration(ADA, "t-1")
    assert yaml.safe_load((home / "galvo.yaml").read_text()) == {
        "galvo": {
            "server": "http://galvo.example",
            "account": "team",
            "token": "t-1",
            "idle": {"timeout": "20 minutes"},
        },
        "distributed": {"scheduler": {"x": 1}},
    }


@pytest.mark.parametrize("content", ["galvo: [1]\n", "[1]\n", "galvo: {\n", b"\xff\xfe\xff"])
def test_a_file_that_is_something_else_is_left_alone(home, plain_configuration, content):
    home.mkdir()
    content = content if isinstance(content, bytes) else content.encode()
    (home / "galvo.yaml").write_bytes(content)
    with pytest.raises(galvo.NotConfigured, match=r"galvo\.yaml"):
        store_configuration(ADA, "t-1")
    assert (home / "galvo.yaml").read_bytes() == content
    assert len(list(home.iterdir())) == 1


def test_a_configuration_that_is_a_single_file(home):
    home.write_text("")
    with pytest.raises(galvo.NotConfigured, match="names a file"):
        configuration_file()


def test_a_token_that_is_there_already(api, home):
    api.answers = [WHO]
    assert login_with(" t-3\n", api.address + "/").user == "ada"
    assert yaml.safe_load((home / "galvo.yaml").read_text())["galvo"]["token"] == "t-3"
    api.answers = [NOT_YET]
    with pytest.raises(galvo.RequestRefused):
        login_with("t-4", api.address)
    assert yaml.safe_load((home / "galvo.yaml").read_text())["galvo"]["token"] == "t-3"


def test_what_nobody_activates_is_given_up(api, home):
    api.answers = [CREATED, NOT_YET]
    with pytest.raises(galvo.GalvoError, match="nobody activated"):
        galvo.login(api.address, patience_seconds=0.05)
    assert not home.exists()


def test_a_server_that_does_not_give_tokens(api, home):
    api.answers = [Answer(404, b"<html>")]
    with pytest.raises(galvo.RequestRefused, match="does not answer as Galvo does"):
        galvo.login()
    api.answers = [
        Answer(429, b'{"message": "too many tokens await activation"}', {"Retry-After": "60"})
    ]
    with pytest.raises(galvo.RequestRefused, match="too many tokens await activation"):
        galvo.login()


def test_it_needs_to_know_where(home, plain_configuration):
    with pytest.raises(galvo.NotConfigured, match=r"galvo\.server"):
        galvo.login()
