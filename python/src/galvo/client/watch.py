"""Follows a cluster, in a notebook in the background, or on a terminal."""

from __future__ import annotations

import contextvars
import itertools
import shutil
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO

from galvo.client.cluster import ClusterKey, ClusterLike, current_client, key_of
from galvo.client.errors import GalvoError
from galvo.client.moments import Duration, parse_duration
from galvo.client.pace import Pace
from galvo.client.server import Server
from galvo.client.snapshot import Snapshot, snapshots
from galvo.client.terminal import printable

# The longest time to wait for a scheduler's first report.
PATIENCE_SECONDS = 30.0


class Watch:
    """A cluster that is being followed.

    Attributes
    ----------
    latest:
        The last ``Snapshot``. None until there is one.
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
        """Stops following. The cluster is not affected."""
        self._stopped.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the cluster is closed or following has stopped.

        ``timeout`` is in seconds; None for no timeout. Returns False if it expired.
        """
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def follow(self, screen: Any) -> None:
        """Shows changes until the cluster is closed or Ctrl-C is pressed."""
        try:
            self._show(screen, snapshots(self._server, self._cluster, self._pace))
        except KeyboardInterrupt:
            self.stop()
        finally:
            self._server.close()
            screen.end()

    def follow_beside(self, screen: Any) -> None:
        """Shows the current state, and then shows changes from a thread, so that a notebook stays
        usable.
        """
        stream = snapshots(self._server, self._cluster, self._pace)
        self._show(screen, itertools.islice(stream, 1))
        # A notebook assigns output to the cell in whose context it is shown.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run,
            args=(self._follow_quietly, screen, stream),
            name="galvo-watch",
            daemon=True,
        )
        self._thread.start()

    def _follow_quietly(self, screen: Any, stream: Iterator[Snapshot]) -> None:
        try:
            self._show(screen, stream)
        except GalvoError as error:
            # An exception in a thread would go unnoticed.
            screen.show_problem(str(error))
        finally:
            self._server.close()
            screen.end()

    def _show(self, screen: Any, stream: Iterator[Snapshot]) -> None:
        for snapshot in stream:
            self.latest = snapshot
            screen.show(snapshot)


class Terminal:
    """Shows snapshots as lines. On a terminal, each line replaces the previous one."""

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
    """Shows snapshots in the output of a cell, each replacing the previous one."""

    def __init__(self, display: Any):
        self._display = display
        self._handle: Any = None

    def show(self, snapshot: Snapshot) -> None:
        self._put({"text/plain": str(snapshot), "text/html": snapshot._repr_html_()})

    def show_problem(self, problem: str) -> None:
        self._put({"text/plain": problem})

    def end(self) -> None:
        pass

    def _put(self, output: dict[str, str]) -> None:
        if self._handle is None:
            self._handle = self._display(output, raw=True, display_id=True)
        else:
            self._handle.update(output, raw=True)


def watch(
    cluster: ClusterLike | None = None,
    *,
    interval: Duration = "2s",
    account: str | None = None,
) -> Watch:
    """Follows a cluster live until it is closed: workers, memory, progress, errors, cost.

    In a notebook, the output below the cell is updated while other cells run. Call ``stop()`` of
    the result to end this. Elsewhere, a line is printed after each change, and the call returns
    after the cluster is closed or Ctrl-C is pressed.

    Parameters
    ----------
    cluster:
        The cluster's ``id``, ``number`` or name, its scheduler's identifier, or a Dask client of
        it. By default the cluster of the current client, or else the newest cluster. ``-1`` is the
        newest cluster, ``-2`` the one before it. A scheduler has 30 seconds to send its first
        report.
    interval:
        The time between requests, as ``"2s"`` or in seconds, at most 3600 seconds. While nothing
        changes it grows to 15 seconds.
    account:
        The account. By default the configured account, then the token's own.

    Raises
    ------
    NotFound
        If the account has no such cluster.
    ValueError
        If ``interval`` is not positive or too long.

    Examples
    --------
    >>> import galvo
    >>> galvo.register()  # doctest: +SKIP
    >>> galvo.watch()  # doctest: +SKIP
    """
    cluster = current_client() if cluster is None else cluster
    server = Server.configured(account, about=cluster)
    key = key_of(server, cluster, PATIENCE_SECONDS)
    followed = Watch(server, key, parse_duration(interval).total_seconds())
    display = _display_of_notebook()
    if display is None:
        followed.follow(Terminal())
    else:
        followed.follow_beside(Notebook(display))
    return followed


def _display_of_notebook() -> Any:
    """Returns IPython's display function in a notebook; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    return display
