"""Measures how long a scheduler has been idle, and decides when that is too long."""

from time import monotonic
from typing import Any, Callable, Dict, Mapping, Optional

from .values import moment

# The smallest difference between the clocks that counts as a clock change or a suspended machine.
JUMP_SECONDS = 1.0
# ``look`` runs four times a second. After a gap of this length, nobody could have reached the
# scheduler meanwhile.
PAUSE_SECONDS = 5.0
# A replaced plugin hands over at once. After a longer time the state is not reused.
HANDOVER_SECONDS = 5.0


class Idleness:
    """Watches how long a scheduler has been idle, and how long it may be.

    The timeout is kept here and not passed to Dask, which would count from the start of the
    idleness. Here it counts from the time when the timeout took effect: registration, the end of a
    keep-alive, or the end of a period in which the process was stopped or the clock was changed.

    Newer releases of Dask track the start of idleness. The oldest ones do so only if they were
    started with a timeout, and report a wrong time otherwise.
    """

    def __init__(
        self,
        scheduler: Any,
        timeout: Optional[float],
        now: Callable[[], float],
        steady: Callable[[], float] = monotonic,
    ):
        self._scheduler = scheduler
        self._timeout = timeout  # in seconds; None for never
        self._now, self._steady = now, steady
        self._is_watched = hasattr(type(scheduler), "is_idle")
        self._holds_since = now()
        self._since: Optional[float] = self._holds_since  # used only if Dask does not track it
        self._transitions = getattr(scheduler, "transition_counter", 0)
        self._kept_until: Optional[float] = None  # on the steady clock
        # The clocks at the last look, and Dask's value then.
        self._last = (self._holds_since, steady())
        self._seen = self._watched_since()
        # A value of Dask, and the lost time since then.
        self._lost_since: Optional[float] = None
        self._lost = 0.0

    @property
    def since(self) -> Optional[float]:
        """The time since which the scheduler is idle; None while it is not."""
        if not self._is_watched:
            return self._since
        found = self._watched_since()
        return found + self._lost if found is not None and found == self._lost_since else found

    @property
    def timeout(self) -> Optional[float]:
        """The idle time in seconds after which the scheduler closes; None for never."""
        theirs = getattr(self._scheduler, "idle_timeout", None) if self._is_watched else None
        ours = None if self._kept_until is not None else self._timeout
        return min(theirs or ours or 0.0, ours or theirs or 0.0) or None

    def graph_updates(self) -> Optional[int]:
        """Returns the number of graphs being added; None if Dask does not report it."""
        count = getattr(self._scheduler, "_active_graph_updates", None)
        return count if isinstance(count, int) and count >= 0 else None

    def keep(self, seconds: float) -> None:
        """Keeps the scheduler alive for this time, even if idle; 0 ends that."""
        if seconds > 0:
            self._kept_until = self._steady() + seconds
        elif self._kept_until is not None:
            self._hold_anew()

    def look(self) -> bool:
        """Checks for work. Returns True if the scheduler has been idle for too long."""
        self._leave_out_lost_time()
        if not self._is_watched:
            self._watch()
        if self._kept_until is not None and self._steady() >= self._kept_until:
            self._hold_anew()
        since = self.since
        if since is None or self._timeout is None or self._kept_until is not None:
            return False
        return self._now() - max(since, self._holds_since) > self._timeout

    def bequeath(self) -> Dict[str, Any]:
        now, kept = self._now(), self._kept_until
        return {
            "since": self._since,
            "transitions": self._transitions,
            "kept_until": 0.0 if kept is None else now + kept - self._steady(),
            "holds_since": self._holds_since,
            "timeout": self._timeout,
            "at": now,
        }

    def inherit(self, inherited: Mapping[str, Any]) -> None:
        if inherited["transitions"] == self._transitions:  # nothing has happened in between
            self._since = inherited["since"]
        now = self._now()
        if float(inherited["kept_until"]) > now:
            self.keep(float(inherited["kept_until"]) - now)
        is_same = "timeout" in inherited and inherited["timeout"] == self._timeout
        if is_same and abs(now - float(inherited["at"])) < HANDOVER_SECONDS:
            self._holds_since = float(inherited["holds_since"])

    def _hold_anew(self) -> None:
        self._kept_until = None
        self._holds_since = self._now()

    def _watched_since(self) -> Optional[float]:
        return moment(self._scheduler.idle_since) if self._is_watched else None

    def _watch(self) -> None:
        scheduler = self._scheduler
        transitions = getattr(scheduler, "transition_counter", 0)
        if scheduler.unrunnable or any(ws.processing for ws in scheduler.workers.values()):
            self._since = None
        elif self._since is None or transitions != self._transitions:
            self._since = self._now()
        self._transitions = transitions

    def _leave_out_lost_time(self) -> None:
        """Shifts past times by the time in which nobody could give this scheduler work.

        That is the time in which its process or machine was stopped, and the amount of a clock
        change.
        """
        now, steady = self._now(), self._steady()
        passed, passed_steadily = now - self._last[0], steady - self._last[1]
        self._last, seen, self._seen = (now, steady), self._seen, self._watched_since()
        if passed_steadily > PAUSE_SECONDS:
            lost = passed
        else:
            lost = passed - passed_steadily
            if abs(lost) <= JUMP_SECONDS:
                return
        self._holds_since += lost
        if self._since is not None:
            self._since += lost
        found = self._seen
        # Dask may have restarted its count since then, and just before.
        if found is not None and (found == seen or 0 < lost <= now - found + JUMP_SECONDS):
            self._lost = (self._lost if found == self._lost_since else 0.0) + lost
            self._lost_since = found
