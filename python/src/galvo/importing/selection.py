"""Taking parts out of nested data that may be too large to be held: MessagePack, or anything read.

What is wanted is described by a *selection*: ``WHOLE``; a dictionary of selections by key, for some
keys of a map; ``Each``, for all keys of a map; ``Items``, for the items of a list; ``Places``, for
some places of a short list. What is not wanted is passed over without being made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import msgpack

from galvo.client.errors import NotImportable
from galvo.importing.artefact import MEBIBYTE

# Of one value that is taken whole, as it is packed. In memory it may be many times as much.
LARGEST = 32 * MEBIBYTE
READ_SIZE = MEBIBYTE
# What a list or map says of its own length is believed up to here.
MOST_ITEMS = 10_000_000
WHOLE = object()


class Each(NamedTuple):
    """Of a map, each value with its key."""

    selection: Any
    take: Callable[[Any, Any], None]


class Items(NamedTuple):
    """Of a list, each item in turn; or the first ones as a list, if nothing takes them."""

    selection: Any
    take: Callable[[Any], None] | None = None
    most: int = MOST_ITEMS


class Places(NamedTuple):
    """Of a short list, the items in these places, as a tuple; None stands for what is not there."""

    places: tuple[int, ...]


class Packed:
    """A stream of MessagePack, of which only what is wanted is ever in memory."""

    def __init__(self, stream: BinaryIO):
        self._fed = _Fed(stream)
        self._unpacker = msgpack.Unpacker(
            self._fed,
            read_size=READ_SIZE,
            max_buffer_size=LARGEST + 2 * READ_SIZE,
            # Workers may be named by numbers, and texts may have been none.
            strict_map_key=False,
            unicode_errors="replace",
            max_str_len=LARGEST,
            max_bin_len=LARGEST,
            max_ext_len=LARGEST,
            max_array_len=MOST_ITEMS,
            max_map_len=MOST_ITEMS,
        )

    def read(self, selection: Any) -> Any:
        """What is selected of the value that comes next; None where it is of another kind."""
        if selection is WHOLE:
            return self._whole()
        if isinstance(selection, (Each, dict)):
            length = self._length(self._unpacker.read_map_header)
        else:
            length = self._length(self._unpacker.read_array_header)
        if length is None:
            self._unpacker.skip()
            return None
        if isinstance(selection, Each):
            for _ in range(length):
                selection.take(self._whole(), self.read(selection.selection))
            return None
        if isinstance(selection, Items):
            first: list[Any] = []
            take = selection.take or first.append
            for n in range(length):
                if n < selection.most:
                    take(self.read(selection.selection))
                else:
                    self._unpacker.skip()
            return first
        if isinstance(selection, Places):
            wanted: dict[int, Any] = {}
            for n in range(length):
                if n in selection.places:
                    wanted[n] = self._whole()
                else:
                    self._unpacker.skip()
            return tuple(wanted.get(n) for n in selection.places)
        found = {}
        for _ in range(length):
            key = self._whole()
            if isinstance(key, str) and key in selection:
                found[key] = self.read(selection[key])
            else:
                self._unpacker.skip()
        return found

    def _length(self, read: Callable[[], int]) -> int | None:
        try:
            return read()
        except ValueError:
            # Nothing was taken from the stream. What is broken is noticed when it is passed over.
            return None

    def _whole(self) -> Any:
        with self._fed.at_most(LARGEST):
            return self._unpacker.unpack()


class Plain:
    """The same for data that is in memory already."""

    def __init__(self, value: Any):
        self._value = value

    def read(self, selection: Any) -> Any:
        return _select(self._value, selection)


def _select(value: Any, selection: Any) -> Any:
    if selection is WHOLE:
        return value
    if isinstance(selection, Each):
        for key, item in value.items() if isinstance(value, dict) else ():
            selection.take(key, _select(item, selection.selection))
        return None
    if isinstance(selection, Items):
        first: list[Any] = []
        take = selection.take or first.append
        for item in value[: selection.most] if isinstance(value, list) else ():
            take(_select(item, selection.selection))
        return first if isinstance(value, list) else None
    if isinstance(selection, Places):
        if not isinstance(value, list):
            return None
        return tuple(value[n] if n < len(value) else None for n in selection.places)
    if not isinstance(value, dict):
        return None
    return {key: _select(value[key], wanted) for key, wanted in selection.items() if key in value}


class _Fed:
    """A stream that gives no more than is allowed for what is being read."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream
        self._left: int | None = None

    @contextmanager
    def at_most(self, size: int) -> Iterator[None]:
        self._left = size
        yield
        self._left = None

    def read(self, size: int) -> bytes:
        if self._left is not None:
            if self._left <= 0:
                raise NotImportable(f"a value in it is larger than {LARGEST // MEBIBYTE} MiB")
            self._left -= size
        return self._stream.read(size)
