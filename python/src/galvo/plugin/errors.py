"""Describes exceptions of tasks."""

import io
import pickle
from functools import lru_cache
from typing import Any, Dict, Mapping

from .exception_texts import frames_of, type_in
from .scrub import scrub, strip_source
from .values import ADDRESS_LENGTH, MESSAGE_LENGTH, TRACEBACK_LENGTH, TYPE_LENGTH, cut, text_of

# Exceptions that Dask itself raises instead of or around a task's function.
TYPES_OF_DASK = frozenset(
    [
        "ClosedClientError", "CommClosedError", "DataUnavailable", "FatalCommClosedError",
        "FutureCancelledError", "FuturesCancelledError", "KilledWorker", "NoValidWorkerError",
        "NoWorkerError", "P2PConsistencyError", "P2PIllegalStateError", "P2POutOfDiskError",
        "ShuffleClosedError", "WorkerStartTimeoutError",
    ]
)  # fmt: skip


class DaskExceptionUnpickler(pickle.Unpickler):
    """Unpickles an exception that the scheduler created, and refuses all other classes."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in DASK_EXCEPTION_CLASSES:
            return super().find_class(module, name)
        if module == "builtins" or module.partition(".")[0] == "distributed":
            found_class = super().find_class(module, name)
            if isinstance(found_class, type) and issubclass(found_class, BaseException):
                return found_class
        raise pickle.UnpicklingError(f"{module}.{name} is no part of an exception of Dask's")


# The other classes in such exceptions: a worker that died, as Dask keeps it.
DASK_EXCEPTION_CLASSES = {
    ("distributed.scheduler", "WorkerState"),
    ("distributed.core", "Status"),
    ("builtins", "int"),
    ("builtins", "set"),
    ("collections", "defaultdict"),
    ("collections", "deque"),
}


def describe_error(
    kwargs: Mapping[str, Any], with_source: bool = True, types_only: bool = False
) -> Dict[str, Any]:
    """Describes the exception of a transition to "erred".

    Without any text there is no ``origin``, because the cause may be the user's code or Dask. With
    ``types_only`` the only texts are those of the scheduler's own exceptions.
    """
    kind, message, origin = None, text_of(kwargs.get("exception_text") or ""), "user"
    is_from_scheduler = False
    exception = kwargs.get("exception")
    if not message and isinstance(exception, bytes):
        # The scheduler's own exceptions, such as KilledWorker, have no text. Their bytes were
        # pickled by this process. Data from workers has another type and is never unpickled.
        origin, is_from_scheduler = "dask", True
        try:
            dask_exception = DaskExceptionUnpickler(io.BytesIO(exception)).load()
            kind, message = type(dask_exception).__name__, str(dask_exception)
        except Exception:
            message = "an exception of the scheduler that could not be read"
    elif message:
        kind = type_in(message)
        if kind in TYPES_OF_DASK:
            origin = "dask"
    worker = kwargs.get("worker")
    traceback = text_of(kwargs.get("traceback_text") or "")
    has_text = bool(message or traceback)
    if types_only:
        message, traceback = message if is_from_scheduler else "", frames_of(traceback)
    error = {
        "type": None if kind is None else cut(kind, TYPE_LENGTH),
        # Some messages contain tracebacks of other processes.
        "message": redact_text(message, MESSAGE_LENGTH, with_source),
        "traceback": redact_text(traceback, TRACEBACK_LENGTH, with_source),
        "worker": None if worker is None else cut(worker, ADDRESS_LENGTH),
    }
    if has_text:
        error["origin"] = origin
    return error


def class_of_error(body: Mapping[str, Any]) -> str:
    """Returns an error's data class. An error without an origin may contain the user's code."""
    return str(body.get("origin", "user")) + "_errors"


@lru_cache(maxsize=128)  # failing tasks of one kind share a traceback
def redact_text(text: str, length: int, with_source: bool) -> str:
    """Redacts text, and removes lines of source if they may not be sent."""
    # The examined text is longer than the text sent, so that a secret is recognized even if only
    # its beginning is sent.
    text = text[: length + 1000]
    return cut(scrub(text if with_source else strip_source(text)), length)
