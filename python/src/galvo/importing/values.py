"""Values as they stand in files of Dask, of which each may be anything."""

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
    count,
    cut,
    duration,
    moment,
)

Fields = dict[str, Any]
Key = Any  # of a task: a text, or a tuple

# A group or a prefix as Dask shows it where it stands in something else.
GROUP = re.compile(r"<(.+?): (?:[a-z-]+: \d+(?:, )?)*>\Z", re.DOTALL)
# What no cluster has more of: threads in one place, bytes of memory in it, and thread-seconds.
MOST_THREADS, MOST_MEMORY, MOST_SECONDS = 1_000_000, 2**46, 1e10
# Actions in which the tasks of a group spend their time.
ACTIONS = 100
# Between the calendar's beginning, from which identifiers of clients count, and 1970.
GREGORIAN_SECONDS = 12_219_292_800


def text_of(value: Any) -> str:
    """The value if it is a text, or else an empty one."""
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> float:
    """The value if it is a number, or else nothing."""
    return value if is_finite(value) and abs(value) < 2**63 else 0


def threads_of(value: Any) -> int:
    """A number of threads, which is no larger than any that there ever were."""
    return count(min(number_of(value), MOST_THREADS))


def memory_of(value: Any) -> int | None:
    """The limit of a worker's memory in bytes, if it has one."""
    return count(min(number_of(value), MOST_MEMORY)) or None


def moment_of(value: Any) -> float | None:
    """The value if it is a moment in seconds since 1970."""
    return moment(value) if is_finite(value) else None


def key_of(value: Any, depth: int = 0) -> Key:
    """The key of a task, of which a file has a list where it was a tuple."""
    if isinstance(value, (list, tuple)) and depth < 3:
        return tuple(key_of(item, depth + 1) for item in value[:50])
    return value if isinstance(value, (str, int, float)) else type(value).__name__


def group_of(key: Key) -> str:
    """The name of the group that Dask puts a task of this key into."""
    try:
        return str(key_split_group(key))
    except (IndexError, AttributeError, TypeError, ValueError):
        return "Other"


def made_at(client: str) -> float | None:
    """When a client was made, which its identifier tells by the client's clock."""
    try:
        made = uuid.UUID(client[-36:])
    except ValueError:
        return None
    return moment(made.time / 1e7 - GREGORIAN_SECONDS) if made.version == 1 else None


def measured(told: Fields, limit: int | None) -> dict[str, float]:
    """What a worker told with its last heartbeat."""
    metrics = metrics_of(told)
    nbytes = number_of(told.get("nbytes"))
    if not metrics:
        return {}
    try:
        measured = measure_worker(
            SimpleNamespace(metrics=metrics, memory_limit=limit, nbytes=nbytes)
        )
    except (AttributeError, TypeError, ValueError, OverflowError):  # nothing that Dask tells
        return {}
    return {name: value for name, value in measured.items() if abs(value) < 2**53}


def metrics_of(told: Fields) -> Fields:
    """Numbers and maps of numbers, and nothing else."""
    metrics = told.get("metrics")
    kept: Fields = {}
    for name, value in metrics.items() if isinstance(metrics, dict) else ():
        if isinstance(value, dict):
            kept[name] = {k: number_of(v) for k, v in value.items() if isinstance(k, str)}
        elif is_finite(value):
            kept[name] = value
    return kept


def versions_of(value: Any) -> Fields | None:
    """What ``get_versions`` described, in which everything is a text."""
    if not isinstance(value, dict):
        return None
    return {
        part: {k: v for k, v in value[part].items() if isinstance(k, str) and isinstance(v, str)}
        for part in ("host", "packages")
        if isinstance(value.get(part), dict)
    }


def counts_of(states: Any) -> dict[str, int]:
    known = states.items() if isinstance(states, dict) else ()
    return {state: count(number_of(number)) for state, number in known if state in STATES}


def durations_of(value: Any) -> dict[str, float]:
    known = list(value.items())[:ACTIONS] if isinstance(value, dict) else ()
    return {
        cut(action, TYPE_LENGTH): duration(float(number_of(seconds)))
        for action, seconds in known
        if isinstance(action, str) and number_of(seconds) < MOST_SECONDS
    }


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def texts_of(value: Any, most: int, length: int) -> list[str]:
    return [cut(text, length) for text in list_of(value) if isinstance(text, str)][:most]


def function_of(key: Key) -> str:
    """The name of the function or operation in the key of a task, or in the name of a group."""
    try:
        return str(key_split(key))
    except (IndexError, AttributeError, TypeError, ValueError):
        return "Other"


def name_in(shown: Any) -> str | None:
    found = GROUP.match(text_of(shown)[: NAME_LENGTH + 1000])
    return found[1] if found else None


def host_of(address: str) -> str | None:
    """The host in an address of Dask's."""
    try:
        # Dask would look for others among all packages that are installed, each time anew.
        if parse_address(address)[0] not in backends:
            return None
        return cut(get_address_host(address), ADDRESS_LENGTH)
    except (ValueError, TypeError, KeyError):
        return None


def is_finite(value: Any) -> bool:
    """Whether the value is a number, and neither infinite nor none."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return known and (isinstance(value, int) or math.isfinite(value))
