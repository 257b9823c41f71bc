"""Excerpts of source around the line at which a task failed, if its process knows the source.

Python has read the lines already, to write the traceback. Nothing here reads a file.
"""

import linecache
import re
import sysconfig
from typing import Any, Dict, List, Optional, Tuple

# An event of the plugin's own topic with this key carries an excerpt, not a log line.
KEY = "excerpt"
LINES_AROUND, LINE_LENGTH = 2, 2000
# The places that a process remembers to have sent, and the end of a traceback that is examined.
MOST_LOCATIONS, EXAMINED_LENGTH = 256, 4_000
FRAME = re.compile(r'File "([^"\n]{1,2048})", line (\d{1,9})')
INSTALLED = tuple(
    path
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    for path in [sysconfig.get_paths().get(name)]
    if path
)


class Excerpts:
    """The excerpts that a process has not sent yet."""

    def __init__(self) -> None:
        self._sent: Dict[Tuple[str, int], List[str]] = {}

    def read_new(self, traceback: str) -> Optional[Dict[str, Any]]:
        """Returns the excerpt of a traceback; None if there is none, or if it was sent before."""
        location = _failing_location(traceback)
        if location is None:
            return None
        file, line = location
        first = max(line - LINES_AROUND, 1)
        lines = [
            text.rstrip("\r\n") for text in _known_lines(file)[first - 1 : line + LINES_AROUND]
        ]
        if self._sent.get(location) == lines:
            return None
        self._sent.pop(location, None)
        self._sent[location] = lines
        if len(self._sent) > MOST_LOCATIONS:
            del self._sent[next(iter(self._sent))]
        shortened = [text[:LINE_LENGTH] for text in lines]
        return {"file": file, "line": line, "first_line": first, "lines": shortened}


def locations_of(traceback: str) -> List[Tuple[str, int]]:
    """Returns the files and lines of the innermost frames, the innermost last."""
    frames = FRAME.finditer(traceback[-EXAMINED_LENGTH:])
    return [(frame.group(1), int(frame.group(2))) for frame in frames]


def _failing_location(traceback: str) -> Optional[Tuple[str, int]]:
    """Returns the file and line of the innermost frame with known source, of the user's if any."""
    locations = locations_of(traceback)
    readable = [
        location for location in locations if 1 <= location[1] <= len(_known_lines(location[0]))
    ]
    own = [location for location in readable if not location[0].startswith(INSTALLED)]
    return (own or readable or [None])[-1]


def _known_lines(file: str) -> List[str]:
    entry = linecache.cache.get(file)
    # A shorter entry has not been read yet.
    return entry[2] if entry is not None and len(entry) == 4 else []
