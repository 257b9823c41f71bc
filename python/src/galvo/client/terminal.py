"""Texts of others on a terminal."""

from __future__ import annotations

import re

# Everything that would move the cursor, change colours or end a line, but for tabs.
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text in one line, in which nothing can tell the terminal what to do."""
    return CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def table(titles: list[str], rows: list[list[str]]) -> str:
    """Lines with columns as wide as they need to be."""
    cells = [titles, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(titles))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells)
    return "\n".join(lines)
