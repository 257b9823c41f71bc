"""Tests of profiles as files: the requests, the names of files, and what is not a file."""

import json
from datetime import datetime, timezone
from urllib.parse import parse_qs, urlsplit

import pytest
from fake_api import Answer

import galvo
from galvo.command import main

FOUND = {"data": {"cluster": {"id": "abc", "number": 12, "schedulerId": "Scheduler-1"}}}
CONTENT = b'{"profiles": []}'


def answers(*others):
    return [Answer(200, json.dumps(FOUND).encode()), *others]


def last_request(api):
    """Returns the path and the parameters of the last request."""
    address = urlsplit(api.requests[-1].path)
    return address.path, parse_qs(address.query)


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("run.speedscope.json", "speedscope"),
        ("run", "speedscope"),
        ("run.pb.gz", "pprof"),
        ("RUN.PPROF", "pprof"),
        ("run.prof", "pprof"),
    ],
)
def test_the_name_selects_the_format(api, tmp_path, name, format):
    api.answers = answers(Answer(200, CONTENT))
    path = galvo.save_profile(tmp_path / name, 12)
    assert (path, path.read_bytes()) == (tmp_path / name, CONTENT)
    assert last_request(api) == (
        "/api/v1/clusters/12/profile",
        {"format": [format], "minShare": ["0.0"]},
    )


def test_a_period_is_sent_as_the_server_reads_it(api, tmp_path):
    api.answers = answers(Answer(200, CONTENT))
    start = datetime(2026, 11, 20, 11, tzinfo=timezone.utc)
    galvo.save_profile(tmp_path / "run", 12, start=start, min_share=0.001)
    assert last_request(api)[1] == {
        "format": ["speedscope"],
        "minShare": ["0.001"],
        "from": ["2026-11-20T11:00:00+00:00"],
    }


def test_functions_are_sent_one_by_one(api, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for act, expected in [
        (
            lambda: galvo.save_profile("run", 12, functions=["load", "('x', 1)"]),
            ["load", "('x', 1)"],
        ),
        (lambda: galvo.save_profile("run", 12, functions="load"), ["load"]),
        (
            lambda: main(["profile", "12", "--function", "load", "--function", "fit"]),
            ["load", "fit"],
        ),
    ]:
        api.answers = answers(Answer(200, CONTENT))
        act()
        assert last_request(api)[1]["function"] == expected


def test_without_a_profile_there_is_no_file(api, tmp_path):
    body = b'{"message": "the cluster has no profile in this period", "code": "NOT_FOUND"}'
    api.answers = answers(Answer(404, body, {"Content-Type": "application/json"}))
    with pytest.raises(galvo.NotFound, match="no profile in this period"):
        galvo.save_profile(tmp_path / "run", 12)
    assert list(tmp_path.iterdir()) == []


def test_the_command_names_the_file_after_the_cluster(api, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    api.answers = answers(Answer(200, CONTENT))
    assert main(["profile", "12"]) == 0
    assert (tmp_path / "cluster-12.speedscope.json").read_bytes() == CONTENT
    assert capsys.readouterr().out == "Written to cluster-12.speedscope.json\n"
    api.answers = answers(Answer(200, CONTENT))
    assert main(["profile", "12", "--output", "x.pb.gz"]) == 0
    assert last_request(api)[1]["format"] == ["pprof"]
