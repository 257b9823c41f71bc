"""An HTTP server in a separate process that accepts every report and records its size."""

import gzip
import json
import subprocess
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CLASSES = ["basic", "tasks", "dask_errors", "user_errors", "code", "profiles", "events", "logs"]
SCALARS = (int, float, str, bool, type(None))


class Responder:
    """Runs the server until the context ends.

    ``interval_seconds`` is the report interval that it requests from plugins.
    """

    def __init__(self, interval_seconds=15.0):
        self._interval_seconds = interval_seconds

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._interval_seconds)], stdout=subprocess.PIPE
        )
        self.address = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()

    def reports(self):
        """Returns each report's compressed and plain bytes, and the bytes and items by section."""
        with urllib.request.urlopen(self.address) as response:
            return json.load(response)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/api/v1/reports":
            # The plugin then uses its token as it is.
            self._answer({}, 404)
            return
        gzipped = self.headers.get("Content-Encoding") == "gzip"
        text = gzip.decompress(sent) if gzipped else sent
        report = json.loads(text)
        self.server.reports.append(
            {
                "compressed": len(sent),
                "plain": len(text),
                "sections": {
                    name: [len(json.dumps(part, separators=(",", ":"))), len(part)]
                    for name, part in report.items()
                    if not isinstance(part, SCALARS)
                },
            }
        )
        self._answer(
            {
                "acknowledged": report["sequence"],
                "cluster_id": 1,
                "interval_seconds": self.server.interval_seconds,
                "desired_state": "running",
                "resend": False,
                "accepts": CLASSES,
            }
        )

    def do_GET(self):
        self._answer(self.server.reports)

    def _answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(interval_seconds):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.interval_seconds, server.reports = interval_seconds, []
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(float(sys.argv[1]))
