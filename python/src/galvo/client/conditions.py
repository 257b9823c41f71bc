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


def problem_of(
    server: Server, type_name: str, argument: Mapping[str, Any], path: str
) -> str | None:
    """Returns which key or value the server's input type lacks; None if it knows all of them."""
    fields = {
        field["name"]: field["type"]
        for field in _describe_members(server, type_name, "inputFields")
    }
    for name, value in argument.items():
        if name not in fields:
            return f"{path}: there is no {name!r}{_suggest(name, fields)}"
        kind = fields[name]
        while kind["ofType"] is not None:
            kind = kind["ofType"]
        problem = None
        if kind["kind"] == "ENUM":
            names = [item["name"] for item in _describe_members(server, kind["name"], "enumValues")]
            problem = describe_unknown_value(value, names, f"{path}[{name!r}]")
        elif kind["kind"] == "INPUT_OBJECT" and isinstance(value, Mapping):
            problem = problem_of(server, kind["name"], value, f"{path}[{name!r}]")
        if problem is not None:
            return problem
    return None


def describe_unknown_value(value: Any, names: Iterable[str], path: str) -> str | None:
    """Returns which of one or several values is not among ``words``; None if all are."""
    known_values = list(names)
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if item is not None and item not in known_values:
            return f"{path}: there is no {item!r}{_suggest(str(item), known_values)}"
    return None


def _suggest(name: str, known_names: Iterable[str]) -> str:
    known_names = list(known_names)
    by_lower = {item.lower(): item for item in known_names}
    matches = difflib.get_close_matches(name.lower(), by_lower, 1)
    suggestion = f", did you mean {by_lower[matches[0]]!r}?" if matches else "."
    return f"{suggestion} There are {', '.join(known_names)}"


def _describe_members(server: Server, type_name: str, members: str) -> list[Row]:
    schema_type = server.graphql(TYPE, {"name": type_name})["__type"] or {}
    return schema_type.get(members) or []
