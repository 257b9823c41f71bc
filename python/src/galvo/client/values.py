"""Values that users give, as JSON has them."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from galvo.client.moments import in_utc


def plain(value: Any, place: str) -> Any:
    """The value in what JSON knows, with moments as the server reads them.

    What JSON has nothing for raises a TypeError that names its place: the variable or parameter,
    and the way to it from there.
    """
    if isinstance(value, Mapping):
        return {name: plain(item, f"{place}.{name}") for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, place) for item in value]
    value = _number(value)
    when = in_utc(value)
    if when is not None:
        return when.isoformat()
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise TypeError(f"{value!r} cannot stand in {place}, because JSON has nothing like it")


def _number(value: Any) -> Any:
    """Python's number for one of NumPy's, as DataFrames have them; anything else as it is."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.bool_, numpy.number)):
        return value
    # A duration counts as a number there, and would lose its unit.
    return value if isinstance(value, numpy.timedelta64) else value.item()
