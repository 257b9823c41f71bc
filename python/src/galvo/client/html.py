"""HTML for notebooks and files. Whatever is put into it is escaped, and it runs no scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

STYLE = """
.galvo { font-family: system-ui, sans-serif; font-size: 13px; line-height: 1.4; }
.galvo table { border-collapse: collapse; margin: 4px 0; }
.galvo th, .galvo td { text-align: left; vertical-align: top; padding: 2px 10px 2px 0;
  border-bottom: 1px solid rgba(128, 128, 128, 0.3); max-width: 480px; overflow-wrap: anywhere; }
.galvo .note { opacity: 0.7; }
.galvo .good { color: #1a7f37; } .galvo .notice { color: #9a6700; }
.galvo .bad { color: #cf222e; } .galvo .unknown { opacity: 0.7; }
.galvo pre { margin: 0; white-space: pre-wrap; }
"""

# A page of its own loads nothing and runs nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Html(str):
    """A text that is HTML already, and is not escaped again."""

    __slots__ = ()


def element(name: str, content: object, kind: str = "") -> Html:
    """An element with this content, escaped unless it is HTML."""
    attribute = f' class="{escape(kind)}"' if kind else ""
    return Html(f"<{name}{attribute}>{_inner(content)}</{name}>")


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A table; without titles it has no head."""
    head = Html("".join(element("th", title) for title in titles))
    body = Html(
        "".join(element("tr", Html("".join(element("td", cell) for cell in row))) for row in rows)
    )
    above = element("thead", element("tr", head)) if titles else ""
    return element("table", Html(above + element("tbody", body)))


def block(*parts: object) -> Html:
    """What a notebook shows: parts below each other, with their style."""
    style = Html(f"<style>{STYLE}</style>")
    return element("div", Html(style + "".join(_inner(part) for part in parts)), "galvo")


def document(title: str, *parts: object) -> str:
    """A page of its own."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        f"<title>{escape(title)}</title></head>\n<body>{block(*parts)}</body>\n</html>\n"
    )


def link(address: str, words: str) -> Html:
    """A link to a web page; the bare words when the address is of another kind."""
    if not re.match(r"https?://", address):
        return Html(escape(words))
    rel = 'rel="noopener noreferrer" target="_blank"'
    return Html(f'<a href="{escape(address)}" {rel}>{escape(words)}</a>')


def _inner(content: object) -> str:
    return content if isinstance(content, Html) else escape(str(content))
