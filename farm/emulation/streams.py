"""The device's end of an ADB stream, which carries bytes both ways with one unacknowledged packet in each direction.

Each side sends its next packet only after the other has acknowledged the last one. ADB has no other flow control; this
one makes a slow reader slow its writer down.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import struct
from collections.abc import Awaitable, Callable

# ADB's packets: a header of 24 bytes, little-endian, and a payload.
#
# Header: command, two arguments, payload length, payload checksum (sum of its bytes; none since version 0x01000001),
# magic (the command's complement).


HEADER = struct.Struct("<6I")
WORD = 0xFFFFFFFF

VERSION_WITH_CHECKSUM = 0x01000000
VERSION = 0x01000001
MAX_PAYLOAD_BYTES = 1024**2
OLD_MAX_PAYLOAD_BYTES = 4096  # of devices before Android 7; also what a peer takes before the versions are known

AUTH_TOKEN, AUTH_SIGNATURE, AUTH_PUBLIC_KEY = 1, 2, 3
TOKEN_BYTES = 20


class Command(enum.IntEnum):
    """The commands of ADB: four letters, as a little-endian number."""

    SYNC = 0x434E5953
    CNXN = 0x4E584E43
    AUTH = 0x48545541
    OPEN = 0x4E45504F
    OKAY = 0x59414B4F
    CLSE = 0x45534C43
    WRTE = 0x45545257
    STLS = 0x534C5453


COMMANDS = frozenset(command.value for command in Command)


class PacketError(Exception):
    """The peer violated the protocol."""


@dataclasses.dataclass(frozen=True)
class PacketHeader:
    """The header before a payload; the meaning of its arguments depends on the command."""

    command: Command
    arg0: int
    arg1: int
    payload_bytes: int
    checksum: int

    @classmethod
    def decode(cls, data: bytes) -> PacketHeader:
        """Parses a header; raises PacketError for an unknown command, a wrong magic or a payload over the limit."""
        command, arg0, arg1, payload_bytes, checksum, magic = HEADER.unpack(data)
        if command ^ WORD != magic or command not in COMMANDS:
            raise PacketError(f"no ADB packet: command {command:#010x}, magic {magic:#010x}")
        if payload_bytes > MAX_PAYLOAD_BYTES:
            raise PacketError(f"a payload of {payload_bytes} bytes is over the limit")
        return cls(Command(command), arg0, arg1, payload_bytes, checksum)

    def check(self, payload: bytes) -> None:
        """Raises PacketError for a payload with another checksum; a checksum of 0 is not checked."""
        if self.checksum and self.checksum != checksum_of(payload):
            raise PacketError(f"{self.command.name}: the checksum is wrong")


def encode(command: Command, arg0: int, arg1: int, payload: bytes = b"", checksum: bool = True) -> bytes:
    """Encodes a packet: header and payload."""
    total = checksum_of(payload) if checksum else 0
    return HEADER.pack(command, arg0, arg1, len(payload), total, command ^ WORD) + payload


def checksum_of(payload: bytes) -> int:
    """The checksum of a payload: the sum of its bytes."""
    return sum(payload) & WORD


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
