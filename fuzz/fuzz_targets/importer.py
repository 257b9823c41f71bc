"""What holds of files that are imported, whatever is in them: cluster dumps and performance
reports.

As a program it is driven by atheris, with the arguments of libFuzzer. Python's tests try the corpus
once.
"""

import json
import math
import sys
import tempfile
from pathlib import Path

# Seconds since 1970 until the last one of the year 9999.
LAST_MOMENT = 253_402_300_799
# Reports of a file that is read twice: 100 are of some 200 days.
SHORT = 100


def try_file(path: Path) -> None:
    """A file is refused with its name and what is wrong with it, or becomes reports that are
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
    # All identifiers follow from the content. Those of years, which take most of the time that one
    # may take, are made like others.
    if len(reports) < SHORT:
        assert import_file(path, dry_run=True).reports == imported.reports


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    """The server would refuse others wherever they stand."""
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
