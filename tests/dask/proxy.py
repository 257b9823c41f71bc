"""Endpoints between a plugin and its server: a recording proxy, and an unresponsive server."""

import contextlib
import gzip
import http.client
import json
import socket
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REPORTS = "/api/v1/reports"
# The token exchange of a scheduler: its request contains only the scheduler's identifier.
EXCHANGES = "/api/v1/scheduler-tokens"


@dataclass
class Exchange:
    """A report, and the server's response."""

    report: dict
    status: int | None = None  # None until there is a response
    answer: dict | None = None

    @property
    def acknowledged(self):
        return self.status == 200


class Proxy:
    """Forwards requests to a server on this machine, and records reports with their responses.

    ``on_sent`` is called with each report that was forwarded to the server, and ``on_answered``
    with each that got a response, before the plugin receives it. While it is ``shut``, connections
    are dropped, like those to a dead server. While it is ``hung``, they are accepted without a
    response. Forwarding waits for ``delay`` seconds.
    """

    def __init__(self, port, listen=0):
        self.port = port
        self.requests = []
        self.exchanges = []
        self.shut = self.hung = False
        self.delay, self.waiting = 0.0, 0
        self.on_sent = self.on_answered = lambda exchange: None
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                with contextlib.suppress(OSError, http.client.HTTPException):
                    proxy._serve(self)

            do_POST = do_GET

            def log_message(self, *args):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", listen), Handler)
        self._http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()

    def _serve(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.waiting += 1
        while self.hung:
            time.sleep(0.02)
        time.sleep(self.delay)
        if self.shut:
            return
        self.requests.append((handler.command, handler.path))
        exchange = None
        if handler.path == REPORTS:
            packed = handler.headers.get("Content-Encoding") == "gzip"
            exchange = Exchange(json.loads(gzip.decompress(body) if packed else body))
            self.exchanges.append(exchange)
        server = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(server):
            server.request(handler.command, handler.path, body, dict(handler.headers))
            if exchange is not None:
                self.on_sent(exchange)
            response = server.getresponse()
            answer = response.read()
        if exchange is not None:
            exchange.status, exchange.answer = response.status, json.loads(answer)
            self.on_answered(exchange)
        if not self.shut:
            self._answer(handler, response.status, dict(response.headers), answer)

    def _answer(self, handler, status, headers, body):
        handler.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


class HungServer:
    """Accepts connections and data, and never responds."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.connections.append(self._listener.accept()[0])

    def close(self):
        # The thread waits in `accept`, which closing alone does not end.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.connections:
            connection.close()
