"""A terminal in an empty Debian, and a browser beside it."""

import http.cookiejar
import json
import re
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from typing import NamedTuple

from conftest import REPOSITORY, blocks_in

SCRIPT = REPOSITORY / "scripts" / "empty-root.sh"
SUITE = "trixie"
END = "the line has ended"


def typed_blocks(document, heading):
    """Returns the blocks of shell commands below a heading of a document."""
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    blocks = blocks_in(section, "sh")
    assert blocks, f"{document} has no commands below {heading!r}"
    return blocks


def typed_lines(heading):
    """Returns the lines of the blocks of shell commands below a heading of README.md."""
    return [line for block in typed_blocks("README.md", heading) for line in block.splitlines()]


class Typed(NamedTuple):
    """The result of a line."""

    status: int
    output: str
    seconds: float


class Terminal:
    """A shell of root in an empty Debian, with the files of a directory in its home.

    Its processes end with it. It ends by itself after ``seconds``, so that no line hangs.
    """

    def __init__(self, environment, files, seconds=300, **variables):
        self._process = subprocess.Popen(
            [SCRIPT, "bash"],
            env={**environment, "EMPTY_ROOT_SUITE": SUITE, "EMPTY_ROOT_FILES": files, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._limit = threading.Timer(seconds, self._process.kill)
        self._limit.start()

    def type(self, line):
        """Runs a line, and returns what it did. Fails if the shell ends."""
        begun = time.monotonic()
        # The printf runs whatever the line did. The line's own output may lack a last newline.
        self._process.stdin.write(f"{line}\nprintf '\\n{END}: %d\\n' $?\n")
        self._process.stdin.flush()
        output = []
        for text in self._process.stdout:
            ended = re.fullmatch(rf"{END}: (\d+)\n", text)
            if ended:
                seconds = time.monotonic() - begun
                return Typed(int(ended.group(1)), "".join(output)[:-1], seconds)
            output.append(text)
        raise AssertionError(f"the terminal ended during {line!r}:\n{''.join(output)}")

    def run(self, line):
        """Runs a line, and returns its output. Fails if the line does."""
        done = self.type(line)
        assert done.status == 0, f"{line}: {done}"
        return done.output

    def __enter__(self):
        # The system is made before the first line runs.
        self.run("true")
        return self

    def __exit__(self, *error):
        self._limit.cancel()
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._process.stdout.close()


class Browser:
    """A browser that keeps cookies and runs no scripts."""

    def __init__(self, address):
        self.address = address
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
        )

    def open(self, path, data=None, **headers):
        """Returns the content type and the text of a page."""
        headers = {"Accept": "text/html", "Origin": self.address, **headers}
        url = urllib.parse.urljoin(f"{self.address}/", path)
        request = urllib.request.Request(url, data, headers)
        with self._opener.open(request, timeout=10) as response:
            return response.headers.get_content_type(), response.read().decode()

    def query(self, text):
        """Returns the data of a GraphQL query."""
        _, session = self.open("/api/v1/session")
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "Galvo-CSRF": json.loads(session)["csrf_token"],
        }
        _, answer = self.open("/graphql", json.dumps({"query": text}).encode(), **headers)
        return json.loads(answer)["data"]

    def open_dashboard(self):
        """Opens the dashboard, and returns its scripts. Fails if the program has none."""
        kind, page = self.open("/")
        assert kind == "text/html" and "<title>Galvo</title>" in page, page
        # One script is there at once, and loads the others.
        sources = re.findall(r'<(?:script|link) [^>]*(?:src|href)="([^"]+\.js)"', page)
        assert len(sources) > 1, (
            f"the program has no dashboard, `make run` builds one with it: {page}"
        )
        loaded = [self.open(source) for source in sources]
        assert {kind for kind, _ in loaded} == {"text/javascript"}
        return [text for _, text in loaded]

    def sign_in(self, link):
        """Follows a link that signs its user in, as its page does."""
        page, _, secret = link.partition("#")
        assert page == f"{self.address}/sign-in/link"
        kind, form = self.open(page)
        assert kind == "text/html" and 'name="secret"' in form
        # It leads to the front page.
        self.open(page, urllib.parse.urlencode({"secret": secret}).encode())
