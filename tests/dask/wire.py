"""A byte-level proxy whose connections can be cut."""

import contextlib
import socket
import threading


class Wire:
    """Forwards bytes to a port of this machine, and back."""

    def __init__(self, port):
        self._port = port
        self._open = set()
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                inner, _ = self._listener.accept()
                outer = socket.create_connection(("127.0.0.1", self._port))
                self._open |= {inner, outer}
                for ends in [(inner, outer), (outer, inner)]:
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
        for end in (source, target):
            self._open.discard(end)
            _end(end)

    def cut(self):
        """Aborts every connection."""
        self.cuts += bool(self._open)
        self._end_all()

    def close(self):
        """Stops forwarding, without counting as a cut."""
        self._listener.close()
        self._end_all()

    def _end_all(self):
        for end in list(self._open):
            _end(end)


def _end(end):
    with contextlib.suppress(OSError):
        # It also wakes up threads that wait for data.
        end.shutdown(socket.SHUT_RDWR)
    end.close()
