"""Formats numbers for people: sizes, amounts and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dask.utils import format_bytes


def size(count: int | None) -> str:
    """Formats bytes in the largest unit that leaves a digit before the decimal point."""
    return "" if count is None else str(format_bytes(count))


def count(number: float | None, plural: str = "") -> str:
    """Formats a number with thousands separators. ``things`` is the plural of the counted noun."""
    if number is None:
        return ""
    noun = plural[:-1] if number == 1 and plural.endswith("s") else plural
    digits = f"{int(number):,}" if number == int(number) else f"{number:,.4g}"
    return digits + (f" {noun}" if noun else "")


def share(ratio: float | None) -> str:
    """Formats a share from 0 to 1 as a percentage."""
    return "" if ratio is None else f"{ratio:.0%}"


def amount(value: float, currency: str) -> str:
    """Formats an amount of money with its currency, as the server's answers do.

    Amounts below 0.1 have four decimals, so that a small amount does not become zero.
    """
    if 0 < value < 0.0001:
        return f"less than 0.0001 {currency}"
    return f"{value:.4f} {currency}" if 0 < value < 0.1 else f"{value:,.2f} {currency}"


def costs(rows: Iterable[Mapping[str, Any]]) -> str:
    """Formats costs. A tilde precedes an amount that is based on estimated rates."""
    return " + ".join(
        ("~" if row["basis"] == "ESTIMATED" else "") + amount(row["amount"], row["currency"])
        for row in rows
    )
