"""Measurements of a worker that no heartbeat has sent when the worker ends.

Dask's workers send their fine performance metrics with heartbeats, and a retired worker sends no
more of these. The last task of each worker would be missing, and its thread would seem idle.
"""

import math
from typing import Any, Dict, List, Mapping, Tuple

# An event of the plugin's own topic with this key carries metrics, not a log line.
KEY = "metrics"
MOST_METRICS, LABEL_LENGTH = 1000, 1024


class UnsentMetrics:
    """Tracks which of a worker's sums were sent with heartbeats.

    Each heartbeat calls it just after Dask has taken the metrics. A heartbeat may be lost, so the
    values of the latest one are kept separately: the scheduler knows the number of the latest
    heartbeat that it received.
    """

    def __init__(self) -> None:
        self.heartbeat = 0
        self._sent_sums: Dict[Any, Any] = {}
        self._previous_sums: Dict[Any, Any] = {}

    def record_heartbeat(self, worker: Any) -> int:
        """Records that a heartbeat takes all present values, and returns its number."""
        self.heartbeat += 1
        self._previous_sums = self._sent_sums
        self._sent_sums = dict(worker.digests_total)
        return self.heartbeat

    def describe(self, worker: Any) -> Dict[str, Any]:
        """Returns the values of the latest heartbeat, and the unsent values, as plain data."""
        unsent, left_out = _growth(self._sent_sums, worker.digests_total)
        latest, _ = _growth(self._previous_sums, self._sent_sums)
        return {
            "heartbeat": self.heartbeat,
            "latest": latest,
            "unsent": unsent,
            "left_out": left_out,
        }


def _growth(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Tuple[List[List[Any]], int]:
    """Returns the labels and the growth of each sum, the largest first, and the number left out."""
    grown_sums: List[List[Any]] = []
    left_out = 0
    for key, value in after.items():
        if not isinstance(key, tuple):
            continue  # one of Dask's digests that is not a fine performance metric
        try:
            growth = value - before.get(key, 0)
            if not growth:
                continue
            if not all(label is None or type(label) is str for label in key):
                raise TypeError("a label of the user's own")
            if not math.isfinite(growth) or abs(growth) >= 2**53:
                raise ValueError("no number that everybody can carry")
            for label in key:
                if label is not None and len(label) > LABEL_LENGTH:
                    raise ValueError("a label that is too long")
                # A lone surrogate would break the stream to the scheduler.
                (label or "").encode()
        except Exception:
            left_out += 1
            continue
        number = growth if type(growth) in (int, float) else float(growth)
        grown_sums.append([list(key), number])
    # Seconds before other units, and larger values before smaller ones.
    grown_sums.sort(key=lambda item: (item[0][-1] != "seconds", -item[1]))
    left_out += max(0, len(grown_sums) - MOST_METRICS)
    return grown_sums[:MOST_METRICS], left_out
