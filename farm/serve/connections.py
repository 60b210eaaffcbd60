"""Connections to the service: how many there may be, and how long one may stay silent, so that nobody shuts others out.

uvicorn ends a connection that says nothing after an answer, not one that has never asked anything, nor one whose next
request does not get on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import time
from typing import Any, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

SILENT_S = 10.0  # for a request to come, from its first byte to the end of its headers
MOST = 512
RESERVED_FILES = 128  # store, reports, logs and units want some, too
LOG_EVERY_S = 10.0


def most_connections() -> int:
    """How many connections the limit of open files leaves room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MOST + RESERVED_FILES <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (MOST + RESERVED_FILES, hard))
        return MOST
    return max(min(MOST, soft - RESERVED_FILES), soft // 2)


class HandshakeSocket(socket.socket):
    """Listens for TLS; of more than `most` clients whose handshake does not end, the oldest makes room.

    asyncio shows a connection to its protocol after the handshake, for which it gives a client a minute.
    """

    most = MOST
    _begun: ClassVar[dict[int, socket.socket]] = {}  # by file descriptor, oldest first

    def accept(self) -> tuple[socket.socket, Any]:
        """See socket.accept."""
        connection, address = super().accept()
        begun = {number: each for number, each in self._begun.items() if each.fileno() == number}
        for oldest in list(begun.values())[: max(0, len(begun) + 1 - self.most)]:
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        begun[connection.fileno()] = connection
        self._begun.clear()
        self._begun.update(begun)
        return connection, address

    @classmethod
    def end_handshake(cls, transport: asyncio.BaseTransport) -> None:
        """A client is through."""
        if found := transport.get_extra_info("socket"):
            cls._begun.pop(found.fileno(), None)


class LimitedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP with limits. Where there are too many connections, the one that has been silent longest makes room."""

    most = MOST
    _open: ClassVar[dict[LimitedProtocol, None]] = {}  # oldest first

    def connection_made(self, transport: Any) -> None:
        """Counts a new connection, and looks after it."""
        super().connection_made(transport)
        HandshakeSocket.end_handshake(transport)
        self._answered: Any = self
        if len(self._open) >= self.most and not self._make_room():
            transport.abort()
            return
        self._open[self] = None
        self._look()

    def connection_lost(self, error: Exception | None) -> None:
        """Forgets a connection."""
        self._open.pop(self, None)
        super().connection_lost(error)

    def _make_room(self) -> bool:
        silent = next((each for each in self._open if each._is_silent), None)
        if silent:
            self._open.pop(silent)
            silent.transport.abort()
        return silent is not None

    @property
    def _is_silent(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def _look(self) -> None:
        """Ends it where since the last look no request was made."""
        if self not in self._open:
            return
        if self._is_silent and self._answered is self.cycle:
            self.transport.abort()
            return
        self._answered = self.cycle if self._is_silent else self
        asyncio.get_running_loop().call_later(SILENT_S, self._look)


class SeldomFilter(logging.Filter):
    """Lets a message through once in LOG_EVERY_S, however often it is logged."""

    def __init__(self) -> None:
        super().__init__()
        self._said_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        message, now_s = str(record.msg), time.monotonic()
        is_due = now_s - self._said_s.get(message, -LOG_EVERY_S) >= LOG_EVERY_S
        if is_due:
            self._said_s[message] = now_s
        return is_due
