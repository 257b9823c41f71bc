"""Redis is down, and returns: reports continue, and subscribers get what they missed."""

import time

import pytest
from processes import wait_until

from subscribers import assert_right, watch


def live(server):
    health = server.probe("/readyz")
    return health.status == 200 and health.body["live"]


@pytest.mark.parametrize("how", ["killed", "cut off"])
def test_away(postgres, make_redis, make_wire, make_server, make_fleet, outcome, dice, how):
    redis = make_redis()
    wire = make_wire(redis.port)
    url, bus = postgres.make_database(), {"GALVO_REDIS_URL": redis.url(wire.port)}
    here = make_server(url, environment=bus).start()
    there = make_server(url, environment=bus).start()
    there.token = here.token
    for server in (here, there):
        wait_until(lambda server=server: live(server) == "whole", "Redis is there")
    # Reports to one server are watched at the other.
    subscriber = watch(here)
    fleet = make_fleet(there)
    fleet.wait_for_progress(5)
    wait_until(lambda: len(subscriber.clusters) == fleet.size, "clusters are received", 30)

    fell = time.monotonic()
    if how == "killed":
        redis.kill()
    else:
        wire.black_out()
    for server in (here, there):
        wait_until(lambda server=server: live(server) == "alone", "Redis is missed", 40)
    missed = time.monotonic() - fell
    fleet.wait_for_progress(5)
    time.sleep(dice.uniform(0.0, 1.0))
    assert {answer.status for answer in fleet.answers(fell)} == {200}
    if how == "killed":
        redis.start()
    else:
        wire.light_up()
    rose = time.monotonic()
    for server in (here, there):
        wait_until(lambda server=server: live(server) == "whole", "Redis is there again", 40)
    recovery = time.monotonic() - rose
    fleet.wait_for_progress(5)
    fleet.settle()
    assert_right(subscriber, here, fleet)
    subscriber.close()
    note = f"/readyz reported it after {missed:.0f} s; no report failed, no subscriber was wrong"
    outcome.write(f"Redis {how}, and back", outcome.judge(fleet, here), recovery, note=note)
