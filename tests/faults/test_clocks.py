"""Clock jumps: the server's clock by hours under load; wrong or jumping clocks of schedulers."""

import time
from datetime import datetime

from processes import wait_until

from clocks import Clock
from reporters import Reporter, Scheduler
from subscribers import assert_right, watch

HOUR = 3600.0


class Jumping:
    """A scheduler's clock that is corrected now and then."""

    def __init__(self, dice):
        self._dice = dice

    def __call__(self):
        return time.time() + self._dice.choice((0.0, 0.0, 0.0, 30.0, -45.0))


def states(server):
    """Returns the time of each scheduler's last report, and its cluster's state."""
    query = """{ viewer { account { clusters(first: 100) { nodes {
      schedulerId lastSeenAt state } } } } }"""
    nodes = server.query(query)["viewer"]["account"]["clusters"]["nodes"]
    return {
        n["schedulerId"]: (datetime.fromisoformat(n["lastSeenAt"]).timestamp(), n["state"])
        for n in nodes
    }


def shown_by(server, dice):
    """Returns the server's clock, from the first report of a new cluster."""
    scheduler = Scheduler("newcomer", dice)
    newcomer = Reporter(scheduler, server.port, server.token, dice, 1.0)
    assert newcomer.send(scheduler.next_report()), newcomer.answers
    return states(server)[scheduler.id][0]


def test_jump(make_server, database_url, make_fleet, tmp_path, outcome, dice):
    clock = Clock(tmp_path)
    server = make_server(database_url, environment=clock.environment).start()
    clocks = (
        time.time,
        lambda: time.time() + 5 * HOUR,
        lambda: time.time() - 30 * HOUR,
        Jumping(dice),
    )
    subscriber = watch(server)
    fleet = make_fleet(server, clocks=clocks)
    fleet.wait_for_progress(5)
    began = time.monotonic()
    for offset in (2 * HOUR, -3 * HOUR, dice.uniform(-60, 60), 0.0):
        clock.set(offset)
        fleet.wait_for_progress(5)
        assert abs(shown_by(server, dice) - time.time() - offset) < 10
        time.sleep(1.0)
    # Longer than the interval of the search for lost clusters.
    wait_until(lambda: time.monotonic() > began + 12, "it looked for lost clusters", 30)
    fleet.wait_for_progress(5)
    fleet.settle()
    assert {answer.status for answer in fleet.answers()} == {200}
    known = states(server)
    for reporter in fleet.reporters:
        assert known[reporter.scheduler.id][1] not in ("LOST", "CLOSED")
    assert_right(subscriber, server, fleet)
    subscriber.close()
    note = (
        "server by +2 h, −3 h and back; schedulers by +5 h, −30 h and to and fro; no report failed"
    )
    outcome.write("clocks jump", outcome.judge(fleet, server), note=note)
