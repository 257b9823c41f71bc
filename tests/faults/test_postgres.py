"""PostgreSQL is down, returns, fails over, is slow, full or cut off.

The server stays up, reports its state, and recovers by itself.
"""

import time

import pytest
from processes import wait_until

from databases import DatabaseError, empty, fill, small_disk
from servers import probing

# The time within which reporters and load balancers must get a response.
PROMPT_SECONDS = 6.0
# The time within which a request to a disconnected database must get a response.
LOST_SECONDS = 18.0


def assert_prompt_refusals(fleet, since, until, within=PROMPT_SECONDS):
    """Asserts that all refusals in this time were prompt, with 503 and Retry-After."""
    answers = fleet.answers(since, until)
    refused = [answer for answer in answers if answer.status != 200]
    assert refused, "nobody noticed"
    odd = [answer for answer in refused if answer.status != 503 or not answer.retry_after]
    assert not odd, odd[:5]
    slow = [answer for answer in answers if answer.seconds > within]
    assert not slow, slow[:5]
    return refused


def assert_health(probes, since, until, within=PROMPT_SECONDS):
    """Asserts that it was alive all the time, and reported that it was not ready."""
    alive = [health for at, health in probes["/healthz"]]
    assert {health.status for health in alive} == {200}
    assert max(health.seconds for health in alive) < 2.0
    # The probes within this time.
    ready = [h for at, h in probes["/readyz"] if at - h.seconds > since and at < until]
    assert ready, "it did not answer"
    assert {health.status for health in ready} == {503}, ready
    assert max(health.seconds for health in ready) < within


@pytest.fixture
def begun(postgres, make_server, make_fleet):
    """A server on PostgreSQL with reporters."""
    server = make_server(postgres.make_database()).start()
    fleet = make_fleet(server)
    fleet.until_some_moment()
    return server, fleet


def conclude(fault, fleet, server, outcome, recovery, note=""):
    """Writes the result. ``recovery`` is the time until each reporter had a report acknowledged."""
    fleet.wait_for_progress(3)
    fleet.settle()
    outcome.write(fault, outcome.judge(fleet, server), recovery, note=note)


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_stopped(postgres, begun, outcome, dice, length, how):
    server, fleet = begun
    with probing(server) as probes:
        fell = time.monotonic()
        if how == "kill":
            postgres.kill()
        else:
            postgres.stop(how)
        down = time.monotonic()
        time.sleep(7.0 + dice.uniform(0.0, 2.0 * length))
        rises = time.monotonic()
        postgres.start()
        began = time.monotonic()
        recovery = fleet.wait_for_progress(1)
    server.wait_until_ready()
    assert_prompt_refusals(fleet, down, rises - PROMPT_SECONDS / 2)
    assert_health(probes, down + 0.2, rises)
    names = {
        "fast": "PostgreSQL stopped (fast) and started",
        "immediate": "PostgreSQL stopped (immediate), recovered",
        "kill": "PostgreSQL killed (SIGKILL), recovered",
    }
    conclude(names[how], fleet, server, outcome, recovery, f"away for {began - fell:.0f} s")


def test_failing_over(make_postgres, make_server, make_fleet, make_wire, outcome):
    """The standby has all commits, because they waited for it."""
    primary = make_postgres()
    directory = primary.directory.with_name(primary.directory.name + "-standby")
    primary.make_database()
    standby = primary.make_standby(directory)
    wire = make_wire(primary.port)
    server = make_server(primary.url(port=wire.port)).start()
    fleet = make_fleet(server, pace=0.005)
    fleet.until_some_moment()
    with probing(server) as probes:
        fell = time.monotonic()
        primary.kill()
        time.sleep(2.0)
        standby.promote()
        wire.targets[:] = [standby.port]
        switched = time.monotonic()
        recovery = fleet.wait_for_progress(1)
    assert_prompt_refusals(fleet, fell + 0.1, switched - 1.0)
    alive = [health for _, health in probes["/healthz"]]
    assert {health.status for health in alive} == {200}
    server.wait_until_ready()
    fleet.pause()
    outcome.judge(fleet, server)
    fleet.resume()
    conclude("PostgreSQL failed over to a synchronous standby", fleet, server, outcome, recovery)


def test_only_reading(postgres, begun, outcome):
    """A former primary, and a standby before its promotion, are read-only: that is temporary, and
    no defect.
    """
    server, fleet = begun
    with postgres.session("postgres") as session:
        fell = time.monotonic()
        session.run("ALTER SYSTEM SET default_transaction_read_only = on")
        session.run("SELECT pg_reload_conf()")
        time.sleep(2.0)
        rises = time.monotonic()
        session.run("SET default_transaction_read_only = off")
        session.run("ALTER SYSTEM RESET default_transaction_read_only")
        session.run("SELECT pg_reload_conf()")
        recovery = fleet.wait_for_progress(1)
    assert_prompt_refusals(fleet, fell + 0.5, rises)
    conclude("PostgreSQL took no changes (read-only)", fleet, server, outcome, recovery)


def test_out_of_connections(postgres, begun, outcome):
    server, fleet = begun
    sessions = []
    with postgres.session("postgres") as operator:

        def take_all():
            try:
                sessions.append(postgres.session())
                return False
            except DatabaseError:
                others = [str(session.run("SELECT pg_backend_pid()")[0][0]) for session in sessions]
                # The server's own connections end, and it finds their slots taken.
                ended = operator.run(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    f" WHERE usename = 'galvo' AND pid NOT IN ({','.join(others)})"
                )
                return not ended

        with probing(server) as probes:
            wait_until(take_all, "all connections are taken", 60)
            for _ in range(10):  # some were being opened
                time.sleep(0.1)
                wait_until(take_all, "all connections are taken", 60)
            fell = time.monotonic()
            time.sleep(8.0)
            rises = time.monotonic()
            for session in sessions:
                session.close()
            recovery = fleet.wait_for_progress(1)
    assert_prompt_refusals(fleet, fell, rises - 3.5)
    assert_health(probes, fell + 0.5, rises)
    conclude("PostgreSQL out of connections", fleet, server, outcome, recovery)


def test_slow(postgres, make_server, make_fleet, make_wire, outcome):
    """Reports that cannot be stored in time are refused; nothing queues up."""
    postgres.make_database()
    wire = make_wire(postgres.port)
    server = make_server(postgres.url(port=wire.port)).start()
    fleet = make_fleet(server)
    fleet.until_some_moment()
    with probing(server) as probes:
        fell = time.monotonic()
        wire.delay = 0.05
        time.sleep(6.0)
        wire.delay = 0.0
        recovery = fleet.wait_for_progress(1)
    answers = fleet.answers(fell)
    assert {answer.status for answer in answers} <= {200, 503}
    assert max(answer.seconds for answer in answers) < LOST_SECONDS
    assert {health.status for _, health in probes["/healthz"]} == {200}
    assert max(health.seconds for _, health in probes["/readyz"]) < PROMPT_SECONDS
    slow = sorted(answer.seconds for answer in answers)
    note = f"50 ms a packet; reports took up to {slow[-1]:.1f} s"
    conclude("PostgreSQL slow", fleet, server, outcome, recovery, note)


def test_cut_off(postgres, make_server, make_fleet, make_wire, outcome):
    """There are no responses and no errors. Old connections never revive."""
    postgres.make_database()
    wire = make_wire(postgres.port)
    server = make_server(postgres.url(port=wire.port)).start()
    # Some connections always have a request in flight, and others have none at that time.
    fleet, others = make_fleet(server, pace=0.005), make_fleet(server, pace=1.0)
    fleet.until_some_moment()
    others.wait_for_progress(1)
    with probing(server) as probes:
        fell = time.monotonic()
        wire.black_out()
        time.sleep(9.0)
        rises = time.monotonic()
        wire.light_up()
        recovery = others.wait_for_progress(1)
        recovery += fleet.wait_for_progress(1)
    assert_prompt_refusals(others, fell + 0.1, rises - PROMPT_SECONDS / 2)
    assert_health(probes, fell + 0.5, rises)
    longest = max(answer.seconds for answer in fleet.answers(fell - 2.0))
    assert longest < LOST_SECONDS
    others.settle()
    outcome.judge(others, server)
    note = f"for 9 s; what was under way was answered after {longest:.0f} s at the latest"
    conclude("network to PostgreSQL cut, unnoticed", fleet, server, outcome, recovery, note)


def test_disk_full(make_postgres, tmp_path, make_server, make_fleet, outcome):
    """With the tables' disk full, reports wait, and stored data can still be read."""
    postgres = make_postgres()
    with small_disk(tmp_path / "disk", 80, owner="postgres") as disk:
        tmp_path.chmod(0o711)
        with postgres.session("postgres") as session:
            session.run(f"CREATE TABLESPACE small LOCATION '{disk}'")
        server = make_server(postgres.make_database(tablespace="small")).start()
        fleet = make_fleet(server, pace=0.005)
        fleet.until_some_moment()
        with probing(server) as probes:
            fill(disk)
            fell = time.monotonic()

            def is_full():
                last = [reporter.answers[-1] for reporter in fleet.reporters]
                return any(answer.status != 200 for answer in last)

            wait_until(is_full, "the disk is full", 60)
            time.sleep(2.0)
            fleet.pause()
            outcome.judge(fleet, server)
            fleet.resume()
            empty(disk)
            recovery = fleet.wait_for_progress(1)
        assert_prompt_refusals(fleet, fell, float("inf"))
        assert {health.status for health in [h for _, h in probes["/healthz"]]} == {200}
        conclude("PostgreSQL's disk full", fleet, server, outcome, recovery)
        server.kill()
        postgres.stop("immediate")
