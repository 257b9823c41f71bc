"""The client of ``errands.py``, which also queries Galvo with the Python package."""

import sys
import warnings
from datetime import datetime

import client
import errands
import galvo


def plain(value):
    """Returns a value as JSON; times become seconds since 1970."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def flat(row, above=""):
    """Returns a row as columns: nested names are joined by dots, and lists are unchanged."""
    cells = {}
    for name, value in row.items():
        if isinstance(value, dict) and name != "data":
            cells.update(flat(value, f"{above}{name}."))
        else:
            cells[above + name] = value
    return cells


class Analyst(errands.Errands):
    def call_function(self, function, mine=False, **arguments):
        """Returns the rows of a package function; with ``mine``, about this client's cluster."""
        if mine:
            arguments["cluster_id"] = self.client
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", UserWarning)
            returned = getattr(galvo, function)(**arguments)
        messages = [str(one.message) for one in warned if issubclass(one.category, UserWarning)]
        return {"rows": plain(returned), "warnings": messages}

    def refused(self, function, **arguments):
        """Returns the error of a failing function."""
        try:
            getattr(galvo, function)(**arguments)
        except galvo.GalvoError as error:
            return {"kind": type(error).__name__, "message": str(error), "codes": error.codes}

    def tables(self, function, **arguments):
        """Returns the rows of a list, and the same as tables: the cells of each, row by row."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            records = getattr(galvo, function)(**arguments)
        arrow = records.to_arrow()
        pandas, polars = records.to_pandas(), records.to_polars()
        assert list(pandas.columns) == polars.columns == arrow.column_names
        assert len(pandas) == len(polars) == arrow.num_rows
        return {
            "rows": [plain(flat(row)) for row in records],
            "arrow": [plain(row) for row in arrow.to_pylist()],
            "polars": [plain(row) for row in polars.to_dicts()],
            "types": {name: str(kind) for name, kind in pandas.dtypes.items()},
            "html": records._repr_html_(),
        }

    def table_without_packages(self):
        try:
            galvo.list_clusters().to_pandas()
        except ImportError as error:
            return str(error)

    def report(self, mine=True):
        report = galvo.report(self.client if mine else None)
        return {"data": report.data, "text": str(report), "html": report.html()}


if __name__ == "__main__":
    client.Commands = Analyst
    client.main(sys.argv[1])
