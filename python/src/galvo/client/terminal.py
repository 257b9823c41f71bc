"""Makes untrusted text safe to print on a terminal."""

from __future__ import annotations

import re

# Every character that moves the cursor, changes colors, ends a line or reverses its direction,
# except tabs, and every invisible character. The server has the same list in its
# `domain/visible_text.rs`.
CONTROL = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)


def printable(text: str) -> str:
    """Returns the text on one line, with every control character escaped."""
    return CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def table(titles: list[str], rows: list[list[str]]) -> str:
    """Formats rows as lines with aligned columns."""
    cells = [titles, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(titles))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells)
    return "\n".join(lines)
