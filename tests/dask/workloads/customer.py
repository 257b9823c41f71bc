"""The client of ``client.py``, which uses only the published ``coiled`` package."""

import importlib.util
import logging
import sys
from pathlib import Path

import client
import coiled
import coiled.analytics
from coiled.spans import span as client_span
from distributed import get_worker, span, wait

logger = logging.getLogger("turbine")


def turn(number):
    return number + 1


def stall(number):
    raise ValueError(f"turbine {number} stalls")


def announce(number):
    get_worker().log_event("scores", {"number": number})
    logger.warning("turbine %d hums", number)
    return number


def complain(message):
    """Logs a line in the process in which it is called."""
    logging.getLogger("distributed.scheduler").warning(message)


class WithSpans:
    """The part of a cluster object that the package needs for spans."""

    def __init__(self, number):
        self.number = number
        self.identifier = None

    def add_span(self, span_identifier, data):
        self.identifier = span_identifier
        with coiled.Cloud() as cloud:
            cloud._sync(
                cloud._add_cluster_span,
                cluster_id=self.number,
                workspace=None,
                span_identifier=span_identifier,
                data=data,
            )


class Customer(client.Commands):
    def work(self, failures, events, computations):
        """Runs failing tasks in a span, events, and consecutive computations."""
        with span("nightly"):
            with span("turbines"):
                failing = self.client.map(stall, range(failures), pure=False)
                wait(failing, timeout=60)
        self.held.append(failing)
        self.announce(0, events)
        for number in range(computations):
            # A new computation starts only when nothing is left to do.
            assert self.client.submit(turn, number, pure=False).result(60) == number + 1

    def announce(self, first, count):
        """Runs tasks that log an event and a line of their worker's log."""
        wait(self.client.map(announce, range(first, first + count), pure=False), timeout=60)

    def complain_on_scheduler(self, message):
        self.client.run_on_scheduler(complain, message)

    def analytics(self, function, **arguments):
        return getattr(coiled.analytics, function)(**arguments)

    def coiled(self, function, **arguments):
        return getattr(coiled, function)(**arguments)

    def cloud(self, method, **arguments):
        with coiled.Cloud() as cloud:
            return getattr(cloud, method)(**arguments)

    def refused(self, function, **arguments):
        try:
            self.analytics(function, **arguments)
        except Exception as error:
            return str(error)

    def timed_span(self, number):
        """Runs a span that the client reports, too."""
        cluster = WithSpans(number)
        with client_span(cluster, name="timed", note="by hand"):
            self.client.submit(turn, -1, pure=False).result(60)
        return cluster.identifier

    def metric(self, number, query, over_time):
        with coiled.Cloud() as cloud:
            return cloud._sync(
                cloud._get_cluster_aggregated_metric,
                cluster_id=number,
                workspace=None,
                query=query,
                over_time=over_time,
                start_ts=None,
                end_ts=None,
            )

    def draw(self, path, private):
        """Stores a performance report: drawn by Dask if Bokeh is installed."""
        if importlib.util.find_spec("bokeh"):
            with coiled.performance_report(filename=path, private=private) as kept:
                self.client.submit(turn, -2, pure=False).result(60)
            return kept.url
        Path(path).write_text("<!doctype html><title>Dask</title><p>turbines</p>")
        return coiled.core._upload_report(path, private=private)["url"]


if __name__ == "__main__":
    client.Commands = Customer
    client.main(sys.argv[1])
