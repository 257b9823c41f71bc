"""A program whose tasks log, name and raise values that no comm can carry: ``hostile.py WORKLOAD
END``.

It prints as JSON how the workload ended and its scheduler. With ``DASK_GALVO__DISABLED`` it does
the same without Galvo. END is ``close``, of the cluster, or ``shutdown``, by the client.
"""

import json
import logging
import os
import sys
import time
from contextlib import contextmanager, nullcontext, suppress

import galvo
import msgpack
from distributed import Client, LocalCluster, SchedulerPlugin, get_worker, wait
from distributed.security import Security

try:
    from distributed import span
except ImportError:  # the oldest releases have none
    span = None

try:
    from numpy import bool_ as some_bool
    from numpy import float32 as some_float
    from numpy import int64 as some_int
    from numpy import str_ as some_text
except ImportError:  # not every environment has it
    from decimal import Decimal as some_float
    from decimal import Decimal as some_int
    from fractions import Fraction as some_bool
    from string import Template as some_text

LINES = 3000
logging.getLogger("distributed").setLevel(logging.INFO)


class Name(str):
    """A subclass of str that cannot be formatted."""

    def __str__(self):
        raise ValueError("no")

    __repr__ = __format__ = __str__


class Silent:
    def __str__(self):
        raise ValueError("no")

    __repr__ = __str__


class Lost:
    def __repr__(self):
        return "caf\udce9"


class Deep:
    def __str__(self):
        return str(self)


def hostile_values():
    """Returns 40 texts, numbers and objects; created where needed, because few can be pickled."""
    around = []
    around.append(around)
    texts = [
        os.fsdecode(b"caf\xe9.csv"), "\ud800", "\udfff\ud800", "\ud83d\ude00", "nul \0 nul", "",
        "x" * 1_000_000, "\u202eright to left", "\x1b[31mred\x1b[0m", "\r\n\x07\x08",
        "\ufeff\uffff", "%s %d %(x)s", "{0} {x}", "e\u0301" * 500, "\U0001f468\u200d\U0001f469",
        "' \" \\ </script>", Name("of another type"), some_text("its\ud800"), "\u2028\u2029\x85",
    ]  # fmt: skip
    numbers = [
        2**63, 2**64, -(2**70), 10**5000, float("nan"), float("inf"), -float("inf"), -0.0, 5e-324,
        some_int(-1), some_float("nan"), some_bool(True), 1j,
    ]  # fmt: skip
    objects = [
        b"\xff\x00", Silent(), Lost(), Deep(), around, {1: 2, (3,): None}, {"k": Silent()}, object,
    ]  # fmt: skip
    return texts + numbers + objects


def can_travel(value):
    """True if Dask can carry it."""
    try:
        msgpack.packb(value)
    except Exception:
        return False
    return type(value) in (str, int, float, bytes)


def provoke(number):
    value, worker = hostile_values()[number], get_worker()
    # Python's handlers propagate too deep a recursion, and later handlers miss the record.
    with suppress(RecursionError):
        logging.getLogger("distributed.worker").warning("hostile %02d %s", number, value)
    with suppress(RecursionError):
        name = value[:50] if type(value) is str else ""
        logging.getLogger(f"mine.{number}{name}").error(value)
    try:
        raise ValueError(value)
    except ValueError:
        with suppress(RecursionError):
            logging.getLogger("mine").exception("with its traceback")
    if can_travel(value):
        worker.log_event("hostile", {"value": value, "number": number})
        worker.log_event(["hostile", "more"], value)
        worker.metrics[f"hostile-{number}"] = lambda worker: value
    return number


def fail(number):
    value = hostile_values()[number]
    raise ValueError(value if can_travel(value) else "other")


def log_of_scheduler():
    for name in ("distributed.scheduler", "distributed.core"):
        for value in hostile_values():
            with suppress(RecursionError):
                logging.getLogger(name).warning("hostile %s", value)


def hostile(client):
    values = hostile_values()
    assert len(values) == 40
    log_of_scheduler()
    futures = client.map(provoke, range(40), pure=False)
    wait(futures, timeout=60)
    named = []
    for number, value in enumerate(values):
        if type(value) is str and can_travel(value) and value:
            text = f"{value[:2000]}-{number}"
            with span(text) if span else nullcontext():
                named.append(client.submit(abs, -number, key=text))
    wait(named, timeout=60)
    failed = client.map(fail, range(40), pure=False)
    wait(failed, timeout=60)
    time.sleep(1.5)  # heartbeats, and reports
    return {
        "done": client.gather(futures),
        "named": client.gather(named),
        "failed": [future.status for future in failed],
    }


def work(number):
    name = os.fsdecode(b"caf\xe9.csv")
    logging.getLogger("distributed.worker").warning("cannot read %s in %d", name, number)
    logging.getLogger("mymodule").warning("cannot read %s in %d", name, number)
    return number


def surrogate(client):
    futures = client.map(work, range(3), pure=False)
    wait(futures, timeout=15)
    more = client.map(work, range(3, 6), pure=False)
    wait(more, timeout=15)
    return {"done": client.gather(futures + more)}


def log_much(lines):
    logger = logging.getLogger("distributed.worker")
    for number in range(lines):
        logger.info("row %d", number)
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        logger.exception("giving up")
    return lines


def flood(client):
    return {"done": [client.submit(log_much, LINES).result(60)]}


class Observer(SchedulerPlugin):
    name = "observer"

    def __init__(self):
        self.joined = self.left = 0

    def add_worker(self, scheduler, worker):
        self.joined += 1

    def remove_worker(self, scheduler, worker, **kwargs):
        self.left += 1
        print(f"{worker} left: {kwargs}", file=sys.stderr)


@contextmanager
def cluster_of(workload):
    options = {"n_workers": 1 if workload == "flood" else 2}
    if workload == "hostile-tls":
        options.update(security=Security.temporary(), protocol="tls://")
    with LocalCluster(
        threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0, **options
    ) as cluster:
        yield cluster


def main(workload, end):
    observer, began = Observer(), time.monotonic()
    with cluster_of(workload) as cluster:
        client = Client(cluster, security=cluster.security)
        scheduler = cluster.scheduler

        async def observe():
            scheduler.add_plugin(observer)

        cluster.sync(observe)
        galvo.register(client)
        if workload == "hostile-adaptive":
            cluster.adapt(minimum=2, maximum=3)
        outcome = globals()[workload.partition("-")[0]](client)
        outcome.update(joined=observer.joined, left=observer.left)
        if end == "shutdown":
            client.shutdown()
        client.close()
    outcome["seconds"] = time.monotonic() - began
    print(json.dumps({"scheduler_id": scheduler.id, **outcome}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
