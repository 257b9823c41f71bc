"""After an outage, real plugins return at the times they were given, and not all at once."""

import asyncio
import math
import random
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from ledger import clusters

sys.path[:0] = [str(Path(__file__).parents[2] / "python" / part) for part in ("src", "tests")]

from galvo.plugin.report_sender import ReportSender  # noqa: E402
from stand_ins import Scheduler  # noqa: E402

SIZE = 50
OUTAGE_SECONDS = 12.0
RETURN_SECONDS = 45.0
TOTALS = (
    "tasks tasks_succeeded tasks_erred errors bytes workers peak_workers peak_threads"
    " compute_seconds transfer_seconds thread_seconds"
)


def describe_cluster(closed_at=None, close_reason=None):
    return {
        "started_at": 1_700_000_000.0,
        "closed_at": closed_at,
        "close_reason": close_reason,
        "workers": 0,
        "threads": 0,
        "memory_used_bytes": 0,
        "totals": dict.fromkeys(TOTALS.split(), 0),
    }


class Plugin:
    """A plugin's sender that reports as often as allowed, with its record."""

    def __init__(self, number, server):
        self.scheduler = Scheduler(seed=number, sequence=1000)
        self.scheduler.id = f"Scheduler-of-the-herd-{number}"
        self.scheduler.ids = (number + 1) << 96 | 0x7000 << 64 | 0x8000 << 48
        settings = {
            "server": f"http://127.0.0.1:{server.port}",
            "token": server.token,
            "account": "default",
            "interval_seconds": 1.0,
        }
        ledger = self.scheduler.ledger
        self.sender = ReportSender(settings, ledger, self.scheduler, describe_cluster)
        self.attempts = []  # the time, the status, and the Retry-After value
        self.groups = self.acknowledged = 0
        settle = self.sender._settle

        def note(report, response):
            self.attempts[-1].status = response.code
            self.attempts[-1].ended = time.monotonic()
            self.attempts[-1].retry_after = response.headers.get("Retry-After")
            self.acknowledged += response.code == 200
            return settle(report, response)

        self.sender._settle = note

    async def run(self, stop):
        await asyncio.sleep(random.uniform(0.0, 1.0))
        while not stop.is_set():
            if self.groups < 40:
                self.groups += 1
                self.scheduler.submit(f"x-{self.groups}")
            self.attempts.append(
                SimpleNamespace(at=time.monotonic(), status=None, retry_after=None)
            )
            await self.sender.deliver()
            await asyncio.wait([asyncio.ensure_future(stop.wait())], timeout=self.sender.pause)

    def first_acknowledged(self, since):
        return next((a for a in self.attempts if a.status == 200 and a.ended > since), None)


async def live_through(plugins, outage):
    """Runs the reporters through an outage, and returns its end."""
    stop = asyncio.Event()
    running = [asyncio.create_task(plugin.run(stop)) for plugin in plugins]

    async def until_all(since, seconds):
        deadline = time.monotonic() + seconds
        while not all(plugin.first_acknowledged(since) for plugin in plugins):
            assert time.monotonic() < deadline, "not all of them come back"
            await asyncio.sleep(0.1)

    await until_all(0.0, 30)
    await asyncio.to_thread(outage.begin)
    await asyncio.sleep(OUTAGE_SECONDS)
    await asyncio.to_thread(outage.end)
    over = time.monotonic()
    await until_all(over, RETURN_SECONDS)
    stop.set()
    await asyncio.gather(*running)
    for plugin in plugins:  # data of the last failed attempt
        await plugin.sender.deliver()
    return over


@pytest.mark.parametrize("kind", ["away", "refusing"])
def test_all_come_back(kind, postgres, make_server, outcome):
    server = make_server(postgres.make_database()).start()
    if kind == "away":
        outage = SimpleNamespace(begin=server.kill, end=server.start)
    else:  # it returns 503 while its database is down
        outage = SimpleNamespace(begin=lambda: postgres.stop("fast"), end=postgres.start)

    async def main():
        plugins = [Plugin(number, server) for number in range(SIZE)]
        return plugins, await live_through(plugins, outage)

    plugins, over = asyncio.run(main())
    first = [plugin.first_acknowledged(over) for plugin in plugins]
    # Some had sent a request before the end, and got a response then.
    returns = sorted(attempt.at - over for attempt in first)
    busiest = max(Counter(math.floor(moment) for moment in returns).values())
    assert busiest <= SIZE * 0.5, returns
    assert returns[-1] - returns[0] > 4.0, returns
    recovery = max(attempt.ended for attempt in first) - over
    for plugin in plugins:
        for attempt, following in zip(plugin.attempts, plugin.attempts[1:], strict=False):
            if attempt.retry_after is not None:
                assert following.at - attempt.ended >= float(attempt.retry_after) - 0.05
    refused = sum(a.retry_after is not None for plugin in plugins for a in plugin.attempts)
    # A slow machine refuses some of them before and after as well, because of their number.
    assert refused > 0 or kind == "away"

    found = clusters(server)
    verdict = SimpleNamespace(acknowledged=0, facts=0, lost=0)
    for plugin in plugins:
        (cluster,) = found[plugin.scheduler.id]
        query = "query ($id: ID!) { cluster(id: $id) { taskGroups { totalCount } } }"
        stored = server.query(query, id=cluster["id"])["cluster"]["taskGroups"]["totalCount"]
        assert stored == plugin.groups
        verdict.acknowledged += plugin.acknowledged
        verdict.facts += stored
    note = (
        f"{SIZE} plugins came back over {returns[-1] - returns[0]:.0f} s, {busiest} in the busiest"
        f" second; Retry-After was honoured {refused} times"
    )
    name = {"away": "server away", "refusing": "server refusing"}[kind]
    outcome.write(f"thundering herd after the {name}", verdict, recovery, note=note)
