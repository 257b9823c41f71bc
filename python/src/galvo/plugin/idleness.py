"""Since when a scheduler has had nothing to do, and when that is too long."""

from typing import Any, Callable, Dict, Mapping, Optional

from .values import moment


class Idleness:
    """Watches whether a scheduler has something to do, where Dask does not, and how long it may.

    Newer releases of Dask watch this themselves, and close the scheduler. The oldest ones do so
    only when they have been started with a timeout, and tell a wrong time otherwise.
    """

    def __init__(self, scheduler: Any, timeout: Optional[float], now: Callable[[], float]):
        self._scheduler = scheduler
        self._timeout = timeout  # in seconds; None for never
        self._now = now
        self._is_watched = hasattr(type(scheduler), "is_idle")
        self._since: Optional[float] = now()  # only where Dask does not watch
        self._transitions = getattr(scheduler, "transition_counter", 0)
        self._theirs = getattr(scheduler, "idle_timeout", None) if self._is_watched else None
        self._ours: Optional[float] = None  # the timeout that was given to Dask
        self._kept_until = 0.0
        self._limit()

    @property
    def since(self) -> Optional[float]:
        """Since when there is nothing to do; None while there is something."""
        if self._is_watched:
            return moment(self._scheduler.idle_since)
        return self._since

    @property
    def timeout(self) -> Optional[float]:
        """Seconds without work after which the scheduler closes; None for never."""
        if self._is_watched:
            return self._scheduler.idle_timeout or None
        return None if self._is_kept() else self._timeout

    def graph_updates(self) -> Optional[int]:
        """Graphs that the scheduler is taking in; None where Dask does not tell."""
        count = getattr(self._scheduler, "_active_graph_updates", None)
        return count if isinstance(count, int) and count >= 0 else None

    def keep(self, seconds: float) -> None:
        """Somebody wants the scheduler to stay for so long, however idle it is; 0 ends that."""
        self._kept_until = self._now() + seconds if seconds > 0 else 0.0
        self._limit()

    def look(self) -> bool:
        """Looks whether there is something to do. Returns whether there was too long ago."""
        if self._is_watched:
            if self._kept_until and not self._is_kept():
                self._kept_until = 0.0
                self._limit()
            return False
        scheduler, now = self._scheduler, self._now()
        transitions = getattr(scheduler, "transition_counter", 0)
        if scheduler.unrunnable or any(ws.processing for ws in scheduler.workers.values()):
            self._since = None
        elif self._since is None or transitions != self._transitions:
            self._since = now
        self._transitions = transitions
        if self._since is None or self._timeout is None or self._is_kept():
            return False
        return now - self._since > self._timeout

    def bequeath(self) -> Dict[str, Any]:
        return {
            "since": self._since,
            "transitions": self._transitions,
            "kept_until": self._kept_until,
        }

    def inherit(self, told: Mapping[str, Any]) -> None:
        if told["transitions"] == self._transitions:  # nothing has happened in between
            self._since = told["since"]
        self._kept_until = float(told["kept_until"])
        self._limit()

    def close(self) -> None:
        """The timeout goes with the settings that it is from, unless others have set it since."""
        if self._ours is not None and self._scheduler.idle_timeout == self._ours:
            self._scheduler.idle_timeout = self._theirs

    def _is_kept(self) -> bool:
        return self._now() < self._kept_until

    def _limit(self) -> None:
        """Tells Dask how long is too long; a timeout that others set is only ever shortened."""
        if not self._is_watched or self._timeout is None:
            return
        scheduler = self._scheduler
        if scheduler.idle_timeout != self._ours:  # others have set it since
            self._theirs = scheduler.idle_timeout
        if self._is_kept():
            self._ours = self._theirs
        else:
            self._ours = min(self._theirs or self._timeout, self._timeout)
        scheduler.idle_timeout = self._ours
