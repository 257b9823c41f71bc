"""Parses human-readable log lines: their origin and their time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import NamedTuple

from galvo.plugin.exception_texts import without_exceptions
from galvo.plugin.scrub import cut_inputs, scrub, strip_source
from galvo.plugin.values import MESSAGE_LENGTH, cut

# The format of Dask's default logging configuration. Other formats cannot be parsed.
LINE = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[,.](\d{3}) - (\S{1,300}) - (\w{1,32}) - (.*)\Z", re.DOTALL
)
# The possible difference between clocks of machines plus the duration of a dump, in seconds.
LEEWAY = 120.0
# Time zones are multiples of a quarter of an hour, from UTC-12 to UTC+14.
QUARTER = 900
OFFSETS = range(-12 * 3600, 14 * 3600 + 1, QUARTER)


class Line(NamedTuple):
    """A line as written in the log."""

    clock: float  # the local time, as if it were UTC; seconds since 1970
    logger: str
    level: str
    message: str

    @classmethod
    def read(cls, text: str) -> Line | None:
        """Parses this text; None if it has another format."""
        match = LINE.match(text)
        if match is None:
            return None
        try:
            local_time = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S")
        except ValueError:  # there is no such day
            return None
        clock = local_time.replace(tzinfo=timezone.utc).timestamp() + int(match[2]) / 1000
        return cls(clock, match[3], match[4], match[5])


class Zone(NamedTuple):
    """The offset from UTC of the local time in which lines were written."""

    seconds: float
    certain: bool

    @classmethod
    def of(
        cls,
        lines: Iterable[Line],
        start: float,
        end: float,
        known_times: Iterable[tuple[Line, float]] = (),
        other_zone: Zone | None = None,
    ) -> Zone:
        """Returns the time zone in which all lines were written between two times.

        Lines do not name their time zone. The actual time of some is known, or there is only one
        zone in which all of them fit. If there are several, the result is that of others who
        probably share it, that of this machine, or the one closest to UTC.
        """
        offsets = {QUARTER * round((line.clock - at) / QUARTER) for line, at in known_times}
        if len(offsets) == 1:
            return cls(offsets.pop(), True)
        clocks = [line.clock for line in lines]
        if not clocks:
            return cls(0.0, True)
        first, last = min(clocks), max(clocks)
        fitting_offsets = [
            offset
            for offset in OFFSETS
            if first - offset >= start - LEEWAY and last - offset <= end + LEEWAY
        ]
        if len(fitting_offsets) == 1:
            return cls(fitting_offsets[0], True)
        if other_zone is not None and other_zone.seconds in fitting_offsets:
            return cls(other_zone.seconds, False)
        utc_offset = datetime.fromtimestamp(end).astimezone().utcoffset()
        local_offset = utc_offset.total_seconds() if utc_offset is not None else 0.0
        if local_offset in fitting_offsets:
            return cls(local_offset, False)
        return cls(min(fitting_offsets, key=abs) if fitting_offsets else local_offset, False)


def presentable(message: str, with_source: bool, types_only: bool = False) -> str:
    """Redacts the message, and removes source if it may not be sent."""
    message = cut_inputs(cut(message, MESSAGE_LENGTH * 2))
    if types_only:
        message, with_source = without_exceptions(message), False
    return cut(scrub(message if with_source else strip_source(message)), MESSAGE_LENGTH)
