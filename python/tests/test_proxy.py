"""Tests of reports through a proxy that really forwards them."""

import asyncio
import base64
import http.client
import os
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
import test_report_sender
import trustme
from conftest import reached, wait_until
from fake_galvo import TOKEN
from test_report_sender import final, names, run

from galvo import plugin
from galvo.plugin.proxy import proxy_for

scheduler = test_report_sender.scheduler  # a fixture
PACKAGE = os.path.dirname(plugin.__file__)
CREDENTIALS = "Basic " + base64.b64encode(b"ada:p@ss").decode()


class ForwardProxy:
    """Forwards requests with absolute URLs, and tunnels; requires credentials if it has some."""

    def __init__(self, credentials=None):
        self.seen = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def admit(self):
                proxy.seen.append((self.command, self.path, dict(self.headers)))
                if credentials in (None, self.headers.get("Proxy-Authorization")):
                    return True
                self.send_response_only(407, "Proxy Authentication Required")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return False

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if not self.admit():
                    return
                target = urlsplit(self.path)
                connection = http.client.HTTPConnection(target.hostname, target.port, timeout=10)
                with closing(connection):
                    headers = dict(self.headers)
                    headers.pop("Proxy-Authorization", None)
                    connection.request("POST", target.path, body, headers)
                    answer = connection.getresponse()
                    text = answer.read()
                self.send_response_only(answer.status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_CONNECT(self):
                if not self.admit():
                    return
                host, _, port = self.path.rpartition(":")
                with socket.create_connection((host, int(port))) as server:
                    self.send_response_only(200)
                    self.end_headers()
                    ends = [self.connection, server]
                    while True:
                        for end in select.select(ends, [], [])[0]:
                            data = b""
                            with suppress(OSError):
                                data = end.recv(65_536)
                            if not data:
                                self.close_connection = True
                                return
                            ends[end is self.connection].sendall(data)

            def log_message(self, *_):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_port
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def proxy():
    proxy = ForwardProxy()
    yield proxy
    proxy.close()


@pytest.fixture
def guarded():
    proxy = ForwardProxy(CREDENTIALS)
    yield proxy
    proxy.close()


@pytest.fixture
def secure(galvo, tmp_path, monkeypatch):
    """Makes the same server available by TLS, with a certificate that this machine trusts."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    galvo._http.socket = context.wrap_socket(galvo._http.socket, server_side=True)
    galvo.address = galvo.address.replace("http://127.0.0.1", "https://localhost")
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return galvo


def twice(galvo, scheduler):
    async def act(sender):
        await sender.deliver()
        await sender.deliver_final("done")

    scheduler.submit("x-1")
    run(galvo, scheduler, act)
    assert [report["final"] for report in galvo.accepted] == [False, True]
    assert names(galvo.accepted[0]) == ["x-1"]


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_reports_go_by_way_of_the_proxy(variable, proxy, galvo, scheduler, monkeypatch):
    monkeypatch.setenv(variable, f"127.0.0.1:{proxy.port}")
    twice(galvo, scheduler)
    assert [seen[:2] for seen in proxy.seen] == [("POST", galvo.address + "/api/v1/reports")] * 2
    # The proxy's thread ends asynchronously.
    wait_until(lambda: "galvo-proxy" not in {thread.name for thread in threading.enumerate()})


def test_tls_goes_through_a_tunnel(guarded, secure, scheduler, monkeypatch):
    monkeypatch.setenv("https_proxy", f"http://ada:p%40ss@127.0.0.1:{guarded.port}/")
    twice(secure, scheduler)
    place = urlsplit(secure.address).netloc
    assert [seen[:2] for seen in guarded.seen] == [("CONNECT", place)] * 2
    # The proxy does not see data for the server, nor the server data for the proxy.
    assert all("Authorization" not in headers for _, _, headers in guarded.seen)
    assert all("Proxy-Authorization" not in headers for _, headers in secure.requests)
    assert {headers["Authorization"] for _, headers in secure.requests} == {"Bearer " + TOKEN}


@pytest.mark.parametrize(
    "by_tls, expected_log",
    [(False, "407 Proxy Authentication"), (True, "407 Proxy Authentication")],
)
def test_a_proxy_that_refuses_is_reported(
    by_tls,
    expected_log,
    guarded,
    galvo,
    scheduler,
    monkeypatch,
    caplog,
    request,
):
    if by_tls:
        request.getfixturevalue("secure")
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://ada:wrong-secret@127.0.0.1:{guarded.port}")
    run(galvo, scheduler, lambda sender: sender.deliver())
    assert galvo.accepted == [] and expected_log in caplog.text
    assert "wrong-secret" not in caplog.text and TOKEN not in caplog.text


def test_a_certificate_is_verified_through_the_tunnel(
    proxy,
    secure,
    scheduler,
    monkeypatch,
    caplog,
):
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
    run(secure, scheduler, lambda sender: sender.deliver())
    assert secure.accepted == [] and "certificate" in caplog.text.lower()


@pytest.mark.parametrize("exempt", ["127.0.0.1", "localhost,127.0.0.1", "*"])
def test_servers_that_need_no_proxy_get_none(exempt, proxy, galvo, scheduler, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", exempt)
    twice(galvo, scheduler)
    assert proxy.seen == []


@pytest.mark.parametrize(
    "server, variables, found",
    [
        ("http://g:8000", {}, None),
        ("http://g:8000", {"https_proxy": "http://p:1"}, None),
        ("https://g", {"https_proxy": "p:1", "no_proxy": "h,.example"}, "http://p:1"),
        ("https://g.example", {"https_proxy": "p:1", "no_proxy": "h,.example"}, None),
        ("https://g:8443", {"all_proxy": "http://p:1", "no_proxy": "g:8443"}, None),
        ("https://g:8443", {"all_proxy": "http://p:1", "no_proxy": "g:443"}, "http://p:1"),
        ("https://g", {"https_proxy": ""}, None),
        (None, {"all_proxy": "http://p:1"}, None),
    ],
)
def test_which_proxy_is_used(server, variables, found, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(server) == found


@pytest.mark.parametrize("kind", ["socks5", "https"])
def test_a_proxy_of_an_unknown_kind_is_reported(kind, galvo, scheduler, monkeypatch, caplog):
    monkeypatch.setenv("http_proxy", f"{kind}://127.0.0.1:9")
    run(galvo, scheduler, lambda sender: sender.deliver())
    assert f"proxies of the kind {kind} are not supported" in caplog.text


def test_a_silent_proxy_is_given_up_in_time(hung, galvo, scheduler, monkeypatch):
    monkeypatch.setenv("http_proxy", hung.address)
    assert 1.9 < final(galvo, scheduler) < 2.5
    assert hung.connections


def test_what_is_not_waited_for_any_more_holds_up_nothing(
    hung,
    proxy,
    galvo,
    scheduler,
    monkeypatch,
):
    """A scheduler closes during a report: the last message has to be sent."""
    monkeypatch.setenv("http_proxy", hung.address)

    async def act(sender):
        delivery = asyncio.ensure_future(sender.deliver())
        await reached(lambda: hung.connections)
        delivery.cancel()
        await asyncio.wait([delivery])
        sender._proxy._host, sender._proxy._port = "127.0.0.1", proxy.port
        await sender.deliver_final("done")

    scheduler.submit("x-1")
    run(galvo, scheduler, act)
    assert [report["final"] for report in galvo.accepted] == [True]
    assert names(galvo.accepted[0]) == ["x-1"]


SCRIPT = """
import sys
from dask.distributed import Client, LocalCluster
import galvo
cluster = LocalCluster(n_workers=1, processes=False, dashboard_address=":0")
client = Client(cluster)
galvo.register(client, server=sys.argv[1], token=sys.argv[2])
assert client.submit(sum, [1, 2]).result() == 3
"""


def test_a_program_that_ends_without_closing_its_cluster(proxy, galvo, monkeypatch):
    """The interpreter starts no more threads when Dask closes the cluster."""
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
    arguments = [sys.executable, "-c", SCRIPT, galvo.address, TOKEN]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert galvo.accepted[-1]["final"]
    # Dask logs the traceback of its own worker whose heartbeat it interrupts.
    assert PACKAGE not in done.stderr and "interpreter shutdown" not in done.stderr
    assert len(proxy.seen) == len(galvo.requests) + len(galvo.exchanges)


def test_a_silent_proxy_does_not_hold_up_a_program_that_ends(hung, galvo, monkeypatch):
    def seconds():
        begun = time.monotonic()
        arguments = [sys.executable, "-W", "ignore", "-c", SCRIPT, galvo.address, TOKEN]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return time.monotonic() - begun

    without_a_proxy = seconds()
    monkeypatch.setenv("HTTP_PROXY", hung.address)
    assert seconds() < 2 * without_a_proxy + 20
