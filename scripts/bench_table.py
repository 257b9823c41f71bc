#!/usr/bin/env python3
"""Prints the results of the benchmarks as one table in Markdown: bench_table.py ROWS [FILE]."""

import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

VERDICTS = {None: "", True: "held", False: "**missed**"}


def machine():
    processor = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    name = processor.group(1) if processor else platform.machine()
    load = os.getloadavg()[2]
    return f"{os.cpu_count()} x {name}, {memory:.0f} GiB, load of the last 15 minutes {load:.1f}"


def commit():
    def git(*arguments):
        return subprocess.run(["git", *arguments], capture_output=True, text=True).stdout.strip()

    changed = ", with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + changed


def table(rows):
    lines = [
        "| benchmark | figure | reference | ratio | aim | |",
        "|---|---|---|---:|---|---|",
    ]
    for row in rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
        cells = (row["benchmark"], row["figure"], row["reference"], ratio, row["aim"])
        lines.append("| " + " | ".join([*cells, VERDICTS[row["held"]]]) + " |")
    return "\n".join(lines)


def main():
    path = Path(sys.argv[1])
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    missed = [row["benchmark"] for row in rows if row["held"] is False]
    quick = ", quick" if os.environ.get("BENCH_QUICK") == "1" else ""
    measured = f"Measured {time.strftime('%Y-%m-%d')}{quick}, commit {commit()}, {machine()}."
    text = f"{table(rows)}\n\n{measured}\n"
    print(text)
    print("missed: " + "; ".join(missed) if missed else "all aims are held")
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(text)


if __name__ == "__main__":
    main()
