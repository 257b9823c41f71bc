"""nginx, Caddy and Traefik as configured in docs/running.md, in front of a server: browsers, live
data, reports, clients.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sysconfig
import urllib.parse
from pathlib import Path

import pytest
import trustme
import yaml
from accounts import CLUSTERS
from conftest import REPORT_INTERVAL
from processes import (
    REPOSITORY,
    DaskCluster,
    GalvoServer,
    clean_environment,
    free_port,
    run_to_end,
    wait_until,
)
from websockets.sync.client import connect

RUNNING = (REPOSITORY / "docs" / "running.md").read_text(encoding="utf-8")
PRELOAD = "/api/v2/analytics/preload"
PASSWORD = "correct horse battery staple"
SUBSCRIPTION = 'subscription { clusters(account: "default") { cluster { schedulerId } } }'


def replaced(text, old, new):
    """Replaces a text that must occur exactly once."""
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the documentation"
    return text.replace(old, new)


class Site:
    """A server behind a proxy that terminates TLS, and its clients."""

    def __init__(self, processes, proxy, path):
        self.path = path
        self.port = free_port()
        self.address = f"https://localhost:{self.port}{path}"
        directory = processes.directory
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(directory / "authority.pem"))
        certificate = authority.issue_cert("localhost")
        certificate.private_key_and_cert_chain_pem.write_to_path(str(directory / "site.pem"))
        self.authority = str(directory / "authority.pem")
        self.tls = ssl.create_default_context(cafile=self.authority)
        # As documented.
        settings = {
            "GALVO_PUBLIC_URL": self.address,
            "GALVO_TRUSTED_PROXIES": "127.0.0.1",
        }
        self.galvo = GalvoServer(processes, settings=settings).start()
        command = {"nginx": self._nginx, "caddy": self._caddy, "traefik": self._traefik}[proxy]
        # Both keep certificates of their own there, which they do not need here.
        homes = {"HOME": str(directory), "XDG_DATA_HOME": str(directory)}
        homes["XDG_CONFIG_HOME"] = str(directory)
        processes.start(proxy, command(directory), {**clean_environment(), **homes})
        wait_until(self._answers, f"{proxy} answers")

    def _answers(self):
        # A proxy may accept connections before it has read its certificates and routes.
        with contextlib.suppress(ssl.SSLError):
            return self.request("GET", "/healthz")[0] == 200

    def _caddy(self, directory):
        """Writes the documented site with local names, and returns the command."""
        (site,) = re.findall(r"^```caddyfile\n(.*?)^```$", RUNNING, re.MULTILINE | re.DOTALL)
        if not self.path:
            below = r"    redir.*\n    handle_path.*\n( *reverse_proxy.*\n)    }\n"
            site, count = re.subn(below, r"\1", site)
            assert count == 1
        certificate = f"    tls {directory}/site.pem {directory}/site.pem\n"
        site = replaced(site, "tools.example {\n", f"localhost:{self.port} {{\n{certificate}")
        site = replaced(site, "127.0.0.1:8000", f"127.0.0.1:{self.galvo.port}")
        file = directory / "Caddyfile"
        file.write_text(f"{{\nadmin off\nauto_https disable_redirects\n}}\n{site}")
        return [installed("caddy"), "run", "--config", file, "--adapter", "caddyfile"]

    def _traefik(self, directory):
        """Writes the documented router with local names, and returns the command."""
        (block,) = re.findall(r"^```yaml\n(http:.*?)^```$", RUNNING, re.MULTILINE | re.DOTALL)
        block = replaced(block, "http://127.0.0.1:8000", f"http://127.0.0.1:{self.galvo.port}")
        block = replaced(block, "Host(`tools.example`)", "Host(`localhost`)")
        dynamic = yaml.safe_load(block)
        if not self.path:
            router = dynamic["http"]["routers"]["galvo"]
            router["rule"] = router["rule"].partition(" && ")[0]
            del router["middlewares"], dynamic["http"]["middlewares"]
        files = {"certFile": str(directory / "site.pem"), "keyFile": str(directory / "site.pem")}
        dynamic["tls"] = {"certificates": [files]}
        (directory / "dynamic.yaml").write_text(yaml.safe_dump(dynamic))
        static = {
            "entryPoints": {"websecure": {"address": f"127.0.0.1:{self.port}"}},
            "providers": {"file": {"filename": str(directory / "dynamic.yaml")}},
            "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        }
        (directory / "traefik.yaml").write_text(yaml.safe_dump(static))
        return [installed("traefik"), f"--configFile={directory}/traefik.yaml"]

    def _nginx(self, directory):
        """Writes the documented block with local names, and returns the command."""
        (block,) = re.findall(r"^```nginx\n(.*?)^```$", RUNNING, re.MULTILINE | re.DOTALL)
        if not self.path:
            block = replaced(block, "location /galvo/ {", "location / {")
        block = replaced(block, "listen 443 ssl;", f"listen 127.0.0.1:{self.port} ssl;")
        block = replaced(block, "server_name tools.example;", "server_name localhost;")
        block = replaced(block, "/etc/ssl/tools.example.pem", str(directory / "site.pem"))
        block = replaced(block, "/etc/ssl/private/tools.example.key", str(directory / "site.pem"))
        block = replaced(block, "http://127.0.0.1:8000/", f"http://127.0.0.1:{self.galvo.port}/")
        kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        places = "".join(f"{kind}_temp_path {directory}/nginx-{kind};\n" for kind in kinds)
        file = directory / "nginx.conf"
        file.write_text(
            ("user root;\n" if os.geteuid() == 0 else "")
            + f"daemon off;\npid {directory}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
            + f"http {{\naccess_log off;\n{places}{block}}}\n"
        )
        path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
        found = shutil.which("nginx", path=path)
        assert found, "nginx is missing: scripts/test.sh installs it"
        return [found, "-c", file]

    @contextlib.contextmanager
    def connection(self):
        connection = http.client.HTTPSConnection(
            "localhost", self.port, context=self.tls, timeout=30
        )
        with contextlib.closing(connection):
            yield connection

    def request(self, method, path, body=None, headers=()):
        """Returns status, headers and body of a response, without following redirects."""
        with (
            contextlib.suppress(ConnectionRefusedError),
            self.connection() as connection,
        ):
            connection.request(method, self.path + path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()
        return 0, {}, ""


def installed(name):
    """Returns a program that a package of this environment installed."""
    found = Path(sysconfig.get_path("scripts")) / name
    assert found.is_file(), f"{found} is missing: tests/dask/requirements-newest.txt installs it"
    return found


@pytest.fixture(params=["/galvo", ""], ids=["below a path", "on a host of its own"])
def path(request):
    return request.param


@pytest.fixture(params=["nginx", "caddy", "traefik"])
def site(processes, path, request):
    return Site(processes, request.param, path)


def sign_in(site):
    """Returns the cookie of a browser that signed in by the page's form."""
    command = [
        os.environ.get("GALVO_BIN", REPOSITORY / "target/debug/galvo"),
        "user",
        "password",
    ]
    environment = {**clean_environment(), "GALVO_DATABASE_URL": site.galvo.database_url}
    subprocess.run(
        [*command, "admin"],
        input=PASSWORD + "\n",
        env=environment,
        check=True,
        text=True,
    )
    status, _, page = site.request("GET", "/sign-in")
    (action,) = re.findall(r'<form method="post" action="([^"]+)"', page)
    assert (status, action) == (200, f"{site.path}/sign-in")
    form = urllib.parse.urlencode({"username": "admin", "password": PASSWORD})
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": f"https://localhost:{site.port}",
        "Sec-Fetch-Site": "same-origin",
    }
    status, answer, page = site.request("POST", "/sign-in", form, headers.items())
    assert (status, answer["Location"]) == (303, f"{site.path}/"), page
    cookie, *attributes = answer["Set-Cookie"].split("; ")
    name = "__Secure-galvo" if site.path else "__Host-galvo"
    assert cookie.startswith(name + "=")
    assert {"Secure", "HttpOnly", f"Path={site.path or '/'}"} <= set(attributes)
    # It concerns the whole host, which is not Galvo's own if it has a path prefix.
    assert answer["Strict-Transport-Security"] == (None if site.path else "max-age=31536000")
    return cookie


def test_proxy_as_documented_passes_on_all_that_people_and_programs_do(site):
    cookie = sign_in(site)
    status, _, session = site.request("GET", "/api/v1/session", headers=[("Cookie", cookie)])
    assert (status, json.loads(session)["username"]) == (200, "admin")
    token = {
        "Authorization": f"Bearer {site.galvo.token}",
        "Content-Type": "application/json",
    }
    question = json.dumps({"query": "{ viewer { user { name } } }"})
    status, _, answer = site.request("POST", "/graphql", question, token.items())
    assert (status, json.loads(answer)["data"]) == (
        200,
        {"viewer": {"user": {"name": "admin"}}},
    )
    # Like the plugin: 7 MiB, which a proxy refuses by default.
    report = json.dumps({"padding": "x" * (7 << 20)})
    status, _, answer = site.request("POST", "/api/v1/reports", report, token.items())
    assert (status, json.loads(answer)["code"]) == (400, "INVALID_BODY"), answer
    # Metrics are restricted to this machine, and no client of a proxy is on it.
    assert site.request("GET", "/metrics")[0] == 404


# Proxies differ in what they do to connections, and not to releases of Dask.
@pytest.mark.parametrize(
    "site, python",
    [("nginx", "newest"), ("nginx", "oldest"), ("caddy", "newest"), ("traefik", "newest")],
    indirect=True,
)
def test_proxy_as_documented_passes_on_live_data_and_programs(site, python, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", site.authority)
    address = site.address.replace("https", "wss", 1) + "/graphql"
    headers = {
        "Authorization": f"Bearer {site.galvo.token}",
        "Accept": "text/event-stream",
    }
    with (
        connect(address, subprotocols=["graphql-transport-ws"], ssl=site.tls) as websocket,
        site.connection() as events,
    ):
        credentials = {"Authorization": headers["Authorization"]}
        websocket.send(json.dumps({"type": "connection_init", "payload": credentials}))
        assert json.loads(websocket.recv(30)) == {"type": "connection_ack"}
        websocket.send(
            json.dumps({"type": "subscribe", "id": "1", "payload": {"query": SUBSCRIPTION}})
        )
        # Proxies in Go may close a stream that was requested with a body, as documented.
        parameters = urllib.parse.urlencode({"query": SUBSCRIPTION})
        events.request("GET", f"{site.path}/graphql?{parameters}", headers=headers)
        stream = events.getresponse()
        # The first comment arrives before any event: nothing buffers the stream.
        assert (stream.status, stream.readline()) == (200, b":\n")
        # A scheduler with a plugin from this server reports to it, below the same path.
        processes = site.galvo._processes
        settings = {
            "galvo.token": site.galvo.token,
            "galvo.computation.interval": REPORT_INTERVAL,
        }
        dask = DaskCluster(
            processes,
            python,
            preloads=[site.address + PRELOAD],
            settings=settings,
            workers=1,
        )
        dask.scheduler.wait_for_log("Scheduler at")
        (cluster,) = wait_until(
            lambda: site.galvo.query(CLUSTERS)["viewer"]["account"]["clusters"]["nodes"],
            "it reports",
        )
        scheduler = cluster["schedulerId"]
        message = json.loads(websocket.recv(30))
        received = message["payload"]["data"]["clusters"]["cluster"]
        assert (message["type"], received) == ("next", {"schedulerId": scheduler})
        line = wait_until(lambda: re.match(rb"data: (.+)", stream.readline()), "an event comes")
        received = json.loads(line.group(1))["data"]["clusters"]["cluster"]
        assert received == {"schedulerId": scheduler}
    # The Python client, at an address with a path.
    script = processes.directory / "list_clusters.py"
    script.write_text("import galvo\nprint(len(galvo.list_clusters()))\n")
    settings = {"galvo.server": site.address, "galvo.token": site.galvo.token}
    assert run_to_end([python, script], processes.directory, settings) == "1\n"
