"""Counts the workers and threads of a scheduler."""

from typing import Any, Dict, Mapping, Optional

from distributed.metrics import time


class Workforce:
    """The peak and total numbers of a scheduler's workers and threads, and the thread time."""

    def __init__(self, scheduler: Any):
        self._scheduler = scheduler
        self.total_workers = self.peak_workers = len(scheduler.workers)
        self.peak_threads = 0
        self.thread_seconds = 0.0
        self._since, self._threads = time(), 0
        for at, threads in getattr(scheduler, "total_nthreads_history", ()):
            self._since = min(self._since, at)
            self._advance(at, threads)
        self.update()

    def update(self, new_workers: int = 0, closed_at: Optional[float] = None) -> None:
        """Counts up to now, or up to the end of the scheduler.

        Call it whenever a worker has joined or left.
        """
        workers = self._scheduler.workers
        self.total_workers += new_workers
        self.peak_workers = max(self.peak_workers, len(workers))
        now = time() if closed_at is None else closed_at
        self._advance(now, sum(ws.nthreads for ws in workers.values()))

    def export_state(self) -> Dict[str, Any]:
        self.update()
        return {
            "seen": self.total_workers,
            "peak_workers": self.peak_workers,
            "peak_threads": self.peak_threads,
            "thread_seconds": self.thread_seconds,
            "since": self._since,
            "threads": self._threads,
            "workers": list(self._scheduler.workers),
        }

    def import_state(self, inherited: Mapping[str, Any]) -> None:
        workers, known_addresses = self._scheduler.workers, set(inherited["workers"])
        self.total_workers = inherited["seen"] + sum(
            address not in known_addresses for address in workers
        )
        self.peak_workers = max(self.peak_workers, inherited["peak_workers"])
        self.peak_threads = max(self.peak_threads, inherited["peak_threads"])
        self.thread_seconds = inherited["thread_seconds"]
        self._since, self._threads = inherited["since"], inherited["threads"]
        for at, threads in getattr(self._scheduler, "total_nthreads_history", ()):
            if at > inherited["since"]:
                self._advance(at, threads)
        self.update()

    def _advance(self, at: float, threads: int) -> None:
        self.thread_seconds += max(at - self._since, 0.0) * self._threads
        self._since, self._threads = max(at, self._since), threads
        self.peak_threads = max(self.peak_threads, threads)
