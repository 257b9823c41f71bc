"""The demonstration of the README shows what it says."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_make_demo_ends_with_the_workloads_answer():
    # The server takes every GALVO_ variable for a setting of its own.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GALVO_")}
    # Built by itself, its dependencies get other features and are compiled once more, for minutes.
    environment["DEMO_PROGRAM"] = str(os.environ.get("GALVO_BIN", ROOT / "target/debug/galvo"))
    demo = subprocess.run(
        ["make", "demo"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert demo.returncode == 0, demo.stdout[-3000:] + demo.stderr[-3000:]
    for part in ("query Demo {", '"prefix": "make_chunk"', "this demo task fails on purpose"):
        assert part in demo.stdout
