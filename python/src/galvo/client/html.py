"""HTML for notebooks and files. All content is escaped, and the pages run no scripts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from html import escape

# JupyterLab's own rules for tables, lists and preformatted text right-align numbers and text alike.
# Their selectors name two classes and an element. Repeating the same class three times gives these
# rules a higher specificity.
STYLE = """
.galvo { font-family: system-ui, sans-serif; font-size: 13px; line-height: 1.4; }
.galvo .scroll { overflow-x: auto; }
.galvo.galvo.galvo table { border-collapse: collapse; margin: 4px 0; table-layout: auto;
  font-size: inherit; }
.galvo.galvo.galvo th, .galvo.galvo.galvo td { text-align: left; vertical-align: top;
  padding: 2px 14px 2px 0; border-bottom: 1px solid rgba(128, 128, 128, 0.3); max-width: 480px;
  line-height: inherit; white-space: normal; word-break: normal; overflow-wrap: break-word; }
.galvo.galvo.galvo th.number, .galvo.galvo.galvo td.number { text-align: right;
  white-space: nowrap; font-variant-numeric: tabular-nums; }
.galvo.galvo.galvo th.line, .galvo.galvo.galvo td.line { white-space: nowrap; }
.galvo.galvo.galvo ul { margin: 0; padding-left: 1.4em; list-style: disc; }
.galvo.galvo.galvo pre { margin: 0; white-space: pre-wrap; word-break: normal;
  overflow-wrap: break-word; font-size: inherit; background: none; }
.galvo .note { opacity: 0.7; }
.galvo .good { color: #1a7f37; } .galvo .notice { color: #9a6700; }
.galvo .bad { color: #cf222e; } .galvo .unknown, .galvo .estimated { opacity: 0.7; }
"""

# The kinds of a table's columns.
NUMBER, LINE = "number", "line"

# A saved page loads no resources and runs no scripts.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Html(str):
    """A string that is already HTML and is not escaped again."""

    __slots__ = ()


def element(name: str, content: object, kind: str = "") -> Html:
    """Returns an element with this content, which is escaped unless it is ``Html``."""
    attribute = f' class="{escape(kind)}"' if kind else ""
    return Html(f"<{name}{attribute}>{_inner(content)}</{name}>")


def table(
    titles: Sequence[str], rows: Iterable[Sequence[object]], kinds: Sequence[str] = ()
) -> Html:
    """Returns a table, without a head if ``titles`` is empty.

    ``kinds`` are the kinds of the columns: ``NUMBER`` for right-aligned cells, ``LINE`` for cells
    that must not wrap. All others are text.
    """
    head = element("thead", _line("th", titles, kinds)) if titles else ""
    body = element("tbody", Html("".join(_line("td", row, kinds) for row in rows)))
    # A table that is wider than the page scrolls by itself instead of scrolling the page.
    return element("div", element("table", Html(head + body)), "scroll")


def block(*parts: object) -> Html:
    """Returns a notebook's output: the parts below each other, with their style sheet."""
    style = Html(f"<style>{STYLE}</style>")
    return element("div", Html(style + "".join(_inner(part) for part in parts)), "galvo")


def document(title: str, *parts: object) -> str:
    """Returns a complete HTML page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        f"<title>{escape(title)}</title></head>\n<body>{block(*parts)}</body>\n</html>\n"
    )


def link(address: str, text: str) -> Html:
    """Returns a link to a web page, or only the text if the address is not an HTTP address."""
    if not re.match(r"https?://", address):
        return Html(escape(text))
    rel = 'rel="noopener noreferrer" target="_blank"'
    return Html(f'<a href="{escape(address)}" {rel}>{escape(text)}</a>')


def _line(name: str, cells: Sequence[object], kinds: Sequence[str]) -> Html:
    kind_of_each = itertools.chain(kinds, itertools.repeat(""))
    return element("tr", Html("".join(element(name, *cell) for cell in zip(cells, kind_of_each))))


def _inner(content: object) -> str:
    return content if isinstance(content, Html) else escape(str(content))
