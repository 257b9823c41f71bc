"""Replicas of one store are replaced while schedulers report and clients subscribe."""

import time

from processes import wait_until

from subscribers import assert_right, watch


def test_rolling(postgres, make_redis, make_wire, make_server, make_fleet, outcome, length):
    """Each of two replicas is stopped and replaced, twice, behind a proxy."""
    redis = make_redis()
    url, bus = postgres.make_database(), {"GALVO_REDIS_URL": redis.url()}
    first = make_server(url, environment=bus).start()
    replicas = [first, make_server(url, environment=bus).start()]
    proxy = make_wire(*(replica.port for replica in replicas), rotate=True)
    subscribers = [watch(first, proxy.port) for _ in range(4)]
    wait_until(lambda: all(s.connections for s in subscribers), "subscribers are there")
    fleet = make_fleet(first, size=6, port=proxy.port)
    fleet.wait_for_progress(5)
    slowest = 0.0
    turns = round(4 * length)
    for turn in range(turns):
        old = replicas[turn % 2]
        new = make_server(url, environment=bus)
        new.token = first.token
        new.start()
        proxy.targets.append(new.port)
        requested = time.monotonic()
        old.request_stop()
        proxy.targets.remove(old.port)
        assert old.process.wait(25) == 0
        slowest = max(slowest, time.monotonic() - requested)
        replicas[turn % 2] = new
        fleet.wait_for_progress(5)
    fleet.settle()
    survivor = replicas[0]
    for subscriber in subscribers:
        assert_right(subscriber, survivor, fleet)
        # The close code states that the server is stopping, so clients reconnect.
        assert set(subscriber.closes) <= {1001}, subscriber.closes
        subscriber.close()
    moved = sum(len(subscriber.closes) for subscriber in subscribers)
    assert moved >= 2
    # A kept-alive connection may end just when a request is sent, so some are sent twice; none is
    # refused.
    answers = fleet.answers()
    assert {answer.status for answer in answers} <= {200, None}
    again = sum(answer.status is None for answer in answers)
    note = f"{turns} replacements, {moved} subscribers moved, {again} reports were sent twice"
    outcome.write("replica replaced under load", outcome.judge(fleet, survivor), slowest, note=note)


def test_open_reports_are_answered(postgres, make_server, make_fleet, outcome):
    """Reports in flight when the server is stopped are stored and acknowledged."""
    server = make_server(postgres.make_database()).start()
    fleet = make_fleet(server, repeats=0.0)
    fleet.until_some_moment()
    with postgres.session(database="galvo") as session:
        session.run("BEGIN")
        session.run("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
        time.sleep(0.5)  # by now all of them wait for it
        known = len(fleet.answers())
        for reporter in fleet.reporters:
            reporter.pause()
        server.request_stop()
        time.sleep(1.0)
        assert server.process.is_running()
        committed = time.monotonic()
        session.run("COMMIT")
    assert server.process.wait(25) == 0
    took = time.monotonic() - committed
    fleet.pause()
    answers = fleet.answers()
    assert len(answers) == known + fleet.size
    assert {answer.status for answer in answers} == {200}
    server.start()
    outcome.judge(fleet, server)
    fleet.resume()
    fleet.wait_for_progress(1)
    fleet.settle()
    note = "every report under way was answered"
    fault = "server stopped (SIGTERM) with open reports"
    outcome.write(fault, outcome.judge(fleet, server), took, note=note)
