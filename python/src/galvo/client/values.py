"""Converts the caller's values to JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from galvo.client.moments import to_utc


def plain(value: Any, path: str) -> Any:
    """Returns the value as JSON can represent it, with times as the server parses them.

    Raises a TypeError for anything that JSON cannot represent. The message names the variable or
    parameter and the path in it.
    """
    if isinstance(value, Mapping):
        return {name: plain(item, f"{path}.{name}") for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, path) for item in value]
    value = _number(value)
    time = to_utc(value)
    if time is not None:
        return time.isoformat()
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise TypeError(f"{value!r} in {path} cannot be represented in JSON")


def _number(value: Any) -> Any:
    """Converts a NumPy number, as DataFrames have them, to Python's; returns other values
    unchanged.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.bool_, numpy.number)):
        return value
    # NumPy's timedelta64 is a number type, and its item would lose the unit.
    return value if isinstance(value, numpy.timedelta64) else value.item()
