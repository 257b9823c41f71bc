"""Explains which part of an argument the server's schema does not know."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from galvo.client.server import Row, Server

KIND = "kind name"
TYPE = (
    "query ($name: String!) { __type(name: $name) { inputFields { name type { "
    + KIND
    + " ofType { "
    + KIND
    + " ofType { "
    + KIND
    + " ofType { "
    + KIND
    + " } } } } } enumValues { name } } }"
)


def problem_of(server: Server, type_name: str, given: Mapping[str, Any], place: str) -> str | None:
    """Returns which key or value the server's input type lacks; None if it knows all of them."""
    fields = {
        field["name"]: field["type"] for field in _described(server, type_name, "inputFields")
    }
    for name, value in given.items():
        if name not in fields:
            return f"{place}: there is no {name!r}{_instead(name, fields)}"
        kind = fields[name]
        while kind["ofType"] is not None:
            kind = kind["ofType"]
        problem = None
        if kind["kind"] == "ENUM":
            words = [one["name"] for one in _described(server, kind["name"], "enumValues")]
            problem = unknown_word(value, words, f"{place}[{name!r}]")
        elif kind["kind"] == "INPUT_OBJECT" and isinstance(value, Mapping):
            problem = problem_of(server, kind["name"], value, f"{place}[{name!r}]")
        if problem is not None:
            return problem
    return None


def unknown_word(value: Any, words: Iterable[str], place: str) -> str | None:
    """Returns which of one or several values is not among ``words``; None if all are."""
    known = list(words)
    for one in value if isinstance(value, (list, tuple)) else [value]:
        if one is not None and one not in known:
            return f"{place}: there is no {one!r}{_instead(str(one), known)}"
    return None


def _instead(name: str, known: Iterable[str]) -> str:
    known = list(known)
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower, 1)
    meant = f", did you mean {by_lower[near[0]]!r}?" if near else "."
    return f"{meant} There are {', '.join(known)}"


def _described(server: Server, type_name: str, members: str) -> list[Row]:
    found = server.graphql(TYPE, {"name": type_name})["__type"] or {}
    return found.get(members) or []
