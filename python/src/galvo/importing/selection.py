"""Taking parts out of nested data that may be too large to be held: MessagePack and YAML.

What is wanted is described by a *selection*: ``WHOLE``; a dictionary of selections by key, for some
keys of a map; ``Each``, for all keys of a map; ``Items``, for the items of a list; ``Places``, for
some places of a short list. What is not wanted is passed over without being made.
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

# Of one value that is taken whole, as it is written. In memory it may be many times as much.
LARGEST = 32 * MEBIBYTE
READ_SIZE = MEBIBYTE
# What a list or map says of its own length is believed up to here.
MOST_ITEMS = 10_000_000
# Levels of YAML. The more there are, the longer each takes.
DEEPEST = 200
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


class Reader(ABC):
    """A stream of nested data, of which only what is wanted is ever in memory."""

    def read(self, selection: Any) -> Any:
        """What is selected of the value that comes next; None where it is of another kind."""
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
            first: list[Any] = []
            take = selection.take or first.append
            for n, _ in enumerate(steps):
                if n < selection.most:
                    take(self.read(selection.selection))
                else:
                    self._skip()
            return first
        if isinstance(selection, Places):
            wanted: dict[int, Any] = {}
            for n, _ in enumerate(steps):
                if n in selection.places:
                    wanted[n] = self._whole()
                else:
                    self._skip()
            return tuple(wanted.get(n) for n in selection.places)
        found = {}
        for _ in steps:
            key = self._whole()
            if isinstance(key, str) and key in selection:
                found[key] = self.read(selection[key])
            else:
                self._skip()
        return found

    @abstractmethod
    def _map(self) -> Iterable[Any] | None:
        """A step for each entry of the map that comes next; None if that is no map.

        In each step key and value have to be taken.
        """

    @abstractmethod
    def _list(self) -> Iterable[Any] | None:
        """The same of a list, in each step of which an item has to be taken."""

    @abstractmethod
    def _whole(self) -> Any:
        """The value that comes next."""

    @abstractmethod
    def _skip(self) -> None:
        """Passes over the value that comes next."""


class Packed(Reader):
    """MessagePack."""

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

    def _map(self) -> Iterable[Any] | None:
        return self._steps(self._unpacker.read_map_header)

    def _list(self) -> Iterable[Any] | None:
        return self._steps(self._unpacker.read_array_header)

    def _steps(self, read_length: Callable[[], int]) -> Iterable[Any] | None:
        self._fed.left = None
        try:
            return range(read_length())
        except ValueError:
            # Nothing was taken from the stream. What is broken is noticed when it is passed over.
            return None

    def _whole(self) -> Any:
        self._fed.left = LARGEST
        return self._unpacker.unpack()

    def _skip(self) -> None:
        self._fed.left = None
        self._unpacker.skip()


class Written(Reader):
    """YAML, of which Dask writes plain values without references.

    It is read event by event, since what makes values of it at once can be led to call itself until
    the process dies.
    """

    def __init__(self, stream: BinaryIO):
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events = yaml.parse(stream, Loader=loader)
        self._ahead: Any = None
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
        # What is open: a list, or a map as the list of its keys and values.
        open_: list[tuple[list[Any], bool]] = [(result, False)]
        left = LARGEST
        while not result:
            event = self._next()
            left -= 8 + (len(event.value) if isinstance(event, yaml.ScalarEvent) else 0)
            if left < 0:
                raise NotImportable(f"a value in it is larger than {LARGEST // MEBIBYTE} MiB")
            if isinstance(event, yaml.ScalarEvent):
                open_[-1][0].append(_scalar(event))
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                open_.append(([], isinstance(event, yaml.MappingStartEvent)))
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                items, is_map = open_.pop()
                value = dict(zip(items[::2], items[1::2])) if is_map else items
                open_[-1][0].append(value)
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
        if self._ahead is None:
            self._ahead = next(self._events, yaml.StreamEndEvent())
            if isinstance(self._ahead, yaml.AliasEvent) or getattr(self._ahead, "anchor", None):
                raise NotImportable("it has references (`&` and `*`), which no cluster dump has")
        return self._ahead

    def _next(self) -> Any:
        event, self._ahead = self._peek(), None
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._depth += 1
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._depth -= 1
        if self._depth > DEEPEST:
            raise NotImportable(f"it has more than {DEEPEST} levels")
        return event


RESOLVER, CONSTRUCTOR = yaml.resolver.Resolver(), yaml.constructor.SafeConstructor()
PREFIX = "tag:yaml.org,2002:"
PLAIN = ("null", "bool", "int", "float")


def _scalar(event: Any) -> Any:
    """A text, a number, a truth or None. Times are texts."""
    tag = event.tag
    if tag is None:
        return _plain(event.value) if event.implicit[0] else event.value
    kind = tag[len(PREFIX) :] if tag.startswith(PREFIX) else None
    if kind == "str":
        return event.value
    if kind not in PLAIN:
        raise NotImportable(f"it has a value of the kind {tag[:100]}, which no cluster dump has")
    return _constructed(kind, event.value)


@lru_cache(maxsize=10_000)
def _plain(text: str) -> Any:
    tag: str = RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    kind = tag[len(PREFIX) :]
    return _constructed(kind, text) if kind in PLAIN else text


def _constructed(kind: str, text: str) -> Any:
    if kind == "int" and len(text) > 100:  # Python would take long, or refuse
        return text
    node = yaml.ScalarNode(PREFIX + kind, text)
    return getattr(CONSTRUCTOR, f"construct_yaml_{kind}")(node)


class _Fed:
    """A stream that gives no more than is allowed for what is being read."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream
        self.left: int | None = None  # None where what is read is not kept

    def read(self, size: int) -> bytes:
        if self.left is not None:
            if self.left <= 0:
                raise NotImportable(f"a value in it is larger than {LARGEST // MEBIBYTE} MiB")
            self.left -= size
        return self._stream.read(size)
