"""Imports files that Dask wrote as clusters with a history, in the form of a scheduler's reports.

Two kinds of files contain enough data: cluster dumps and performance reports. ``artefact``,
``selection`` and ``bokeh`` read them within bounds. ``dump`` and ``performance`` know their layout
and fill a ``History``, which ``delivery`` sends. Nothing is sent before the whole file was parsed.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import dask

from galvo.client.errors import GraphQLError, NotImportable
from galvo.client.server import Server
from galvo.importing import dump_history, performance_history
from galvo.importing.artefact import Artefact
from galvo.importing.delivery import Delivery
from galvo.importing.dump import Dump
from galvo.importing.history import ORDER, History
from galvo.importing.performance import PerformanceReport
from galvo.plugin import read_settings

__all__ = ["Imported", "import_file"]

EARLIER = """
query ($scheduler: String!) { viewer { account {
  clusters(filter: { search: $scheduler }, first: 10) { nodes { number schedulerId state } }
} } }
"""
POLICY = "{ viewer { account { dataPolicies { class retentionDays } } } }"
# Data with a retention by its own age, which is that of the file and not of the import: the class
# of data, the section, its description, and the default retention in days.
AGING = (
    ("BASIC", "samples", "measurements", 90),
    ("USER_ERRORS", "errors", "errors", 365),
    ("PROFILES", "profiles", "profiles", 30),
    ("EVENTS", "events", "events", 30),
    ("LOGS", "logs", "logs", 30),
)
WORKER_SAMPLE_DAYS = 2


@dataclass
class Imported:
    """The result of importing a file.

    Attributes
    ----------
    path:
        The path of the file.
    kind:
        The kind of the file: ``"cluster dump"`` or ``"performance report"``.
    scheduler_id:
        The identifier used for the scheduler. It is always the same for one file.
    number:
        The cluster's number. None if nothing was sent.
    already:
        True if the file had been imported before, so that nothing was sent.
    started_at, ended_at:
        The time range that the file covers.
    counts:
        The number of items of each kind, such as ``{"workers": 4, "task_groups": 12}``.
    notes:
        Limitations of the data, in sentences.
    reports:
        The reports as JSON, if they were only to be shown.
    """

    path: str
    kind: str
    scheduler_id: str
    started_at: datetime
    ended_at: datetime
    counts: dict[str, int]
    notes: list[str]
    number: int | None = None
    already: bool = False
    reports: list[str] = field(default_factory=list, repr=False)


def import_file(
    path: str | Path,
    name: str | None = None,
    account: str | None = None,
    *,
    usage: bool = True,
    dry_run: bool = False,
) -> Imported:
    """Imports a cluster dump or a performance report of Dask as a cluster with a history.

    A file is imported once: its cluster is identified by its content, and the second import sends
    nothing. Files are untrusted: they are read within bounds, and nothing in them is executed or
    unpickled.

    Parameters
    ----------
    path:
        A file written by ``Client.dump_cluster_state`` in either format, or the page of a
        ``performance_report``. The kind is detected from the content.
    name:
        The name of the cluster. By default the name of the file.
    account:
        The account. By default the configured account, then the token's own.
    usage:
        If True, the cluster counts in the account's usage and costs. A dump whose scheduler is
        known to have reported itself is never counted, because it has been counted already.
    dry_run:
        If True, send nothing and query nothing, and return the reports in ``reports``.

    Returns
    -------
    Imported
        The result, with the cluster's number.

    Raises
    ------
    NotImportable
        If it is neither kind of file, or damaged, or too large. Nothing was sent in this case.

    Examples
    --------
    >>> import galvo
    >>> galvo.import_file("dask-report.html").number  # doctest: +SKIP
    """
    if dry_run:
        return _import(read(Path(path), name, usage), Path(path), None, account)
    with Server.configured(account) as server:
        return import_with(server, Path(path), name, usage)


def import_with(
    server: Server, path: Path, name: str | None = None, usage: bool = True
) -> Imported:
    """Imports a file with an open server connection, see ``import_file``."""
    return _import(read(path, name, usage), path, server, server.account)


def _import(history: History, path: Path, server: Server | None, account: str | None) -> Imported:
    imported = Imported(
        path=str(path),
        kind=history.kind,
        scheduler_id=history.ids.scheduler,
        started_at=_to_datetime(history.started_at),
        ended_at=_to_datetime(history.ended_at),
        counts={section: len(history.sections[section]) for section in ORDER},
        notes=history.notes,
    )
    if server is None:
        imported.reports = list(Delivery(history, account).write())
        return imported
    earlier = _cluster_of(server, history.ids.scheduler)
    if earlier is not None and earlier["state"] == "CLOSED":
        imported.number, imported.already = int(earlier["number"]), True
        return imported
    reported = history.scheduler and _cluster_of(server, history.scheduler)
    if reported:
        imported.counts["usage"] = 0
        history.sections["usage"].clear()
        history.notes.append(
            f"its scheduler reported as cluster {reported['number']}, so its usage is counted"
            " only there"
        )
    imported.number = Delivery(history, account).send(server)
    imported.notes += _describe_expiring_data(server, imported)
    return imported


def read(path: Path, name: str | None = None, usage: bool = True) -> History:
    """Returns the history in a file, with the cluster's usage if it is to be counted.

    Raises
    ------
    NotImportable
        With the name of the file and the problem.
    """
    try:
        artefact = Artefact(path)
        settings = _settings()
        shown_name = name or path.name
        if artefact.beginning.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
            history = History(performance_history.KIND, shown_name, artefact.digest, settings)
            performance_history.fill_history(PerformanceReport(artefact), history)
        elif artefact.beginning:
            history = History(dump_history.KIND, shown_name, artefact.digest, settings)
            dump_history.fill_history(Dump.read(artefact), history)
        else:
            raise NotImportable("it is empty")
    except NotImportable as error:
        raise NotImportable(f"{path}: {error}") from None
    history.finish(usage)
    return history


def _settings() -> dict[str, Any]:
    """Returns the settings for sending.

    Profiles are only withheld on request: here they cost nothing.
    """
    settings = read_settings()
    names = ("galvo.profile.transmit", "coiled.analytics.profile.transmit")
    if all(dask.config.get(name, None) is None for name in names):
        settings["send_profiles"] = True
    return settings


def _cluster_of(server: Server, scheduler: str) -> dict[str, Any] | None:
    """Returns the known cluster of this scheduler; None if there is none."""
    try:
        account = server.graphql(EARLIER, {"scheduler": scheduler})["viewer"]["account"]
    except GraphQLError:
        # The token may not read. Sending everything again is idempotent.
        return None
    nodes: list[dict[str, Any]] = account["clusters"]["nodes"]
    return next((node for node in nodes if node["schedulerId"] == scheduler), None)


def _describe_expiring_data(server: Server, imported: Imported) -> list[str]:
    """Returns the kinds of data that exceed the account's retention, and so are deleted again."""
    retention_days: dict[str, int] = {}
    with contextlib.suppress(GraphQLError):
        policies: Any = server.graphql(POLICY)["viewer"]["account"]["dataPolicies"]
        retention_days = {
            row["class"]: row["retentionDays"] for row in policies if row["retentionDays"]
        }
    age = (datetime.now(timezone.utc) - imported.ended_at).total_seconds() / 86_400
    old = [
        f"{description} ({retention_days.get(name, days)} days)"
        for name, section, description, days in AGING
        if imported.counts[section] and age > retention_days.get(name, days)
    ]
    if old:
        return [f"older than the account's retention, so the server deletes it: {', '.join(old)}"]
    if imported.counts["samples"] and age > WORKER_SAMPLE_DAYS:
        return [f"measurements of single workers are kept for {WORKER_SAMPLE_DAYS} days"]
    return []


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
