"""Tests of the client's requests: headers, retries, and the handling of answers."""

import socket
import ssl
import time

import dask
import pytest
import trustme
from fake_api import NOTHING, TOKEN, Answer, FakeApi, data, errors

import galvo
from galvo.client import transport
from galvo.client.server import Server

QUERY, MUTATION = "{ viewer { user { name } } }", "mutation { setIdlePolicy { x } }"
WELL = {"viewer": {"user": {"name": "ada"}}}


def test_a_query_carries_the_token_and_the_account(api):
    api.answers = [data(WELL)]
    assert galvo.graphql(QUERY, {"x": 1}, account="team") == WELL
    (request,) = api.requests
    assert (request.method, request.path) == ("POST", "/graphql")
    assert (request.query, request.variables) == (QUERY, {"x": 1})
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert request.headers["Galvo-Account"] == "team"
    assert request.headers["Content-Type"] == "application/json"


def test_without_an_account_the_tokens_own_is_meant(api):
    api.answers = [data(WELL)]
    galvo.graphql(QUERY)
    assert "Galvo-Account" not in api.requests[0].headers


@pytest.mark.parametrize("name", ["server", "token"])
def test_missing_settings_are_named(api, name):
    with dask.config.set({f"galvo.{name}": None}):
        with pytest.raises(galvo.NotConfigured, match=f"galvo.{name}") as caught:
            galvo.list_clusters()
    assert isinstance(caught.value, ValueError)
    assert api.requests == []


def test_errors_carry_codes_and_what_was_answered_all_the_same(api):
    api.answers = [errors("NOT_FOUND", "FORBIDDEN", data={"cluster": None}, status=200)]
    with pytest.raises(galvo.GraphQLError, match=r"it is NOT_FOUND .*FORBIDDEN") as caught:
        galvo.graphql(QUERY)
    assert caught.value.codes == ("NOT_FOUND", "FORBIDDEN")
    assert caught.value.code == "NOT_FOUND"
    assert caught.value.data == {"cluster": None}
    assert caught.value.errors[0]["message"] == "it is NOT_FOUND"


def test_a_refused_request_has_its_status(api):
    api.answers = [errors("UNAUTHENTICATED", status=401)]
    with pytest.raises(galvo.GraphQLError) as caught:
        galvo.graphql(QUERY)
    assert (caught.value.status, caught.value.codes) == (401, ("UNAUTHENTICATED",))


@pytest.mark.parametrize(
    "body", [b"<html>404</html>", b"[]", b"{}", b'{"data": null}', b"\xff", b""]
)
@pytest.mark.parametrize("status", [200, 404, 500])
def test_what_is_no_galvo_is_said_to_be_none(api, body, status):
    api.answers = [Answer(status, body, {"Content-Type": "text/html"})]
    with pytest.raises(galvo.RequestRefused, match=f"status {status}, and not as Galvo") as caught:
        galvo.graphql(QUERY)
    assert caught.value.codes == ()


def test_what_is_put_off_is_asked_again_after_the_time_it_says(api):
    put_off = errors("RATE_LIMITED", status=429, Retry_After="1")
    api.answers = [put_off, data(WELL)]
    begun = time.monotonic()
    # Nothing was done, so a mutation is sent again as well.
    assert galvo.graphql(MUTATION) == WELL
    assert 1 <= time.monotonic() - begun < 5
    assert len(api.requests) == 2


def test_what_is_put_off_for_longer_than_anybody_waits_is_told(api):
    api.answers = [errors("RATE_LIMITED", status=429, Retry_After="600")]
    with pytest.raises(galvo.GraphQLError) as caught:
        galvo.graphql(QUERY)
    assert caught.value.code == "RATE_LIMITED"
    assert len(api.requests) == 1


@pytest.mark.parametrize("trouble", [NOTHING, Answer(502, b""), Answer(503, b"")])
def test_a_query_is_sent_again_and_a_mutation_is_not(api, impatient, trouble):
    api.answers = [trouble, trouble, data(WELL)]
    assert galvo.graphql(QUERY) == WELL
    assert len(api.requests) == 3
    api.requests.clear()
    api.answers = [trouble, data(WELL)]
    with pytest.raises((galvo.ServerUnreachable, galvo.RequestRefused)):
        galvo.graphql(MUTATION)
    assert len(api.requests) == 1


def test_a_query_that_took_too_long_is_not_sent_again(api, impatient):
    api.answers = [errors("DEADLINE_EXCEEDED", status=504)]
    with pytest.raises(galvo.GraphQLError):
        galvo.graphql(QUERY)
    assert len(api.requests) == 1


def test_a_server_that_breaks_off_each_time_is_given_up(api, impatient):
    api.answers = [NOTHING]
    with pytest.raises(galvo.ServerUnreachable, match=api.address) as caught:
        galvo.graphql(QUERY)
    assert len(api.requests) == transport.CONNECTION_ATTEMPTS
    assert TOKEN not in str(caught.value) and caught.value.__cause__ is None


def test_a_server_that_does_not_answer_is_given_up(api, impatient, monkeypatch):
    monkeypatch.setattr(transport, "RESPONSE_SECONDS", 0.1)

    def late(_):
        time.sleep(0.5)
        return data(WELL)

    api.answers = [late]
    with pytest.raises(galvo.ServerUnreachable, match="does not answer"):
        galvo.graphql(QUERY)
    assert len(api.requests) == 1


def test_where_nothing_listens(impatient, plain_configuration):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with dask.config.set({"galvo.server": address, "galvo.token": TOKEN}):
            with pytest.raises(galvo.ServerUnreachable, match="no connection") as caught:
                galvo.graphql(MUTATION)
    assert address in str(caught.value)


def test_a_redirect_is_not_followed(api):
    elsewhere = FakeApi(data(WELL))
    api.answers = [Answer(307, b"", {"Location": elsewhere.address + "/graphql"})]
    with pytest.raises(galvo.RequestRefused):
        galvo.graphql(QUERY)
    assert elsewhere.requests == []
    elsewhere.close()


def test_one_connection_serves_many_requests(api):
    api.answers = [data(WELL)]
    accepted = []
    accept = api._server.get_request
    api._server.get_request = lambda: accepted.append(accept()) or accepted[-1]
    with Server.configured() as server:
        for _ in range(5):
            server.graphql(QUERY)
    assert len(accepted) == 1


def test_the_proxy_of_the_environment_is_used(api, monkeypatch):
    proxy = FakeApi(data(WELL))
    monkeypatch.setenv("http_proxy", proxy.address.replace("//", "//ada:pass@"))
    with dask.config.set({"galvo.server": "http://galvo.example"}):
        assert galvo.graphql(QUERY) == WELL
    (request,) = proxy.requests
    assert request.path == "http://galvo.example/graphql"
    assert request.headers["Proxy-Authorization"] == "Basic YWRhOnBhc3M="
    proxy.close()


def test_servers_that_need_no_proxy_get_none(api, monkeypatch):
    api.answers = [data(WELL)]
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert galvo.graphql(QUERY) == WELL


def test_a_proxy_of_an_unknown_kind_is_told(api, monkeypatch):
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:9")
    with pytest.raises(galvo.NotConfigured, match="socks5"):
        galvo.graphql(QUERY)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_certificates_are_verified(api, impatient, monkeypatch, tmp_path, host):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    api.answers = [data(WELL)]
    api._server.socket = context.wrap_socket(api._server.socket, server_side=True)
    address = f"https://{host}:{api._server.server_address[1]}"
    with dask.config.set({"galvo.server": address}):
        with pytest.raises(galvo.ServerUnreachable, match=r"certificate .* cannot be verified"):
            galvo.graphql(QUERY)
        authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        if host == "127.0.0.1":
            assert galvo.graphql(QUERY) == WELL
        else:  # a name that is not in the certificate
            with pytest.raises(galvo.ServerUnreachable, match="cannot be verified"):
                galvo.graphql(QUERY)
    assert len(api.requests) == (host == "127.0.0.1")


def test_a_server_without_tls_is_told_of_as_such(api, impatient):
    with dask.config.set({"galvo.server": api.address.replace("http", "https")}):
        with pytest.raises(galvo.ServerUnreachable):
            galvo.graphql(QUERY)


def test_nothing_shows_the_token(api):
    server = Server.configured()
    assert TOKEN not in repr(server) + str(server)
    assert TOKEN not in repr(galvo.export("clusters"))
