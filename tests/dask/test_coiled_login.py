"""The published ``coiled`` client signs in: with a token, and without one through a browser."""

import html
import http.cookiejar
import json
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml
from processes import REPOSITORY, GalvoServer, clean_environment, wait_until

PASSWORD = "correct horse battery"


class Browser:
    """A browser as servers see it: it keeps cookies and sends the origin of its forms."""

    def __init__(self, address):
        self._address = address
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(jar)

    def open(self, url, form=None):
        """Opens a URL, and returns the final URL and the page."""
        data = form and urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(urllib.parse.urljoin(self._address, url), data)
        if form:
            request.add_header("Origin", self._address)
        with self._opener.open(request, timeout=30) as answer:
            return answer.geturl(), answer.read().decode()

    def submit(self, page, button=None, **typed):
        """Submits the form of a page, with its values, by one of its buttons."""
        action = re.search(r'<form method="post" action="([^"]+)"', page).group(1)
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
        chosen = re.findall(r'<select name="(\w+)"><option value="([^"]*)"', page)
        form = {name: html.unescape(value) for name, value in [*hidden, *chosen]}
        return self.open(action, {**form, **(button or {}), **typed})


class CoiledClient:
    """The command ``coiled`` with a separate home directory."""

    def __init__(self, processes, python):
        self._processes = processes
        self._directory = processes.directory / "home"
        self._directory.mkdir()
        self._program = Path(python).parent / "coiled"
        self.environment = {
            **clean_environment(),
            "HOME": str(self._directory),
            "DASK_CONFIG": str(self._directory / "dask"),
            # No browser window opens, and lines are not wrapped.
            "BROWSER": "true",
            "COLUMNS": "200",
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, *arguments):
        """Returns the output of a command, which must succeed."""
        done = subprocess.run(
            [self._program, *arguments],
            env=self.environment,
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *arguments, stdin):
        return self._processes.start(
            "coiled", [self._program, *arguments], self.environment, stdin=stdin
        )

    def python(self, program):
        done = subprocess.run(
            [self._program.parent / "python", "-c", program],
            env=self.environment,
            cwd=self._directory,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def saved(self):
        return yaml.safe_load((self._directory / "dask" / "coiled.yaml").read_text())["coiled"]


@pytest.fixture
def own_galvo(processes):
    """A fresh server with a password for its user."""
    galvo = GalvoServer(processes).start()
    binary = os.environ.get("GALVO_BIN", REPOSITORY / "target/debug/galvo")
    environment = {**clean_environment(), "GALVO_DATABASE_URL": galvo.database_url}
    subprocess.run(
        [binary, "user", "password", "admin"],
        input=PASSWORD,
        text=True,
        env=environment,
        check=True,
        capture_output=True,
    )
    return galvo


@pytest.fixture
def coiled(processes, python):
    return CoiledClient(processes, python)


def curl(coiled, path):
    """Returns the JSON in the output of ``coiled curl``."""
    printed = coiled.run("curl", path)
    return json.loads(printed[printed.index("{") :])


def test_login_with_a_token(galvo, coiled):
    coiled.run("login", "--server", galvo.address, "--token", galvo.token)
    saved = coiled.saved()
    assert (saved["user"], saved["server"], saved["token"]) == ("admin", galvo.address, galvo.token)
    account = {"slug": "default", "name": "default"}
    assert curl(coiled, f"{galvo.address}/api/v2/user/me") == {
        "username": "admin",
        "default_account": account,
    }


def test_login_by_a_browser(own_galvo, coiled):
    galvo = own_galvo
    login = coiled.start("login", "--server", galvo.address, stdin=subprocess.DEVNULL)
    found = login.wait_for_log(r"(http\S+/activate-token\?id=(\w+))", 60)
    address, identifier = found.groups()
    browser = Browser(galvo.address)
    # A visitor must sign in first, and is redirected back.
    where, page = browser.open(address)
    assert urllib.parse.urlsplit(where).path == "/sign-in"
    where, page = browser.submit(page, username="admin", password=PASSWORD)
    assert where == address
    assert identifier in page
    assert login.is_running(), "opening the page activates nothing"
    _, page = browser.submit(page, button={"decision": "approve"})
    assert "is active" in page
    assert wait_until(lambda: not login.is_running(), "the client goes on by itself", 60)
    saved = coiled.saved()
    assert (saved["user"], saved["server"]) == ("admin", galvo.address)
    assert saved["token"].startswith(f"{identifier}-")
    assert curl(coiled, f"{galvo.address}/api/v2/user/me")["username"] == "admin"
    # It is one of the account's tokens now, labeled by its origin.
    tokens = "{ viewer { account { tokens { nodes { identifier label scopes } } } } }"
    (token,) = [
        token
        for token in galvo.query(tokens)["viewer"]["account"]["tokens"]["nodes"]
        if token["identifier"] == identifier
    ]
    assert "@" in token["label"]
    assert token["scopes"] == ["INGEST", "READ", "ADMIN"]


def test_tokens_of_the_client(own_galvo, coiled):
    galvo = own_galvo
    coiled.run("login", "--server", galvo.address, "--token", galvo.token)
    printed = coiled.python(
        """
import json, coiled
made = coiled.create_api_token(label="laptop", days_to_expire=3)
other = coiled.create_api_token(label="robot")
secrets = [made.pop("token"), other.pop("token")]
listed = coiled.list_api_tokens()
coiled.revoke_api_token(label="robot")
print(json.dumps([made, other, secrets, listed, coiled.list_api_tokens()]))
"""
    )
    made, other, secrets, listed, left = json.loads(printed.splitlines()[-1])
    own = galvo.token.partition("-")[0]
    assert [secret.partition("-")[0] for secret in secrets] == [
        made["identifier"],
        other["identifier"],
    ]
    assert listed.keys() == {own, made["identifier"], other["identifier"]}
    assert listed[made["identifier"]] == made
    assert listed[other["identifier"]] == other
    assert other["expiry"] is None
    assert left.keys() == {own, made["identifier"]}
    coiled.python("import coiled; coiled.revoke_all_api_tokens()")
    request = urllib.request.Request(
        f"{galvo.address}/api/v2/user/me", headers={"Authorization": f"ApiToken {galvo.token}"}
    )
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request, timeout=30)
