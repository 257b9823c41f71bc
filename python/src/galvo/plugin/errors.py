"""What is told about exceptions."""

import pickle
import re
from functools import lru_cache
from typing import Any, Dict, Mapping

from .scrub import scrub, strip_source
from .values import ADDRESS_LENGTH, MESSAGE_LENGTH, TRACEBACK_LENGTH, TYPE_LENGTH, cut

# Exceptions that Dask itself raises in place of a task's function, or around it.
TYPES_OF_DASK = frozenset(
    [
        "ClosedClientError", "CommClosedError", "DataUnavailable", "FatalCommClosedError",
        "FutureCancelledError", "FuturesCancelledError", "KilledWorker", "NoValidWorkerError",
        "NoWorkerError", "P2PConsistencyError", "P2PIllegalStateError", "P2POutOfDiskError",
        "ShuffleClosedError", "WorkerStartTimeoutError",
    ]
)  # fmt: skip


def describe_error(kwargs: Mapping[str, Any], with_source: bool = True) -> Dict[str, Any]:
    """What a transition to "erred" tells about the exception."""
    kind, message, origin = None, str(kwargs.get("exception_text") or ""), "user"
    exception = kwargs.get("exception")
    if not message and isinstance(exception, bytes):
        # The scheduler's own verdicts, such as KilledWorker, come without text. The bytes were
        # written by this process; what workers send is of another type and is never opened.
        origin = "dask"
        try:
            opened = pickle.loads(exception)
            kind, message = type(opened).__name__, str(opened)
        except Exception:
            message = "an exception of the scheduler that could not be read"
    elif message:
        found = re.match(r"([^\W\d][\w.]*)\(", message)
        kind = found.group(1).rpartition(".")[2] if found else None
        if kind in TYPES_OF_DASK:
            origin = "dask"
    worker = kwargs.get("worker")
    traceback = kwargs.get("traceback_text") or ""
    return {
        "type": None if kind is None else cut(kind, TYPE_LENGTH),
        # Some messages hold tracebacks of other processes.
        "message": shown(message, MESSAGE_LENGTH, with_source),
        "traceback": shown(traceback, TRACEBACK_LENGTH, with_source),
        "worker": None if worker is None else cut(worker, ADDRESS_LENGTH),
        "origin": origin,
    }


@lru_cache(maxsize=128)  # failing tasks of one kind have one traceback
def shown(text: str, length: int, with_source: bool) -> str:
    """Text without secrets, and without lines of source where those may not be sent."""
    # What is looked at ends after what is sent, so that no secret is recognised by its end only.
    text = text[: length + 1000]
    return cut(scrub(text if with_source else strip_source(text)), length)
