"""A cluster behaves as without Galvo, regardless of what its tasks log, name and raise."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from accounts import cluster_id, everything
from conftest import settings_for
from observed import EVENTS, LOGS
from processes import WORKLOADS, run_to_end, wait_until
from test_task_outcomes import start_reporting_cluster

DROPPED = """
query ($id: ID!) { cluster(id: $id) { state dropped { logs events errors samples } } }
"""


def run(python, galvo, directory, workload, end="close", disabled=False):
    directory.mkdir()
    settings = {**settings_for(galvo.address, galvo.token), "galvo.disabled": disabled}
    settings["distributed.comm.timeouts.connect"] = "60s"  # the machine is shared
    arguments = [python, WORKLOADS / "hostile.py", workload, end]
    printed = run_to_end(arguments, directory, settings)
    return json.loads(printed.splitlines()[-1])


def closed(galvo, scheduler_id):
    def look():
        id_ = cluster_id(galvo, scheduler_id)
        found = id_ and galvo.query(DROPPED, id=id_)["cluster"]
        return found if found and found["state"] == "CLOSED" else None

    return wait_until(look, "the cluster is closed")


def lines_of(galvo, scheduler_id, logger):
    lines = everything(galvo, LOGS, scheduler_id)
    return [line for line in lines if line["logger"] == logger]


def test_a_file_name_that_is_no_text(every_python, galvo, tmp_path):
    found = run(every_python, galvo, tmp_path / "with", "surrogate")
    assert found["done"] == [0, 1, 2, 3, 4, 5] and (found["joined"], found["left"]) == (0, 0)
    assert closed(galvo, found["scheduler_id"])["dropped"]["logs"] == 0
    expected = sorted(rf"cannot read caf\udce9.csv in {number}" for number in range(6))
    lines = everything(galvo, LOGS, found["scheduler_id"])
    for logger in ("distributed.worker", "mymodule"):
        messages = [line["message"] for line in lines if line["logger"] == logger]
        assert sorted(text for text in messages if "cannot read" in text) == expected


@pytest.mark.parametrize("end", ["close", "shutdown"])
def test_a_flood_of_lines_before_an_exception(every_python, galvo, tmp_path, end):
    """It ends at once, and yet every line is stored or counted, including the exception."""
    found = run(every_python, galvo, tmp_path / "with", "flood", end)
    assert found["done"] == [3000] and found["left"] == 0
    dropped = closed(galvo, found["scheduler_id"])["dropped"]["logs"]
    lines = everything(galvo, LOGS, found["scheduler_id"])
    flood = [line for line in lines if line["message"].startswith("row ")]
    rows = [line["message"] for line in flood]
    # Some of the 210 sent lines may be others of the worker, but only rows are left out. Each
    # second that the flood lasts longer, the last 10 lines so far are sent as well.
    times = [datetime.fromisoformat(line["at"]) for line in flood]
    seconds = (max(times) - min(times)).total_seconds()
    assert len(rows) + dropped == 3000
    assert 190 <= len(rows) <= 210 + 10 * int(seconds) and "row 2999" in rows
    notices = [line["message"] for line in lines if line["logger"] == "galvo"]
    assert sum(int(text.split()[0]) for text in notices if "left out here" in text) == dropped
    (error,) = [line for line in lines if line["message"].startswith("giving up")]
    assert error["level"] == "ERROR"
    assert "ZeroDivisionError: division by zero" in error["message"]


def test_hostile_values_in_every_comm(every_python, galvo, tmp_path):
    """40 hostile values have the same effect on a workload with and without Galvo."""
    workloads = ("hostile", "hostile-tls", "hostile-adaptive")
    with ThreadPoolExecutor(2) as several:
        without = several.submit(
            run, every_python, galvo, tmp_path / "without", "hostile", disabled=True
        )
        runs = {
            workload: several.submit(run, every_python, galvo, tmp_path / workload, workload)
            for workload in workloads
        }
    expected = without.result()
    assert cluster_id(galvo, expected.pop("scheduler_id")) is None
    seconds = expected.pop("seconds")
    assert expected["done"] == list(range(40)) and (expected["joined"], expected["left"]) == (0, 0)
    for workload, outcome in runs.items():
        found = outcome.result()
        id_ = found.pop("scheduler_id")
        # The machine is shared, and TLS and adaptive scaling take time of their own.
        assert found.pop("seconds") < 2 * seconds + 20
        if workload == "hostile-adaptive":  # it may add a third worker, and remove it
            assert 0 <= found.pop("left") <= found.pop("joined")
            expected = {name: expected[name] for name in found}
        assert found == expected, workload
        closed(galvo, id_)
        lines = lines_of(galvo, id_, "distributed.worker")
        received = {
            line["message"][:10] for line in lines if line["message"].startswith("hostile ")
        }
        unseen = [f"hostile {n:02}" for n in range(40) if f"hostile {n:02}" not in received]
        # These fail when formatted, so their numbers are not in the line either.
        shown = [line for line in lines if line["message"].startswith("hostile %02d %s [its")]
        # One of them recurses too deeply for Dask's handlers, which come first.
        assert len(unseen) - 1 == sum(line["repeated"] for line in shown)
        events = [e for e in everything(galvo, EVENTS, id_) if e["topic"] in ("hostile", "more")]
        numbers = {e["data"]["number"] for e in events if isinstance(e["data"], dict)}
        assert len(events) == 3 * len(numbers) > 0


def test_hostile_values_take_no_longer(python, galvo, tmp_path):
    """The workload takes as long with Galvo as without.

    One of three pairs of runs has to show it, since the machine is shared.
    """
    pairs = []
    for attempt in range(3):
        without, with_galvo = (
            run(python, galvo, tmp_path / f"{attempt}-{disabled}", "hostile", disabled=disabled)
            for disabled in (True, False)
        )
        pairs.append((without["seconds"], with_galvo["seconds"]))
        # Galvo's own time: the answer to `register`, and the last report.
        if with_galvo["seconds"] < 1.2 * without["seconds"] + 2:
            return
    raise AssertionError(pairs)


def test_hostile_values_of_a_nanny(every_python, galvo, start_cluster):
    """A nanny that logs the 40 values keeps its worker, and the values that have a text arrive."""
    dask = start_reporting_cluster(
        start_cluster,
        every_python,
        galvo,
        nanny=True,
        workers=1,
        worker_arguments=[f"--preload-nanny={WORKLOADS / 'hostile_nanny.py'}"],
    )
    client = dask.client()
    scheduler, _ = client.call("idle")

    def received():
        id_ = cluster_id(galvo, scheduler)
        lines = lines_of(galvo, scheduler, "distributed.nanny") if id_ else []
        nannys = [line["message"][:10] for line in lines if line["source"] == "NANNY"]
        return {text for text in nannys if text.startswith("hostile ") and text[8:].isdigit()}

    # Five of them raise when they are formatted.
    wait_until(lambda: len(received()) == 35, "the nanny's lines have arrived")
    client.call("run", workload="squares", first=0, count=4)
    report = client.call("dask_report")
    assert (report["workers_now"], report["errors"]) == (1, [])
    assert dask.workers[0].popen.poll() is None
