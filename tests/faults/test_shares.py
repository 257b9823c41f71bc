"""One credential takes as much as possible of each shared resource; another account still gets
responses.

``SHARES_SECONDS`` is the duration of an attack, 2 by default. From 60 on, too long latencies fail
the test: in shorter attacks of a debug build they are those of a few requests.
"""

import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import REPOSITORY, clean_environment

from attacks import ATTACKS, SHARED_ADDRESS
from load import report
from servers import KEY

pytestmark = pytest.mark.alone

SECONDS = float(os.environ.get("SHARES_SECONDS", "2"))
# The time for latencies without an attack, before and after it.
QUIET_SECONDS = min(SECONDS / 4, 5.0)
LIMITS_LATENCY = SECONDS >= 60
ATTACK = Path(__file__).parent / "attacks.py"
PASSWORD = "correct horse battery staple"
# Other load on the machine can slow a round down, but hardly speed it up.
MOST_ROUNDS = 3
ADDRESSES = iter(range(2, 250))
VICTIM = "127.0.0.1"
# The allowed slowdown under attack, and a latency that is negligible on a machine whose two CPUs
# the attacker uses, too.
TIMES, NOTHING = 3.0, 0.05
# Resources that no user's address can take.
NOT_REACHED = {"operators"}


# The victim's requests, and their expected status.
KINDS = {"report": 200, "query": 200, "sign_in": 303, "probe": 200, "ready": 200}
# The number of clusters of the attacker's account.
CLUSTERS = 400


class Victim:
    """A user of another account, mostly at another address than the attacker."""

    def __init__(self, server):
        self.port, self.token = server.port, None
        self.sequence = 0
        self.server = server
        self.galvo("account", "create", "victim")
        self.galvo("user", "create", "vic", "--account", "victim", "--role", "owner")
        self.token = self.make_token("vic", "victim")
        self.galvo("user", "password", "vic", stdin=PASSWORD + "\n")

    def make_token(self, user, account):
        text = self.galvo("token", "create", "--user", user, "--account", account)
        return re.search(r"[\w]{8,}-[\w-]{20,}", text).group(0)

    def galvo(self, *words, stdin=""):
        binary = os.environ.get("GALVO_BIN", REPOSITORY / "target/debug/galvo")
        environment = clean_environment() | {
            "GALVO_DATABASE_URL": self.server.database_url,
            "GALVO_SECRET_KEY": KEY,
        }
        done = subprocess.run(
            [binary, *words], input=stdin, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def ask(self, method, path, body=None, **headers):
        """Returns the status, or the error if there was no response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except OSError as error:
            return repr(error)
        finally:
            connection.close()

    def report(self):
        self.sequence += 1
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return self.ask("POST", "/api/v1/reports", report(1, self.sequence), **headers)

    def query(self):
        body = json.dumps(
            {"query": "{ viewer { account { clusters(first: 10) { nodes { id name } } } } }"}
        )
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return self.ask("POST", "/graphql", body, **headers)

    def sign_in(self):
        body = urllib.parse.urlencode({"username": "vic", "password": PASSWORD})
        origin = f"http://127.0.0.1:{self.port}"
        headers = {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded"}
        return self.ask("POST", "/sign-in", body, **headers)

    def probe(self):
        return self.ask("GET", "/healthz")

    def ready(self):
        return self.ask("GET", "/readyz")

    def measure(self, seconds):
        """Sends all requests in turn for a time, and returns their latencies and refusals."""
        took, refused = {kind: [] for kind in KINDS}, []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for kind, expected in KINDS.items():
                began = time.monotonic()
                status = getattr(self, kind)()
                took[kind].append(time.monotonic() - began)
                if status != expected:
                    refused.append((kind, status))
            time.sleep(0.02)
        return SimpleNamespace(
            median={kind: statistics.median(times) for kind, times in took.items()},
            count=sum(map(len, took.values())),
            refused=refused,
        )


def metrics(server, name):
    """Returns the values of a metric, by resource."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {
        resource: float(value)
        for resource, value in re.findall(
            rf'^galvo_share_{name}{{resource="(\w+)"}} (\S+)$', text, re.M
        )
    }


def fill(server):
    """Creates clusters in the attacker's account, so that its queries have data to read."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    for scheduler in range(CLUSTERS):
        connection.request("POST", "/api/v1/reports", report(10_000 + scheduler, 1), headers)
        answer = connection.getresponse()
        assert (answer.status, answer.read())[0] == 200
    connection.close()


class Round:
    """The victim's latencies, alone and during an attack on a resource."""

    def __init__(self, server, victim, resource):
        before = victim.measure(QUIET_SECONDS)
        # Neither the address nor the token has used any quota.
        address = VICTIM if resource in SHARED_ADDRESS else f"127.0.0.{next(ADDRESSES)}"
        token = victim.make_token("admin", "default")
        command = [sys.executable, ATTACK, resource, server.port, SECONDS + 3, address]
        attack = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_environment(),
            text=True,
        )
        try:
            attack.stdin.write(token)
            attack.stdin.close()
            time.sleep(1.5)
            self.held = 0.0
            during = victim.measure(SECONDS / 2)
            self.held = metrics(server, "held").get(resource, 0.0)
            rest = victim.measure(SECONDS / 2)
            attack.terminate()
            self.statuses = json.loads(attack.stdout.read() or "{}")
            assert attack.wait(30) == 0
            assert self.statuses, "the attack sent nothing"
        finally:
            attack.kill()
            attack.wait()
        after = victim.measure(QUIET_SECONDS)
        self.refused = [*before.refused, *during.refused, *rest.refused, *after.refused]
        self.usual = {kind: min(before.median[kind], after.median[kind]) for kind in KINDS}
        self.during = {kind: max(during.median[kind], rest.median[kind]) for kind in KINDS}
        self.count = during.count + rest.count

    def failed(self):
        return self.refused or (LIMITS_LATENCY and self.slow())

    def slow(self):
        """Returns the latencies over their limit; empty if there are none."""
        return {
            kind: (took, self.usual[kind])
            for kind, took in self.during.items()
            if took > max(TIMES * self.usual[kind], NOTHING)
        }


def test_every_resource_leaves_others_their_share(store, make_server, database_url):
    server = make_server(database_url).start()
    victim = Victim(server)
    resources = set(metrics(server, "places"))
    assert resources, "the server tells of none"
    unknown = resources - NOT_REACHED - set(ATTACKS)
    assert not unknown, f"nothing attacks {unknown}"
    fill(server)
    wrong = {}
    for resource in sorted(resources - NOT_REACHED):
        rounds = [Round(server, victim, resource)]
        while rounds[-1].failed() and len(rounds) < MOST_ROUNDS:
            rounds.append(Round(server, victim, resource))
        last = rounds[-1]
        row = {
            "resource": resource,
            "store": store,
            "attacker": last.statuses,
            "held": last.held,
            "answered": last.count,
            "times": {kind: round(last.during[kind] / last.usual[kind], 2) for kind in last.usual},
            "milliseconds": {kind: round(1e3 * last.during[kind], 1) for kind in last.usual},
            "rounds": len(rounds),
            "slow": last.slow(),
        }
        print(json.dumps(row))
        if results := os.environ.get("FAULTS_RESULTS"):
            with open(f"{results}.shares", "a") as file:
                file.write(json.dumps(row) + "\n")
        refused = [refusal for round_ in rounds for refusal in round_.refused]
        if refused or last.failed():
            wrong[resource] = refused[:5], last.slow()
    assert not wrong, wrong
