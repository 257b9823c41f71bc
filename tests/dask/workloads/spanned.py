"""Work in spans, and work with known time, code and profile.

As in ``tasks``, tasks are pickled by name.
"""

import inspect
import time

import dask
import dask.array
from distributed import span, wait
from tasks import add, fail, square, succeed_at_last, wait_until_forgotten

PAUSE = 0.1


def pause():
    time.sleep(PAUSE)  # all the time is spent here


def spend(number, pauses):
    for _ in range(pauses):
        pause()
    return number


def compute(client, function, *arguments):
    """Computes and forgets, so that the same function in another span gets a new group."""
    client.gather(client.map(function, *arguments))
    wait_until_forgotten(client, function.__name__)


def array(client, first):
    x = dask.array.arange(first, first + 10_000, chunks=2_500).reshape(100, 100)
    (x + x.T).sum(axis=0).compute()


def shuffle(client):
    """Transfers blocks directly between workers, if this release of Dask can."""
    x = dask.array.ones((400, 400), chunks=(400, 50))
    x.rechunk((50, 400), method="p2p").sum().compute()


def nested(client, attempts, p2p):
    """Runs spans at up to three levels, with tags that occur at several of them. Holds the last."""
    compute(client, square, range(2))  # in a span of Dask's own
    with span("pipeline"):
        compute(client, square, range(4))
        array(client, 0)
        with span("train"):
            for fold in range(3):
                with span(f"fold={fold}"):
                    compute(client, square, range(10 * fold, 10 * fold + fold + 1))
                    compute(client, add, range(fold + 1), range(fold + 1))
            array(client, 1)
        with span("store", "parquet"):
            array(client, 2)
    with span("fold=1"):
        compute(client, add, range(3), range(3))
        with span("train"):
            compute(client, square, range(50, 53))
    with span("risky", "parquet"):
        failed = client.submit(fail, 7)
        late = client.submit(succeed_at_last, attempts, 3, retries=5)
        wait([failed, late], timeout=60)
    if p2p:
        with span("shuffle"):
            shuffle(client)
    return {"held": [failed, late]}


def shift(client, rounds, threads, pauses):
    """Keeps all threads busy for some periods, with gaps between them."""
    begun = time.perf_counter()
    with span("shift"):
        for number in range(rounds):
            if number:
                time.sleep(0.5)
            first = number * threads
            futures = client.map(spend, range(first, first + threads), pauses=pauses)
            wait(futures, timeout=60)
            seconds = time.perf_counter() - begun
            del futures
    return {"held": [], "wall": seconds}


def call_often(client, times):
    """Calls Dask repeatedly from the same code."""
    with span("calls"):
        for number in range(times):
            client.submit(add, number, 1).result()
    return {
        "held": [],
        "source": inspect.getsource(call_often),
        "calling": "client.submit(add, number, 1).result()",
        "file": __file__,
    }


def spans_of_coiled(client, number):
    """Returns the coiled client's data about a span, sent for the cluster with this number."""
    import coiled
    import coiled.spans

    class Cluster:
        def add_span(self, span_identifier, data):
            with coiled.Cloud() as cloud:
                cloud._sync(
                    cloud._add_cluster_span,
                    cluster_id=number,
                    workspace=None,
                    span_identifier=span_identifier,
                    data=data,
                )

    begun = time.time()
    code = "read()\nwrite()\n"
    with coiled.spans.span(Cluster(), name="told", callstack=[(code, "etl.py", 1)]):
        compute(client, square, range(70, 72))
    return {"held": [], "begun": begun, "ended": time.time(), "code": code}


def shift_of_kinds(client, attempts, pauses):
    """Runs known numbers of everything that usage counts."""
    array(client, 0)
    compute(client, spend, range(4), [pauses] * 4)
    compute(client, square, range(8))
    held = client.map(fail, range(3))
    held.append(client.submit(succeed_at_last, attempts, 3, retries=5))
    wait(held, timeout=60)
    return {"held": held}
