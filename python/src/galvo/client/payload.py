"""A scheduler's report before it is sent, by class of data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from galvo.client.terminal import printable
from galvo.plugin.inputs import REMOVED
from galvo.plugin.sections import DATA_CLASSES, SECTIONS

# By class of data: the setting that withholds it, and the reason to show for that.
WITHHOLDING_SETTINGS = {
    "user_errors": ("send_errors", "galvo.errors.transmit is false"),
    "code": ("send_code", "galvo.computation.code.transmit is false"),
    "profiles": ("send_profiles", "galvo.profile.transmit is false"),
    "events": ("events_allow", "galvo.events.allow is empty"),
    "logs": ("send_logs", "galvo.logs.transmit is false"),
}


class Payload:
    """The report that a scheduler would send with these settings."""

    def __init__(self, text: str, settings: Mapping[str, Any]):
        self.text = text  # exactly what would be sent, before compression
        self.report: dict[str, Any] = json.loads(text)
        self._settings = settings

    def by_class(self) -> dict[str, dict[str, Any]]:
        """Returns the parts of the report by class of data.

        The fields that describe the cluster and the report itself are of the class "basic".
        """
        classes: dict[str, dict[str, Any]] = {name: {} for name in DATA_CLASSES}
        for name, value in self.report.items():
            if name not in SECTIONS:
                classes["basic"][name] = value
                continue
            for item in value:
                classes[_class_of(name, item)].setdefault(name, []).append(item)
        return classes

    def removed(self) -> dict[str, int]:
        """Returns the number of removed texts by their JSON Pointer in the report."""
        counts: dict[str, int] = {}
        for pointer, text in _iterate_texts(self.report, ""):
            if REMOVED in text:
                counts[pointer] = counts.get(pointer, 0) + text.count(REMOVED)
        return counts

    def __str__(self) -> str:
        server = self._settings.get("server") or "no server: galvo.server is not set"
        size = len(self.text.encode("utf-8", "replace"))
        parts = [
            f"The report of {self.report.get('scheduler_id')} to {server}."
            f" Nothing was sent.\n{size:,} bytes before compression"
        ]
        for name, part in self.by_class().items():
            parts.append("\n".join([f"{name}: {self._summary(name, part)}", *_format_part(part)]))
        removed = self.removed()
        total_line = f"removed as secrets or inputs of tasks: {sum(removed.values())}"
        parts.append(
            "\n".join([total_line, *(f"  {pointer}: {n}" for pointer, n in removed.items())])
        )
        return "\n\n".join(
            "\n".join(printable(line) for line in part.splitlines()) for part in parts
        )

    def _summary(self, name: str, part: Mapping[str, Any]) -> str:
        setting, reason = WITHHOLDING_SETTINGS.get(name, ("", ""))
        if setting and not self._settings.get(setting, True):
            return f"not sent, because {reason}"
        items = sum(len(value) for section, value in part.items() if section in SECTIONS)
        size = len(json.dumps(part, ensure_ascii=False).encode("utf-8", "replace")) if part else 0
        return f"{items} item{'' if items == 1 else 's'}, {size:,} bytes"


def _class_of(section: str, item: Mapping[str, Any]) -> str:
    if section == "errors":
        return f"{item.get('origin', 'user')}_errors"
    return SECTIONS[section].data_class


def _format_part(part: Mapping[str, Any]) -> list[str]:
    return json.dumps(part, indent=2, ensure_ascii=False).splitlines() if part else []


def _iterate_texts(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Yields all texts in JSON, and the keys of its objects, each with its JSON Pointer."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, item in value.items():
            child_pointer = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            yield child_pointer, key
            yield from _iterate_texts(item, child_pointer)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _iterate_texts(item, f"{pointer}/{number}")
