"""The device's end of an ADB stream, which carries bytes both ways with one unacknowledged packet in each direction.

Each side sends its next packet only after the other has acknowledged the last one. ADB has no other flow control; this
one makes a slow reader slow its writer down.
"""

import asyncio
from collections.abc import Awaitable, Callable

from farm.emulation.packets import Command, PacketError

Send = Callable[[Command, int, int, bytes], Awaitable[None]]
MAX_UNREAD_PACKETS = 1024
EARLY_CLOSE = "the other side closed the stream"


class StreamClosed(Exception):
    """The peer has closed the stream."""


class AdbStream:
    """A stream that the peer opened.

    Args:
        local, remote: the stream's numbers on the device and at the peer.
        payload_bytes: the largest payload of a packet.
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
        """Reads the next bytes, as many as one packet brought; empty when the peer has closed the stream."""
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
        """Reads so many bytes; raises StreamClosed when the peer closes the stream before."""
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
        """Sends all of the data; raises StreamClosed when the peer has closed the stream."""
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
        """Queues a packet's payload; raises PacketError for too many, though adb may send its last ones at once."""
        if self._arrived.qsize() >= MAX_UNREAD_PACKETS:
            raise PacketError("WRTE before the OKAY of those before")
        if payload:
            self._arrived.put_nowait(payload)

    def acknowledge(self) -> None:
        """Notes that the peer has acknowledged the last packet."""
        self._acknowledged.set()

    def peer_closed(self) -> None:
        """Notes that the peer has closed: what arrived can still be read, nothing written. May be called twice."""
        self._ended = True
        self._arrived.put_nowait(b"")
        self._acknowledged.set()
