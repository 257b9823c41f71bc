"""Galvo's scheduler plugin: tells a Galvo server what a Dask scheduler is doing.

This package is all that runs on a scheduler. It reaches it in three ways: pickled by
``galvo.register()``, executed from the text that a Galvo server offers (also by
``dask scheduler --preload <address>``), or imported as a preload module. It therefore uses nothing
but what Dask always brings along, and only relative imports between its modules; ``bundle`` tells
how they travel.

``telemetry`` receives Dask's hooks. A ``Ledger`` keeps what has happened to tasks, and collectors
watch the other sides of the scheduler; both put what there is to tell into the outboxes of the
``sections`` of a report. A ``Courier`` takes reports to the server, and says which of them arrived.
A plugin that leaves a scheduler tells the next one what it needs to go on, see ``inheritance``.
"""

from .collector import Collector, Context
from .courier import Courier
from .ledger import Ledger
from .settings import VERSION, read_settings, what_is_missing
from .telemetry import CoiledTelemetry, Preview, dask_setup

__all__ = [
    "VERSION", "CoiledTelemetry", "Collector", "Context", "Courier", "Ledger", "Preview",
    "dask_setup", "read_settings", "what_is_missing",
]  # fmt: skip
