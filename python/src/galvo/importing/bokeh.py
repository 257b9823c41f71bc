"""Pages that Bokeh wrote: the documents in them, and their data columns.

Except for the release named in the page, only JSON is read. Between Bokeh's releases since version
1 two things differ: models are either listed in one place and refer to each other, or are nested;
and arrays of numbers are either called ``__ndarray__`` or have the type ``ndarray``.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from galvo.client.errors import NotImportable

# The bounds for one array, in bytes, and for the values visited in a search.
LARGEST_ARRAY, MOST_VISITED = 1 << 28, 50_000_000
# The entities for characters that would end a script. No other entity occurs there.
ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "#x27": "'", "#x60": "`"}
ENTITY = re.compile("&(amp|lt|gt|quot|#x27|#x60);")
# The names of Bokeh's scripts in a page, and the range of supported releases.
LINK = re.compile(r"\bbokeh-(\d{1,4}(?:\.\d{1,4}){1,3})(?:\.min)?\.(?:js|css)")
OLDEST, NEXT = (2, 4), (4,)
# The ``struct`` letters of Bokeh's types.
LETTERS = {
    "bool": "?", "uint8": "B", "int8": "b", "uint16": "H", "int16": "h", "uint32": "I",
    "int32": "i", "uint64": "Q", "int64": "q", "float32": "f", "float64": "d",
}  # fmt: skip

Model = dict[str, Any]


class Page:
    """The models of all documents in a page.

    Attributes
    ----------
    version:
        The release of Bokeh that wrote it, such as ``"2.4.3"``. None if the page does not name it.
    """

    def __init__(self, html: str):
        self._models: dict[str, Model] = {}  # by identifier
        link = LINK.search(html)
        self.version = link[1] if link else None
        documents = 0
        for text in _scripts(html):
            try:
                content = json.loads(ENTITY.sub(lambda entity: ENTITIES[entity[1]], text))
            except (ValueError, RecursionError):
                raise NotImportable("a JSON script in the page cannot be read") from None
            for document in content.values() if isinstance(content, dict) else ():
                if isinstance(document, dict) and "roots" in document:
                    documents += 1
                    version = document.get("version")
                    if isinstance(version, str) and re.match(r"\d", version):
                        self.version = version[:20]
                    self._collect_models(document["roots"])
        if not documents:
            raise NotImportable(self.explain("there is no document of Bokeh in the page"))

    @property
    def is_old(self) -> bool:
        """True if the release is older than the supported ones."""
        return self.version is not None and _numbers(self.version) < OLDEST

    def explain(self, problem: str) -> str:
        """Returns the problem, with the release of Bokeh if that is the likely cause."""
        if self.version is None or OLDEST <= _numbers(self.version) < NEXT:
            return problem
        return (
            f"Bokeh {self.version} drew it, and pages of Bokeh 2.4 to 3 are known alone: {problem}"
        )

    def panel(self, title: str) -> Model | None:
        """Returns the tab with this title; None if there is none."""
        for model in self._models.values():
            if _attributes(model).get("title") == title and "child" in _attributes(model):
                return model
        return None

    def models(self) -> Iterator[Model]:
        return iter(self._models.values())

    def descendants(self, model: Model | None) -> Iterator[Model]:
        """Yields a model and all its parts, in breadth-first order."""
        pending: list[Any] = [] if model is None else [model]
        seen: set[int] = set()
        for value in pending:  # grows during the loop
            if isinstance(value, dict):
                identifier = value.get("id")
                if isinstance(identifier, str) and "attributes" not in value:
                    value = self._models.get(identifier, {})
                if id(value) in seen:
                    continue
                seen.add(id(value))
                if "attributes" in value:
                    yield value
                pending.extend(value.values())
            elif isinstance(value, list):
                pending.extend(item for item in value if isinstance(item, (dict, list)))
            if len(pending) > MOST_VISITED:
                raise NotImportable("there is too much in the page")

    def _collect_models(self, roots: Any) -> None:
        pending = [roots]
        for value in pending:  # grows during the loop
            if isinstance(value, dict):
                if isinstance(value.get("attributes"), dict) and isinstance(value.get("id"), str):
                    self._models.setdefault(value["id"], value)
                pending.extend(v for v in value.values() if isinstance(v, (dict, list)))
            elif isinstance(value, list):
                pending.extend(item for item in value if isinstance(item, (dict, list)))
            if len(pending) > MOST_VISITED:
                raise NotImportable("there is too much in the page")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version)[:3])


def text_in(model: Model) -> str | None:
    """Returns the HTML that a model shows; None if it shows none."""
    text = _attributes(model).get("text")
    return text if isinstance(text, str) else None


def columns_in(model: Model, *names: str) -> dict[str, list[Any]] | None:
    """Returns the columns of a data source if it has all of these; all have the same length."""
    data = _attributes(model).get("data")
    if isinstance(data, dict) and data.get("type") == "map":
        entries = data.get("entries")
        pairs = [entry for entry in entries or () if isinstance(entry, list) and len(entry) == 2]
        data = {name: column for name, column in pairs if isinstance(name, str)}
    if not isinstance(data, dict) or any(name not in data for name in names):
        return None
    columns = {name: _array(name, data[name]) for name in names}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise NotImportable(f"the columns {', '.join(names)} are not equally long")
    return columns


def lines_of(html: str) -> list[str]:
    """Returns the texts of the paragraphs and list items in HTML."""
    reader = _Lines()
    reader.feed(html)
    reader.close()
    return [line for line in map(str.strip, reader.lines) if line]


class _Reader(HTMLParser):
    """Python's parser, made to accept any page."""

    def parse_marked_section(self, i: int, report: bool | int = 1) -> int:
        # The SGML version raises errors for some names. In HTML this is a bogus comment.
        return self.parse_bogus_comment(i)


class _Scripts(_Reader):
    """Collects scripts that are JSON. The content of a script is not markup."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.scripts: list[list[str]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "script" and dict(attributes).get("type") == "application/json":
            self._inside = True
            self.scripts.append([])

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1].append(data)


class _Lines(_Reader):
    def __init__(self) -> None:
        super().__init__()
        self.lines = [""]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        self.lines.append("")

    def handle_data(self, data: str) -> None:
        self.lines[-1] += data


def _scripts(html: str) -> Iterator[str]:
    reader = _Scripts()
    reader.feed(html)
    reader.close()
    return ("".join(parts) for parts in reader.scripts)


def _attributes(model: Model) -> dict[str, Any]:
    attributes = model.get("attributes")
    return attributes if isinstance(attributes, dict) else {}


def _array(name: str, value: Any) -> list[Any]:
    """Returns a column as a list, from any of Bokeh's notations."""
    if isinstance(value, list):
        return [_number(item) for item in value]
    if isinstance(value, dict):
        packed: Any = value.get("__ndarray__")
        if value.get("type") in ("ndarray", "typed_array"):
            packed = value.get("array")
            if isinstance(packed, dict) and packed.get("type") == "bytes":
                packed = packed.get("data")
        if isinstance(packed, list):
            return [_number(item) for item in packed]
        if isinstance(packed, str):
            return _unpacked(name, packed, value)
    raise NotImportable(f"the column {name} is in no notation of Bokeh's that is known")


def _unpacked(name: str, packed: str, described: dict[str, Any]) -> list[Any]:
    letter, order = LETTERS.get(str(described.get("dtype"))), described.get("order", "little")
    if letter is None:
        raise NotImportable(f"the column {name} has values of a type that is not known")
    try:
        content = base64.b64decode(packed, validate=True)
        if content[:2] == b"\x1f\x8b":  # compressed since Bokeh 3.4
            inflate = zlib.decompressobj(31)
            content = inflate.decompress(content, LARGEST_ARRAY + 1)
    except (binascii.Error, ValueError, zlib.error):
        raise NotImportable(f"the column {name} is damaged") from None
    size = struct.calcsize("=" + letter)
    shape = described.get("shape")
    if len(content) > LARGEST_ARRAY or len(content) % size:
        raise NotImportable(f"the column {name} is damaged, or too large")
    number = len(content) // size
    if isinstance(shape, list) and shape != [number]:
        raise NotImportable(f"the column {name} is no list of {number:,} values")
    return list(struct.unpack(f"{'>' if order == 'big' else '<'}{number}{letter}", content))


def _number(value: Any) -> Any:
    """Returns a value of a list, in which NaN and infinities are written as words."""
    if isinstance(value, dict) and value.get("type") == "number":
        return {"nan": float("nan"), "+inf": float("inf"), "-inf": float("-inf")}.get(
            str(value.get("value"))
        )
    return value
