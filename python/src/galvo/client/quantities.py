"""Numbers for people: sizes, amounts and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dask.utils import format_bytes


def size(count: int | None) -> str:
    """Bytes, in the largest unit that leaves something in front of the point."""
    return "" if count is None else str(format_bytes(count))


def count(number: float | None, things: str = "") -> str:
    """A number, with its thousands told apart, of things that are named in the plural."""
    if number is None:
        return ""
    named = things[:-1] if number == 1 and things.endswith("s") else things
    digits = f"{int(number):,}" if number == int(number) else f"{number:,.4g}"
    return digits + (f" {named}" if named else "")


def share(part: float | None) -> str:
    """A part of a whole, from 0 to 1, in percent."""
    return "" if part is None else f"{part:.0%}"


def amount(value: float, currency: str) -> str:
    """An amount of money; of small ones what is left of them shows."""
    if 0 < value < 0.0001:
        return f"less than 0.0001 {currency}"
    return f"{value:,.2f} {currency}" if value == 0 or value >= 1 else f"{value:.4f} {currency}"


def costs(rows: Iterable[Mapping[str, Any]]) -> str:
    """What something cost; amounts by rates that are estimated have a tilde in front."""
    return " + ".join(
        ("~" if row["basis"] == "ESTIMATED" else "") + amount(row["amount"], row["currency"])
        for row in rows
    )
