"""Rows of a list: dictionaries, shown as a table, read as a DataFrame."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from galvo.client import html, quantities
from galvo.client.export import Export
from galvo.client.moments import moment
from galvo.client.server import Row

# Rows that a notebook shows.
SHOWN = 20


class Kind(NamedTuple):
    """What the rows of a list are."""

    name: str  # in the plural
    times: tuple[tuple[str, ...], ...]  # the names that lead to moments
    columns: tuple[tuple[str, Callable[[Row], object]], ...]  # what is shown: titles and texts


class Records(list[Row]):
    """Rows of a list of the server, in its order: a list of dictionaries.

    The dictionaries have the names, the nesting and the units of the server's GraphQL schema:
    ``row["totals"]["tasks"]``. Moments are ``datetime`` in UTC, durations seconds, sizes bytes;
    what is not known is None. The columns of the DataFrames have the same names, with a dot where
    dictionaries are nested: ``"totals.tasks"``.

    Attributes
    ----------
    complete:
        Whether these are all rows there were; False when there were more than the limit.
    """

    def __init__(self, rows: Iterable[Row], kind: Kind, export: Export, complete: bool = True):
        super().__init__(rows)
        self.complete = complete
        self._kind = kind
        self._export = export

    def to_pandas(self, **options: Any) -> Any:
        """The list as a ``pandas.DataFrame``. Needs pandas and pyarrow.

        It is read from the server again, as Arrow, and may have changed meanwhile; of lists that
        were cut off at their limit it has as many rows. Columns that hold JSON, such as
        ``usage.costs``, are texts. Options are those of ``pyarrow.Table.to_pandas``.
        """
        return self._export.to_pandas(**options)

    def to_polars(self) -> Any:
        """The same as a ``polars.DataFrame``. Needs polars."""
        return self._export.to_polars()

    def to_arrow(self) -> Any:
        """The same as a ``pyarrow.Table``. Needs pyarrow."""
        return self._export.to_arrow()

    def _repr_html_(self) -> str:
        titles = [title for title, _ in self._kind.columns]
        rows = [[text(row) for _, text in self._kind.columns] for row in self[:SHOWN]]
        counted = quantities.count(len(self), self._kind.name)
        counted += "" if self.complete else ", and there are more"
        counted += f"; the first {SHOWN}:" if len(self) > SHOWN else ""
        shown = html.table(titles, rows) if rows else ""
        return html.block(html.element("div", counted, "note"), shown)

    def __reduce__(self) -> tuple[Any, ...]:
        # The rest holds a token, which must not get into files or to other machines.
        return list, (list(self),)


def collect(pages: Iterable[list[Row]], kind: Kind, export: Export, limit: int | None) -> Records:
    """The rows of these pages, at most as many as the limit says."""
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
    *above, name = path
    place: Any = row
    for step in above:
        place = place[step]
        if place is None:
            return
    if place[name] is not None:
        place[name] = moment(place[name])
