"""Conversion of times: durations as users write them, and timestamps as the server writes them."""

from __future__ import annotations

import math
import sys
from datetime import datetime, timedelta, timezone
from typing import Any, Union, cast

from dask.utils import parse_timedelta

# A text such as "7 days", a number of seconds, or a timedelta.
Duration = Union[str, float, timedelta]
# A duration before now, or a point in time.
Since = Union[Duration, datetime]


def range_start(since: Since | None, now: datetime | None = None) -> str | None:
    """Returns the start of a time range as the server parses it; None if there is no limit.

    A duration counts back from now. A time without a time zone is in the local time zone. Raises
    ValueError for anything else.
    """
    if since is None:
        return None
    start = to_utc(since)
    if start is None:
        try:
            start = (now or datetime.now(timezone.utc)) - parse_duration(cast(Duration, since))
        except OverflowError:
            raise ValueError(f"{since!r} is longer ago than there are years") from None
    return start.isoformat(timespec="milliseconds")


def to_utc(value: object) -> datetime | None:
    """Converts a ``datetime``, also of pandas or NumPy, to UTC; None for anything else.

    A value without a time zone is in the local time zone.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.datetime64):
        value = value.astype("datetime64[us]").item()
    # pandas.NaT is an instance of datetime that does not equal itself.
    if not isinstance(value, datetime) or value != value:
        return None
    # The subclass of pandas treats a time without a time zone as UTC, not as local time.
    return datetime.combine(value.date(), value.timetz()).astimezone(timezone.utc)


def parse_duration(duration: Duration) -> timedelta:
    """Parses a duration with ``dask.utils.parse_timedelta``, in seconds if it has no unit.

    Raises ValueError if it is negative, not finite or no duration.
    """
    if isinstance(duration, timedelta):
        return duration
    try:
        seconds = float(parse_timedelta(duration, default="s"))
        if isinstance(duration, bool) or not math.isfinite(seconds) or seconds < 0:
            raise ValueError
        return timedelta(seconds=seconds)
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError, IndexError):
        raise ValueError(f"{duration!r} is no duration, such as '7 days'") from None


def parse_time(text: str) -> datetime:
    """Parses a timestamp of the server, in UTC."""
    return datetime.fromisoformat(text)


def format_duration(seconds: float) -> str:
    """Formats a duration for people with its two largest units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole_seconds = round(seconds)
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    largest_unit = next(n for n, (_, length) in enumerate(units) if whole_seconds >= length)
    count, remainder = divmod(whole_seconds, units[largest_unit][1])
    text = f"{count} {units[largest_unit][0]}"
    if largest_unit + 1 < len(units):
        smaller_count = remainder // units[largest_unit + 1][1]
        text += f" {smaller_count} {units[largest_unit + 1][0]}" if smaller_count else ""
    return text


def format_time(time: Any) -> str:
    """Formats a time for people, to the second and in the local time zone."""
    if not isinstance(time, datetime):
        return "" if time is None else str(time)
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S")
