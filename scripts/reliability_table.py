#!/usr/bin/env python3
"""Prints the results of tests/faults as the table of docs/reliability.md.

Usage: reliability_table.py OUTCOMES.jsonl [DOCUMENT]

Several outcomes of a fault become one row: reports and facts are summed, and the longest recovery
time is shown. With a document, the text between its two marks is replaced; without one, the table
is printed.
"""

import json
import sys
from pathlib import Path

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
HEAD = (
    "| fault | store | acknowledged reports | of them lost | facts compared | recovery"
    " | measured |\n"
    "|---|---|---|---|---|---|---|\n"
)


def rows(lines):
    merged = {}
    for line in lines:
        outcome = json.loads(line)
        key = outcome["fault"], outcome["store"]
        row = merged.setdefault(
            key, {**outcome, "acknowledged": 0, "lost": 0, "facts": 0, "times": []}
        )
        for field in ("acknowledged", "lost", "facts"):
            row[field] += outcome[field]
        if outcome["recovery_seconds"] is not None:
            row["times"].append(outcome["recovery_seconds"])
        row["note"] = outcome["note"]
    return merged


def table(lines):
    text = HEAD
    for (fault, store), row in sorted(rows(lines).items()):
        recovery = f"{max(row['times']):.1f} s" if row["times"] else ""
        text += (
            f"| {fault} | {STORES[store]} | {row['acknowledged']:,} | {row['lost']}"
            f" | {row['facts']:,} | {recovery} | {row['note']} |\n"
        )
    return text


def main():
    text = table(Path(sys.argv[1]).read_text().splitlines())
    if len(sys.argv) < 3:
        print(text, end="")
        return
    document = Path(sys.argv[2])
    before, after_begin = document.read_text().split(BEGIN)
    _, after = after_begin.split(END)
    document.write_text(f"{before}{BEGIN}\n{text}{END}{after}")


if __name__ == "__main__":
    main()
