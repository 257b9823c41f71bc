"""The demo's workload: chunks of numbers, their reduction, and one task that fails."""

import sys

CHUNKS = 24
ERROR_TEXT = "this demo task fails on purpose"


def make_chunk(number):
    import numpy

    return numpy.arange(1_000) + number


def add_up(chunks):
    return int(sum(chunk.sum() for chunk in chunks))


def fail_on_purpose(total):
    raise ValueError(f"{ERROR_TEXT}, after a total of {total}")


# The expected number of tasks by prefix.
TASKS = {"make_chunk": CHUNKS, "add_up": 1, "fail_on_purpose": 1}


def main(scheduler_file):
    from distributed import Client

    with Client(scheduler_file=scheduler_file, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        total = client.submit(add_up, client.map(make_chunk, range(CHUNKS)))
        error = client.submit(fail_on_purpose, total).exception(timeout=60)
        print(f"total: {total.result(timeout=60)}")
        print(f"error: {error!r}")


if __name__ == "__main__":
    main(sys.argv[1])
