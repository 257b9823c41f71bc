"""Servers with a time that differs from the machine's."""

from pathlib import Path


def library():
    """Returns the library that fakes a process's time."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    assert found, "libfaketime is missing: scripts/test.sh installs it"
    return found[0]


class Clock:
    """The server's clock, with an offset in seconds to the machine's."""

    def __init__(self, directory):
        self._file = directory / "clock"
        self.offset = 0.0
        self.set(0)
        self.environment = {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            # The monotonic clock is never set.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, offset):
        self.offset = offset
        new = self._file.with_suffix(".new")
        new.write_text(f"{offset:+}\n")
        new.replace(self._file)
