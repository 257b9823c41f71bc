"""Invariants of the import of cluster dumps and performance reports, for files with any content.

As a program it is driven by atheris, with the arguments of libFuzzer. The Python tests replay the
corpus once.
"""

import json
import math
import sys
import tempfile
from pathlib import Path

# The last second of the year 9999, in seconds since 1970.
LAST_MOMENT = 253_402_300_799
# Files with fewer reports than this are imported twice; 100 reports cover about 200 days.
SHORT = 100


def try_file(path: Path) -> None:
    """Checks that a file is rejected with its name and the reason, or becomes reports in valid
    JSON.
    """
    from galvo import NotImportable, import_file

    try:
        imported = import_file(path, dry_run=True)
    except NotImportable as refused:
        text = str(refused)
        assert text.startswith(f"{path}: ") and len(text) < len(str(path)) + 600, text[:700]
        return
    assert imported.started_at <= imported.ended_at, imported
    assert imported.reports, "at least the report that closes the cluster"
    reports = [
        json.loads(report, parse_constant=_refuse, parse_float=_finite)
        for report in imported.reports
    ]
    assert [report["sequence"] for report in reports] == list(range(1, len(reports) + 1))
    assert [report["final"] for report in reports] == [False] * (len(reports) - 1) + [True]
    for report in reports:
        assert report["scheduler_id"] == imported.scheduler_id
        assert 0 <= report["cluster"]["started_at"] <= LAST_MOMENT
    # All identifiers are derived from the content. Files that cover years are left out: they take
    # most of the time allowed for one input, and their identifiers are made in the same way.
    if len(reports) < SHORT:
        assert import_file(path, dry_run=True).reports == imported.reports


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    """Checks that a number is finite. The server rejects other numbers in every field."""
    number = float(text)
    assert math.isfinite(number), text
    return number


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["galvo.importing"]):
        import galvo.importing  # noqa: F401

    directory = tempfile.TemporaryDirectory()
    path = Path(directory.name) / "file"

    def trial(content: bytes) -> None:
        path.write_bytes(content)
        try_file(path)

    atheris.Setup(sys.argv, trial)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
