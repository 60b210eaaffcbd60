"""A network that can be cut: a TCP proxy on loopback."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable
from types import TracebackType

CHECK_S = 0.05
PART_BYTES = 2**16


class Proxy:
    """Forwards connections to a port of this machine; `stall` holds everything back, `cut` ends all connections.

    Args:
        target: the port.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._flowing, self._ended, self._is_cut = threading.Event(), threading.Event(), False
        self._flowing.set()
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Proxy:
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._flowing.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits for a connection, as closing does not
        accepting, *_ = self._threads
        accepting.join()
        self._listener.close()
        self._drop()
        for thread in self._threads:
            thread.join()

    def stall(self) -> None:
        """Forwards nothing, and ends nothing, as a cable that is out."""
        self._flowing.clear()

    def cut(self) -> None:
        """Ends all connections, and takes no others."""
        self._is_cut = True
        self._drop()

    def mend(self) -> None:
        """Forwards again, what was held back first."""
        self._is_cut = False
        self._flowing.set()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                near.close()
                continue
            pair = near, socket.create_connection(("127.0.0.1", self._target))
            self._pairs.append(pair)
            for source, sink in (pair, pair[::-1]):
                self._start(self._forward, source, sink)

    def _start(self, function: Callable[..., None], *arguments: socket.socket) -> None:
        self._threads.append(threading.Thread(target=function, args=arguments, daemon=True))
        self._threads[-1].start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):  # either end has been closed
            while True:
                if not select.select([source], [], [], CHECK_S)[0]:
                    continue
                self._flowing.wait()
                part = source.recv(PART_BYTES)
                if not part:
                    break
                self._flowing.wait()
                sink.sendall(part)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _drop(self) -> None:
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
