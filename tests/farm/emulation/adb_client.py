"""The computer's side of the ADB protocol, as little of it as tests need: one stream at a time, no server between."""

from __future__ import annotations

import dataclasses
import socket
import struct
from types import TracebackType

from farm.emulation import packets
from farm.emulation.packets import HEADER, Command, PacketHeader, encode

TIMEOUT_S = 60.0
FRAME = struct.Struct("<BI")
BANNER = b"host::features=shell_v2,cmd,stat_v2,ls_v2,sendrecv_v2"


@dataclasses.dataclass
class CommandOutput:
    """What a command of shell protocol 2 said; `exit_status` None when the stream ended without."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_status: int | None = None


class AdbClient:
    """A connection to a phone; every wait is limited."""

    def __init__(self, port: int, version: int = packets.VERSION) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._version = version
        self._streams = 0
        self.checksummed = True

    def __enter__(self) -> AdbClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def connect(self) -> tuple[PacketHeader, bytes]:
        """Says who we are; what the phone answers."""
        self.send(Command.CNXN, self._version, packets.MAX_PAYLOAD_BYTES, BANNER)
        return self.receive()

    def send(self, command: Command, arg0: int, arg1: int, payload: bytes = b"") -> None:
        self.socket.sendall(encode(command, arg0, arg1, payload))

    def receive(self) -> tuple[PacketHeader, bytes]:
        header = PacketHeader.decode(self._exactly(HEADER.size))
        payload = self._exactly(header.payload_bytes)
        header.check(payload)
        if payload:
            self.checksummed = header.checksum != 0
        return header, payload

    def open(self, service: str) -> OpenStream:
        """Opens a service, which must be there."""
        self._streams += 1
        self.send(Command.OPEN, self._streams, 0, service.encode() + b"\0")
        header, _ = self.receive()
        while header.arg1 != self._streams:  # the end of an earlier one
            header, _ = self.receive()
        assert header.command is Command.OKAY, header
        return OpenStream(self, self._streams, header.arg0)

    def run(self, command: str, stdin: bytes = b"") -> CommandOutput:
        """Runs a command by shell protocol 2."""
        stream = self.open(f"shell,v2,raw:{command}")
        stream.write(FRAME.pack(0, len(stdin)) + stdin + FRAME.pack(4, 0))
        return decode_output(stream.read_all())

    def _exactly(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            part = self.socket.recv(size_bytes - len(data))
            if not part:
                raise EOFError("the phone closed the connection")
            data += part
        return data


class OpenStream:
    """A stream that the phone accepted."""

    def __init__(self, peer: AdbClient, local: int, remote: int) -> None:
        self._peer, self._local, self._remote = peer, local, remote
        self._received = bytearray()
        self.closed = False

    def write(self, data: bytes) -> None:
        """Sends one packet, and waits until the phone took it or closed the stream."""
        self._peer.send(Command.WRTE, self._local, self._remote, data)
        while self._step().command not in (Command.OKAY, Command.CLSE):
            pass

    def read(self, size_bytes: int) -> bytes:
        while len(self._received) < size_bytes and not self.closed:
            self._step()
        data = bytes(self._received[:size_bytes])
        del self._received[:size_bytes]
        return data

    def read_until(self, end: bytes) -> bytes:
        while end not in self._received and not self.closed:
            self._step()
        at = self._received.index(end) + len(end)
        return self.read(at)

    def read_all(self) -> bytes:
        while not self.closed:
            self._step()
        return bytes(self._received)

    def close(self) -> None:
        self._peer.send(Command.CLSE, self._local, self._remote)

    def _step(self) -> PacketHeader:
        header, payload = self._peer.receive()
        if header.command is Command.WRTE:
            self._received += payload
            self._peer.send(Command.OKAY, self._local, self._remote)
        elif header.command is Command.CLSE:
            self.closed = True
        return header


def decode_output(data: bytes) -> CommandOutput:
    """The pieces of shell protocol 2, put together by kind."""
    output, at = CommandOutput(), 0
    while at < len(data):
        kind, size = FRAME.unpack_from(data, at)
        piece = data[at + FRAME.size : at + FRAME.size + size]
        at += FRAME.size + size
        if kind == 1:
            output.stdout += piece
        elif kind == 2:
            output.stderr += piece
        elif kind == 3:
            output.exit_status = piece[0]
    return output
