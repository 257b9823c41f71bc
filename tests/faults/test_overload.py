"""Ten times more reports than the server takes: those it takes are answered about as fast as ever,
the others at once.
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

# Those whose time is taken: in a process of their own, since in one that offers all it can
# answers wait for their reader.
MEASURED, MEASURED_RATE = 8, 160
# With them as many as it stores at a time: it is busy, and nobody is refused.
FULL = 32 - MEASURED
CONNECTIONS = 320
LOAD = Path(__file__).parent / "load.py"


class Load:
    """What came of some seconds of load."""

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
        text, _ = self._process.communicate(self._token, timeout=self._seconds + 60)
        assert self._process.returncode == 0
        answers = [json.loads(line) for line in text.splitlines()]
        self.acknowledged = {}
        for _, _, status, scheduler, sequence in answers:
            if status == 200:
                known = self.acknowledged.get(scheduler, 0)
                self.acknowledged[scheduler] = max(known, sequence)
        # At first connections are made, and statements prepared.
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
    """A load, and the few of it whose time is taken."""
    return Load(server, connections, rate, seconds), Load(server, MEASURED, MEASURED_RATE, seconds)


def test_ten_times(server, outcome):
    Load(server, FULL, 0, 4).wait()  # to be warm
    loads = [load.wait() for load in offer(server, FULL, 0, 8)]
    normal, taken = loads[1], sum(load.per_second for load in loads)
    before, _ = server.memory()
    begun = offer(server, CONNECTIONS, 10 * taken, 12)
    time.sleep(3.0)
    alive = [server.probe("/healthz") for _ in range(5)]
    flood, overload = (load.wait() for load in begun)
    _, most = server.memory()
    assert {health.status for health in alive} == {200}
    assert len(flood.refused) > len(flood.taken)
    assert overload.median < 3.0 * normal.median, (normal.median, overload.median)
    assert overload.p95 < 3.0 * normal.p95, (normal.p95, overload.p95)
    refusal = quantiles(flood.refused)[0]
    assert refusal < flood.median, (refusal, flood.median)
    grown = most - before
    assert grown < 256 << 20, f"{grown >> 20} MiB more"
    # And then it is as before.
    recovered = [load.wait() for load in offer(server, FULL, 0, 8)]
    after, taken_after = recovered[1], sum(load.per_second for load in recovered)
    assert after.median < 2.0 * normal.median, (normal.median, after.median)
    assert taken_after > 0.6 * taken, (taken, taken_after)
    loads += [flood, overload, *recovered]
    odd = [status for load in loads for status in load.odd]
    assert not odd, odd[:5]
    note = (
        f"{(flood.offered + overload.offered) / taken:.0f} times as many offered as taken; median"
        f" {1e3 * normal.median:.1f} ms, then {1e3 * overload.median:.1f} ms (p95"
        f" {1e3 * normal.p95:.1f} and {1e3 * overload.p95:.1f}); {grown / 2**20:.0f} MiB more"
    )
    facts = {scheduler: last for load in loads for scheduler, last in load.acknowledged.items()}
    found = clusters(server)
    stored = {scheduler: rows[0]["totals"]["tasks"] for scheduler, rows in found.items()}
    lost = {id_: last for id_, last in facts.items() if stored.get(id_, 0) < last}
    assert not lost
    taken = sum(len(load.taken) for load in loads)
    verdict = SimpleNamespace(acknowledged=taken, facts=len(facts), lost=0)
    outcome.write("ten times overload", verdict, 0.0, note=note)
