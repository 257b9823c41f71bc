"""The rows of a list: dictionaries, shown as a table, convertible to a DataFrame."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from galvo.client import html, quantities
from galvo.client.export import Export
from galvo.client.moments import parse_time
from galvo.client.server import Row

# The number of rows that a notebook shows.
SHOWN = 20


class Column(NamedTuple):
    """A column of the table in a notebook."""

    title: str
    text: Callable[[Row], object]
    kind: str = ""  # a kind of ``html.table``


class Kind(NamedTuple):
    """The kind of a list's rows."""

    name: str  # the plural noun
    times: tuple[tuple[str, ...], ...]  # the paths of the timestamps
    columns: tuple[Column, ...]  # the columns shown


class Records(list[Row]):
    """The rows of a list in the server's order: a list of dictionaries.

    The dictionaries have the names, the nesting and the units of the server's GraphQL schema:
    ``row["totals"]["tasks"]``. Times are ``datetime`` in UTC, durations are in seconds, sizes in
    bytes. Unknown values are None. The columns of the DataFrames have the same names, with a dot
    between nested names: ``"totals.tasks"``.

    Attributes
    ----------
    complete:
        True if these are all rows; False if the limit cut off further rows.
    """

    def __init__(self, rows: Iterable[Row], kind: Kind, export: Export, complete: bool = True):
        super().__init__(rows)
        self.complete = complete
        self._kind = kind
        self._export = export

    def to_pandas(self, **options: Any) -> Any:
        """Returns the list as a ``pandas.DataFrame``. Needs pandas and pyarrow.

        The list is read from the server again, as Arrow, and may have changed since. A list that
        was cut off at its limit has the same number of rows. Columns that hold JSON, such as
        ``usage.costs``, are strings. Options are those of ``pyarrow.Table.to_pandas``.
        """
        return self._export.to_pandas(**options)

    def to_polars(self) -> Any:
        """Returns the list as a ``polars.DataFrame``, like ``to_pandas``. Needs polars."""
        return self._export.to_polars()

    def to_arrow(self) -> Any:
        """Returns the list as a ``pyarrow.Table``, like ``to_pandas``. Needs pyarrow."""
        return self._export.to_arrow()

    def _repr_html_(self) -> str:
        columns = self._kind.columns
        rows = [[column.text(row) for column in columns] for row in self[:SHOWN]]
        summary = quantities.count(len(self), self._kind.name)
        summary += "" if self.complete else ", and there are more"
        summary += f"; the first {SHOWN}:" if len(self) > SHOWN else ""
        titles, _, kinds = zip(*columns)
        table = html.table(titles, rows, kinds) if rows else ""
        return html.block(html.element("div", summary, "note"), table)

    def __reduce__(self) -> tuple[Any, ...]:
        # The other attributes hold a token, which must not be pickled to files or other machines.
        return list, (list(self),)


def collect(pages: Iterable[list[Row]], kind: Kind, export: Export, limit: int | None) -> Records:
    """Collects the rows of these pages, at most ``limit``, and warns if there are more.

    Raises ValueError if ``limit`` is less than 1.
    """
    if limit is not None and limit < 1:
        raise ValueError("limit has to be 1 or more, or None for all there are")
    rows: list[Row] = []
    complete = True
    for page in pages:
        for row in page:
            for path in kind.times:
                _read_time(row, path)
        rows += page
        if limit is not None and len(rows) > limit:
            rows, complete = rows[:limit], False
            break
    if not complete:
        warnings.warn(
            f"there are more than {limit:,} {kind.name}, of which these are the first: ask for"
            " less, or set limit to more or to None",
            stacklevel=4,
        )
    return Records(rows, kind, export if complete else export.limited(len(rows)), complete)


def _read_time(row: Row, path: tuple[str, ...]) -> None:
    *parents, name = path
    container: Any = row
    for step in parents:
        container = container[step]
        if container is None:
            return
    if container[name] is not None:
        container[name] = parse_time(container[name])
