#!/usr/bin/env python3
"""A stand-in for the server's program: its output, its lock, and the owner of its tokens."""

import fcntl
import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

FIRST, LATER = "otter-first", "otter-later"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        known = token in (FIRST, LATER)
        who = {"username": "admin", "default_account": {"slug": "default"}}
        body = json.dumps(who if known else {"code": "UNAUTHENTICATED"}).encode()
        self.send_response(200 if known else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def main():
    if "GALVO_SERVER_BIN" in os.environ:
        sys.exit("galvo: GALVO_SERVER_BIN: there is no such setting")
    database = unquote(option("--database-url").removeprefix("sqlite://").partition("?")[0])
    if sys.argv[1:3] == ["token", "create"]:
        if not os.path.exists(database):
            sys.exit(f"galvo: there is no database at {database}")
        print(LATER)
        return
    assert sys.argv[1:3] == ["serve", "--bootstrap"]
    if os.environ.get("GALVO_LOG") == "nonsense":
        print("INFO starting", file=sys.stderr)
        print("galvo: GALVO_LOG: no level is called nonsense", file=sys.stderr)
        sys.exit(2)
    is_new = not os.path.exists(database)
    open(database, "ab").close()
    # It is held until the process ends.
    lock = open(f"{database}.lock", "w")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print(os.getpid(), file=lock, flush=True)
    host, _, port = option("--listen").rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), Handler)
    address = f"http://{host}:{server.server_address[1]}"
    print(f"listening on {address}\ndashboard:    {address}/")
    if is_new:
        print(f"token:        {FIRST}   (account default, user admin; shown only now)")
        page = os.environ.get("FAKE_SIGN_IN", "/sign-in")
        print(f"sign in:      {address}{page}   (once it has a password)")
    print("connect Dask:\n  export …", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.serve_forever()


if __name__ == "__main__":
    main()
