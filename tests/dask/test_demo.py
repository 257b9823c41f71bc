"""The README's demonstration prints what the README shows."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_make_demo_ends_with_the_workloads_answer():
    # The server treats every GALVO_ variable as a setting.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GALVO_")}
    # A separate build has other features in its dependencies and recompiles them for minutes.
    environment["DEMO_PROGRAM"] = str(os.environ.get("GALVO_BIN", ROOT / "target/debug/galvo"))
    demo = subprocess.run(
        ["make", "demo"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert demo.returncode == 0, demo.stdout[-3000:] + demo.stderr[-3000:]
    for part in ("query Demo {", '"prefix": "make_chunk"', "this demo task fails on purpose"):
        assert part in demo.stdout
