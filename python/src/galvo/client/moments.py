"""Times: how long ago, as users write it, and moments, as the server writes them."""

from __future__ import annotations

import math
import sys
from datetime import datetime, timedelta, timezone
from typing import Any, Union, cast

from dask.utils import parse_timedelta

# "7 days", seconds, or a timedelta.
Duration = Union[str, float, timedelta]
# How long ago, or a moment.
Since = Union[Duration, datetime]


def beginning(since: Since | None, now: datetime | None = None) -> str | None:
    """The moment from which on something is looked for, as the server reads it; None for ever.

    A duration is a time to go back from now; a moment without a time zone is one of this machine's.
    """
    if since is None:
        return None
    begun = in_utc(since)
    if begun is None:
        try:
            begun = (now or datetime.now(timezone.utc)) - span(cast(Duration, since))
        except OverflowError:
            raise ValueError(f"{since!r} is longer ago than there are years") from None
    return begun.isoformat(timespec="milliseconds")


def in_utc(value: object) -> datetime | None:
    """The moment that a value is, also one of pandas or NumPy; None for anything else.

    Without a time zone it is one of this machine's.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.datetime64):
        value = value.astype("datetime64[us]").item()
    # What pandas has where no moment is known claims to be one, and does not even equal itself.
    if not isinstance(value, datetime) or value != value:
        return None
    # The subclass of pandas takes a moment without a time zone for no moment.
    return datetime.combine(value.date(), value.timetz()).astimezone(timezone.utc)


def span(duration: Duration) -> timedelta:
    """A duration as ``dask.utils.parse_timedelta`` reads it, in seconds if it has no unit."""
    if isinstance(duration, timedelta):
        return duration
    try:
        seconds = float(parse_timedelta(duration, default="s"))
        if isinstance(duration, bool) or not math.isfinite(seconds) or seconds < 0:
            raise ValueError
        return timedelta(seconds=seconds)
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError, IndexError):
        raise ValueError(f"{duration!r} is no duration, such as '7 days'") from None


def moment(text: str) -> datetime:
    """A moment that the server wrote, in UTC."""
    return datetime.fromisoformat(text)


def in_words(seconds: float) -> str:
    """A duration for people: its two largest units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    first = next(n for n, (_, length) in enumerate(units) if whole >= length)
    count, rest = divmod(whole, units[first][1])
    words = f"{count} {units[first][0]}"
    if first + 1 < len(units):
        smaller = rest // units[first + 1][1]
        words += f" {smaller} {units[first + 1][0]}" if smaller else ""
    return words


def on_the_clock(when: Any) -> str:
    """A moment for people, to the second and in this machine's time zone."""
    if not isinstance(when, datetime):
        return "" if when is None else str(when)
    return when.astimezone().strftime("%Y-%m-%d %H:%M:%S")
