"""Idle clusters, and clusters that no longer report."""

import signal
import time

from accounts import cluster_id, seconds
from conftest import settings_for
from processes import GalvoServer, wait_until

TIMEOUT, WARNING, INTERVAL, LONG_INTERVAL = 60, 20, 2, 12
JOBS = 10  # seconds between two rounds of the server's background jobs
SLACK = 5  # for a busy machine

POLICY = """
mutation ($input: SetIdlePolicyInput!) {
  setIdlePolicy(input: $input) { userErrors { field message } }
}
"""

CLUSTER = """
query ($id: ID!) { cluster(id: $id) {
  state idleSince idleSeconds idleWarnedAt shutdownAt desiredState endedAt closeReason lastSeenAt
  durationSeconds runReasons { code count } stopRequest { origin reason at }
  usage { threadSeconds costs { amount } }
} }
"""


class Reporting:
    """A Dask cluster that reports, and Galvo's data about it."""

    def __init__(self, galvo, start_cluster, python, interval):
        settings = settings_for(galvo.address, galvo.token)
        settings["galvo.computation.interval"] = f"{interval}s"
        self.galvo = galvo
        self.dask = start_cluster(python, preloads=["galvo"], settings=settings, workers=1)
        self.client = self.dask.client()
        self.client.call("run", workload="squares", first=0, count=4)
        scheduler_id = self.client.call("dask_report")["scheduler_id"]
        self.id = wait_until(lambda: cluster_id(galvo, scheduler_id), "the cluster is known")

    def cluster(self):
        return self.galvo.query(CLUSTER, id=self.id)["cluster"]

    def becomes(self, state, within):
        return wait_until(
            lambda: self.cluster()["state"] == state, f"it is {state}", seconds=within
        )


def test_idleness_before_registration_does_not_count(galvo, start_cluster, every_python):
    """A timeout counts from its configuration, and not from the start of the idleness."""
    timeout = 5.0
    dask = start_cluster(every_python, workers=1)
    settings = {**settings_for(galvo.address, galvo.token), "galvo.idle.timeout": f"{timeout}s"}
    client = dask.client(settings=settings)
    scheduler_id, since = client.call("idle")
    wait_until(lambda: time.time() - since > timeout + 2, "it is idle for longer than that")
    assert client.call("idle")[1] == since
    before = time.time()
    client.call("register_with_galvo")
    known = time.time()
    # On a busy machine the process exits some time after the end that it reports, see below.
    assert dask.scheduler.wait(timeout + 12 * SLACK) == 0
    assert before + timeout < time.time()
    found = wait_until(lambda: cluster_id(galvo, scheduler_id), "the cluster is known")
    stored = galvo.query(CLUSTER, id=found)["cluster"]
    assert (stored["state"], stored["closeReason"]) == ("CLOSED", "idle-timeout-exceeded")
    # The earlier idleness is reported as it is.
    assert abs(seconds(stored["idleSince"]) - since) < 0.5
    assert before + timeout < seconds(stored["endedAt"]) < known + timeout + SLACK


def test_idle_busy_and_lost_clusters(processes, start_cluster, python):
    """An idle cluster is marked and stopped in time, a busy one is not, and a dead one is lost."""
    galvo = GalvoServer(processes).start()
    policy = {"mode": "STOP", "timeoutSeconds": TIMEOUT, "warnBeforeSeconds": WARNING}
    assert galvo.query(POLICY, input=policy)["setIdlePolicy"]["userErrors"] == []
    busy = Reporting(galvo, start_cluster, python, INTERVAL)
    started, end = processes.directory / "started", processes.directory / "end"
    busy.client.begin("run", workload="endless", started=str(started), end=str(end))
    lost = Reporting(galvo, start_cluster, python, LONG_INTERVAL)
    idle = Reporting(galvo, start_cluster, python, INTERVAL)
    wait_until(started.exists, "the endless task runs")

    # The scheduler dies without a last report.
    lost.becomes("IDLE", within=2 * LONG_INTERVAL)
    before = lost.cluster()
    lost.dask.scheduler.send(signal.SIGKILL)
    died = time.time()
    lost.becomes("LOST", within=3 * LONG_INTERVAL + JOBS + SLACK)
    assert time.time() - died >= 2 * LONG_INTERVAL - SLACK
    after = lost.cluster()
    for same in ("usage", "durationSeconds", "lastSeenAt", "idleSince"):
        assert after[same] == before[same], same
    assert seconds(after["endedAt"]) <= died
    assert [reason["code"] for reason in after["runReasons"]] == ["LOST"]

    # The idle one is marked, and stopped by the response to the first report after its timeout.
    idle.becomes("IDLE", within=20)
    idle_since = seconds(idle.cluster()["idleSince"])
    marked = wait_until(lambda: idle.cluster()["idleWarnedAt"], "it is marked", seconds=TIMEOUT)
    assert TIMEOUT - WARNING <= seconds(marked) - idle_since <= TIMEOUT - WARNING + INTERVAL + SLACK
    assert abs(seconds(idle.cluster()["shutdownAt"]) - idle_since - TIMEOUT) < SLACK
    assert idle.dask.scheduler.wait(WARNING + INTERVAL + 2 * SLACK) == 0
    found = idle.cluster()
    assert (found["state"], found["desiredState"]) == ("CLOSED", "STOPPED")
    assert seconds(found["idleSince"]) == idle_since
    assert TIMEOUT <= seconds(found["endedAt"]) - idle_since <= TIMEOUT + INTERVAL + SLACK
    assert found["stopRequest"]["origin"] == "IDLE_POLICY"
    reason = f"requested through Galvo by the idle policy: {found['stopRequest']['reason']}"
    assert found["closeReason"] == reason

    # The busy one has existed for longer.
    wait_until(
        lambda: time.time() - started.stat().st_mtime > TIMEOUT + 2 * INTERVAL, "time goes by"
    )
    assert busy.dask.scheduler.is_running()
    found = busy.cluster()
    assert (found["state"], found["desiredState"], found["idleWarnedAt"]) == (
        "RUNNING",
        "RUNNING",
        None,
    )
    assert (found["idleSeconds"], found["stopRequest"]) == (0, None)
    codes = [reason["code"] for reason in found["runReasons"]]
    assert codes == ["PROCESSING"], found
    end.touch()
    busy.client.answer()
    busy.becomes("IDLE", within=20)
