"""Faulty networks: a byte-level proxy."""

import contextlib
import socket
import threading
import time

PIECE = 65536


class Wire:
    """Forwards connections to the first of its targets, ports of this machine, that accepts one.

    - ``delay``: seconds that each chunk takes, in both directions.
    - ``mute``: responses are dropped, as if the network broke between request and response.
    - ``black_out()``: from then on nothing arrives, without an error. This still holds for the
      connections open at that time after ``light_up()`` has ended it.
    - ``cut()``: every connection is aborted.
    """

    def __init__(self, *targets, rotate=False):
        self.targets = list(targets)
        self.delay = 0.0
        self.mute = False
        self._rotate, self._turn = rotate, 0
        self._dark = threading.Event()
        self._era = 0
        self._open = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def black_out(self):
        self._dark.set()
        self._era += 1

    def light_up(self):
        self._dark.clear()

    def cut(self):
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            _end(end)

    def close(self):
        _end(self._listener)
        self.cut()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                inner, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(inner,), daemon=True).start()

    def _connect(self, inner):
        era = self._era
        with self._lock:
            self._open.add(inner)
        if self._dark.is_set():  # data sent into it is lost
            return
        outer = self._reach()
        if outer is None:
            _end(inner)
            return
        with self._lock:
            self._open |= {inner, outer}
        for end in (inner, outer):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self._pass_on, args=(outer, inner, era, True), daemon=True)
        back.start()
        self._pass_on(inner, outer, era, False)

    def _reach(self):
        targets = list(self.targets)
        if self._rotate and targets:
            self._turn = (self._turn + 1) % len(targets)
            targets = targets[self._turn :] + targets[: self._turn]
        for target in targets:
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", target), timeout=10)
        return None

    def _pass_on(self, source, target, era, is_answer):
        with contextlib.suppress(OSError):
            source.settimeout(None)
            while piece := source.recv(PIECE):
                if self.delay:
                    time.sleep(self.delay)
                if era != self._era:
                    return  # both ends wait forever
                if not (is_answer and self.mute):
                    target.sendall(piece)
        if era != self._era:
            return
        for end in (source, target):
            with self._lock:
                self._open.discard(end)
            _end(end)


def _end(end):
    with contextlib.suppress(OSError):
        # It also wakes up threads that wait for data.
        end.shutdown(socket.SHUT_RDWR)
    end.close()
