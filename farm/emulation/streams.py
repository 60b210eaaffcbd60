"""One ADB stream, seen from the device: bytes both ways, one unacknowledged packet in each direction.

The peer sends the next packet when we have taken the last one; we may send the next when the peer has. That is all the
flow control that ADB has, and it makes a slow reader slow down its writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from farm.emulation.packets import Command, PacketError

Send = Callable[[Command, int, int, bytes], Awaitable[None]]
MAX_UNREAD_PACKETS = 1024
EARLY_CLOSE = "the other side closed the stream"


class StreamClosed(Exception):
    """The peer wants nothing more from this stream."""


class AdbStream:
    """A stream that the peer opened.

    Args:
        local, remote: the stream's numbers here and there.
        payload_bytes: what one packet may hold.
        send: sends a packet over the connection.
    """

    def __init__(self, local: int, remote: int, payload_bytes: int, send: Send) -> None:
        self.payload_bytes = payload_bytes
        self._local, self._remote, self._send = local, remote, send
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._rest = b""
        self._ended = False
        self._acknowledged = asyncio.Event()
        self._acknowledged.set()
        self._writing = asyncio.Lock()

    async def read(self) -> bytes:
        """What came next, in whatever pieces; empty when the peer has closed."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        if self._ended and self._arrived.empty():
            return b""
        payload = await self._arrived.get()
        if payload and not self._ended:
            await self._send(Command.OKAY, self._local, self._remote, b"")
        return payload

    async def read_exactly(self, size_bytes: int) -> bytes:
        """Raises StreamClosed when the peer closes before."""
        parts, missing = [], size_bytes
        while missing > 0:
            part = await self.read()
            if not part:
                raise StreamClosed(EARLY_CLOSE)
            parts.append(part[:missing])
            self._rest = part[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    async def write(self, data: bytes | memoryview) -> None:
        """Sends all of it; raises StreamClosed when the peer has closed."""
        view = memoryview(data)
        async with self._writing:
            for start in range(0, len(view), self.payload_bytes):
                await self._acknowledged.wait()
                if self._ended:
                    raise StreamClosed(EARLY_CLOSE)
                self._acknowledged.clear()
                await self._send(
                    Command.WRTE, self._local, self._remote, bytes(view[start : start + self.payload_bytes])
                )

    def receive_packet(self, payload: bytes) -> None:
        """Takes a packet of the peer; adb sends its last ones without waiting. Raises PacketError for too many."""
        if self._arrived.qsize() >= MAX_UNREAD_PACKETS:
            raise PacketError("WRTE before the OKAY of those before")
        if payload:
            self._arrived.put_nowait(payload)

    def acknowledge(self) -> None:
        """The peer has taken our last packet."""
        self._acknowledged.set()

    def peer_closed(self) -> None:
        """The peer has closed: what arrived can still be read, nothing can be written. May be called twice."""
        self._ended = True
        self._arrived.put_nowait(b"")
        self._acknowledged.set()
