"""Measures how long a scheduler has been idle, and decides when that is too long."""

from time import monotonic
from typing import Any, Callable, Dict, Mapping, Optional

from .values import time_or_none

# The smallest difference between the clocks that counts as a clock change or a suspended machine.
JUMP_SECONDS = 1.0
# ``check`` runs four times a second. After a gap of this length, nobody could have reached the
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
        self._dask_tracks_idleness = hasattr(type(scheduler), "is_idle")
        self._timeout_start = now()
        self._since: Optional[float] = self._timeout_start  # used only if Dask does not track it
        self._transitions = getattr(scheduler, "transition_counter", 0)
        self._keep_alive_until: Optional[float] = None  # on the steady clock
        # The clocks at the last look, and Dask's value then.
        self._last_clocks = (self._timeout_start, steady())
        self._last_dask_since = self._dask_idle_since()
        # A value of Dask, and the lost time since then.
        self._lost_since: Optional[float] = None
        self._lost_seconds = 0.0

    @property
    def since(self) -> Optional[float]:
        """The time since which the scheduler is idle; None while it is not."""
        if not self._dask_tracks_idleness:
            return self._since
        idle_since = self._dask_idle_since()
        return (
            idle_since + self._lost_seconds
            if idle_since is not None and idle_since == self._lost_since
            else idle_since
        )

    @property
    def timeout(self) -> Optional[float]:
        """The idle time in seconds after which the scheduler closes; None for never."""
        dask_timeout = (
            getattr(self._scheduler, "idle_timeout", None) if self._dask_tracks_idleness else None
        )
        own_timeout = None if self._keep_alive_until is not None else self._timeout
        return min(dask_timeout or own_timeout or 0.0, own_timeout or dask_timeout or 0.0) or None

    def graph_updates(self) -> Optional[int]:
        """Returns the number of graphs being added; None if Dask does not report it."""
        count = getattr(self._scheduler, "_active_graph_updates", None)
        return count if isinstance(count, int) and count >= 0 else None

    def keep_alive_for(self, seconds: float) -> None:
        """Keeps the scheduler alive for this time, even if idle; 0 ends that."""
        if seconds > 0:
            self._keep_alive_until = self._steady() + seconds
        elif self._keep_alive_until is not None:
            self._restart_timeout()

    def check(self) -> bool:
        """Checks for work. Returns True if the scheduler has been idle for too long."""
        self._exclude_lost_time()
        if not self._dask_tracks_idleness:
            self._detect_idleness()
        if self._keep_alive_until is not None and self._steady() >= self._keep_alive_until:
            self._restart_timeout()
        since = self.since
        if since is None or self._timeout is None or self._keep_alive_until is not None:
            return False
        return self._now() - max(since, self._timeout_start) > self._timeout

    def export_state(self) -> Dict[str, Any]:
        now, keep_alive_until = self._now(), self._keep_alive_until
        return {
            "since": self._since,
            "transitions": self._transitions,
            "kept_until": 0.0
            if keep_alive_until is None
            else now + keep_alive_until - self._steady(),
            "holds_since": self._timeout_start,
            "timeout": self._timeout,
            "at": now,
        }

    def import_state(self, inherited: Mapping[str, Any]) -> None:
        if inherited["transitions"] == self._transitions:  # nothing has happened in between
            self._since = inherited["since"]
        now = self._now()
        if float(inherited["kept_until"]) > now:
            self.keep_alive_for(float(inherited["kept_until"]) - now)
        is_same = "timeout" in inherited and inherited["timeout"] == self._timeout
        if is_same and abs(now - float(inherited["at"])) < HANDOVER_SECONDS:
            self._timeout_start = float(inherited["holds_since"])

    def _restart_timeout(self) -> None:
        self._keep_alive_until = None
        self._timeout_start = self._now()

    def _dask_idle_since(self) -> Optional[float]:
        return time_or_none(self._scheduler.idle_since) if self._dask_tracks_idleness else None

    def _detect_idleness(self) -> None:
        scheduler = self._scheduler
        transitions = getattr(scheduler, "transition_counter", 0)
        if scheduler.unrunnable or any(ws.processing for ws in scheduler.workers.values()):
            self._since = None
        elif self._since is None or transitions != self._transitions:
            self._since = self._now()
        self._transitions = transitions

    def _exclude_lost_time(self) -> None:
        """Shifts past times by the time in which nobody could give this scheduler work.

        That is the time in which its process or machine was stopped, and the amount of a clock
        change.
        """
        now, steady = self._now(), self._steady()
        elapsed, elapsed_steadily = now - self._last_clocks[0], steady - self._last_clocks[1]
        self._last_clocks, previous_since, self._last_dask_since = (
            (now, steady),
            self._last_dask_since,
            self._dask_idle_since(),
        )
        if elapsed_steadily > PAUSE_SECONDS:
            lost = elapsed
        else:
            lost = elapsed - elapsed_steadily
            if abs(lost) <= JUMP_SECONDS:
                return
        self._timeout_start += lost
        if self._since is not None:
            self._since += lost
        idle_since = self._last_dask_since
        # Dask may have restarted its count since then, and just before.
        if idle_since is not None and (
            idle_since == previous_since or 0 < lost <= now - idle_since + JUMP_SECONDS
        ):
            self._lost_seconds = (
                self._lost_seconds if idle_since == self._lost_since else 0.0
            ) + lost
            self._lost_since = idle_since
