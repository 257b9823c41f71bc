"""Converts values in files of Dask, which may be of any type."""

from __future__ import annotations

import math
import re
import uuid
from types import SimpleNamespace
from typing import Any

from distributed.comm import get_address_host, parse_address
from distributed.comm.registry import backends
from distributed.utils import key_split, key_split_group

from galvo.plugin.samples import measure_worker
from galvo.plugin.values import (
    ADDRESS_LENGTH,
    NAME_LENGTH,
    STATES,
    TYPE_LENGTH,
    cut,
    time_or_none,
    to_count,
    to_duration,
)

Fields = dict[str, Any]
Key = Any  # of a task: a string, or a tuple

# Dask's text for a group or a prefix inside another value.
GROUP = re.compile(r"<(.+?): (?:[a-z-]+: \d+(?:, )?)*>\Z", re.DOTALL)
# The bounds of imported values: threads, bytes of memory, and thread-seconds.
MOST_THREADS, MOST_MEMORY, MOST_SECONDS = 1_000_000, 2**46, 1e10
# The bound of actions whose durations are kept for a group.
MOST_ACTIONS = 100
# The seconds from the start of the Gregorian calendar, from which identifiers of clients count, to
# 1970.
GREGORIAN_SECONDS = 12_219_292_800


def text_of(value: Any) -> str:
    """Returns the value if it is a string, or else an empty one."""
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> float:
    """Returns the value if it is a number, or else 0."""
    return value if is_finite(value) and abs(value) < 2**63 else 0


def threads_of(value: Any) -> int:
    """Returns a number of threads within the bound."""
    return to_count(min(number_of(value), MOST_THREADS))


def memory_of(value: Any) -> int | None:
    """Returns a worker's memory limit in bytes; None if it has none."""
    return to_count(min(number_of(value), MOST_MEMORY)) or None


def time_of(value: Any) -> float | None:
    """Returns the value if it is a time in seconds since 1970; None otherwise."""
    return time_or_none(value) if is_finite(value) else None


def key_of(value: Any, depth: int = 0) -> Key:
    """Returns the key of a task. A file has a list in place of a tuple."""
    if isinstance(value, (list, tuple)) and depth < 3:
        return tuple(key_of(item, depth + 1) for item in value[:50])
    return value if isinstance(value, (str, int, float)) else type(value).__name__


def group_of(key: Key) -> str:
    """Returns the name of the group in which Dask puts a task with this key."""
    try:
        return str(key_split_group(key))
    except (IndexError, AttributeError, TypeError, ValueError):
        return "Other"


def creation_time_of(client: str) -> float | None:
    """Returns a client's creation time, which its identifier contains by the client's clock."""
    try:
        client_uuid = uuid.UUID(client[-36:])
    except ValueError:
        return None
    return (
        time_or_none(client_uuid.time / 1e7 - GREGORIAN_SECONDS)
        if client_uuid.version == 1
        else None
    )


def measure(fields: Fields, limit: int | None) -> dict[str, float]:
    """Returns the metrics of a worker's last heartbeat, under the names of a report."""
    metrics = metrics_of(fields)
    nbytes = number_of(fields.get("nbytes"))
    if not metrics:
        return {}
    try:
        all_metrics = measure_worker(
            SimpleNamespace(metrics=metrics, memory_limit=limit, nbytes=nbytes)
        )
    except (AttributeError, TypeError, ValueError, OverflowError):  # not as Dask writes it
        return {}
    return {name: value for name, value in all_metrics.items() if abs(value) < 2**53}


def metrics_of(fields: Fields) -> Fields:
    """Returns only numbers and maps of numbers."""
    metrics = fields.get("metrics")
    numeric_metrics: Fields = {}
    for name, value in metrics.items() if isinstance(metrics, dict) else ():
        if isinstance(value, dict):
            numeric_metrics[name] = {
                k: number_of(v) for k, v in value.items() if isinstance(k, str)
            }
        elif is_finite(value):
            numeric_metrics[name] = value
    return numeric_metrics


def versions_of(value: Any) -> Fields | None:
    """Returns the result of ``get_versions``, reduced to strings."""
    if not isinstance(value, dict):
        return None
    return {
        part: {k: v for k, v in value[part].items() if isinstance(k, str) and isinstance(v, str)}
        for part in ("host", "packages")
        if isinstance(value.get(part), dict)
    }


def counts_of(states: Any) -> dict[str, int]:
    items = states.items() if isinstance(states, dict) else ()
    return {state: to_count(number_of(number)) for state, number in items if state in STATES}


def durations_of(value: Any) -> dict[str, float]:
    items = list(value.items())[:MOST_ACTIONS] if isinstance(value, dict) else ()
    return {
        cut(action, TYPE_LENGTH): to_duration(float(number_of(seconds)))
        for action, seconds in items
        if isinstance(action, str) and number_of(seconds) < MOST_SECONDS
    }


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def texts_of(value: Any, most: int, length: int) -> list[str]:
    return [cut(text, length) for text in list_of(value) if isinstance(text, str)][:most]


def function_of(key: Key) -> str:
    """Returns the name of the function or operation in a task's key or a group's name."""
    try:
        return str(key_split(key))
    except (IndexError, AttributeError, TypeError, ValueError):
        return "Other"


def name_of(text: Any) -> str | None:
    match = GROUP.match(text_of(text)[: NAME_LENGTH + 1000])
    return match[1] if match else None


def host_of(address: str) -> str | None:
    """Returns the host in an address of Dask; None if it is not an address."""
    try:
        # Dask would search all installed packages for other schemes, on each call.
        if parse_address(address)[0] not in backends:
            return None
        return cut(get_address_host(address), ADDRESS_LENGTH)
    except (ValueError, TypeError, KeyError):
        return None


def is_finite(value: Any) -> bool:
    """True if the value is a finite number."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and (isinstance(value, int) or math.isfinite(value))
