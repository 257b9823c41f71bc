"""Tests of exports: the requests, and interrupted downloads. tests/dask reads tables."""

import json
import sys
from datetime import date, datetime, timezone
from urllib.parse import parse_qs, urlsplit

import numpy
import pytest
from fake_api import NOTHING, Answer, pages_of

import galvo

CSV = b'"id"\r\n"a"\r\n'


def chunks(*pieces, end=True):
    """Returns a chunked body of unknown length; without ``end``, its last chunk is missing."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return Answer(200, body + b"0\r\n\r\n" * end, {"Transfer-Encoding": "chunked"})


def refusal(status, code):
    body = b'{"message": "it is wrong", "detail": "it is wrong", "code": "%s"}' % code.encode()
    return Answer(status, body, {"Content-Type": "application/json"})


def test_parameters_are_written_as_the_server_reads_them(api, tmp_path):
    api.answers = [chunks(CSV)]
    export = galvo.export(
        "logs",
        account="team",
        match="a b&c",
        levels=["ERROR"],
        roots=True,
        first=numpy.int64(3),
        at={"from": datetime(2026, 11, 1, tzinfo=timezone.utc)},
        from_=date(2026, 11, 1),
        user=None,
    )
    assert api.requests == []
    assert export.save(tmp_path / "logs.csv").read_bytes() == CSV
    (request,) = api.requests
    address = urlsplit(request.path)
    assert address.path == "/api/v1/export/logs"
    assert parse_qs(address.query) == {
        "match": ["a b&c"],
        "levels": ['["ERROR"]'],
        "roots": ["true"],
        "first": ["3"],
        "at": ['{"from": "2026-11-01T00:00:00+00:00"}'],
        "from": ["2026-11-01"],
    }
    assert request.headers["Accept"] == "text/csv"
    assert request.headers["Galvo-Account"] == "team"


def test_names_are_quoted(api, tmp_path):
    api.answers = [chunks(b"arrow")]
    galvo.export("/clusters/a?b#c/functions").save(tmp_path / "functions.arrow")
    (request,) = api.requests
    assert request.path == "/api/v1/export/clusters/a%3Fb%23c/functions"
    assert request.headers["Accept"] == "application/vnd.apache.arrow.stream"


@pytest.mark.parametrize("pieces", [(), (b"half",), (b"half", b"and more")])
def test_what_breaks_off_is_no_file(api, tmp_path, pieces):
    api.answers = [chunks(*pieces, end=False)]
    target = tmp_path / "logs.csv"
    target.write_text("older")
    with pytest.raises(galvo.ServerUnreachable, match="not complete"):
        galvo.export("logs").save(target)
    assert [file.name for file in tmp_path.iterdir()] == ["logs.csv"]
    assert target.read_text() == "older"


def test_an_export_begins_again_but_does_not_go_on_again(api, impatient, tmp_path):
    api.answers = [NOTHING, Answer(503, b""), chunks(CSV)]
    assert galvo.export("logs").save(tmp_path / "logs.csv").read_bytes() == CSV
    assert len(api.requests) == 3


def test_a_refusal_is_raised(api, tmp_path):
    api.answers = [refusal(400, "INVALID_PARAMETER")]
    with pytest.raises(galvo.RequestRefused, match="it is wrong") as caught:
        galvo.export("logs", nothing=1).save(tmp_path / "x.csv")
    assert (caught.value.status, caught.value.code) == (400, "INVALID_PARAMETER")
    api.answers = [refusal(404, "NOT_FOUND")]
    with pytest.raises(galvo.NotFound):
        galvo.export("clusters/1/logs").save(tmp_path / "x.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "method, missing, named",
    [
        ("to_pandas", ["pandas"], "pandas"),
        ("to_pandas", ["pyarrow"], "pandas|pyarrow"),
        ("to_polars", ["polars"], "polars"),
        ("to_arrow", ["pyarrow"], "pyarrow"),
    ],
)
def test_packages_that_are_missing_are_named(api, monkeypatch, method, missing, named):
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    api.answers = [pages_of([])]
    with pytest.raises(galvo.MissingPackage, match=f"pip install ({named})") as caught:
        getattr(galvo.list_computations(), method)()
    assert isinstance(caught.value, ImportError)


def test_a_thing_that_cannot_be_a_parameter(api):
    with pytest.raises(TypeError, match="in match cannot be represented"):
        galvo.export("logs", match=[object()])


def test_it_shows_no_token(api):
    assert repr(galvo.export("logs")) == f"<Export logs of {api.address}>"


PATHS = {
    "paths": {
        "/api/v1/export/logs": {},
        "/api/v1/export/clusters/{id}/logs": {},
        "/api/v1/export/error-groups/{id}/occurrences": {},
        "/healthz": {},
    }
}


@pytest.mark.parametrize(
    "name, problem",
    [
        (
            "nonsense",
            "there is no export 'nonsense', but there are clusters/{id}/logs,"
            " error-groups/{id}/occurrences, logs",
        ),
        ("clusters/12/log", "there is no export 'clusters/12/log', but there are"),
        ("clusters/12/logs", "there is no such cluster in this account"),
        ("error-groups/a/occurrences", "there is no such error group in this account"),
    ],
)
def test_an_export_that_is_not_there_is_distinguished_from_those_that_are(
    api, tmp_path, name, problem
):
    listed = Answer(200, json.dumps(PATHS).encode(), {"Content-Type": "application/json"})
    missing = refusal(404, "NOT_FOUND")
    api.answers = [lambda request: listed if request.path == "/api/v1/openapi.json" else missing]
    with pytest.raises(galvo.NotFound) as error:
        galvo.export(name).save(tmp_path / "list.csv")
    assert str(error.value).startswith(problem) and error.value.codes == ("NOT_FOUND",)
