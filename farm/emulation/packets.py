"""ADB's packets: a header of 24 bytes, little-endian, and a payload.

Header: command, two arguments, payload length, payload checksum (sum of its bytes; none since version 0x01000001),
magic (the command's complement).
"""

from __future__ import annotations

import dataclasses
import enum
import struct

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
