"""Ten times the accepted load: accepted reports have almost the usual latency, and others are
refused at once.
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import clean_environment

from ledger import clusters

pytestmark = pytest.mark.alone

# The measured reports: in a separate process, because in an overloaded one responses wait for their
# reader.
MEASURED, MEASURED_RATE = 8, 160
# Together with them as many as it stores at a time: it is busy, and refuses nothing.
FULL = 32 - MEASURED
CONNECTIONS = 320
# Other load on the machine can slow a round down, but hardly speed it up: the round is compared
# with the better of the ones before and after it.
MOST_ROUNDS = 3
# The delay of each packet to and from PostgreSQL in seconds, so that the CPUs shared with the
# server suffice for ten times the accepted load. A file cannot be delayed.
AWAY = 0.01
LOAD = Path(__file__).parent / "load.py"


@pytest.fixture
def server(request, store, database_url, make_server, make_wire):
    if store == "sqlite":
        return make_server(database_url).start()
    postgres = request.getfixturevalue("postgres")
    wire = make_wire(postgres.port)
    server = make_server(postgres.url(port=wire.port)).start()
    wire.delay = AWAY
    return server


class Load:
    """The result of some seconds of load."""

    def __init__(self, server, connections, rate, seconds):
        command = [sys.executable, LOAD, server.port, connections, rate, seconds]
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_environment(),
            text=True,
        )
        self._seconds, self._token = seconds, server.token

    def wait(self):
        try:
            text, _ = self._process.communicate(self._token, timeout=self._seconds + 60)
        finally:
            self._process.kill()
        assert self._process.returncode == 0
        answers = [json.loads(line) for line in text.splitlines()]
        self.acknowledged = {}
        for _, _, status, scheduler, sequence in answers:
            if status == 200:
                known = self.acknowledged.get(scheduler, 0)
                self.acknowledged[scheduler] = max(known, sequence)
        # At first connections are opened, and statements are prepared.
        answers = [answer for answer in answers if answer[0] > self._seconds * 0.25]
        self.taken = [took for _, took, status, *_ in answers if status == 200]
        self.refused = [took for _, took, status, *_ in answers if status in (429, 503)]
        self.odd = [status for _, _, status, *_ in answers if status not in (200, 429, 503)]
        self.per_second = len(self.taken) / (self._seconds * 0.75)
        self.offered = len(answers) / (self._seconds * 0.75)
        self.median, self.p95 = quantiles(self.taken)
        return self


def quantiles(seconds):
    assert len(seconds) > 20, f"too few to mean anything: {seconds}"
    cuts = statistics.quantiles(seconds, n=20)
    return cuts[9], cuts[18]


def offer(server, connections, rate, seconds):
    """Starts a load, and the measured part of it."""
    return Load(server, connections, rate, seconds), Load(server, MEASURED, MEASURED_RATE, seconds)


class Round:
    """The measured load before, while, and after others send ten times the accepted load."""

    def __init__(self, server):
        loads = [load.wait() for load in offer(server, FULL, 0, 8)]
        self.normal, self.taken = loads[1], sum(load.per_second for load in loads)
        begun = offer(server, CONNECTIONS, 10 * self.taken, 12)
        time.sleep(3.0)
        self.alive = {server.probe("/healthz").status for _ in range(5)}
        self.flood, self.overload = (load.wait() for load in begun)
        recovered = [load.wait() for load in offer(server, FULL, 0, 8)]
        self.after, self.taken_after = recovered[1], sum(load.per_second for load in recovered)
        self.loads = [*loads, self.flood, self.overload, *recovered]

    def slow(self):
        """Returns the latencies over their limit; empty if there are none."""
        usual = min(self.normal.median, self.after.median), min(self.normal.p95, self.after.p95)
        # The mean latency if all places of the server are always taken. When the processes that
        # send get less of the CPUs, fewer places are taken and the latency is lower. A difference
        # below this limit says nothing about the server.
        full = (FULL + MEASURED) / self.taken
        refusal = quantiles(self.flood.refused)[0]
        allowed = {
            "median": (self.overload.median, max(3.0 * usual[0], full)),
            "p95": (self.overload.p95, max(3.0 * usual[1], 2.0 * full)),
            "refusal": (refusal, self.flood.median),
            "median after": (self.after.median, max(2.0 * self.normal.median, full)),
            "time per report after": (1.0 / self.taken_after, 1.0 / (0.6 * self.taken)),
        }
        return {what: times for what, times in allowed.items() if times[0] >= times[1]}


def test_ten_times(server, outcome):
    Load(server, FULL, 0, 4).wait()  # warm-up
    before, _ = server.memory()
    rounds = []
    while not rounds or (rounds[-1].slow() and len(rounds) < MOST_ROUNDS):
        rounds.append(Round(server))
    _, most = server.memory()
    last, loads = rounds[-1], [load for round_ in rounds for load in round_.loads]
    assert not last.slow(), [round_.slow() for round_ in rounds]
    for round_ in rounds:
        assert round_.alive == {200}
        assert len(round_.flood.refused) > len(round_.flood.taken)
    grown = most - before
    assert grown < 256 << 20, f"{grown >> 20} MiB more"
    odd = [status for load in loads for status in load.odd]
    assert not odd, odd[:5]
    normal, flood, overload = last.normal, last.flood, last.overload
    note = (
        f"{(flood.offered + overload.offered) / last.taken:.0f} times as many offered as taken;"
        f" median {1e3 * normal.median:.1f} ms, then {1e3 * overload.median:.1f} ms (p95"
        f" {1e3 * normal.p95:.1f} and {1e3 * overload.p95:.1f}); {grown / 2**20:.0f} MiB more"
    )
    facts = {id_: newest for load in loads for id_, newest in load.acknowledged.items()}
    found = clusters(server)
    stored = {scheduler: rows[0]["totals"]["tasks"] for scheduler, rows in found.items()}
    lost = {id_: newest for id_, newest in facts.items() if stored.get(id_, 0) < newest}
    assert not lost
    taken = sum(len(load.taken) for load in loads)
    verdict = SimpleNamespace(acknowledged=taken, facts=len(facts), lost=0)
    outcome.write("ten times overload", verdict, 0.0, note=note)
