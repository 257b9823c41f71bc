"""Takes as much of a resource as possible, in a separate process: python attacks.py RESOURCE PORT
SECONDS ADDRESS < token

It has one credential of one account, and one client address, which for some resources is also that
of the victim. SIGTERM ends it early. Prints the number of requests by status; 0 stands for those
without a response.
"""

import asyncio
import collections
import contextlib
import gzip
import json
import os
import random
import signal
import socket
import sys
import time

from load import report

IP_BIND_ADDRESS_NO_PORT = 24  # the socket module has no name for it before Python 3.12
BOUNDARY = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.html"\r\n\r\n'


def aliases(count, field):
    """Returns a query with many aliases for the same field of an account."""
    return f"{{ viewer {{ account {{ {' '.join(f'a{n}: {field}' for n in range(count))} }} }} }}"


DEAR = aliases(
    10,
    "clusters(first: 50, orderBy: {field: COST})"
    " { nodes { id totals { tasks } taskGroups(first: 10) { nodes { id } } } }",
)
BREAKDOWN = aliases(8, "fineMetrics(by: [CLUSTER, SPAN]) { total }")
STREAM = 'subscription { clusters(account: "default") { cursor } }'


class Attack:
    def __init__(self, port, token, seconds, address):
        self.port, self.token, self.address = port, token, address
        self.end = time.monotonic() + seconds
        self.statuses = collections.Counter()
        self.base, self.sequences = random.randrange(1 << 20) << 10, collections.Counter()

    def head(self, method, path, length=0, token=None, **headers):
        headers = {"Host": "g", "Authorization": f"Bearer {token or self.token}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        if length:
            headers["Content-Length"] = length
        lines = [
            f"{method} {path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def again_and_again(self, connections, once):
        async def run(number):
            while time.monotonic() < self.end:
                try:
                    left = self.end - time.monotonic()
                    self.statuses[await asyncio.wait_for(once(number), left)] += 1
                except asyncio.CancelledError:
                    self.statuses[0] += 1
                    raise
                except (OSError, TimeoutError, asyncio.IncompleteReadError):
                    self.statuses[0] += 1
                    # A refused connection is no load.
                    await asyncio.sleep(0.005)

        await asyncio.gather(*(run(number) for number in range(connections)))

    async def connect(self):
        connection = socket.socket()
        try:
            connection.setblocking(False)
            # Ports that are taken by binding are free for no other address of this machine, so that
            # an attacker with very many connections would take those of its victim.
            connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            connection.bind((self.address, 0))
            loop = asyncio.get_running_loop()
            await loop.sock_connect(connection, ("127.0.0.1", self.port))
            return await asyncio.open_connection(sock=connection)
        except BaseException:
            connection.close()
            raise

    async def ask(self, request, then=None):
        """Sends a request on a new connection, and returns the status of the response."""
        reader, writer = await self.connect()
        try:
            writer.write(request)
            if then is not None:
                return await then(reader, writer)
            line = await reader.readline()
            status = int(line.split()[1]) if line else 0
            await reader.read(1 << 16)
            return status
        finally:
            writer.close()

    async def hold(self, reader, writer):
        """Reads until the server ends the connection."""
        line = await reader.readline()
        status = int(line.split()[1]) if line else 0
        while await reader.read(1 << 16):
            pass
        return status

    async def drip(self, reader, writer):
        """Sends a byte every second, until the server responds."""
        answer = asyncio.ensure_future(reader.readline())
        while not answer.done():
            writer.write(b"x")
            await asyncio.wait([answer], timeout=1)
        line = answer.result()
        return int(line.split()[1]) if line else 0

    async def half_heads(self, _):
        return await self.ask(b"GET /graphql HTTP/1.1\r\nHost: g", self.hold)

    async def streams(self, _):
        body = json.dumps({"query": STREAM}).encode()
        head = self.head(
            "POST",
            "/graphql",
            len(body),
            Content_Type="application/json",
            Accept="text/event-stream",
        )
        return await self.ask(head + body, self.hold)

    async def probes(self, number):
        path = ["/healthz", "/readyz", "/metrics"][number % 3]
        return await self.ask(
            f"GET {path} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n".encode()
        )

    async def slow_forms(self, _):
        head = self.head(
            "POST",
            "/sign-in",
            1_000,
            Origin=f"http://127.0.0.1:{self.port}",
            Host=f"127.0.0.1:{self.port}",
            Content_Type="application/x-www-form-urlencoded",
        )
        return await self.ask(head, self.drip)

    async def guesses(self, number):
        body = f"username=u{random.randrange(1 << 30)}&password=wrong".encode()
        head = self.head(
            "POST",
            "/sign-in",
            len(body),
            Origin=f"http://127.0.0.1:{self.port}",
            Host=f"127.0.0.1:{self.port}",
            Content_Type="application/x-www-form-urlencoded",
        )
        return await self.ask(head + body)

    async def reports(self, number):
        self.sequences[number] += 1
        body = report(self.base + number, self.sequences[number])
        return await self.ask(
            self.head("POST", "/api/v1/reports", len(body), Content_Type="application/json") + body
        )

    async def unknown(self, number):
        token = f"{'a' * 22}-{random.randrange(1 << 60)}"
        path = ["/api/v1/reports", "/graphql"][number % 2]
        return await self.ask(
            self.head("POST", path, 1_000, token, Content_Type="application/json")
        )

    async def large(self, number):
        return await self.ask(
            LARGE.setdefault(
                number % 4,
                self.head(
                    "POST",
                    "/api/v1/reports",
                    len(BOMB),
                    Content_Type="application/json",
                    Content_Encoding="gzip",
                )
                + BOMB,
            )
        )

    async def silence(self, number):
        """Leaves a request for a token, or a WebSocket, without the rest."""
        invalid = f"{'a' * 22}-{random.randrange(1 << 60)}"
        if number % 2:
            form = "application/x-www-form-urlencoded"
            head = self.head(
                "POST", "/api/v1/api-tokens-no-user/", 1_000, invalid, Content_Type=form
            )
            return await self.ask(head, self.drip)
        key = "dGhlIHNhbXBsZSBub25jZQ=="
        lines = [
            "GET /graphql HTTP/1.1",
            "Host: g",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Protocol: graphql-transport-ws",
            # Every other one has credentials, which are refused.
            f"Authorization: Bearer {invalid}" if number % 4 else f"Cookie: a={invalid}",
        ]
        return await self.ask(("\r\n".join(lines) + "\r\n\r\n").encode(), self.hold)

    async def uploads(self, _):
        head = self.head(
            "POST",
            "/api/v1/default/performance_reports/public/",
            1_000_000,
            Content_Type="multipart/form-data; boundary=x",
        )
        return await self.ask(head + BOUNDARY.encode(), self.drip)

    async def query(self, text):
        body = json.dumps({"query": text}).encode()
        return await self.ask(
            self.head("POST", "/graphql", len(body), Content_Type="application/json") + body
        )


LARGE = {}
# 8 MB of a report's events, the last of which is invalid.
BOMB = gzip.compress(b'{"version": 1, "events": [' + b'{"a": 1},' * 900_000 + b"0]}", 1)

# The attack on each resource, and its number of connections.
ATTACKS = {
    "connections": (1_200, Attack.half_heads),
    "requests": (900, Attack.streams),
    "unverified_requests": (700, Attack.silence),
    "sign_in_requests": (200, Attack.slow_forms),
    "probes": (64, Attack.probes),
    "threads": (32, Attack.large),
    "reports": (48, Attack.reports),
    "authentications": (96, Attack.unknown),
    "performance_reports": (12, Attack.uploads),
    "database_writer": (64, Attack.reports),
    "database_readers": (8, lambda self, _: self.query(DEAR)),
    "database_connections": (48, lambda self, n: self.query(DEAR) if n % 2 else self.reports(n)),
    "operations": (32, lambda self, _: self.query(DEAR)),
    "analyses": (16, lambda self, _: self.query(BREAKDOWN)),
    "sign_ins_held": (32, Attack.guesses),
    "password_hashes": (32, Attack.guesses),
    "password_hashes_waiting": (96, Attack.guesses),
}


# The resources that clients at one address share before they are verified. Their attacker is at the
# address of its victim.
SHARED_ADDRESS = {"unverified_requests", "sign_in_requests", "probes"}


async def main():
    resource, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    # Its CPU load must not take the machine's CPUs from the server.
    os.nice(10)
    attack = Attack(port, sys.stdin.read().strip(), seconds, sys.argv[4])
    connections, once = ATTACKS[resource]
    running = asyncio.ensure_future(
        attack.again_and_again(connections, lambda number: once(attack, number))
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    print(json.dumps(attack.statuses), flush=True)
    # A late signal must not end it with another exit status.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
