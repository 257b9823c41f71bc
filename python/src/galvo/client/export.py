"""Lists that the server exports as files, read into tables of pyarrow, pandas and polars."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from urllib3.exceptions import HTTPError

from galvo.client.errors import MissingPackage, NotFound, ServerUnreachable
from galvo.client.server import Server
from galvo.client.values import plain

ROUTE = "/api/v1/export/"
ARROW = "application/vnd.apache.arrow.stream"
CSV = "text/csv"
# The size of a read from the network, in bytes.
PIECE = 1 << 20


class Export:
    """A list of any length that the server exports as a file. It is read on each access, and not
    before the first.

    ``docs/export.md`` of Galvo documents every list with its parameters and columns. Times are
    timestamps in UTC, durations are in seconds and sizes in bytes. Columns that hold JSON are
    strings.
    """

    def __init__(
        self,
        server: Server,
        name: str,
        parameters: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ):
        self._server = server
        self._name = name.strip("/")
        self._parameters = {
            name: _format_parameter(plain(value, name))
            for name, value in (parameters or {}).items()
            if value is not None
        }
        self._limit = limit

    def __repr__(self) -> str:
        return f"<Export {self._name} of {self._server.address}>"

    def limited(self, limit: int) -> Export:
        """Returns the same list with at most ``limit`` rows."""
        return Export(self._server, self._name, self._parameters, limit)

    def batches(self) -> Iterator[Any]:
        """Yields the rows as pyarrow's record batches. A batch is read after the previous one was
        used.

        The memory in use does not grow with the list. Needs pyarrow.
        """
        with self._reader() as reader:
            yield from _limit_rows(self._limit, reader)

    def to_arrow(self) -> Any:
        """Returns all rows as a ``pyarrow.Table``. Needs pyarrow."""
        pyarrow = _import_package("pyarrow")
        with self._reader() as reader:
            return pyarrow.Table.from_batches(_limit_rows(self._limit, reader), reader.schema)

    def to_pandas(self, **options: Any) -> Any:
        """Returns all rows as a ``pandas.DataFrame``. Needs pandas and pyarrow.

        Options are those of ``pyarrow.Table.to_pandas``.
        """
        _import_package("pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> Any:
        """Returns all rows as a ``polars.DataFrame``. Needs polars, but not pyarrow."""
        polars = _import_package("polars")
        file = io.BytesIO()
        with self._body(ARROW) as body:
            shutil.copyfileobj(body, file, PIECE)
        file.seek(0)
        frame = polars.read_ipc_stream(file)
        return frame if self._limit is None else frame.head(self._limit)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the exported file: CSV if the name ends in ``.csv``, otherwise an Arrow stream.

        Needs no other package. An existing file is replaced only after the whole export has
        arrived. A limit on the number of rows does not apply. Returns the path.
        """
        target = Path(path)
        media_type = CSV if target.suffix.lower() == ".csv" else ARROW
        return write_body(self._body(media_type), target)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[Any]:
        _import_package("pyarrow")
        ipc = importlib.import_module("pyarrow.ipc")
        with self._body(ARROW) as body, ipc.open_stream(io.BufferedReader(body, PIECE)) as reader:
            yield reader

    def _body(self, media_type: str) -> Body:
        path = ROUTE + quote(self._name)
        try:
            response = self._server.download(path, self._parameters, media_type)
        except NotFound as error:
            raise NotFound(_describe_missing(self._server, self._name), error.codes) from None
        return Body(response, self._server.address)


def _describe_missing(server: Server, name: str) -> str:
    """Returns a message that states what does not exist: the list itself, or the object it belongs
    to.
    """
    paths = server.get("/api/v1/openapi.json").get("paths", {})
    names = sorted(path[len(ROUTE) :] for path in paths if path.startswith(ROUTE))
    for template in names:
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), name):
            object_name = template.partition("/")[0].replace("-", " ").removesuffix("s")
            return f"there is no such {object_name} in this account"
    return f"there is no export {name!r}, but there are {', '.join(names)}"


def _limit_rows(limit: int | None, batches: Iterable[Any]) -> Iterator[Any]:
    """Yields the batches with the first ``limit`` rows, cutting the last batch if necessary."""
    remaining = limit
    for batch in batches:
        if remaining is None:
            yield batch
            continue
        yield batch.slice(0, remaining)
        remaining -= min(remaining, batch.num_rows)
        if remaining == 0:
            return


class Body(io.RawIOBase):
    """A response's body as a file.

    Reading raises ServerUnreachable if the connection breaks early.
    """

    def __init__(self, response: Any, address: str):
        super().__init__()
        self._response = response
        self._address = address
        self._is_complete = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            piece: bytes = self._response.read(len(buffer))
        except HTTPError as error:
            problem = f"{self._address} broke the export off, which is not complete: {error}"
            raise ServerUnreachable(problem) from None
        self._is_complete = not piece
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            # A connection whose response was not read to the end cannot be reused.
            if self._is_complete:
                self._response.release_conn()
            else:
                self._response.close()
        super().close()


def write_body(body: Body, target: Path) -> Path:
    """Writes a file that replaces another one only after the whole body has arrived."""
    temporary_file = target.with_name(target.name + ".part")
    try:
        with body, temporary_file.open("wb") as file:
            shutil.copyfileobj(body, file, PIECE)
        temporary_file.replace(target)
    finally:
        if temporary_file.exists():
            temporary_file.unlink()
    return target


def export(name: str, account: str | None = None, **parameters: Any) -> Export:
    """Returns a list as an exported file, for lists of any length.

    Parameters
    ----------
    name:
        The name of the list, as documented in ``docs/export.md`` after ``/api/v1/export/``:
        ``"usage-table"``, or ``"clusters/12/fine-metrics"``, where 12 is the cluster's number.
    account:
        The account. By default the configured account, then the token's own.
    parameters:
        The parameters of the list. None is the same as leaving one out. If a parameter's name is a
        Python keyword, append an underscore: ``from_="2026-11-01"``.

    Returns
    -------
    Export
        An object with ``to_pandas()``, ``to_polars()``, ``to_arrow()``, ``batches()`` and
        ``save()``. Nothing is read before one of them is called; NotFound is raised then if there
        is no such list.

    Raises
    ------
    TypeError
        If JSON cannot represent the value of a parameter. The message names the parameter.

    Examples
    --------
    >>> import galvo
    >>> galvo.export("clusters/12/functions").to_pandas()  # doctest: +SKIP
    >>> galvo.export("logs", match="memory", levels=["ERROR"]).save("logs.csv")  # doctest: +SKIP
    """
    plain_parameters = {name.rstrip("_"): value for name, value in parameters.items()}
    return Export(Server.configured(account), name, plain_parameters)


def _format_parameter(value: Any) -> str:
    """Formats a parameter as the server parses it: strings unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _import_package(name: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise MissingPackage(f"this needs {name}, which is not installed: pip install {name}")
    return importlib.import_module(name)
