"""Galvo's scheduler plugin: reports the activity of a Dask scheduler to a Galvo server.

This package is all that runs on a scheduler. It arrives there in one of three ways: pickled by
``galvo.register()``, executed from the source that a Galvo server serves (also by ``dask scheduler
--preload <address>``), or imported as a preload module. It therefore uses only packages that Dask
depends on, and only relative imports between its modules. ``bundle`` implements their transport.

``telemetry`` receives Dask's hooks. A ``Ledger`` tracks tasks, and collectors watch the other parts
of the scheduler. Both add records to the outboxes of a report's ``sections``. A ``ReportSender``
sends reports to the server and records which of them arrived. A plugin that leaves a scheduler
hands its state over to the next one, see ``inheritance``.
"""

from .collector import Collector, Context
from .ledger import Ledger
from .registry import FirstAnswer, MakeRoom
from .report_sender import ReportSender
from .settings import VERSION, find_configuration_problem, read_settings
from .telemetry import CoiledTelemetry, Preview, dask_setup

__all__ = [
    "VERSION",
    "CoiledTelemetry",
    "Collector",
    "Context",
    "FirstAnswer",
    "Ledger",
    "MakeRoom",
    "Preview",
    "ReportSender",
    "dask_setup",
    "find_configuration_problem",
    "read_settings",
]  # fmt: skip
