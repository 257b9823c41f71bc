"""The disk of an SQLite store is full."""

import time

from processes import wait_until

from databases import empty, fill, small_disk
from servers import probing


def test_disk_full(make_server, make_fleet, tmp_path, outcome):
    with small_disk(tmp_path / "disk", 12) as disk:
        server = make_server(f"sqlite://{disk}/galvo.db?mode=rwc").start()
        fleet = make_fleet(server)
        fleet.until_some_moment()
        with probing(server) as probes:
            fill(disk)
            fell = time.monotonic()

            def is_full():
                return any(r.answers[-1].status != 200 for r in fleet.reporters)

            wait_until(is_full, "the disk is full", 60)
            time.sleep(2.0)
            fleet.pause()
            outcome.judge(fleet, server)
            fleet.resume()
            empty(disk)
            recovery = fleet.wait_for_progress(1)
        refused = [answer for answer in fleet.answers(fell) if answer.status != 200]
        assert refused
        odd = [answer for answer in refused if answer.status != 503 or not answer.retry_after]
        assert not odd, odd[:5]
        assert max(answer.seconds for answer in refused) < 6.0
        assert {health.status for _, health in probes["/healthz"]} == {200}
        fleet.wait_for_progress(3)
        fleet.settle()
        verdict = outcome.judge(fleet, server)
        outcome.write("SQLite's disk full", verdict, recovery, store="sqlite")
        server.kill()
