"""The base class of all collectors, their shared context, and their error containment."""

import logging
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence

from .inheritance import last_numbers
from .ledger import Ledger
from .sections import Outbox, Record

logger = logging.getLogger("distributed.galvo")


class Context:
    """The state that collectors share with each other and with the plugin.

    Collectors install ``environment``, ``worker_id`` and ``frames``. Until then, and if such a
    collector fails, the default implementations return no data.
    """

    def __init__(self, scheduler: Any, settings: Mapping[str, Any], ledger: Ledger):
        self.scheduler = scheduler
        self.settings = settings
        self.ledger = ledger
        self.now: Callable[[], float] = ledger.now
        self.outboxes: Dict[str, Outbox] = ledger.outboxes
        ledger.context = self
        # From addresses to ids, including workers that ended in the last minutes.
        self.workers: Mapping[str, str] = {}
        # Measurements of ended workers after their last heartbeat, which Dask's own sums lack: by
        # the keys of these sums, and by span. The function is called when there are more.
        self.last_metrics: Dict[Any, Any] = {}
        self.last_metrics_of_spans: Dict[str, Dict[Any, Any]] = {}
        self.on_last_metrics: Optional[Callable[[str], None]] = None
        self._numbers: Optional[Dict[str, int]] = None  # the last ones

    def sends(self, data_class: str) -> bool:
        """True if the settings and the server permit sending this class. Check it each time."""
        return self.ledger.receipt.sends(data_class)

    def count_withheld(self, data_class: str, n: int = 1) -> None:
        """Counts ``n`` items as withheld. Items that an outbox refuses are counted there."""
        self.ledger.receipt.withhold(data_class, n)

    def next_number(self, kind: str) -> int:
        """Returns the number of a new object, counted from 1 for each kind."""
        if self._numbers is None:
            self._numbers = last_numbers(self.scheduler, self.settings)
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return number

    def worker_id(self, address: Any) -> Optional[str]:
        return self.workers.get(address)

    def environment(
        self, versions: Optional[Mapping[str, Any]], executable: Optional[str] = None
    ) -> Optional[str]:
        """Returns the id of the environment described by ``get_versions``; queues its record."""
        return None

    def frames(self, source_codes: Any) -> List[List[Dict[str, Any]]]:
        """Returns the stacks of frames in Dask's ``code``, and queues their snippets."""
        return []


class Collector:
    """Watches one part of a scheduler, and adds records to outboxes.

    An exception in any of these methods is contained, and logged once.
    """

    # True if the data has its own timestamp and need not be consistent with other collectors. Such
    # a collector is read before the others, in a separate step of the event loop.
    is_separate = False

    def __init__(self, context: Context):
        self.context = context

    async def start(self) -> None:
        """Called once when the plugin starts."""

    # Dask's hooks. Each must be cheap.

    def graph(self, keys: Any) -> None:
        pass

    def worker_added(self, address: str) -> None:
        pass

    def worker_removed(self, address: str, stimulus_id: Optional[str] = None) -> None:
        pass

    def client_added(self, client: str) -> None:
        pass

    def client_removed(self, client: str) -> None:
        pass

    def event(self, topic: Any, message: Any, now: float) -> None:
        """Called for each logged event. The oldest releases of Dask have no such hook."""

    def restarted(self) -> None:
        pass

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        """Called on the event loop before each report. Adds changes to the outboxes."""

    async def finish(self) -> None:
        """Called before the last report of a closing scheduler. It may take a second."""

    def resend(self) -> None:
        """Called when the server has lost its store. All known records become unsent again."""

    def close(self) -> None:
        pass

    # For the handover to another plugin on the same scheduler, see ``inheritance``.

    def export_state(self) -> Any:
        """Returns the state that the next collector of this kind needs; None if it needs none."""

    def import_state(self, inherited: Any) -> None:
        """Continues from a predecessor's state. Called before ``start``."""

    def records(self) -> Iterable[Record]:
        """Returns the records that a successor creates again."""
        return ()


class Collectors:
    """Calls all collectors, and contains their errors."""

    def __init__(self, collectors: Sequence[Collector] = ()):
        self._collectors = list(collectors)
        self._error_counts: Dict[str, int] = {}

    @classmethod
    def create(
        cls, kinds: Sequence[Callable[[Context], Collector]], context: Context
    ) -> "Collectors":
        """Creates one collector of each kind, and leaves out those that fail."""
        collectors = cls()
        for kind in kinds:
            try:
                collectors._collectors.append(kind(context))
            except Exception:
                collectors._log_error_once(getattr(kind, "__name__", "?"), "made")
        return collectors

    async def start(self) -> None:
        for collector in self._collectors:
            try:
                await collector.start()
            except Exception:
                self._log_error_once(type(collector).__name__, "started")

    async def finish(self) -> None:
        for collector in self._collectors:
            try:
                await collector.finish()
            except Exception:
                self._log_error_once(type(collector).__name__, "finished")

    def find(self, kind: type) -> Any:
        """Returns the collector of this kind; None if there is none."""
        return next((c for c in self._collectors if isinstance(c, kind)), None)

    def __iter__(self) -> Iterator[Collector]:
        return iter(self._collectors)

    def export_state(self) -> Dict[str, Any]:
        """Returns the state of each collector by name, and leaves out those that fail."""
        states = {}
        for collector in self._collectors:
            name = type(collector).__name__
            try:
                states[name] = collector.export_state()
            except Exception:
                self._log_error_once(name, "read")
        return {name: state for name, state in states.items() if state is not None}

    def import_state(self, states_by_name: Mapping[str, Any]) -> None:
        """Passes the state to each collector. Raises errors, because all must then start afresh."""
        for collector in self._collectors:
            state = states_by_name.get(type(collector).__name__)
            if state is not None:
                collector.import_state(state)

    def call(self, method: str, *arguments: Any) -> None:
        """Calls this method of each collector."""
        for collector in self._collectors:
            self.call_one(collector, method, *arguments)

    def call_one(self, collector: Collector, method: str, *arguments: Any) -> None:
        try:
            getattr(collector, method)(*arguments)
        except Exception:
            self._log_error_once(type(collector).__name__, "called for " + method)

    def _log_error_once(self, name: str, action: str) -> None:
        self._error_counts[name] = self._error_counts.get(name, 0) + 1
        if self._error_counts[name] == 1:
            logger.warning("Galvo's %s could not be %s; logged once", name, action, exc_info=True)
