"""The interval between polls."""

from __future__ import annotations

import threading
import time

# The longest interval that polling slows down to, in seconds.
LONGEST_SECONDS = 15.0
GROWTH = 1.5


class Pace:
    """Waits between polls: briefly after a change, and longer each time without one."""

    def __init__(self, seconds: float, stopped: threading.Event | None = None):
        if not 0 < seconds <= 3600:
            raise ValueError("an interval has to be more than 0 and at most 3600 seconds")
        self._shortest = seconds
        self._interval = seconds
        self._longest = max(seconds, LONGEST_SECONDS)
        self.stopped = threading.Event() if stopped is None else stopped

    def wait_for_next(self, changed: bool) -> bool:
        """Waits for the next poll. Returns False if it was stopped meanwhile."""
        self._interval = self._shortest if changed else min(self._longest, self._interval * GROWTH)
        return not self.stopped.wait(self._interval)

    def now(self) -> float:
        """Returns the time of a monotonic clock, in seconds."""
        return time.monotonic()
