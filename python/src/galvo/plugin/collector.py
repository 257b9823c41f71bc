"""What watches a scheduler: the base of all collectors, what they share, and their guard."""

import logging
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence

from .ledger import Ledger
from .sections import Outbox, Record

logger = logging.getLogger("distributed.galvo")


class Context:
    """What collectors know of each other and of the plugin.

    ``environment``, ``worker_id`` and ``frames`` are installed by the collectors that can tell;
    until then, and where one of those does not work, nothing is known.
    """

    def __init__(self, scheduler: Any, settings: Mapping[str, Any], ledger: Ledger):
        self.scheduler = scheduler
        self.settings = settings
        self.ledger = ledger
        self.now: Callable[[], float] = ledger.now
        self.outboxes: Dict[str, Outbox] = ledger.outboxes
        ledger.context = self
        # From addresses to ids, also of workers that ended in the last minutes.
        self.workers: Mapping[str, str] = {}

    def sends(self, data_class: str) -> bool:
        """Whether the settings and the server allow to send this class; to be asked each time."""
        return self.ledger.receipt.sends(data_class)

    def withheld(self, data_class: str, n: int = 1) -> None:
        """So many items were kept back. What an outbox refuses is counted there."""
        self.ledger.receipt.withhold(data_class, n)

    def worker_id(self, address: Any) -> Optional[str]:
        return self.workers.get(address)

    def environment(
        self, versions: Optional[Mapping[str, Any]], executable: Optional[str] = None
    ) -> Optional[str]:
        """The id of the environment that ``get_versions`` described; its record is queued."""
        return None

    def frames(self, source_codes: Any) -> List[List[Dict[str, Any]]]:
        """The stacks of code frames in what Dask keeps of code; their snippets are queued."""
        return []


class Collector:
    """Watches one side of a scheduler, and puts what there is to tell into outboxes.

    Whatever one of these methods raises is contained, and logged once.
    """

    # Whether what it reads is of a moment of its own, and need not fit what others read. If so it
    # is read before them, in a step of the event loop of its own.
    apart = False

    def __init__(self, context: Context):
        self.context = context

    async def start(self) -> None:
        """Once, when the plugin starts."""

    # Dask's hooks, each cheap.

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
        """Something was logged as an event; the oldest releases of Dask do not tell."""

    def restarted(self) -> None:
        pass

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        """On the event loop before each report: puts what has changed into outboxes."""

    def resend(self) -> None:
        """The server lost its store: everything still known is unsent again."""

    def close(self) -> None:
        pass

    # Where another plugin comes to the same scheduler after this one, see ``inheritance``.

    def bequeath(self) -> Any:
        """What the next one of its kind needs to go on; None where it needs nothing."""

    def inherit(self, told: Any) -> None:
        """Goes on from what was bequeathed, before it is started."""

    def records(self) -> Iterable[Record]:
        """Those that the next one makes again."""
        return ()


class Collectors:
    """Calls all collectors, and lets none of them disturb the others or the scheduler."""

    def __init__(self, collectors: Sequence[Collector] = ()):
        self._collectors = list(collectors)
        self._mishaps: Dict[str, int] = {}

    @classmethod
    def made(
        cls, kinds: Sequence[Callable[[Context], Collector]], context: Context
    ) -> "Collectors":
        """One collector of each kind, without those that cannot be made."""
        collectors = cls()
        for kind in kinds:
            try:
                collectors._collectors.append(kind(context))
            except Exception:
                collectors._mishap(getattr(kind, "__name__", "?"), "made")
        return collectors

    async def start(self) -> None:
        for collector in self._collectors:
            try:
                await collector.start()
            except Exception:
                self._mishap(type(collector).__name__, "started")

    def find(self, kind: type) -> Any:
        """The collector of this kind, if there is one."""
        return next((c for c in self._collectors if isinstance(c, kind)), None)

    def __iter__(self) -> Iterator[Collector]:
        return iter(self._collectors)

    def bequeath(self) -> Dict[str, Any]:
        """What each of them has to tell, by name; nothing of one that cannot."""
        told = {}
        for collector in self._collectors:
            name = type(collector).__name__
            try:
                told[name] = collector.bequeath()
            except Exception:
                self._mishap(name, "asked for what it knows")
        return {name: own for name, own in told.items() if own is not None}

    def inherit(self, told: Mapping[str, Any]) -> None:
        """Raises what goes wrong, since then all have to begin anew."""
        for collector in self._collectors:
            own = told.get(type(collector).__name__)
            if own is not None:
                collector.inherit(own)

    def call(self, method: str, *arguments: Any) -> None:
        """Calls this method of each collector."""
        for collector in self._collectors:
            self.call_one(collector, method, *arguments)

    def call_one(self, collector: Collector, method: str, *arguments: Any) -> None:
        try:
            getattr(collector, method)(*arguments)
        except Exception:
            self._mishap(type(collector).__name__, "called for " + method)

    def _mishap(self, name: str, what: str) -> None:
        self._mishaps[name] = self._mishaps.get(name, 0) + 1
        if self._mishaps[name] == 1:
            logger.warning(
                "Galvo's %s could not be %s; this is said once", name, what, exc_info=True
            )
