"""Subscriptions with published clients, while a cluster works."""

import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import threading
from functools import partial

import pytest
from accounts import cluster_id, everything
from conftest import settings_for
from gql import Client, gql
from gql.transport.aiohttp_websockets import AIOHTTPWebsocketsTransport
from gql.transport.exceptions import TransportError, TransportQueryError
from gql.transport.websockets import WebsocketsTransport
from processes import python_named, wait_until
from wire import Wire

ERRORS = """
subscription ($after: String) {
  errors(account: "default", after: $after) { cursor gap errors { id key } }
}
"""

ALL_ERRORS = """
query ($id: ID!, $after: String) { cluster(id: $id) {
list: errors(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes { id key }
} } }
"""

ROUNDS = 5

# By default both offer the older protocol first, and the first of them ignores the chosen one.
TRANSPORTS = {
    "websockets": WebsocketsTransport,
    "aiohttp": AIOHTTPWebsocketsTransport,
    "websockets, the newer protocol": lambda **options: WebsocketsTransport(
        subprotocols=[WebsocketsTransport.GRAPHQLWS_SUBPROTOCOL], **options
    ),
}

# JavaScript clients, by the names in `tests/live-js/clients.js`.
CLIENTS = ["graphql-ws", "graphql-sse", "urql over a WebSocket", "urql over events"]

LISTEN = pathlib.Path(__file__).parent.parent / "live-js" / "listen.js"


def transport(kind, port, token):
    payload = {"Authorization": f"Bearer {token}"}
    return TRANSPORTS[kind](url=f"ws://127.0.0.1:{port}/graphql", init_payload=payload)


class Listener:
    """Receives errors, and resumes after the last one whenever a connection ends."""

    def __init__(self, kind, port, token, cursor):
        self.errors, self.gaps, self.cursor, self.connections = [], 0, cursor, 0
        self._closing = False
        self._make = lambda: transport(kind, port, token)
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._listen())
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)

    async def _listen(self):
        # A cancellation is lost if the client cannot notify the server any more.
        while not self._closing:
            try:
                async with Client(transport=self._make()) as session:
                    self.connections += 1
                    await self._receive(session)
            except TransportQueryError:
                raise
            except (TransportError, OSError, EOFError):
                await asyncio.sleep(0.05)

    async def _receive(self, session):
        request = gql(ERRORS)
        request.variable_values = {"after": self.cursor}
        async for result in session.subscribe(request):
            batch = result["errors"]
            self.cursor = batch["cursor"]
            self.gaps += batch["gap"]
            self.errors += batch["errors"]

    def wait_for(self, errors):
        wait_until(lambda: len(self.errors) >= errors, f"{errors} errors are received")

    def close(self):
        self._closing = True
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._loop.close()


class NodeListener:
    """The same, with a JavaScript client in a separate process."""

    def __init__(self, name, port, token, cursor):
        self.errors, self.gaps = [], 0
        self._process = subprocess.Popen(
            ["node", LISTEN, name, f"http://127.0.0.1:{port}", cursor],
            env={**os.environ, "GALVO_TOKEN": token},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._receive)
        self._thread.start()

    def _receive(self):
        for line in self._process.stdout:
            batch = json.loads(line)
            self.gaps += batch["gap"]
            self.errors += batch["errors"]

    wait_for = Listener.wait_for

    def close(self):
        self._process.terminate()
        self._process.wait(20)
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._process.stdout.close()


@pytest.mark.parametrize("kind", TRANSPORTS)
def test_gql_receives_all_errors_once_though_its_connection_breaks(galvo, start_cluster, kind):
    (listener,) = receive_errors(galvo, start_cluster, [partial(Listener, kind)])
    assert listener.connections > ROUNDS - 1


def test_javascript_receives_all_errors_once_though_its_connection_breaks(galvo, start_cluster):
    receive_errors(galvo, start_cluster, [partial(NodeListener, name) for name in CLIENTS])


def receive_errors(galvo, start_cluster, makers):
    """Runs failing tasks while the listeners' connections are cut repeatedly."""
    settings = settings_for(galvo.address, galvo.token)
    dask = start_cluster(python_named("NEWEST"), preloads=["galvo"], settings=settings)
    client = dask.client()
    scheduler_id = client.call("dask_report")["scheduler_id"]
    wire = Wire(galvo.port)
    begin = galvo.query("{ viewer { account { liveCursor } } }")["viewer"]["account"]["liveCursor"]
    listeners = [make(wire.port, galvo.token, begin) for make in makers]
    try:
        for first in range(0, ROUNDS * 20, 20):
            client.call("run", workload="failures", first=first, count=20)
            # Each report contains some of them.
            for listener in listeners:
                listener.wait_for(first + 1)
            wire.cut()
        wait_until(lambda: len(stored(galvo, scheduler_id)) == ROUNDS * 20, "all errors are stored")
        for listener in listeners:
            listener.wait_for(ROUNDS * 20)
    finally:
        for listener in listeners:
            listener.close()
        wire.close()
    assert wire.cuts == ROUNDS
    for listener in listeners:
        assert sorted(error["id"] for error in listener.errors) == stored(galvo, scheduler_id)
        assert listener.gaps == 0
    return listeners


def stored(galvo, scheduler_id):
    """Returns the identifiers of a cluster's errors in Galvo."""
    if not cluster_id(galvo, scheduler_id):
        return []
    return sorted(error["id"] for error in everything(galvo, ALL_ERRORS, scheduler_id))
