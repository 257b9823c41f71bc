"""Converts values for reports: bounded, finite, and accepted by strict JSON parsers."""

import gzip
import json
import math
import os
import uuid
from collections import deque
from itertools import islice
from numbers import Integral, Real
from threading import Lock
from typing import Any, Dict, List, Optional, Tuple

from distributed.metrics import time

NAME_LENGTH, TYPE_LENGTH, ADDRESS_LENGTH = 4096, 256, 2048
MESSAGE_LENGTH, TRACEBACK_LENGTH = 20_000, 100_000
TRUNCATED = "… [truncated]"
STATES = frozenset(
    ["released", "waiting", "no-worker", "queued", "processing", "memory", "erred", "forgotten"]
)
# In milliseconds. If the clock is set back further, ids start afresh.
LONGEST_SETBACK = 60_000
UNFINISHED = ("processing", "waiting", "queued", "no-worker")
# The bounds for this plugin's data in one message of Dask. Regular data stays far below them.
SENDABLE_LENGTH, SENDABLE_CHARACTERS, SENDABLE_VALUES, SENDABLE_DEPTH = (
    20_000,
    1_000_000,
    20_000,
    10,
)
# The bounds of msgpack's integers.
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**64 - 1


def make_sendable(value: Any, length: int = SENDABLE_LENGTH) -> Any:
    """Returns a copy of any value that Dask's comms can send; never raises.

    A value that cannot be packed breaks its stream, and with it the worker. So the result consists
    of None, bool, finite float, int of at most 64 bits, str without lone surrogates and of at most
    ``length`` characters, list, and dict with such keys, and of exactly these types. It is bounded
    in size and depth, and shares nothing with the value. A number that is not finite becomes None.
    Of objects of other types only the type's name remains.
    """
    try:
        return _SendableCopier(length).copy(value, 0)
    except Exception:
        return "<%s>" % type_name(value)


class _SendableCopier:
    def __init__(self, length: int):
        self._length = length
        self._characters = SENDABLE_CHARACTERS
        self._values = SENDABLE_VALUES

    def copy(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, (bytes, bytearray)):
            return "<%d bytes>" % len(value)
        if isinstance(value, Integral):
            number = int(value)
            fits = SMALLEST_INTEGER <= number <= LARGEST_INTEGER
            return number if fits else "<integer of %d bits>" % number.bit_length()
        if isinstance(value, Real):
            number = float(value)
            return number if math.isfinite(number) else None
        if not isinstance(value, (dict, list, tuple, set, frozenset, deque)):
            return "<%s>" % type_name(value)
        if depth >= SENDABLE_DEPTH:
            return "…"
        # The methods of the built-in types are called: those of subclasses may do anything.
        if isinstance(value, dict):
            items = islice(dict.items(value), max(self._values, 0))
            return {self._text(text_of(k)): self._next(v, depth) for k, v in items}
        iterator = next(t for t in _SEQUENCES if isinstance(value, t)).__iter__(value)
        return self._list(iterator, depth)

    def _list(self, items: Any, depth: int) -> List[Any]:
        return [self._next(item, depth) for item in islice(items, max(self._values, 0))]

    def _next(self, value: Any, depth: int) -> Any:
        self._values -= 1
        return "…" if self._values < 0 else self.copy(value, depth + 1)

    def _text(self, value: str) -> str:
        text = escape_surrogates(
            cut(value, max(min(self._length, self._characters), len(TRUNCATED)))
        )
        self._characters -= len(text)
        return text


_SEQUENCES: Tuple[Any, ...] = (list, tuple, set, frozenset, deque)


def escape_surrogates(text: str) -> str:
    """Returns the text with lone surrogates as escapes, as in ``caf\\udce9.csv``."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def text_of(value: Any) -> str:
    """Returns ``str(value)`` as a plain ``str``, or the name of its type if that raises."""
    if type(value) is str:
        return value
    try:
        return str.__str__(value if isinstance(value, str) else str(value))
    except Exception:
        return "<%s>" % type_name(value)


def type_name(value: Any) -> str:
    try:
        return escape_surrogates(str.__str__(type(value).__name__))[:TYPE_LENGTH]
    except Exception:  # a metaclass may override the name
        return "object"


def cut(value: Any, length: int) -> str:
    """Returns ``value`` as text of at most ``length`` characters, with a mark if it was cut."""
    text = text_of(value)
    return text if len(text) <= length else text[: length - len(TRUNCATED)] + TRUNCATED


def to_count(value: Any) -> int:
    """Returns the value as an integer from 0 to 2**53 - 1, clamped; 0 if it is not a number."""
    try:
        return min(max(int(value), 0), 2**53 - 1)
    except (ArithmeticError, TypeError, ValueError):
        return 0


def to_duration(value: float) -> float:
    """Returns seconds that may be summed; 0 for negative, infinite and NaN values.

    A clock that was changed causes negative ones.
    """
    return value if 0.0 <= value < math.inf else 0.0


def time_or_none(value: Optional[float]) -> Optional[float]:
    """Returns Unix seconds; None for Dask's markers of "not yet"."""
    return value if value is not None and 0.0 < value <= 253402300799.0 else None


def uuid_or_none(value: Any) -> Optional[str]:
    """Returns an id made by Dask; None if it is not a UUID in canonical form."""
    try:
        return value if str(uuid.UUID(value)) == value else None
    except (AttributeError, TypeError, ValueError):
        return None


_id_lock = Lock()
# The 122 bits of an id that are neither its version nor its variant.
_latest_id = 0


def uuid7() -> str:
    """Returns an id that sorts by its creation time, and after all earlier ids of this process.

    Ids of one millisecond keep their order, and so do ids created while a clock is set back.
    """
    global _latest_id
    value = int(time() * 1000) << 74 | int.from_bytes(os.urandom(10), "big") >> 6
    with _id_lock:
        if 0 <= _latest_id - value < LONGEST_SETBACK << 74:
            value = _latest_id + 1 + int.from_bytes(os.urandom(4), "big")
        _latest_id = value
    high, middle, low = value >> 74, value >> 62 & 0xFFF, value & (1 << 62) - 1
    return str(uuid.UUID(int=high << 80 | 0x7 << 76 | middle << 64 | 0x2 << 62 | low))


def clean(value: Any) -> Any:
    """Returns the value without anything that strict JSON parsers or databases reject."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def dumps(value: Any) -> str:
    """Returns compact JSON that strict parsers accept."""
    # Nearly all values are clean. Checking the text takes a fifth of the time of checking each
    # part.
    try:
        text = _encode(value)
        if "\\u0000" not in text and (text.isascii() or text.encode("utf-8")):
            return text
    except ValueError:  # infinite numbers and NaN, lone surrogates
        pass
    return _encode(clean(value))


_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode


def compress(text: str) -> Tuple[bytes, Dict[str, str]]:
    """Returns the body and the headers of a request with a report."""
    body, headers = text.encode("utf-8"), {"Content-Type": "application/json"}
    if len(body) > 1024:
        body = gzip.compress(body, compresslevel=6)
        headers["Content-Encoding"] = "gzip"
    return body, headers


def encode(report: Dict[str, Any]) -> Tuple[bytes, Dict[str, str]]:
    return compress(dumps(report))
