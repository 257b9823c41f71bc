"""Events in cluster dumps, which contain an event once per topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from galvo.importing.values import text_of
from galvo.plugin.events import sized_copy
from galvo.plugin.values import dumps
from galvo.plugin.worker_side import TOPIC as LOG_TOPIC

# The largest time between copies, in seconds.
SAME_TIME = 1.0


class Event(NamedTuple):
    """An event logged with ``log_event``, under one of its topics."""

    at: float
    topic: str
    message: Any


def without_copies(events: list[Event]) -> Iterator[tuple[Event, list[str]]]:
    """Yields each event once, with all of its topics."""
    topics_by_event: dict[tuple[float, str], tuple[Event, list[str]]] = {}
    times_by_event: dict[tuple[str, str], list[float]] = {}
    for event in events:
        if event.topic != LOG_TOPIC:
            text = dumps(sized_copy(event.message, True)[0])
            topics_by_event.setdefault((event.at, text), (event, []))[1].append(event.topic)
            if event.topic != "all":
                times_by_event.setdefault((event.topic, text), []).append(event.at)
    for event, topics in sorted(topics_by_event.values(), key=lambda item: item[0].at):
        if topics == ["all"] and _is_copy_for_all(event, times_by_event):
            continue
        yield event, topics


def _is_copy_for_all(event: Event, times_by_event: Mapping[tuple[str, str], list[float]]) -> bool:
    """True if it is the "all" copy of a worker's or client's event, which adds that worker or
    client.
    """
    message = event.message
    if not isinstance(message, dict):
        return False
    for name, sender in message.items():
        if isinstance(sender, str) and "action" in message:
            original = {key: item for key, item in message.items() if key != name}
            times = times_by_event.get((sender, dumps(sized_copy(original, True)[0])), ())
            if any(abs(at - event.at) < SAME_TIME for at in times):
                return True
    return False


def action_of(event: Event) -> str:
    return text_of(event.message.get("action")) if isinstance(event.message, dict) else ""
