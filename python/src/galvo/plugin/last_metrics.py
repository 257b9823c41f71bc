"""Collects the metrics that workers send when they end, see ``unsent_metrics``.

A worker that is retired first notifies its nanny, which may be closing already. It then waits until
the nanny kills it, and never reaches its plugins. So a worker that has sent nothing is queried.
"""

import asyncio
from contextlib import suppress
from typing import Any, Dict, Mapping, Optional, Set, Tuple

from .collector import Collector, Context
from .unsent_metrics import KEY, MOST_METRICS
from .worker_side import METRIC, METRICS_OPERATION, TOPIC

# In these contexts the second label is a span, for which Dask keeps a second sum.
WITH_SPAN = ("execute", "p2p")
MOST_ENDED = 5000
# The number of workers queried at a time, the delays after their removal, and the timeout, in
# seconds.
MOST_QUERIES, QUERY_DELAYS, QUERY_SECONDS = 50, (0.2, 1.0), 2.0


class LastMetrics(Collector):
    """Sums the measurements of workers after the last heartbeat that the scheduler received."""

    def __init__(self, context: Context):
        super().__init__(context)
        self._states: Dict[str, Any] = dict(context.scheduler.workers)
        # Metrics of workers that are about to end, by address. One more heartbeat may contain the
        # same values until the worker is gone.
        self._metrics_of_ending: Dict[str, Mapping[str, Any]] = {}
        # The numbers of the last heartbeats of ended workers.
        self._heartbeats: Dict[str, int] = {}
        self._queries_workers = bool(context.settings.get("worker_plugin", True))
        self._queries: Set["asyncio.Future[None]"] = set()

    def worker_added(self, address: str) -> None:
        self._states[address] = self.context.scheduler.workers.get(address)
        self._heartbeats.pop(address, None)
        self._metrics_of_ending.pop(address, None)

    def worker_removed(self, address: str, stimulus_id: Any = None) -> None:
        received = _latest_heartbeat(self._states.pop(address, None))
        metrics = self._metrics_of_ending.pop(address, None)
        if metrics is not None:
            self._add_unsent(address, metrics, received)
            return
        self._heartbeats[address] = received
        if len(self._heartbeats) > MOST_ENDED:
            del self._heartbeats[next(iter(self._heartbeats))]
        if self._queries_workers and len(self._queries) < MOST_QUERIES:
            with suppress(RuntimeError):  # no event loop runs here
                loop = asyncio.get_running_loop()
                query = loop.create_task(self._query_worker(address))
                self._queries.add(query)
                query.add_done_callback(self._queries.discard)

    async def _query_worker(self, address: str) -> None:
        rpc: Any = self.context.scheduler.rpc
        for seconds in QUERY_DELAYS:
            await asyncio.sleep(seconds)
            if address not in self._heartbeats:
                return  # it has sent its metrics, or is back
            with suppress(Exception):  # most of them are gone already
                request = getattr(rpc(address), METRICS_OPERATION)()
                message = await asyncio.wait_for(request, QUERY_SECONDS)
                rpc.remove(address)
                self.event(TOPIC, message, self.context.now())

    def close(self) -> None:
        for query in list(self._queries):
            query.cancel()

    def event(self, topic: Any, message: Any, now: float) -> None:
        if topic != TOPIC or not isinstance(message, dict) or KEY not in message:
            return
        address, metrics = message.get("worker"), message[KEY]
        if not isinstance(address, str) or not isinstance(metrics, dict):
            return
        if address in self._states:
            self._metrics_of_ending[address] = metrics
        elif address in self._heartbeats:
            self._add_unsent(address, metrics, self._heartbeats.pop(address))

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        if closed_at is not None:
            for address, metrics in self._metrics_of_ending.items():
                self._add_unsent(address, metrics, _latest_heartbeat(self._states.get(address)))
            self._metrics_of_ending.clear()

    def _add_unsent(self, address: str, metrics: Mapping[str, Any], received: int) -> None:
        """Adds the values that no heartbeat contained.

        ``received`` is the last heartbeat received.
        """
        heartbeat = metrics.get("heartbeat")
        if not isinstance(heartbeat, int):
            return
        if received <= heartbeat:
            self._add(metrics.get("unsent"))
        if received < heartbeat:
            self._add(metrics.get("latest"))
        if self.context.on_last_metrics is not None and not metrics.get("left_out"):
            self.context.on_last_metrics(address)

    def export_state(self) -> Dict[str, Any]:
        return {
            "sums": list(self.context.last_metrics.items()),
            "of_spans": [
                (span, list(sums.items()))
                for span, sums in self.context.last_metrics_of_spans.items()
            ],
        }

    def import_state(self, inherited: Mapping[str, Any]) -> None:
        self.context.last_metrics.update(inherited["sums"])
        for span, sums in inherited["of_spans"]:
            self.context.last_metrics_of_spans[span] = dict(sums)

    def _add(self, measurements: Any) -> None:
        for item in measurements[:MOST_METRICS] if isinstance(measurements, (list, tuple)) else ():
            labels, number = item
            key, span = tuple(labels), None
            if key[0] in WITH_SPAN:
                key, span = (key[0], *key[2:]), key[1]
            _add_to(self.context.last_metrics, key, number)
            if span is not None:
                span_sums = self.context.last_metrics_of_spans.setdefault(span, {})
                _add_to(span_sums, key, number)


def _add_to(sums: Dict[Any, Any], key: Tuple[Any, ...], number: Any) -> None:
    sums[key] = sums.get(key, 0) + number


def _latest_heartbeat(state: Any) -> int:
    """Returns the number of the latest heartbeat that the scheduler received from a worker."""
    own = (getattr(state, "metrics", None) or {}).get(METRIC)
    number = own.get("heartbeat") if isinstance(own, dict) else None
    return number if isinstance(number, int) else 0
