"""Lines of logs that were written for people: whose they are, and when that was."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import NamedTuple

from galvo.plugin.scrub import cut_inputs, scrub, strip_source
from galvo.plugin.values import MESSAGE_LENGTH, cut

# As Dask's own configuration of logging writes them; with another one there is no telling.
LINE = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[,.](\d{3}) - (\S{1,300}) - (\w{1,32}) - (.*)\Z", re.DOTALL
)
# What clocks of different machines may be apart, and what a dump may take, in seconds.
LEEWAY = 120.0
# Zones are whole quarters of an hour, from twelve hours behind UTC to fourteen before.
QUARTER = 900
OFFSETS = range(-12 * 3600, 14 * 3600 + 1, QUARTER)


class Line(NamedTuple):
    """A line as it stands in the log."""

    clock: float  # what the clock on the wall showed, as if it were UTC; seconds since 1970
    logger: str
    level: str
    message: str

    @classmethod
    def read(cls, text: str) -> Line | None:
        """The line of this text, or None if it is written in another way."""
        found = LINE.match(text)
        if found is None:
            return None
        try:
            shown = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S")
        except ValueError:  # there is no such day
            return None
        clock = shown.replace(tzinfo=timezone.utc).timestamp() + int(found[2]) / 1000
        return cls(clock, found[3], found[4], found[5])


class Zone(NamedTuple):
    """How far the clocks on the walls were before UTC, where lines were written."""

    seconds: float
    certain: bool

    @classmethod
    def of(
        cls,
        lines: Iterable[Line],
        begin: float,
        end: float,
        known: Iterable[tuple[Line, float]] = (),
        others: Zone | None = None,
    ) -> Zone:
        """The zone in which all lines were written between two moments.

        Lines do not say in which zone they were written. Of some it is known when that was, or
        there is but one zone in which all of them fit. If there are several, it is that of others
        who most likely share it, that of this machine, or the one that is closest to UTC.
        """
        told = {QUARTER * round((line.clock - at) / QUARTER) for line, at in known}
        if len(told) == 1:
            return cls(told.pop(), True)
        clocks = [line.clock for line in lines]
        if not clocks:
            return cls(0.0, True)
        first, last = min(clocks), max(clocks)
        fit = [
            offset
            for offset in OFFSETS
            if first - offset >= begin - LEEWAY and last - offset <= end + LEEWAY
        ]
        if len(fit) == 1:
            return cls(fit[0], True)
        if others is not None and others.seconds in fit:
            return cls(others.seconds, False)
        here = datetime.fromtimestamp(end).astimezone().utcoffset()
        own = here.total_seconds() if here is not None else 0.0
        if own in fit:
            return cls(own, False)
        return cls(min(fit, key=abs) if fit else own, False)


def presentable(message: str, with_source: bool) -> str:
    """The message without secrets and inputs of tasks, and without source where it may not go."""
    message = cut_inputs(cut(message, MESSAGE_LENGTH * 2))
    return cut(scrub(message if with_source else strip_source(message)), MESSAGE_LENGTH)
