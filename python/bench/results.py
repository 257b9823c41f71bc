"""Benchmark results: printed, and kept as rows for the table of ``scripts/bench.sh``."""

import json
import os


def result(benchmark, figure, reference="", ratio=None, target="", is_met=None):
    """Adds one row to the table. ``is_met`` is None if there is no target."""
    row = {
        "benchmark": benchmark,
        "figure": figure,
        "reference": reference,
        "ratio": ratio,
        "aim": target,
        "held": is_met,
    }
    verdict = {None: "", True: "held", False: "MISSED"}[is_met]
    line = f"{benchmark}: {figure}"
    if reference:
        line += f"; reference {reference}"
    if ratio is not None:
        line += f"; ratio {ratio:.3f}"
    if target:
        line += f"; aim {target}: {verdict}"
    print(line, flush=True)
    if os.environ.get("BENCH_ROWS"):
        with open(os.environ["BENCH_ROWS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
