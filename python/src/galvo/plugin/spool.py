"""Stores the unsent reports of closed schedulers in files until they are sent.

A file is gzip-compressed lines of JSON: a header, and the reports in the order in which they must
be sent. It contains their data unencrypted, and a token that is valid only for these reports and
for some days. Only its owner may read it. Without a configured directory nothing is stored.
"""

import gzip
import io
import json
import logging
import os
import re
import time
import zlib
from contextlib import suppress
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from .sections import SECTIONS
from .values import dumps

logger = logging.getLogger("distributed.galvo")

FORMAT = 1
ENDING, UNUSABLE = ".galvo-spool", ".unusable"
MOST_FILES, MOST_BYTES = 100, 256_000_000  # in the directory
MOST_FILE_BYTES = 64_000_000  # compressed; the factor below bounds the unpacked size
MOST_EXPANSION = 20
LONGEST_AGE_SECONDS = 30 * 86_400.0


class Unusable(Exception):
    """The file is not a spool file, is damaged, or has another version."""


class Spooled(NamedTuple):
    """The unsent reports of one scheduler."""

    path: str
    head: Dict[str, Any]
    reports: List[str]


def directory_of(settings: Mapping[str, Any]) -> Optional[str]:
    """Returns the spool directory; None if there is none."""
    directory = settings.get("spool_directory")
    return os.path.expanduser(directory) if directory else None


def write_spool_file(directory: str, head: Mapping[str, Any], reports: List[str]) -> str:
    """Writes a file after making room for it, and returns its path."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    name = "%013d-%s" % (time.time() * 1000, re.sub(r"[^\w-]", "_", head["scheduler_id"])[:100])
    path = os.path.join(directory, name + ENDING)
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as lines:
        for line in (json.dumps({"format": FORMAT, **head}), *reports):
            lines.write(line.encode("utf-8") + b"\n")
    body = buffer.getvalue()
    if len(body) > MOST_FILE_BYTES:
        raise OSError("%d bytes are too many to be kept" % len(body))
    make_room(directory, len(body))
    # Renaming prevents reading half a file, and the mode prevents access by others.
    partial_path = path + ".part"
    with os.fdopen(
        os.open(partial_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
    ) as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial_path, path)
    return path


def list_files(directory: str) -> List[str]:
    """Returns the paths of the spooled files, the oldest first."""
    with suppress(OSError):
        names = sorted(name for name in os.listdir(directory) if name.endswith(ENDING))
        return [os.path.join(directory, name) for name in names]
    return []


def read_file(path: str) -> Spooled:
    """Reads a file within bounds. Raises ``Unusable``."""
    try:
        with gzip.open(path, "rb") as lines:
            text = lines.read(MOST_FILE_BYTES * MOST_EXPANSION + 1)
        if len(text) > MOST_FILE_BYTES * MOST_EXPANSION:
            raise Unusable("it is too large")
        header, *reports = text.decode("utf-8").rstrip("\n").split("\n")
        head = json.loads(header)
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise Unusable("it is of another version")
        if not reports or len(reports) != head.get("reports"):
            raise Unusable("it is not whole")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise Unusable("%s: %s" % (type(error).__name__, error)) from error
    return Spooled(path, head, reports)


def split_report(text: str) -> List[str]:
    """Splits a report that the server finds too large in two. Empty if it has no items.

    Only the second one closes the cluster. It then has a sequence of its own, because the row of a
    cluster changes with the sequence alone. A single item, which cannot be split, is left out and
    counted as dropped.
    """
    report = json.loads(text)
    sections = [kind for kind in SECTIONS if isinstance(report.get(kind), list)]
    items = [(kind, item) for kind in sections for item in report[kind]]
    halves: List[Dict[str, Any]] = [
        {**report, **{kind: [] for kind in sections}, "cluster": dict(report["cluster"])}
        for _ in range(2)
    ]
    if len(items) < 2:
        for kind, _ in items:
            dropped = report.get("dropped") or {}
            halves[0]["dropped"] = {**dropped, kind: dropped.get(kind, 0) + 1}
        return [dumps(halves[0])] if items else []
    for position, (kind, item) in enumerate(items):
        halves[position >= len(items) // 2][kind].append(item)
    if report.get("final"):
        halves[0]["final"] = False
        halves[0]["cluster"].update(closed_at=None, close_reason=None)
        halves[1]["sequence"] = report["sequence"] + 1
    return [dumps(part) for part in halves]


def set_aside(path: str) -> str:
    """Renames a file so that it is not tried again, without deleting it."""
    new_path = path + UNUSABLE
    os.replace(path, new_path)
    return new_path


def make_room(directory: str, size: int = 0) -> None:
    """Deletes files that are too old, and the oldest ones until ``size`` bytes fit."""
    remaining_files, now = [], time.time()
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if ENDING not in name or not os.path.isfile(path):
            continue
        status = os.stat(path)
        if now - status.st_mtime > LONGEST_AGE_SECONDS:
            _drop(path, "it is older than 30 days")
        else:
            remaining_files.append((path, status.st_size))
    while remaining_files and (
        len(remaining_files) >= MOST_FILES or size + sum(n for _, n in remaining_files) > MOST_BYTES
    ):
        _drop(remaining_files.pop(0)[0], "there is too much")


def _drop(path: str, reason: str) -> None:
    logger.warning("Galvo deletes %s, which was not sent: %s", path, reason)
    with suppress(FileNotFoundError):
        os.remove(path)
