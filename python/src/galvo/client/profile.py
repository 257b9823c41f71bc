"""Profiles of clusters as files of other viewers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from galvo.client.cluster import ClusterLike, current_client, key_of
from galvo.client.export import Body, write_body
from galvo.client.server import Server
from galvo.client.values import plain

# The ends of names of files in the format of pprof.
PPROF_SUFFIXES = (".pb.gz", ".pprof", ".prof")


def save_profile(
    path: str | os.PathLike[str],
    cluster: ClusterLike | None = None,
    account: str | None = None,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    min_share: float = 0.0,
    functions: str | Sequence[str] = (),
    workers: str | Sequence[str] = (),
) -> Path:
    """Writes the statistical profile of a cluster as a file for another viewer.

    Parameters
    ----------
    path:
        The file. It is for ``pprof`` if its name ends in ``.pb.gz``, ``.pprof`` or ``.prof``, and
        otherwise JSON for speedscope. An existing file is replaced.
    cluster:
        The cluster: its number, name, identifier or scheduler's identifier, or a client or cluster
        object of Dask. By default the cluster of Dask's current client, or else the newest one.
    account:
        The account. By default the configured account, then the token's own.
    start, end:
        The period, by the scheduler's clock. By default all of the cluster's life. At most the
        newest 200 windows of the period are merged; the profile's name says if some are missing.
    min_share:
        The smallest share of the samples that a line needs to have a node of its own, 0 to 1. The
        samples of the others are counted as ``(omitted)``.
    functions:
        Only samples in tasks of these functions, at most 100 by their prefix. By default all
        samples.
    workers:
        Only samples on these workers, at most 100 by their identifier. By default all samples. The
        cluster's plugin must send the samples of each worker, as ``galvo.profile.by-worker`` sets.

    Returns
    -------
    The path.

    Raises
    ------
    NotFound
        There is no such cluster, or it has no profile in the period.
    """
    about = current_client() if cluster is None else cluster
    with Server.configured(account, about=about) as server:
        cluster_key = key_of(server, about)
        return write_profile(
            server, Path(path), cluster_key.number, (start, end), min_share, functions, workers
        )


def write_profile(
    server: Server,
    path: Path,
    number: int,
    period: tuple[datetime | None, datetime | None] = (None, None),
    min_share: float = 0.0,
    functions: str | Sequence[str] = (),
    workers: str | Sequence[str] = (),
) -> Path:
    """Writes the profile of a cluster as :func:`save_profile` does."""
    is_pprof = path.name.lower().endswith(PPROF_SUFFIXES)
    parameters = [
        ("format", "pprof" if is_pprof else "speedscope"),
        ("minShare", repr(float(min_share))),
        *(("function", name) for name in _names(functions)),
        *(("worker", name) for name in _names(workers)),
    ]
    for name, time in zip(("from", "to"), period):
        if time is not None:
            parameters.append((name, str(plain(time, name))))
    route = f"/api/v1/clusters/{number}/profile"
    return write_body(Body(server.download(route, parameters, "*/*"), server.address), path)


def _names(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names
