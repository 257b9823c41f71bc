"""Benchmark results: printed, and kept as rows for the table of ``scripts/bench.sh``."""

import json
import os


def result(benchmark, figure, reference="", ratio=None, aim="", held=None):
    """Adds one row to the table. ``held`` is None if there is no target."""
    row = {
        "benchmark": benchmark,
        "figure": figure,
        "reference": reference,
        "ratio": ratio,
        "aim": aim,
        "held": held,
    }
    verdict = {None: "", True: "held", False: "MISSED"}[held]
    said = f"{benchmark}: {figure}"
    if reference:
        said += f"; reference {reference}"
    if ratio is not None:
        said += f"; ratio {ratio:.3f}"
    if aim:
        said += f"; aim {aim}: {verdict}"
    print(said, flush=True)
    if os.environ.get("BENCH_ROWS"):
        with open(os.environ["BENCH_ROWS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
