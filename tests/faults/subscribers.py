"""A WebSocket subscriber that reconnects after disconnects, and resumes after the last payload."""

import contextlib
import json
import threading
import time
from collections import Counter

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

CLUSTERS = """
subscription ($after: String) { clusters(account: "default", after: $after) {
  cursor gap cluster { schedulerId state totals { tasks errors } }
} }
"""

EVENTS = """
subscription ($after: String) { events(account: "default", after: $after) {
  cursor gap events { topic data cluster { schedulerId } }
} }
"""

CURSOR = "{ viewer { account { liveCursor } } }"

STATES = """
query ($after: String) { viewer { account { list: clusters(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor } nodes { schedulerId state totals { tasks errors } }
} } } }
"""


class Subscriber(threading.Thread):
    """Follows the clusters and the events of an account over one socket."""

    def __init__(self, port, token, cursor):
        super().__init__(daemon=True, name="subscriber")
        self._port, self._token = port, token
        self._cursors = {"clusters": cursor, "events": cursor}
        self._stop_requested = threading.Event()
        self.clusters, self.events = {}, []
        self.gaps = self.connections = 0
        self.closes = []  # codes with which servers closed connections
        self.refusals = []
        self._socket = None

    def run(self):
        while not self._stop_requested.is_set():
            try:
                self._listen()
            except ConnectionClosed as closed:
                self.closes.append(closed.rcvd.code if closed.rcvd else None)
            except (OSError, InvalidHandshake, TimeoutError) as error:
                self.refusals.append(type(error).__name__)
            self._stop_requested.wait(0.1)

    def _listen(self):
        address = f"ws://127.0.0.1:{self._port}/graphql"
        options = {"subprotocols": ["graphql-transport-ws"], "open_timeout": 5, "close_timeout": 1}
        with connect(address, max_size=None, ping_interval=3, ping_timeout=6, **options) as ws:
            self._socket = ws
            greeting = {"Authorization": f"Bearer {self._token}"}
            ws.send(json.dumps({"type": "connection_init", "payload": greeting}))
            assert json.loads(ws.recv(10))["type"] == "connection_ack"
            self.connections += 1
            for id_, query in (("clusters", CLUSTERS), ("events", EVENTS)):
                payload = {"query": query, "variables": {"after": self._cursors[id_]}}
                ws.send(json.dumps({"id": id_, "type": "subscribe", "payload": payload}))
            for text in ws:
                self._receive(json.loads(text))

    def _receive(self, message):
        if message["type"] != "next":
            assert message["type"] in ("ping", "pong"), message
            return
        kind = message["id"]
        batch = message["payload"]["data"][kind]
        self._cursors[kind] = batch["cursor"]
        self.gaps += batch["gap"]
        if kind == "clusters":
            cluster = batch["cluster"]
            self.clusters[cluster["schedulerId"]] = cluster
        else:
            self.events += [
                (event["cluster"]["schedulerId"], json.dumps(event["data"], sort_keys=True))
                for event in batch["events"]
            ]

    def close(self):
        self._stop_requested.set()
        if self._socket is not None:
            with contextlib.suppress(Exception):
                self._socket.close()
        self.join(20)
        assert not self.is_alive()


def watch(server, port=None):
    """Starts a subscriber for everything from now on."""
    cursor = server.query(CURSOR)["viewer"]["account"]["liveCursor"]
    subscriber = Subscriber(port or server.port, server.token, cursor)
    subscriber.start()
    return subscriber


def states(server):
    found, after = {}, None
    while True:
        page = server.query(STATES, after=after)["viewer"]["account"]["list"]
        found |= {node["schedulerId"]: node for node in page["nodes"]}
        if not page["pageInfo"]["hasNextPage"]:
            return found
        after = page["pageInfo"]["endCursor"]


def assert_right(subscriber, server, fleet, seconds=40.0):
    """Asserts that the final payloads match queries, and that every event was sent once.

    Returns the time it took, in seconds.
    """
    began, wrong = time.monotonic(), None
    schedulers = {r.scheduler.id for r in fleet.reporters}
    sent = sorted(
        (r.scheduler.id, json.dumps(event["data"], sort_keys=True))
        for r in fleet.reporters
        for event in newest(r.scheduler, "events").values()
    )
    while time.monotonic() < began + seconds:
        known = states(server)
        stale = {id_: n for id_, n in subscriber.clusters.items() if known.get(id_) != n}
        if not stale and len(subscriber.clusters) == len(known):
            received = sorted(event for event in subscriber.events if event[0] in schedulers)
            if received == sent:
                return time.monotonic() - began
            lacks, twice = Counter(sent) - Counter(received), Counter(received) - Counter(sent)
            wrong = f"of {len(sent)} events {dict(lacks)} lack, {dict(twice)} are too many"
        else:
            wrong = f"{stale} of {len(known)}, {len(subscriber.clusters)} were received"
        time.sleep(0.2)
    raise AssertionError(f"a subscriber is wrong: {wrong}"[:2000])


def newest(scheduler, kind):
    found = {}
    for report in scheduler.reports:
        found.update(report.items[kind])
    return found
