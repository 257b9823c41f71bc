"""Tests of lists in the client: paging, of one cluster or all, display, and truncation."""

import copy
import logging
import pickle
import re
import time
import warnings
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy
import pytest
from conftest import local_cluster
from distributed import Client
from fake_api import TOKEN, data, errors, pages_of

import galvo
from galvo.client import cluster as cluster_module
from galvo.client.cluster import key_of
from galvo.client.log import SOURCES
from galvo.client.moments import format_duration, parse_duration, range_start
from galvo.client.server import Server

try:
    import pandas
except ImportError:  # optional
    pandas = None

SCHEDULER = "Scheduler-2f8d2f60-9dd4-4a9e-8b8f-0d6b3a3f4e7d"
KEY = {"id": "C-12", "number": 12, "schedulerId": SCHEDULER}


def cluster(number, **changes):
    return {
        "id": f"C-{number}",
        "number": number,
        "schedulerId": SCHEDULER,
        "name": "etl",
        "user": {"id": "U-1", "name": "ada"},
        "state": "RUNNING",
        "desiredState": "RUNNING",
        "startedAt": "2026-11-20T11:00:00.250+00:00",
        "endedAt": None,
        "durationSeconds": 93.0,
        "lastSeenAt": "2026-11-20T11:01:33+00:00",
        "idleSince": None,
        "now": {"at": "2026-11-20T11:01:33+00:00", "workers": 3},
        "totals": {"tasks": 1234, "errors": 2, "peakWorkers": 4},
        "usage": {
            "utilization": 0.5,
            "costs": [{"amount": 1.25, "currency": "USD", "basis": "ESTIMATED"}],
        },
        **changes,
    }


def computation(number):
    return {
        "daskId": f"d-{number}",
        "cluster": {"id": "C-12", "number": 12, "name": None},
        "state": "FINISHED",
        "startedAt": "2026-11-20T11:00:00+00:00",
        "endedAt": None,
        "wallSeconds": 1.5,
    }


def of_cluster(rows):
    """Returns an answer with the name of a cluster and one of its lists."""

    def answer(request):
        if "list:" not in request.query:
            return data({"cluster": KEY})
        turn = {"hasNextPage": False, "endCursor": None}
        return data({"cluster": {"list": {"pageInfo": turn, "nodes": rows}}})

    return answer


def test_all_pages_are_read(api):
    api.answers = [pages_of([cluster(number) for number in range(250)])]
    clusters = galvo.list_clusters()
    assert [row["number"] for row in clusters] == list(range(250))
    assert [request.variables["first"] for request in api.requests] == [100, 100, 100]
    assert clusters.complete and isinstance(clusters, list)


def test_moments_are_read_and_what_is_not_there_is_none(api):
    api.answers = [pages_of([cluster(1), cluster(2, now=None)])]
    first, second = galvo.list_clusters()
    assert first["startedAt"] == datetime(2026, 11, 20, 11, 0, 0, 250_000, timezone.utc)
    assert first["now"]["at"] - first["startedAt"] == timedelta(seconds=92.75)
    assert (first["endedAt"], second["now"]) == (None, None)


def test_an_empty_page_is_not_the_last_one(api):
    def page(nodes, cursor, more=True):
        turn = {"hasNextPage": more, "endCursor": cursor}
        return data({"viewer": {"account": {"list": {"pageInfo": turn, "nodes": nodes}}}})

    api.answers = [page([], "a"), page([], "b"), page([computation(1)], None, more=False)]
    assert len(galvo.list_computations()) == 1
    assert [request.variables["after"] for request in api.requests] == [None, "a", "b"]


def test_a_server_that_ignores_cursors_does_not_make_it_go_on_for_ever(api):
    turn = {"hasNextPage": True, "endCursor": "a"}
    same = data({"viewer": {"account": {"list": {"pageInfo": turn, "nodes": [cluster(1)]}}}})
    api.answers = [same]
    with pytest.raises(galvo.GalvoError, match="again and again"):
        galvo.list_clusters()
    assert len(api.requests) == 2


@pytest.mark.parametrize("limit, read", [(1, [2]), (30, [31]), (150, [100, 100]), (249, [100] * 3)])
def test_what_is_cut_off_causes_a_warning(api, limit, read):
    api.answers = [pages_of([cluster(number) for number in range(250)])]
    with pytest.warns(UserWarning, match=f"more than {limit} clusters") as caught:
        clusters = galvo.list_clusters(limit=limit)
    assert caught[0].filename == __file__
    assert [row["number"] for row in clusters] == list(range(limit))
    assert not clusters.complete
    assert [request.variables["first"] for request in api.requests] == read


@pytest.mark.parametrize("limit", [250, 251, None])
def test_a_limit_that_is_not_reached_changes_nothing(api, limit):
    api.answers = [pages_of([cluster(number) for number in range(250)])]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert galvo.list_clusters(limit=limit).complete


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_has_to_leave_something(api, limit):
    with pytest.raises(ValueError, match="limit"):
        galvo.list_clusters(limit=limit)


def test_conditions_of_clusters(api):
    api.answers = [pages_of([])]
    begun = datetime(2026, 11, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    galvo.list_clusters(since=begun, filter={"hasErrors": True})
    assert api.requests[0].variables["filter"] == {
        "hasErrors": True,
        "startedIn": {"from": "2026-11-01T10:00:00.000+00:00"},
    }
    galvo.list_clusters(since=None)
    assert api.requests[1].variables["filter"] == {}


def test_numbers_of_numpy_are_numbers(api):
    api.answers = [pages_of([cluster(number) for number in range(9)])]
    conditions = {
        "minDurationSeconds": numpy.float64(3),
        "minTasks": numpy.int64(5),
        "hasErrors": numpy.bool_(True),
        "shares": [numpy.float32(0.5), (numpy.uint8(7),)],
    }
    with pytest.warns(UserWarning, match="more than 3 clusters"):
        rows = galvo.list_clusters(since=None, filter=conditions, limit=numpy.int64(3))
    assert [row["number"] for row in rows] == [0, 1, 2]
    assert api.requests[0].variables == {
        "filter": {
            "minDurationSeconds": 3.0,
            "minTasks": 5,
            "hasErrors": True,
            "shares": [0.5, [7]],
        },
        "first": 4,
        "after": None,
    }


def test_moments_that_lists_return_serve_as_conditions(api):
    api.answers = [pages_of([cluster(1)])]
    (row,) = galvo.list_clusters()
    galvo.list_clusters(filter={"startedIn": {"from": row["startedAt"]}})
    assert api.requests[1].variables["filter"] == {
        "startedIn": {"from": "2026-11-20T11:00:00.250000+00:00"}
    }
    at = [row["startedAt"].astimezone(timezone(timedelta(hours=5))), date(2026, 11, 1)]
    api.answers = [data({})]
    galvo.graphql("query ($at: [DateTime!]) { nothing }", {"at": at, "id": numpy.int64(12)})
    assert api.requests[2].variables == {
        "at": ["2026-11-20T11:00:00.250000+00:00", "2026-11-01"],
        "id": 12,
    }


@pytest.mark.parametrize(
    "value, shown",
    [
        (timedelta(1), "datetime.timedelta(days=1)"),
        ({3}, "{3}"),
        (float("nan"), "nan"),
        (numpy.timedelta64(3, "s"), repr(numpy.timedelta64(3, "s"))),
        (numpy.datetime64("NaT"), repr(numpy.datetime64("NaT"))),
    ],
)
def test_what_cannot_be_a_variable_is_reported_with_its_place(api, value, shown):
    with pytest.raises(TypeError) as caught:
        galvo.graphql("{ nothing }", {"filter": {"startedIn": {"from": [value]}}})
    problem = f"{shown} in filter.startedIn.from cannot be represented in JSON"
    assert str(caught.value) == problem
    with pytest.raises(TypeError, match=r" in filter\.users cannot be represented"):
        galvo.list_clusters(filter={"users": value})
    assert api.requests == []


def test_ones_own_clusters_are_found_by_who_one_is(api):
    api.answers = [data({"viewer": {"user": {"id": "U-7", "name": "ada"}}}), pages_of([])]
    galvo.list_clusters(user="ada", since=None)
    assert api.requests[1].variables["filter"] == {"users": ["U-7"]}


def test_those_of_others_by_one_of_their_clusters(api):
    others = [{"user": None}, *({"user": {"id": f"U-{n}", "name": f"n{n}"}} for n in range(150))]
    myself = data({"viewer": {"user": {"id": "U-x", "name": "ada"}}})
    api.answers = [myself, pages_of(others), pages_of(others), pages_of([])]
    galvo.list_clusters(user="n120", since=None)
    assert api.requests[-1].variables["filter"] == {"users": ["U-120"]}
    api.answers = [myself, pages_of(others), pages_of(others), pages_of([])]
    assert galvo.list_clusters(user="nobody", since=None) == []
    assert api.requests[-1].variables["filter"] == {"users": []}


@pytest.mark.parametrize("name", [12, "12", "C-12", SCHEDULER, numpy.int64(12)])
def test_a_cluster_may_be_named_in_several_ways(api, name):
    def answer(request):
        if "cluster(id: $id) { id" in request.query:
            assert request.variables == {"id": str(name)}
            return data({"cluster": KEY})
        assert request.variables == {"scheduler": SCHEDULER}
        others = {**KEY, "number": 13, "schedulerId": SCHEDULER + "0"}
        return data({"viewer": {"account": {"clusters": {"nodes": [others, KEY]}}}})

    api.answers = [answer]
    assert key_of(Server.configured(), name) == ("C-12", 12, SCHEDULER)


@pytest.mark.parametrize(
    "info", [{"id": SCHEDULER}, lambda: {"id": SCHEDULER, "workers": {}}], ids=["cluster", "client"]
)
def test_a_cluster_may_be_an_object_of_dask(api, info):
    api.answers = [data({"viewer": {"account": {"clusters": {"nodes": [KEY]}}}})]
    found = key_of(Server.configured(), SimpleNamespace(scheduler_info=info))
    assert found.number == 12
    assert api.requests[0].variables == {"scheduler": SCHEDULER}


@pytest.mark.parametrize(
    "name", [True, 1.5, object(), numpy.bool_(True), numpy.float64(12), numpy.array([12])]
)
def test_what_is_no_cluster_is_refused(api, name):
    with pytest.raises(TypeError, match="is needed"):
        galvo.close(name)


def test_a_cluster_that_is_not_there(api):
    api.answers = [data({"cluster": None})]
    with pytest.raises(galvo.NotFound, match="no cluster 12 in this account") as caught:
        galvo.list_computations(12)
    assert isinstance(caught.value, LookupError) and caught.value.code == "NOT_FOUND"
    api.answers = [data({"viewer": {"account": {"clusters": {"nodes": []}}}})]
    with pytest.raises(galvo.NotFound, match="has not reported"):
        galvo.list_computations(SCHEDULER)


def test_a_scheduler_that_has_not_reported_is_waited_for(api):
    found = [data({"viewer": {"account": {"clusters": {"nodes": nodes}}}}) for nodes in ([], [KEY])]
    api.answers = found
    assert key_of(Server.configured(), SCHEDULER, patience=5).number == 12


def reporting(*schedulers):
    """Returns the server's answers once these have reported, one more at each request."""
    reported = []

    def answer(request):
        if "list:" in request.query:
            return of_cluster([computation(1)])(request)
        found = [{**KEY, "schedulerId": scheduler} for scheduler in reported]
        reported.extend(schedulers[len(reported) :][:1])
        return data({"viewer": {"account": {"clusters": {"nodes": found}}}})

    return answer


@pytest.mark.parametrize("of", ["client", "cluster", "current client"])
def test_a_scheduler_that_was_registered_a_moment_ago_is_waited_for(api, cluster, client, of):
    api.answers = [reporting(cluster.scheduler.id)]
    named = {"client": client, "cluster": cluster, "current client": None}[of]
    assert key_of(Server.configured(), named).number == 12
    if named is not None:
        api.answers = [reporting(cluster.scheduler.id)]
        assert [row["daskId"] for row in galvo.list_computations(named)] == ["d-1"]


def test_a_scheduler_that_never_was_registered_is_not_waited_for_long(api, client, monkeypatch):
    monkeypatch.setattr(cluster_module, "FIRST_REPORT_SECONDS", 0.5)
    api.answers = [reporting()]
    begun = time.monotonic()
    with pytest.raises(galvo.NotFound, match=r"was galvo\.register\(\) called\?"):
        galvo.report(client)
    assert 0.5 <= time.monotonic() - begun < 5
    assert len(api.requests) > 1


def test_an_identifier_is_not_waited_for(api):
    api.answers = [reporting()]
    with pytest.raises(galvo.NotFound):
        galvo.report(SCHEDULER)
    assert len(api.requests) == 1


def test_a_client_in_its_own_loop_is_not_waited_for(api):
    api.answers = [reporting()]
    alone = SimpleNamespace(
        scheduler_info=lambda: {"id": SCHEDULER}, status="running", asynchronous=True
    )
    with pytest.raises(galvo.NotFound):
        galvo.report(alone)
    assert len(api.requests) == 1


@pytest.mark.parametrize("closed", ["client", "cluster", "client that has its own"])
def test_a_closed_client_stands_for_its_cluster_if_it_knows_it(api, closed):
    own = {"n_workers": 1, "processes": False, "dashboard_address": ":0"}
    client = Client(**own) if closed == "client that has its own" else Client(local_cluster())
    cluster, scheduler = client.cluster, client.scheduler_info()["id"]
    (cluster if closed == "cluster" else client).close()
    assert client.status == "closed"
    api.answers = [reporting(scheduler)]
    # It may have sent its last report, and is not waited for.
    with pytest.raises(galvo.NotFound, match=f"the scheduler {scheduler} has not reported"):
        galvo.close(client)
    assert len(api.requests) == 1
    assert [row["daskId"] for row in galvo.list_computations(client)] == ["d-1"]
    client.close()
    cluster.close()


def test_a_closed_client_that_knows_no_cluster_reports_what_to_give_instead(api, cluster):
    client = Client(cluster.scheduler_address)
    client.close()
    with pytest.raises(ValueError) as caught:
        galvo.report(client)
    assert str(caught.value) == (
        "<Client: No scheduler connected> is not connected to a scheduler, or not any more: give"
        " the cluster's number or identifier, which galvo.list_clusters() returns"
    )
    assert api.requests == []


def test_a_client_that_lost_its_scheduler_is_not_queried(api):
    api.answers = [data({"viewer": {"account": {"clusters": {"nodes": [KEY]}}}})]
    lost = SimpleNamespace(
        status="connecting",
        scheduler_info=lambda: pytest.fail("it would wait for half a minute"),
        _scheduler_identity={"id": SCHEDULER},
    )
    assert key_of(Server.configured(), lost).number == 12


@pytest.mark.parametrize("arguments", [(12,), (None, 12), (12, 12)])
def test_computations_of_a_cluster(api, arguments):
    api.answers = [of_cluster([computation(1)])]
    (row,) = galvo.list_computations(*arguments)
    assert row["daskId"] == "d-1"
    assert api.requests[1].variables == {"id": "C-12", "first": 100, "after": None}


def test_two_clusters_are_one_too_many(api):
    with pytest.raises(ValueError, match="two clusters"):
        galvo.list_computations(12, 13)


def test_lists_of_a_cluster_with_a_time_are_those_of_the_account(api):
    api.answers = [data({"cluster": KEY}), pages_of([])]
    since = datetime(2026, 11, 1, tzinfo=timezone.utc)
    galvo.list_events(12, topics="scores", since=since)
    request = api.requests[1]
    assert request.variables == {
        "topics": ["scores"],
        "clusters": {"search": SCHEDULER},
        "at": {"from": "2026-11-01T00:00:00.000+00:00"},
        "first": 100,
        "after": None,
    }
    assert re.search(r"\$at: TimeRange", request.query)


@pytest.mark.parametrize("names", ["warning", ["warning"], ("warning",), numpy.array(["warning"])])
def test_a_name_is_as_good_as_a_list_of_one(api, names):
    api.answers = [of_cluster([])]
    assert galvo.list_logs(12, levels=names, sources="worker") == []
    assert api.requests[1].variables == {
        "id": "C-12",
        "match": None,
        "levels": ["WARNING"],
        "sources": ["WORKER"],
        "first": 100,
        "after": None,
    }
    assert galvo.list_events(12, topics=names) == []
    assert api.requests[3].variables["topics"] == ["warning"]


def test_no_names_are_not_all_names(api):
    api.answers = [of_cluster([])]
    galvo.list_logs(12, levels=[], sources=None)
    assert api.requests[1].variables["levels"] == []
    assert api.requests[1].variables["sources"] is None


def test_a_text_that_cannot_be_decrypted_does_not_cost_the_list(api):
    row = {
        "at": "2026-11-20T11:00:00+00:00",
        "cluster": {"id": "C-12", "number": 12, "name": None},
        "type": "ValueError",
        "message": None,
        "key": "k",
        "worker": None,
    }
    turn = {"hasNextPage": False, "endCursor": None}
    whole = {"viewer": {"account": {"list": {"pageInfo": turn, "nodes": [row]}}}}
    api.answers = [errors("KEY_MISSING", data=whole)]
    found = galvo.list_exceptions()
    assert found[0]["message"] is None
    assert "cannot be decrypted" in found._repr_html_()
    api.answers = [errors("KEY_MISSING", "INTERNAL", data=whole)]
    with pytest.raises(galvo.GraphQLError):
        galvo.list_exceptions()


def test_what_a_notebook_shows_is_escaped(api):
    evil = "<script>alert(1)</script>"
    api.answers = [pages_of([cluster(1, name=evil, user={"id": "U", "name": "&<b>"})])]
    shown = galvo.list_clusters()._repr_html_()
    assert "<script" not in shown and "<b>" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown and "&amp;&lt;b&gt;" in shown
    for text in ("running", "1 min 33 s", "1,234", "50%", "~1.25 USD"):
        assert f">{text}<" in shown


def test_a_notebook_shows_the_first_rows_and_how_many_there_are(api):
    api.answers = [pages_of([cluster(number) for number in range(250)])]
    shown = galvo.list_clusters()._repr_html_()
    assert "250 clusters; the first 20:" in shown
    assert shown.count("<tr>") == 21
    api.answers = [pages_of([])]
    assert "0 clusters" in galvo.list_clusters()._repr_html_()


@pytest.mark.parametrize("copied", [lambda r: pickle.loads(pickle.dumps(r)), copy.copy])
def test_copies_are_plain_lists_without_the_token(api, copied):
    api.answers = [pages_of([cluster(1)])]
    clusters = galvo.list_clusters()
    assert TOKEN.encode() not in pickle.dumps(clusters)
    assert type(copied(clusters)) is list and copied(clusters) == clusters


def test_close_requests_that_the_cluster_stops(api):
    api.answers = [
        data({"cluster": KEY}),
        data({"setDesiredState": {"cluster": {}, "userErrors": []}}),
    ]
    assert galvo.close(12) is None
    assert "state: STOPPED" in api.requests[1].query
    assert api.requests[1].variables == {"id": "C-12"}


NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "since, begun",
    [
        ("7 days", "2026-11-13T12:00:00.000+00:00"),
        ("30m", "2026-11-20T11:30:00.000+00:00"),
        (90, "2026-11-20T11:58:30.000+00:00"),
        (0.5, "2026-11-20T11:59:59.500+00:00"),
        (numpy.int64(90), "2026-11-20T11:58:30.000+00:00"),
        (numpy.float64(0.5), "2026-11-20T11:59:59.500+00:00"),
        ("604800", "2026-11-13T12:00:00.000+00:00"),
        (timedelta(hours=1), "2026-11-20T11:00:00.000+00:00"),
        (datetime(2026, 1, 1, tzinfo=timezone.utc), "2026-01-01T00:00:00.000+00:00"),
        (None, None),
    ],
)
def test_how_long_ago(since, begun):
    assert range_start(since, NOW) == begun


@pytest.fixture
def two_hours_east(monkeypatch):
    """Sets the time zone of this process two hours east of UTC."""
    monkeypatch.setenv("TZ", "EAST-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


MOMENTS = [
    datetime(2026, 11, 23, 1, 30),
    numpy.datetime64("2026-11-23T01:30"),
    numpy.datetime64("2026-11-23T01:30:00.000000999"),
]
UNKNOWN = [numpy.datetime64("NaT")]
if pandas is not None:
    UNKNOWN.append(pandas.NaT)
    MOMENTS += [
        pandas.Timestamp("2026-11-23 01:30"),
        pandas.Timestamp("2026-11-23 01:30:00.000000999"),
        pandas.Timestamp("2026-11-22 15:30", tz="America/Los_Angeles"),
    ]


@pytest.mark.parametrize("moment", MOMENTS, ids=repr)
def test_a_moment_without_a_time_zone_is_one_of_this_machine(api, two_hours_east, moment):
    api.answers = [pages_of([])]
    galvo.list_clusters(since=moment)
    galvo.list_clusters(since=None, filter={"startedIn": {"from": moment}})
    assert [request.variables["filter"]["startedIn"]["from"] for request in api.requests] == [
        "2026-11-22T23:30:00.000+00:00",
        "2026-11-22T23:30:00+00:00",
    ]


@pytest.mark.parametrize("unknown", UNKNOWN, ids=repr)
def test_a_moment_that_is_not_known_is_none(api, unknown):
    with pytest.raises(ValueError, match=re.escape(f"{unknown!r} is no duration")):
        galvo.list_clusters(since=unknown)
    with pytest.raises(TypeError, match=re.escape(f"{unknown!r} in at cannot be")):
        galvo.graphql("{ nothing }", {"at": unknown})
    assert api.requests == []


@pytest.mark.parametrize(
    "since",
    ["often", "-1s", True, float("nan"), "", [], "999999999 days", numpy.datetime64("NaT")],
)
def test_what_is_no_time(since):
    with pytest.raises(ValueError):
        range_start(since, NOW)


def test_durations_have_the_unit_that_dask_gives_them():
    assert parse_duration("2 minutes") == timedelta(minutes=2)


@pytest.mark.parametrize(
    "seconds, words",
    [
        (0, "0 ms"),
        (0.0234, "23 ms"),
        (1.25, "1.2 s"),
        (9.97, "10 s"),
        (59.7, "1 min"),
        (93, "1 min 33 s"),
        (7200, "2 h"),
        (90_061, "1 d 1 h"),
    ],
)
def test_durations_in_words(seconds, words):
    assert format_duration(seconds) == words


def test_settings_of_the_coiled_package_serve_as_well(api):
    api.answers = [pages_of([])]
    with dask.config.set(
        {"galvo": {}, "coiled.server": api.address, "coiled.token": "c-1", "coiled.workspace": "w"}
    ):
        galvo.list_clusters()
    headers = api.requests[0].headers
    assert (headers["Authorization"], headers["Galvo-Account"]) == ("Bearer c-1", "w")


SCHEMA = {
    "ClusterFilter": {
        "inputFields": [
            {
                "name": "states",
                "type": {"ofType": {"ofType": {"kind": "ENUM", "name": "ClusterState"}}},
            },
            {"name": "hasErrors", "type": {"kind": "SCALAR", "name": "Boolean"}},
            {"name": "tags", "type": {"kind": "INPUT_OBJECT", "name": "ClusterTagFilter"}},
        ],
        "enumValues": None,
    },
    "ClusterState": {"inputFields": None, "enumValues": [{"name": "RUNNING"}, {"name": "LOST"}]},
    "ClusterTagFilter": {
        "inputFields": [{"name": "all", "type": {"kind": "SCALAR", "name": "String"}}],
        "enumValues": None,
    },
}


def in_full(kind):
    """Returns a type as the server answers it: with ``ofType`` at each level, null at the last."""
    below = kind.get("ofType")
    return {**kind, "ofType": None if below is None else in_full(below)}


@pytest.mark.parametrize(
    "conditions, problem",
    [
        ({"state": ["LOST"]}, "filter: there is no 'state', did you mean 'states'?"),
        ({"x": 1}, "filter: there is no 'x'. There are states, hasErrors, tags"),
        (
            {"states": ["LOST", "running"]},
            "filter['states']: there is no 'running', did you mean 'RUNNING'?",
        ),
        ({"tags": {"of": 1}}, "filter['tags']: there is no 'of'. There are all"),
        ({"hasErrors": "no"}, "filter: it is BAD_USER_INPUT"),
    ],
)
def test_a_condition_that_the_server_does_not_know_is_named(api, conditions, problem):
    def answer(request):
        if "__type" not in request.query:
            return errors("BAD_USER_INPUT")
        found = SCHEMA[request.variables["name"]]
        fields = found["inputFields"] and [
            {**field, "type": in_full(field["type"])} for field in found["inputFields"]
        ]
        return data({"__type": {**found, "inputFields": fields}})

    api.answers = [answer]
    with pytest.raises(ValueError, match=re.escape(problem)):
        galvo.list_clusters(filter=conditions)
    with pytest.raises(ValueError, match=re.escape(problem)):
        galvo.list_clusters(filter=conditions, user="ada")


def test_a_cluster_in_the_place_of_an_account_is_noticed(api):
    client = SimpleNamespace(scheduler_info=lambda: {"id": SCHEDULER})
    with pytest.raises(TypeError, match=r"was taken for an account.*cluster_id=…"):
        galvo.list_exceptions(client)
    with pytest.raises(TypeError, match="12 was taken for an account"):
        galvo.list_clusters(12)
    with pytest.raises(ValueError, match=r"was taken for an account.*cluster_id=…"):
        galvo.list_exceptions(SCHEDULER)
    with pytest.raises(ValueError, match=r"'7 days' was taken for an account.*since=…"):
        galvo.list_clusters("7 days")
    with pytest.raises(ValueError, match=r"'No One' was taken for an account.*lower-case"):
        galvo.graphql("{ viewer { user { id } } }", account="No One")
    assert api.requests == []
    api.answers = [errors("ACCOUNT_MISMATCH", status=403)]
    with pytest.raises(
        galvo.GraphQLError, match=r"ACCOUNT_MISMATCH\): '12' was taken for the account"
    ):
        galvo.list_clusters("12")


@pytest.mark.parametrize(
    "list_items", [galvo.list_computations, galvo.list_events, galvo.list_logs]
)
def test_an_account_in_the_place_of_a_cluster_is_noticed(api, list_items):
    none = pages_of([])
    api.answers = [
        lambda request: none(request) if "list:" in request.query else data({"cluster": None})
    ]
    with pytest.raises(galvo.NotFound, match=r"'team' was taken for a cluster.*account=…"):
        list_items("team")


def test_without_a_client_the_newest_cluster_is_used(api):
    assert galvo.client.cluster.current_client() is None
    api.answers = [data({"viewer": {"account": {"clusters": {"nodes": [KEY]}}}})]
    with Server.configured() as server:
        assert key_of(server, None).number == key_of(server, -1).number == 12
    with pytest.raises(TypeError, match="which cluster"):
        galvo.close(None)


def test_levels_and_sources_are_known_or_refused(api):
    api.answers = [of_cluster([])]

    def variables_of(**which):
        galvo.list_logs(12, **which)
        return api.requests[-1].variables

    levels = variables_of(levels=["warn", "Fatal", "error"])["levels"]
    assert levels == ["WARNING", "CRITICAL", "ERROR"]
    assert variables_of(levels="Level 25")["levels"] == ["Level 25"]
    with pytest.raises(ValueError, match="levels: there is no 'Seal'"):
        galvo.list_logs(12, levels="Seal")
    logging.addLevelName(37, "Seal")
    assert variables_of(levels="Seal")["levels"] == ["Seal"]
    with pytest.raises(ValueError, match=r"levels: .*'warnings', did you mean 'WARNING'\?"):
        galvo.list_logs(12, levels=["INFO", "warnings"])
    with pytest.raises(ValueError, match=r"sources: .*SCHEDULER, WORKER, NANNY"):
        galvo.list_logs(12, sources="moon")


def test_sources_are_those_of_the_schema():
    schema = (Path(__file__).parents[2] / "schema.graphql").read_text(encoding="utf-8")
    members = re.search(r"^enum LogSource \{(.*?)^\}", schema, re.MULTILINE | re.DOTALL)[1]
    assert tuple(re.findall(r"^\t([A-Z]+)$", members, re.MULTILINE)) == SOURCES
