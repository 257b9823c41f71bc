"""Following a cluster, in a notebook beside the work and on a terminal."""

from __future__ import annotations

import contextvars
import itertools
import shutil
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO

from galvo.client.cluster import ClusterKey, ClusterLike, key_of
from galvo.client.errors import GalvoError
from galvo.client.moments import Duration, span
from galvo.client.pace import Pace
from galvo.client.server import Server
from galvo.client.snapshot import Snapshot, snapshots
from galvo.client.terminal import printable

# How long a scheduler may take to report for the first time.
PATIENCE_SECONDS = 30.0


class Watch:
    """A cluster that is being followed.

    Attributes
    ----------
    latest:
        The last ``Snapshot``; None before there is one.
    """

    def __init__(self, server: Server, cluster: ClusterKey, interval_seconds: float):
        self.latest: Snapshot | None = None
        self._server = server
        self._cluster = cluster
        self._stopped = threading.Event()
        self._pace = Pace(interval_seconds, self._stopped)
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<Watch of cluster {self._cluster.number}>"

    def stop(self) -> None:
        """Stops following; the cluster goes on."""
        self._stopped.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the cluster is closed or no longer followed, so many seconds at most.

        Returns whether that came about.
        """
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def follow(self, screen: Any) -> None:
        """Shows what changes until the cluster is closed; Ctrl-C ends it, too."""
        try:
            self._show(screen, snapshots(self._server, self._cluster, self._pace))
        except KeyboardInterrupt:
            self.stop()
        finally:
            self._server.close()
            screen.end()

    def follow_beside(self, screen: Any) -> None:
        """Shows what there is, and in a thread of its own what changes: a notebook goes on."""
        coming = snapshots(self._server, self._cluster, self._pace)
        self._show(screen, itertools.islice(coming, 1))
        # What a notebook shows belongs to the cell in whose context it is shown.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run,
            args=(self._follow_quietly, screen, coming),
            name="galvo-watch",
            daemon=True,
        )
        self._thread.start()

    def _follow_quietly(self, screen: Any, coming: Iterator[Snapshot]) -> None:
        try:
            self._show(screen, coming)
        except GalvoError as error:
            # Nobody would see an exception of a thread.
            screen.complain(str(error))
        finally:
            self._server.close()
            screen.end()

    def _show(self, screen: Any, coming: Iterator[Snapshot]) -> None:
        for snapshot in coming:
            self.latest = snapshot
            screen.show(snapshot)


class Terminal:
    """Shows snapshots as lines. On a terminal a line takes the place of the one before."""

    def __init__(self, stream: TextIO | None = None):
        self._stream = sys.stdout if stream is None else stream
        self._is_terminal = self._stream.isatty()

    def show(self, snapshot: Snapshot) -> None:
        line = printable(str(snapshot))
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\x1b[K" + line[:width])
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def end(self) -> None:
        if self._is_terminal:
            self._stream.write("\n")
            self._stream.flush()


class Notebook:
    """Shows snapshots in the output of a cell, each in the place of the one before."""

    def __init__(self, display: Any):
        self._display = display
        self._handle: Any = None

    def show(self, snapshot: Snapshot) -> None:
        self._put({"text/plain": str(snapshot), "text/html": snapshot._repr_html_()})

    def complain(self, problem: str) -> None:
        self._put({"text/plain": problem})

    def end(self) -> None:
        pass

    def _put(self, shown: dict[str, str]) -> None:
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def watch(
    cluster: ClusterLike | None = None,
    *,
    interval: Duration = "2s",
    account: str | None = None,
) -> Watch:
    """Follow a cluster live until it is closed: workers, memory, progress, errors, cost.

    In a notebook what is shown below the cell changes while other cells run; ``stop()`` of what is
    returned ends it. Elsewhere a line is printed each time something changed, and the call returns
    when the cluster is closed or after Ctrl-C.

    Parameters
    ----------
    cluster:
        The cluster's ``id`` or ``number``, its scheduler's identifier, or a Dask client of it; by
        default that of the current client.
    interval:
        How often to look, as ``"2s"`` or in seconds. While nothing changes it becomes less often,
        down to every 15 seconds.
    account:
        The account; by default the configured one, and then the token's own.

    Examples
    --------
    >>> import galvo
    >>> galvo.register()  # doctest: +SKIP
    >>> galvo.watch()  # doctest: +SKIP
    """
    server = Server.configured(account)
    key = key_of(server, cluster, PATIENCE_SECONDS)
    followed = Watch(server, key, span(interval).total_seconds())
    display = _display_of_notebook()
    if display is None:
        followed.follow(Terminal())
    else:
        followed.follow_beside(Notebook(display))
    return followed


def _display_of_notebook() -> Any:
    """The function by which a notebook shows something; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    return display
