"""Sends reports to a server, in a separate process: python load.py PORT CONNECTIONS RATE SECONDS <
token

With a RATE of reports per second in total, reports are sent on schedule even if earlier ones have
no response yet, as far as connections are free. With 0, each connection sends the next one after
the response. Prints a line of JSON for each response: the time of sending since the start, the
duration, the status, and the report and scheduler.
"""

import asyncio
import json
import random
import re
import sys
import time

STARTED_AT = time.time() - 60.0


def report(scheduler, sequence):
    """Returns a report of usual size that changes rows of all kinds."""

    def id_(number):
        return f"{scheduler:08x}-0000-4000-8000-{number:012x}"

    groups = [
        {
            "id": id_(number),
            "name": f"load-{number}",
            "prefix": "load",
            "first_seen_at": STARTED_AT,
            "started_at": STARTED_AT,
            "stopped_at": STARTED_AT + 1,
            "states": {"memory": sequence},
            "tasks": sequence,
            "tasks_succeeded": sequence,
            "tasks_erred": 0,
            "tasks_blamed": 0,
            "durations": {"compute": 0.5 * sequence},
            "bytes": 800 * sequence,
            "types": ["int"],
            "dependencies": [],
        }
        for number in range(1, 6)
    ]
    events = [
        {"id": id_(sequence * 8 + n), "at": STARTED_AT, "topic": "load", "data": {"n": sequence}}
        for n in range(4)
    ]
    totals = dict.fromkeys(
        "tasks_succeeded tasks_erred errors compute_seconds transfer_seconds thread_seconds bytes"
        " workers peak_workers peak_threads".split(),
        0,
    )
    return json.dumps(
        {
            "version": 1,
            "scheduler_id": f"Scheduler-load-{scheduler}",
            "sequence": sequence,
            "sent_at": STARTED_AT + sequence,
            "interval_seconds": 15.0,
            "cluster": {
                "started_at": STARTED_AT,
                "workers": 1,
                "threads": 4,
                "memory_used_bytes": 0,
                "totals": {**totals, "tasks": sequence},
            },
            "task_groups": groups,
            "events": events,
        }
    ).encode()


class Connection(asyncio.Protocol):
    """Sends reports of one scheduler, one request at a time.

    It implements a protocol, because streams are slower than a server that refuses.
    """

    def __init__(self, port, token, scheduler):
        self._port, self.scheduler, self.sequence = port, scheduler, 0
        self._head = (
            f"POST /api/v1/reports HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._transport = self._answered = None

    async def send(self):
        """Sends a report, and returns the status of the response; 0 without one."""
        self.sequence += 1
        body = report(self.scheduler, self.sequence)
        loop = asyncio.get_running_loop()
        try:
            if self._transport is None:
                await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        except OSError:
            return 0
        if self._transport is None:
            return 0
        self._received, self._status, self._answered = b"", 0, loop.create_future()
        self._transport.write(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
        return await self._answered

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
        if length is not None:
            if len(body) < int(length[1]):
                return
            self._status = int(head[9:12])
        if length is None or re.search(rb"\r\nconnection: close", head, re.IGNORECASE):
            self._transport.close()
        else:
            self._answer()

    def connection_lost(self, _):
        self._transport = None
        self._answer()

    def _answer(self):
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(self._status)


async def offer(port, token, connections, rate, seconds):
    answers, begun = [], time.monotonic()
    base = random.randrange(1 << 20) << 10

    async def run(number):
        connection = Connection(port, token, base + number)
        due = begun + (random.random() * connections / rate if rate else 0.0)
        while True:
            if rate:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                due = max(due + connections / rate, time.monotonic() - 0.5)
            sent = time.monotonic()
            if sent > begun + seconds:
                return
            status = await connection.send()
            took = time.monotonic() - sent
            name = f"Scheduler-load-{connection.scheduler}"
            answers.append((sent - begun, took, status, name, connection.sequence))

    await asyncio.gather(*(run(number) for number in range(connections)))
    return answers


def main():
    port, connections, rate, seconds = (float(argument) for argument in sys.argv[1:])
    token = sys.stdin.read().strip()
    for answer in asyncio.run(offer(int(port), token, int(connections), rate, seconds)):
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
