"""Performance reports: reads the pages that ``distributed.performance_report`` writes.

A page has the data of Dask's dashboard for a block of code: each task with its time, place and
duration, the scheduler's resources, and the profile of the workers. It does not contain tasks that
did not run, results, or the reasons of failures.
"""

from __future__ import annotations

import math
import re
from typing import Any

from dask.utils import parse_bytes, parse_timedelta

from galvo.client.errors import NotImportable
from galvo.importing.artefact import MEBIBYTE, Artefact
from galvo.importing.bokeh import Page, columns_in, lines_of, text_in
from galvo.importing.values import memory_of

MOST_BYTES = 256 * MEBIBYTE
TITLE, CODE = "Dask Performance Report", "<h2> Calling Code </h2>"
TASKS = ("start", "duration", "key", "name", "color", "worker", "worker_thread")
SYSTEM = ("time", "cpu", "memory")
FLAMES = ("bottom", "width", "time", "filename", "name", "line_number", "line")
# The time of a log line is written twice.
HOUR = re.compile(r"\d\d:\d\d:\d\d\.\d{6} - ")


class PerformanceReport:
    """The content of a performance report's page."""

    def __init__(self, artefact: Artefact):
        page = Page(artefact.text(MOST_BYTES))
        self.drawn_by, self.is_old, self.explain = page.version, page.is_old, page.explain
        try:
            self._read(page)
        except NotImportable as error:
            raise NotImportable(page.explain(str(error))) from None

    def _read(self, page: Page) -> None:
        texts = (text_in(model) or "" for model in page.models())
        summary = next((text for text in texts if TITLE in text), None)
        if summary is None:
            raise NotImportable("it is no performance report: there is no summary in it")
        entries_html, _, code_html = summary.partition(CODE)
        self._summary = _pairs(lines_of(entries_html))
        # Unmodified, because nothing is escaped there.
        self.code = code_html.partition("<pre>")[2].rpartition("</pre>")[0].strip("\n")
        self.tasks = self._columns(page, None, TASKS)
        if self.tasks is None:
            raise NotImportable("it is no performance report: there is no task stream in it")
        self.system = self._columns(page, "System", SYSTEM) or {name: [] for name in SYSTEM}
        self.flames = self._columns(page, "Worker Profile (compute)", FLAMES)
        panel = page.panel("Scheduler Logs")
        logs = next((text for text in map(text_in, page.descendants(panel)) if text), "")
        self.logs = [HOUR.sub("", line, count=1) for line in lines_of(logs)]

    @staticmethod
    def _columns(page: Page, title: str | None, names: tuple[str, ...]) -> Any:
        """Returns the first data source with these columns, in the tab with this title."""
        models = page.models() if title is None else page.descendants(page.panel(title))
        sources = (columns_in(model, *names) for model in models)
        return next((columns for columns in sources if columns is not None), None)

    def text_of_line(self, name: str) -> str | None:
        """Returns an entry of the summary as text; None if there is none."""
        return self._summary.get(name.lower())

    def number(self, name: str) -> int | None:
        text = self.text_of_line(name)
        return int(text) if text is not None and re.fullmatch(r"\d{1,9}", text) else None

    def seconds(self, name: str) -> float | None:
        """Returns a duration in seconds, which was rounded for display; None if there is none."""
        try:
            duration = float(parse_timedelta(self.text_of_line(name) or "", default="s"))
        except (ValueError, KeyError, TypeError, OverflowError, IndexError):
            return None
        return duration if 0 <= duration < math.inf else None

    def size(self, name: str) -> int | None:
        """Returns bytes, which were rounded for display; None if there are none."""
        try:
            nbytes = parse_bytes(self.text_of_line(name) or "")
        except (ValueError, TypeError, OverflowError):
            return None
        return memory_of(nbytes)


def _pairs(lines: list[str]) -> dict[str, str]:
    """Returns the lines of a summary by the text before the colon."""
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}
