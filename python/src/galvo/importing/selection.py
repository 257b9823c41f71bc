"""Extracts parts of nested data that may be too large for memory: MessagePack and YAML.

A *selection* describes the parts: ``WHOLE``; a dictionary of selections by key, for some keys of a
map; ``Each``, for all keys of a map; ``Items``, for the items of a list; ``Positions``, for some
positions of a short list. All other data is skipped without creating objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

import msgpack
import yaml

from galvo.client.errors import NotImportable
from galvo.importing.artefact import MEBIBYTE

# The bound for one value that is read whole, in its encoded size. In memory it may be many times as
# large.
LARGEST = 32 * MEBIBYTE
READ_SIZE = MEBIBYTE
# The bound up to which the declared length of a list or map is trusted.
MOST_ITEMS = 10_000_000
# The bound of nested levels in YAML. The deeper the nesting, the longer each level takes to parse.
MOST_LEVELS = 200
WHOLE = object()


class Each(NamedTuple):
    """Selects each value of a map with its key."""

    selection: Any
    take: Callable[[Any, Any], None]


class Items(NamedTuple):
    """Selects each item of a list in turn, or the first ones as a list without ``take``."""

    selection: Any
    take: Callable[[Any], None] | None = None
    most: int = MOST_ITEMS


class Positions(NamedTuple):
    """Selects the items at these positions of a short list, as a tuple; None for missing ones."""

    positions: tuple[int, ...]


class Reader(ABC):
    """A stream of nested data, of which only the selected parts are held in memory."""

    def read(self, selection: Any) -> Any:
        """Returns the selected part of the next value; None if it is of another kind."""
        if selection is WHOLE:
            return self._whole()
        is_map = isinstance(selection, (Each, dict))
        steps = self._map() if is_map else self._list()
        if steps is None:
            self._skip()
            return None
        if isinstance(selection, Each):
            for _ in steps:
                selection.take(self._whole(), self.read(selection.selection))
            return None
        if isinstance(selection, Items):
            items: list[Any] = []
            take = selection.take or items.append
            for n, _ in enumerate(steps):
                if n < selection.most:
                    take(self.read(selection.selection))
                else:
                    self._skip()
            return items
        if isinstance(selection, Positions):
            values: dict[int, Any] = {}
            for n, _ in enumerate(steps):
                if n in selection.positions:
                    values[n] = self._whole()
                else:
                    self._skip()
            return tuple(values.get(n) for n in selection.positions)
        entries = {}
        for _ in steps:
            key = self._whole()
            if isinstance(key, str) and key in selection:
                entries[key] = self.read(selection[key])
            else:
                self._skip()
        return entries

    @abstractmethod
    def _map(self) -> Iterable[Any] | None:
        """Returns a step for each entry of the next map; None if the next value is no map."""

    @abstractmethod
    def _list(self) -> Iterable[Any] | None:
        """Returns a step for each item of the next list; None if the next value is no list.

        Each step has to take one item.
        """

    @abstractmethod
    def _whole(self) -> Any:
        """Returns the next value."""

    @abstractmethod
    def _skip(self) -> None:
        """Skips the next value."""


class MessagePackReader(Reader):
    """Reads MessagePack."""

    def __init__(self, stream: BinaryIO):
        self._bounded_stream = _BoundedStream(stream)
        self._unpacker = msgpack.Unpacker(
            self._bounded_stream,
            read_size=READ_SIZE,
            max_buffer_size=LARGEST + 2 * READ_SIZE,
            # Workers may have numbers as names, and strings may be invalid UTF-8.
            strict_map_key=False,
            unicode_errors="replace",
            max_str_len=LARGEST,
            max_bin_len=LARGEST,
            max_ext_len=LARGEST,
            max_array_len=MOST_ITEMS,
            max_map_len=MOST_ITEMS,
        )

    def _map(self) -> Iterable[Any] | None:
        return self._steps(self._unpacker.read_map_header)

    def _list(self) -> Iterable[Any] | None:
        return self._steps(self._unpacker.read_array_header)

    def _steps(self, read_length: Callable[[], int]) -> Iterable[Any] | None:
        self._bounded_stream.remaining = None
        try:
            return range(read_length())
        except ValueError:
            # Nothing was read from the stream. Damaged data is detected when it is skipped.
            return None

    def _whole(self) -> Any:
        self._bounded_stream.remaining = LARGEST
        return self._unpacker.unpack()

    def _skip(self) -> None:
        self._bounded_stream.remaining = None
        self._unpacker.skip()


class YamlReader(Reader):
    """Reads YAML, of which Dask writes plain values without references.

    It reads event by event, because the constructor of whole values can be made to recurse until
    the process dies.
    """

    def __init__(self, stream: BinaryIO):
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events = yaml.parse(stream, Loader=loader)
        self._next_event: Any = None
        self._depth = 0
        while isinstance(self._peek(), (yaml.StreamStartEvent, yaml.DocumentStartEvent)):
            self._next()

    def _map(self) -> Iterable[Any] | None:
        return self._steps(yaml.MappingStartEvent, yaml.MappingEndEvent)

    def _list(self) -> Iterable[Any] | None:
        return self._steps(yaml.SequenceStartEvent, yaml.SequenceEndEvent)

    def _steps(self, start: type, end: type) -> Iterator[None] | None:
        if not isinstance(self._peek(), start):
            return None
        self._next()
        return self._until(end)

    def _until(self, end: type) -> Iterator[None]:
        while not isinstance(self._peek(), end):
            yield
        self._next()

    def _whole(self) -> Any:
        result: list[Any] = []
        # The open containers: a list, or a map as the list of its keys and values.
        containers: list[tuple[list[Any], bool]] = [(result, False)]
        remaining = LARGEST
        while not result:
            event = self._next()
            remaining -= 8 + (len(event.value) if isinstance(event, yaml.ScalarEvent) else 0)
            if remaining < 0:
                raise NotImportable(f"a value in it is larger than {LARGEST // MEBIBYTE} MiB")
            if isinstance(event, yaml.ScalarEvent):
                containers[-1][0].append(_read_scalar(event))
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                containers.append(([], isinstance(event, yaml.MappingStartEvent)))
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                items, is_map = containers.pop()
                value = dict(zip(items[::2], items[1::2])) if is_map else items
                containers[-1][0].append(value)
            else:
                raise NotImportable("it ends where a value should be")
        return result[0]

    def _skip(self) -> None:
        depth = 0
        while True:
            event = self._next()
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                depth += 1
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                depth -= 1
            elif not isinstance(event, yaml.ScalarEvent):
                raise NotImportable("it ends where a value should be")
            if depth <= 0:
                return

    def _peek(self) -> Any:
        if self._next_event is None:
            self._next_event = next(self._events, yaml.StreamEndEvent())
            if isinstance(self._next_event, yaml.AliasEvent) or getattr(
                self._next_event, "anchor", None
            ):
                raise NotImportable("it has references (`&` and `*`), which no cluster dump has")
        return self._next_event

    def _next(self) -> Any:
        event, self._next_event = self._peek(), None
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._depth += 1
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._depth -= 1
        if self._depth > MOST_LEVELS:
            raise NotImportable(f"it has more than {MOST_LEVELS} levels")
        return event


RESOLVER, CONSTRUCTOR = yaml.resolver.Resolver(), yaml.constructor.SafeConstructor()
TAG_PREFIX = "tag:yaml.org,2002:"
PLAIN_KINDS = ("null", "bool", "int", "float")


def _read_scalar(event: Any) -> Any:
    """Returns a string, a number, a boolean or None. Timestamps stay strings."""
    tag = event.tag
    if tag is None:
        return _resolve_plain(event.value) if event.implicit[0] else event.value
    kind = tag[len(TAG_PREFIX) :] if tag.startswith(TAG_PREFIX) else None
    if kind == "str":
        return event.value
    if kind not in PLAIN_KINDS:
        raise NotImportable(f"it has a value of the kind {tag[:100]}, which no cluster dump has")
    return _construct(kind, event.value)


@lru_cache(maxsize=10_000)
def _resolve_plain(text: str) -> Any:
    tag: str = RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    kind = tag[len(TAG_PREFIX) :]
    return _construct(kind, text) if kind in PLAIN_KINDS else text


def _construct(kind: str, text: str) -> Any:
    if kind == "int" and len(text) > 100:  # Python would take long, or refuse
        return text
    node = yaml.ScalarNode(TAG_PREFIX + kind, text)
    return getattr(CONSTRUCTOR, f"construct_yaml_{kind}")(node)


class _BoundedStream:
    """A stream that bounds the bytes read for one value."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream
        self.remaining: int | None = None  # None if the data is not kept

    def read(self, size: int) -> bytes:
        if self.remaining is not None:
            if self.remaining <= 0:
                raise NotImportable(f"a value in it is larger than {LARGEST // MEBIBYTE} MiB")
            self.remaining -= size
        return self._stream.read(size)
