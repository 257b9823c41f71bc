"""A server with preset responses that records its requests."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

TOKEN = "seal-9d81c0ffee-secret"


class Request(NamedTuple):
    method: str
    path: str
    headers: Mapping  # with case-insensitive names
    body: bytes

    @property
    def variables(self):
        return json.loads(self.body)["variables"]

    @property
    def query(self):
        return json.loads(self.body)["query"]


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict = {}  # noqa: RUF012


# The connection ends without a response.
NOTHING = None


def data(value, status=200, **headers):
    """Returns a GraphQL response with data."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps({"data": value}).encode()
    return Answer(status, body, {"Content-Type": "application/json", **headers})


def errors(*codes, data=None, status=200, **headers):
    """Returns a GraphQL response with errors."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    found = [{"message": f"it is {code}", "extensions": {"code": code}} for code in codes]
    return Answer(status, json.dumps({"errors": found, "data": data}).encode(), headers)


class FakeApi:
    """``answers`` are used one after the other; the last one is repeated.

    Each is an ``Answer``, NOTHING, or a function of the request that returns one of them.
    """

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(self.command, self.path, self.headers, body)
                answer = fake.take(request)
                if answer is NOTHING:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if "Transfer-Encoding" not in answer.headers:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)
                if "Transfer-Encoding" in answer.headers:
                    self.close_connection = True

            do_GET = do_POST = do_CONNECT = answer

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        # Some tests are about clients that disconnect.
        self._server.handle_error = lambda *_: None
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, request):
        with self._lock:
            self.requests.append(request)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(request) if callable(answer) else answer

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def pages_of(rows, size=None, name="list"):
    """Returns pages of a list of an account, by the position of the cursor."""

    def answer(request):
        variables = request.variables
        begin = int(variables["after"] or 0)
        first = size or variables["first"]
        page, end = rows[begin : begin + first], min(begin + first, len(rows))
        turn = {"hasNextPage": end < len(rows), "endCursor": str(end)}
        return data({"viewer": {"account": {name: {"pageInfo": turn, "nodes": page}}}})

    return answer
