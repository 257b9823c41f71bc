"""Measures a steady report of a large cluster: its size, and how long it blocks the event loop.

A real scheduler with the real plugin has workers that exist only in the scheduler's state. Between
two reports all of them send a heartbeat, and a few computations progress. Everything that the event
loop runs is timed, and the plugin's parts are separated from the rest.

Times are CPU times of the event loop's thread, so that other load on the machine does not add to
them. The reference, measured before every report, is to write 500 x 14 numbers as JSON.
"""

import argparse
import asyncio
import functools
import gc
import gzip
import json
import math
import random
import statistics
import sys
import time
from asyncio import events

from distributed import Scheduler
from large_cluster import GROUPS, WORKERS, LargeCluster, configure
from responder import Responder
from results import result

from galvo.plugin import CoiledTelemetry, collector, ledger, read_settings, report_sender, samples

LARGEST_BYTES, LONGEST_MILLISECONDS = 250_000, 10.0
WARM_UP_SECONDS = 70.0
# The functions through which the event loop enters the plugin, apart from Dask's hooks.
ENTRANCES = (
    (CoiledTelemetry, "_tick"), (CoiledTelemetry, "_on_delivered"),
    (report_sender.ReportSender, "_message"), (report_sender.ReportSender, "_settle"),
    (ledger.Ledger, "build"),
    (ledger.Ledger, "find_changed_groups"), (ledger.Ledger, "read_marked_groups"),
    (samples.Samples, "_sample_if_due"),
)  # fmt: skip


class Clock:
    """Times the steps of the event loop, and the plugin's parts in them."""

    def __init__(self):
        self.steps = []  # CPU and wall milliseconds of those with a part of the plugin
        self.parts = {}  # the longest by name
        self._inside = self._own = False

    def watch(self):
        for kind, name in ENTRANCES:
            setattr(kind, name, self._timed(kind.__name__ + "." + name, getattr(kind, name)))
        call_one = collector.Collectors.call_one

        def call_timed(collectors, target, method, *arguments):
            self._inside = True
            timed = method == "read"
            called = self._timed(type(target).__name__ + ".read", call_one) if timed else call_one
            called(collectors, target, method, *arguments)

        collector.Collectors.call_one = call_timed
        run = events.Handle._run

        def run_timed(handle):
            self._inside = self._own = False
            wall, processor = time.perf_counter(), time.thread_time()
            run(handle)
            if self._inside and not self._own:
                self.steps.append(
                    (1e3 * (time.thread_time() - processor), 1e3 * (time.perf_counter() - wall))
                )

        events.Handle._run = run_timed

    def _timed(self, name, function):
        @functools.wraps(function)
        def timed(*args, **kwargs):
            self._inside = True
            start = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                milliseconds = 1e3 * (time.thread_time() - start)
                self.parts.setdefault(name, []).append(milliseconds)

        return timed

    def leave_out(self):
        """Marks the present step as part of the benchmark itself."""
        self._own = True

    def clear(self):
        self.steps.clear()
        self.parts.clear()


def reference_milliseconds(numbers):
    start = time.thread_time()
    text = json.dumps(numbers)
    return 1e3 * (time.thread_time() - start), text


async def measure(options, clock, responder):
    settings = read_settings(responder.address, "a-token-of-this-benchmark")
    # There are no worker processes to reach.
    settings.update(worker_plugin=False, interval_seconds=options.interval)
    numbers = [[random.random() for _ in range(14)] for _ in range(WORKERS)]
    references = []
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        cluster = LargeCluster(scheduler, options.seed)
        plugin = CoiledTelemetry(settings)
        scheduler.add_plugin(plugin, name=plugin.name)
        await plugin.start(scheduler)
        await cluster.add_workers()
        clock.leave_out()
        cluster.add_tasks()
        clock.clear()

        async def interval(computations):
            """Spreads heartbeats over the time until the next report has been accepted."""
            count = len(responder.reports())
            clock.leave_out()
            cluster.advance(computations)
            pieces = max(1, int(options.interval / 0.25))
            for piece in range(pieces):
                clock.leave_out()
                cluster.heartbeats(cluster.addresses[piece::pieces])
                await asyncio.sleep(options.interval / pieces * 0.95)
            while len(await asyncio.to_thread(responder.reports)) == count:
                await asyncio.sleep(0.1)

        # The first reports contain everything. The steady state begins once all spans have settled.
        for _ in range(math.ceil(WARM_UP_SECONDS / options.interval)):
            await interval(range(options.active))
        first, first_reports = list(clock.steps), len(responder.reports())
        first_parts = {name: max(milliseconds) for name, milliseconds in clock.parts.items()}
        clock.clear()
        steady = []  # the steps of each report
        for _ in range(options.reports):
            references.append(reference_milliseconds(numbers)[0])
            clock.steps.clear()
            await interval(range(options.active))
            steady.append(list(clock.steps))
        parts = {name: list(milliseconds) for name, milliseconds in clock.parts.items()}
        reports = responder.reports()
    early, late = reports[:first_reports], reports[first_reports:]
    return first, first_parts, steady, parts, early, late, references


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=12)
    parser.add_argument("--interval", type=float, default=15.0, help="seconds between reports")
    parser.add_argument("--active", type=int, default=3, help="computations that are going on")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    configure()
    # As `dask scheduler` does.
    gc.set_threshold(*(3 * threshold for threshold in gc.get_threshold()))
    clock = Clock()
    clock.watch()
    with Responder(options.interval) as responder:
        first, first_parts, steady, parts, early, late, references = asyncio.run(
            measure(options, clock, responder)
        )
    if len(late) < options.reports:
        sys.exit("the plugin has sent too few reports")

    numbers = json.dumps([[random.random() for _ in range(14)] for _ in range(WORKERS)])
    numbers = len(gzip.compress(numbers.encode(), 6))
    sizes = [report["compressed"] for report in late]
    size = max(sizes)
    subject = f"steady report, {WORKERS} workers, {GROUPS:,} task groups"
    result(
        f"{subject}: size",
        f"{size / 1e3:.0f} kB compressed (median {statistics.median(sizes) / 1e3:.0f},"
        f" {statistics.median(r['plain'] for r in late) / 1e3:.0f} kB plain, {len(late)} reports)",
        f"{numbers / 1e3:.0f} kB for {WORKERS} x 14 numbers as JSON",
        size / numbers,
        f"<= {LARGEST_BYTES / 1e3:.0f} kB",
        size <= LARGEST_BYTES,
    )
    per_report = [max(steps) for steps in steady]
    longest, median = max(per_report)[0], statistics.median(step[0] for step in per_report)
    total = statistics.median(sum(step[0] for step in steps) for steps in steady)
    reference = statistics.median(references)
    result(
        f"{subject}: longest hold of the event loop",
        f"{longest:.1f} ms processor (median {median:.1f}, wall median"
        f" {statistics.median(step[1] for step in per_report):.1f};"
        f" all steps of a report together {total:.1f})",
        f"{reference:.1f} ms for json.dumps of {WORKERS} x 14 numbers",
        longest / reference,
        f"<= {LONGEST_MILLISECONDS:g} ms",
        longest <= LONGEST_MILLISECONDS,
    )
    result(
        f"{subject}: the first reports",
        f"{max(r['compressed'] for r in early) / 1e3:.0f} kB compressed at most,"
        f" {sum(r['compressed'] for r in early) / 1e3:.0f} kB in {len(early)} reports,"
        f" holding the event loop for {max(step[0] for step in first):.0f} ms at most",
    )
    print("  milliseconds of the event loop by part: median, longest, longest of the first reports")
    for name, milliseconds in sorted(parts.items(), key=lambda part: -max(part[1])):
        print(
            f"    {name:28} {statistics.median(milliseconds):7.2f} {max(milliseconds):7.2f}"
            f" {first_parts.get(name, 0.0):8.1f}"
        )
    print("  bytes and items of the last report, before compression")
    for name, (length, items) in sorted(late[-1]["sections"].items(), key=lambda s: -s[1][0]):
        if length > 2:
            print(f"    {name:28} {length:9,} {items:6,}")


if __name__ == "__main__":
    main()
