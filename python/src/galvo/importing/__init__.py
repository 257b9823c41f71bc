"""Files that Dask wrote become clusters with history, by reports as a scheduler would send them.

Two kinds of files tell enough of a cluster: cluster dumps and performance reports. ``artefact``,
``selection`` and ``bokeh`` read them within bounds; ``dump`` and ``performance`` know what stands
where, and put it into a ``History``, which ``delivery`` sends. Nothing is sent before all of a file
was understood.
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
# What goes by its own age, which is that of the file, and not by when it was imported: the class of
# data, the section, what is shown of it, and the days it is kept unless an account says otherwise.
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
    """What became of a file.

    Attributes
    ----------
    path:
        The file.
    kind:
        What it is: ``"cluster dump"`` or ``"performance report"``.
    scheduler_id:
        What stands in the place of the scheduler's identifier: always the same for one file.
    number:
        The number of its cluster; None when nothing was sent.
    already:
        Whether it had been imported before, so that nothing was sent.
    started_at, ended_at:
        From when to when it tells of the cluster.
    counts:
        How many items of each kind it holds, such as ``{"workers": 4, "task_groups": 12}``.
    notes:
        What is less than it seems, in sentences.
    reports:
        The reports as JSON, when they were only to be shown.
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
    """Turn a cluster dump or a performance report of Dask into a cluster with history.

    The same file is imported once: its cluster is named after its content, and the second time
    nothing is sent. Files are believed to be anybody's: they are read within bounds, and nothing in
    them is ever executed or unpickled.

    Parameters
    ----------
    path:
        What ``Client.dump_cluster_state`` wrote, in either format, or the page of a
        ``performance_report``. What it is is told by its content.
    name:
        What the cluster is to be called; the name of the file if not given.
    account:
        The account; by default the configured one, and then the token's own.
    usage:
        Whether it counts in what the account used and what that cost. It is not counted in any case
        where it is known that the scheduler of a dump reported itself, which has been counted.
    dry_run:
        Send nothing and ask nothing, and have what would be sent in ``reports``.

    Raises
    ------
    NotImportable
        If it is neither, or damaged, or too large. Nothing was sent then.

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
    """The same with a server that is known, see ``import_file``."""
    return _import(read(path, name, usage), path, server, server.account)


def _import(history: History, path: Path, server: Server | None, account: str | None) -> Imported:
    imported = Imported(
        path=str(path),
        kind=history.kind,
        scheduler_id=history.ids.scheduler,
        started_at=_moment(history.started_at),
        ended_at=_moment(history.ended_at),
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
            f"its scheduler reported as cluster {reported['number']}, so what it used is counted"
            " there alone"
        )
    imported.number = Delivery(history, account).send(server)
    imported.notes += _what_goes(server, imported)
    return imported


def read(path: Path, name: str | None = None, usage: bool = True) -> History:
    """What a file tells, with what the cluster used if that is to be counted.

    Raises
    ------
    NotImportable
        With the name of the file and what is wrong with it.
    """
    try:
        artefact = Artefact(path)
        settings = _settings()
        shown = name or path.name
        if artefact.beginning.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
            history = History(performance_history.KIND, shown, artefact.digest, settings)
            performance_history.tell(PerformanceReport(artefact), history)
        elif artefact.beginning:
            history = History(dump_history.KIND, shown, artefact.digest, settings)
            dump_history.tell(Dump.read(artefact), history)
        else:
            raise NotImportable("it is empty")
    except NotImportable as error:
        raise NotImportable(f"{path}: {error}") from None
    history.finish(usage)
    return history


def _settings() -> dict[str, Any]:
    """What may be sent. Profiles are kept back only if that is said: here they cost nothing."""
    settings = read_settings()
    names = ("galvo.profile.transmit", "coiled.analytics.profile.transmit")
    if all(dask.config.get(name, None) is None for name in names):
        settings["send_profiles"] = True
    return settings


def _cluster_of(server: Server, scheduler: str) -> dict[str, Any] | None:
    """The cluster that is known of this scheduler."""
    try:
        account = server.graphql(EARLIER, {"scheduler": scheduler})["viewer"]["account"]
    except GraphQLError:
        # The token may not read. To send everything again changes nothing.
        return None
    nodes: list[dict[str, Any]] = account["clusters"]["nodes"]
    return next((node for node in nodes if node["schedulerId"] == scheduler), None)


def _what_goes(server: Server, imported: Imported) -> list[str]:
    """What of it is older than the account keeps such data, so that it goes again."""
    kept: dict[str, int] = {}
    with contextlib.suppress(GraphQLError):
        found: Any = server.graphql(POLICY)["viewer"]["account"]["dataPolicies"]
        kept = {row["class"]: row["retentionDays"] for row in found if row["retentionDays"]}
    age = (datetime.now(timezone.utc) - imported.ended_at).total_seconds() / 86_400
    old = [
        f"{words} ({kept.get(name, days)} days)"
        for name, section, words, days in AGING
        if imported.counts[section] and age > kept.get(name, days)
    ]
    if old:
        return [f"it is older than some of it is kept, which goes again: {', '.join(old)}"]
    if imported.counts["samples"] and age > WORKER_SAMPLE_DAYS:
        return [f"measurements of single workers are kept for {WORKER_SAMPLE_DAYS} days"]
    return []


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
