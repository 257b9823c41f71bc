"""Lists as the server's files, read into tables of pyarrow, pandas and polars."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from urllib3.exceptions import HTTPError

from galvo.client.errors import MissingPackage, ServerUnreachable
from galvo.client.server import Server
from galvo.client.values import plain

ARROW = "application/vnd.apache.arrow.stream"
CSV = "text/csv"
# Bytes that are taken from the network at once.
PIECE = 1 << 20


class Export:
    """A list that the server answers as a file, however long it is. Nothing is read before it is
    asked for, and each time it is read anew.

    ``docs/export.md`` of Galvo lists all of them, with their parameters and columns. Times are
    timestamps in UTC, durations seconds and sizes bytes; columns that hold JSON are texts.
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
            name: _written(plain(value, name))
            for name, value in (parameters or {}).items()
            if value is not None
        }
        self._limit = limit

    def __repr__(self) -> str:
        return f"<Export {self._name} of {self._server.address}>"

    def limited(self, limit: int) -> Export:
        """The same list, cut off after so many rows."""
        return Export(self._server, self._name, self._parameters, limit)

    def batches(self) -> Iterator[Any]:
        """The rows as pyarrow's record batches, each read when the one before was used.

        The memory it takes does not grow with the list. Needs pyarrow.
        """
        with self._reader() as reader:
            yield from _the_first(self._limit, reader)

    def to_arrow(self) -> Any:
        """All rows as a ``pyarrow.Table``. Needs pyarrow."""
        pyarrow = _package("pyarrow")
        with self._reader() as reader:
            return pyarrow.Table.from_batches(_the_first(self._limit, reader), reader.schema)

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a ``pandas.DataFrame``. Needs pandas and pyarrow.

        Options are those of ``pyarrow.Table.to_pandas``.
        """
        _package("pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> Any:
        """All rows as a ``polars.DataFrame``. Needs polars, and no pyarrow."""
        polars = _package("polars")
        file = io.BytesIO()
        with self._body(ARROW) as body:
            shutil.copyfileobj(body, file, PIECE)
        file.seek(0)
        read = polars.read_ipc_stream(file)
        return read if self._limit is None else read.head(self._limit)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the server's file: CSV if the name ends in ``.csv``, otherwise Arrow's stream.

        Needs no other package. A file of that name is replaced once all has arrived, not before.
        """
        target = Path(path)
        media_type = CSV if target.suffix.lower() == ".csv" else ARROW
        part = target.with_name(target.name + ".part")
        try:
            with self._body(media_type) as body, part.open("wb") as file:
                shutil.copyfileobj(body, file, PIECE)
            part.replace(target)
        finally:
            if part.exists():
                part.unlink()
        return target

    @contextlib.contextmanager
    def _reader(self) -> Iterator[Any]:
        _package("pyarrow")
        ipc = importlib.import_module("pyarrow.ipc")
        with self._body(ARROW) as body, ipc.open_stream(io.BufferedReader(body, PIECE)) as reader:
            yield reader

    def _body(self, media_type: str) -> _Body:
        path = "/api/v1/export/" + quote(self._name)
        response = self._server.download(path, self._parameters, media_type)
        return _Body(response, self._server.address)


def _the_first(limit: int | None, batches: Iterable[Any]) -> Iterator[Any]:
    """The batches of so many rows, of which the last may be a part of one."""
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)
        if left == 0:
            return


class _Body(io.RawIOBase):
    """The body of an answer as a file that fails when it ends before its end."""

    def __init__(self, response: Any, address: str):
        super().__init__()
        self._response = response
        self._address = address
        self._whole = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            piece: bytes = self._response.read(len(buffer))
        except HTTPError as error:
            problem = f"{self._address} broke the export off, which is not complete: {error}"
            raise ServerUnreachable(problem) from None
        self._whole = not piece
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            # What was not read to its end cannot be used for the next request.
            if self._whole:
                self._response.release_conn()
            else:
                self._response.close()
        super().close()


def export(name: str, account: str | None = None, **parameters: Any) -> Export:
    """A list as a file of the server, for lists of any length.

    Parameters
    ----------
    name:
        Which list, as in ``docs/export.md`` behind ``/api/v1/export/``: ``"usage-table"``, or
        ``"clusters/12/fine-metrics"``, where 12 is the cluster's number.
    account:
        The account; by default the configured one, and then the token's own.
    parameters:
        Those of the list. One whose name is a word of Python's is written with an underscore behind
        it: ``from_="2026-11-01"``.

    Returns
    -------
    Export
        With ``to_pandas()``, ``to_polars()``, ``to_arrow()``, ``batches()`` and ``save()``.

    Examples
    --------
    >>> import galvo
    >>> galvo.export("clusters/12/functions").to_pandas()  # doctest: +SKIP
    >>> galvo.export("logs", match="memory", levels=["ERROR"]).save("logs.csv")  # doctest: +SKIP
    """
    named = {name.rstrip("_"): value for name, value in parameters.items()}
    return Export(Server.configured(account), name, named)


def _written(value: Any) -> str:
    """A parameter as the server reads it: texts as they are, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _package(name: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise MissingPackage(f"this needs {name}, which is not installed: pip install {name}")
    return importlib.import_module(name)
