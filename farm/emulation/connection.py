"""The phone's side of a connection from an adb server: the handshake and the streams."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import struct
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from farm.emulation import packets
from farm.emulation.packets import Command, PacketError, PacketHeader, encode
from farm.emulation.streams import AdbStream, StreamClosed

Service = Callable[[AdbStream], Coroutine[Any, Any, None]]
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST
DRAIN_S = 2.0  # how long a service may still use what arrived after the peer closed its stream


@dataclasses.dataclass(frozen=True)
class ConnectReply:
    """The phone's CNXN packet: protocol version, largest payload, and the banner with its features."""

    version: int
    payload_bytes: int
    banner: bytes

    @classmethod
    def make(cls, product: str, model: str, device: str, features: Sequence[str], modern: bool) -> ConnectReply:
        """Makes a phone's packet; an old phone (not `modern`) has no features, and small packets with checksums."""
        names = {"product.name": product, "product.model": model, "product.device": device}
        text = "device::" + "".join(f"ro.{name}={value};" for name, value in names.items())
        if not modern:
            return cls(packets.VERSION_WITH_CHECKSUM, packets.OLD_MAX_PAYLOAD_BYTES, text.encode())
        return cls(packets.VERSION, packets.MAX_PAYLOAD_BYTES, f"{text}features={','.join(features)}".encode())


class Connection:
    """Serves the ADB protocol over one socket.

    Args:
        open_service: finds a service by its name; None where the phone has none such.
        connect_reply: makes the answer to a peer that connects.
        authorized: the event that the phone waits for before it answers.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        open_service: Callable[[str, Connection], Service | None],
        connect_reply: Callable[[], ConnectReply],
        authorized: Callable[[], asyncio.Event],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._open_service, self._connect_reply, self._authorized = open_service, connect_reply, authorized
        self._streams: dict[int, AdbStream] = {}
        self._services: dict[int, asyncio.Task[None]] = {}
        self._last_stream = 0
        self._payload_bytes = packets.OLD_MAX_PAYLOAD_BYTES
        self._checksum = True
        self._not_stalled = asyncio.Event()
        self._not_stalled.set()
        self._socket: socket.socket = writer.get_extra_info("socket")
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def serve(self) -> None:
        """Answers packets until the peer disconnects, breaks the protocol, or `reset` is called."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    await self._answer(*await self._receive(), tasks)
        except* (PacketError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writer.close()

    def stall(self) -> None:
        """Stops reading and writing for good, but leaves the connection open."""
        self._not_stalled.clear()

    def reset(self) -> None:
        """Resets the connection, as a pulled plug does."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._writer.transport.abort()
        self._reader.feed_eof()
        self._not_stalled.set()

    async def _receive(self) -> tuple[PacketHeader, bytes]:
        await self._not_stalled.wait()
        header = PacketHeader.decode(await self._reader.readexactly(packets.HEADER.size))
        payload = await self._reader.readexactly(header.payload_bytes)
        header.check(payload)
        await self._not_stalled.wait()
        return header, payload

    async def _send(self, command: Command, arg0: int, arg1: int, payload: bytes = b"") -> None:
        await self._not_stalled.wait()
        self._writer.write(encode(command, arg0, arg1, payload, self._checksum))
        await self._writer.drain()

    async def _answer(self, header: PacketHeader, payload: bytes, tasks: asyncio.TaskGroup) -> None:
        match header.command:
            case Command.CNXN:
                await self._on_connect(header, tasks)
            case Command.AUTH if header.arg0 == packets.AUTH_SIGNATURE:
                await self._ask_for_key()  # and after the public key wait for the owner
            case Command.OPEN:
                await self._open(header.arg0, payload.rstrip(b"\0").decode(errors="surrogateescape"), tasks)
            case Command.OKAY if stream := self._streams.get(header.arg1):
                stream.acknowledge()
            case Command.WRTE if stream := self._streams.get(header.arg1):
                stream.receive_packet(payload)
            case Command.CLSE if stream := self._streams.get(header.arg1):
                stream.peer_closed()
                asyncio.get_running_loop().call_later(DRAIN_S, self._services[header.arg1].cancel)
            case Command.WRTE:
                await self._send(Command.CLSE, 0, header.arg0)
            case Command.STLS | Command.SYNC:
                raise PacketError(f"{header.command.name}: not offered")

    async def _on_connect(self, header: PacketHeader, tasks: asyncio.TaskGroup) -> None:
        reply, authorized = self._connect_reply(), self._authorized()
        if not authorized.is_set():
            await self._ask_for_key()
            tasks.create_task(self._reply_when_authorized(authorized, reply, header))
        else:
            await self._reply(reply, header)

    async def _reply_when_authorized(
        self, authorized: asyncio.Event, reply: ConnectReply, header: PacketHeader
    ) -> None:
        await authorized.wait()
        await self._reply(reply, header)

    async def _reply(self, reply: ConnectReply, header: PacketHeader) -> None:
        self._payload_bytes = min(reply.payload_bytes, header.arg1)
        await self._send(Command.CNXN, reply.version, reply.payload_bytes, reply.banner)
        self._checksum = min(reply.version, header.arg0) < packets.VERSION

    async def _ask_for_key(self) -> None:
        """Sends an authentication token: the phone asks so for another key than those that it does not know."""
        await self._send(Command.AUTH, packets.AUTH_TOKEN, 0, os.urandom(packets.TOKEN_BYTES))

    async def _open(self, remote: int, name: str, tasks: asyncio.TaskGroup) -> None:
        service = self._open_service(name, self)
        if service is None:
            await self._send(Command.CLSE, 0, remote)
            return
        self._last_stream = local = self._last_stream + 1
        stream = self._streams[local] = AdbStream(local, remote, self._payload_bytes, self._send)
        await self._send(Command.OKAY, local, remote)
        self._services[local] = tasks.create_task(self._run(service, stream, local, remote))

    async def _run(self, service: Service, stream: AdbStream, local: int, remote: int) -> None:
        try:
            await service(stream)
        except* (StreamClosed, OSError):
            pass
        finally:
            del self._streams[local], self._services[local]
        await self._send(Command.CLSE, local, remote)
