"""The phone's services `shell:` (protocols 1 and 2) and `exec:`, each of which runs one command."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import re
import shlex
import struct
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from farm.emulation.faults import Fault, FaultMonitor
from farm.emulation.filesystem import OutputPathMapper
from farm.emulation.processes import Pipe, RunningCommand, StdioMode
from farm.emulation.streams import AdbStream, StreamClosed

# Packets of shell protocol 2: kind, length, data.
PACKET = struct.Struct("<BI")
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN, WINDOW_SIZE = range(6)
MAX_PACKET_BYTES = 1024**2
FLOOD_LINE = b"flood " * 1000 + b"\n"

MonitorCommand = Callable[[str, Callable[[Fault], None]], FaultMonitor]


@dataclasses.dataclass(frozen=True)
class ShellRequest:
    """The command that a service's name asks for, and how its streams are connected."""

    command: str
    stdio: StdioMode
    uses_protocol_2: bool  # shell protocol 2
    terminal: str = "dumb"

    @classmethod
    def parse(cls, name: str, modern: bool) -> ShellRequest | None:
        """Parses `exec:COMMAND` and `shell[,v2][,raw|pty][,TERM=NAME]:COMMAND`; None for another service."""
        service, _, command = name.partition(":")
        kind, *options = service.split(",")
        if kind == "exec" and not options:
            return cls(command, StdioMode.JOINED_PIPES, uses_protocol_2=False)
        if kind != "shell" or (options and not modern):
            return None
        pty = "pty" in options or ("raw" not in options and not command) or not modern
        framed = "v2" in options
        terminal = next((option[5:] for option in options if option.startswith("TERM=")), "dumb")
        # Without framing a terminal ends the command when the stream ends; a modern phone makes it transparent.
        wiring = StdioMode.TERMINAL if pty else StdioMode.PIPES if framed else StdioMode.RAW_TERMINAL
        return cls(command, wiring, framed, terminal)


async def serve(
    stream: AdbStream, request: ShellRequest, run: Run, root: Path, monitor_command: MonitorCommand
) -> None:
    """Runs the command until it ends or the peer closes the stream."""
    session = CommandSession(stream, request.uses_protocol_2, root)
    with monitor_command(request.command, session.apply_fault) as monitor:
        async with run(dataclasses.replace(request, command=session.prelude + request.command)) as program:
            await session.run(program, monitor)


Run = Callable[[ShellRequest], AbstractAsyncContextManager[RunningCommand]]


class CommandSession:
    """Carries a program's streams over an ADB stream.

    Attributes:
        prelude: shell code that runs before the command, for faults that happen at its very start.
    """

    def __init__(self, stream: AdbStream, framed: bool, root: Path) -> None:
        self._stream, self._framed, self._root = stream, framed, root
        self._program: RunningCommand | None = None
        self.prelude = ""
        self._inserted = b""
        self._flood_left = 0.0
        self._disturbed = asyncio.Event()

    def apply_fault(self, fault: Fault) -> None:
        """Carries out a fault of the command."""
        match fault.name:
            case "exit" if self._program:
                self._program.fail(fault.values["status"])
            case "exit":
                self.prelude += f"exit {fault.values['status']}\n"
            case "hang" if self._program:
                self._program.stop()
            case "hang":
                self.prelude += "kill -STOP $$\n"
            case "banner" if not self._program:
                words = shlex.quote(fault.values["text"])
                self.prelude += f"for at in 1 2; do printf '%s\\n' {words} >&$at; done\n"
            case "garbage":
                self._inserted += random.Random(fault.values["size"]).randbytes(fault.values["size"])
            case "flood":
                size = fault.values["size"]
                self._flood_left = float("inf") if size is None else size
        self._disturbed.set()

    async def run(self, program: RunningCommand, monitor: FaultMonitor) -> None:
        """Moves data until the program has ended and its output is sent."""
        self._program = program
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(self._feed(program)), tasks.create_task(self._insert_whenever_disturbed())]
            outputs = [(program.stdout, STDOUT)]
            if program.stderr:
                outputs.append((program.stderr, STDERR))
            await asyncio.gather(*(self._pump(pipe, kind, monitor) for pipe, kind in outputs))
            status = await program.wait()
            await self._insert()
            if self._framed:
                await self._stream.write(PACKET.pack(EXIT, 1) + bytes([status & 0xFF]))
            for task in others:
                task.cancel()

    async def _pump(self, pipe: Pipe, kind: int, monitor: FaultMonitor) -> None:
        mapper = OutputPathMapper(self._root)
        while chunk := await pipe.read():
            await self._pass_on(kind, mapper.feed(chunk), monitor)
        await self._pass_on(kind, mapper.end(), monitor)

    async def _pass_on(self, kind: int, data: bytes, monitor: FaultMonitor) -> None:
        await self._write(kind, monitor.transform(data) if kind == STDOUT else data)

    async def _insert_whenever_disturbed(self) -> None:
        while True:
            await self._disturbed.wait()
            self._disturbed.clear()
            await self._insert()

    async def _insert(self) -> None:
        """Sends what faults insert into the output."""
        inserted, self._inserted = self._inserted, b""
        await self._write(STDOUT, inserted)
        while self._flood_left > 0:
            self._flood_left -= len(FLOOD_LINE)
            await self._write(STDOUT, FLOOD_LINE)

    async def _write(self, kind: int, data: bytes) -> None:
        if data:
            await self._stream.write(PACKET.pack(kind, len(data)) + data if self._framed else data)

    async def _feed(self, program: RunningCommand) -> None:
        """Passes the peer's input to the program; raises StreamClosed when the peer wants no more output."""
        if not self._framed:
            while data := await self._stream.read():
                await program.stdin.write(data)
            if program.stdin is program.stdout:
                raise StreamClosed("the peer wants no more")
            program.stdin.close()  # the program may still use what it got, for as long as the connection waits
            return
        while True:
            kind, size = PACKET.unpack(await self._stream.read_exactly(PACKET.size))
            if size > MAX_PACKET_BYTES:
                raise StreamClosed(f"a packet of {size} bytes")
            await _handle_packet(program, kind, await self._stream.read_exactly(size))


async def _handle_packet(program: RunningCommand, kind: int, data: bytes) -> None:
    if kind == STDIN:
        await program.stdin.write(data)
    elif kind == CLOSE_STDIN and program.stdin is not program.stdout:
        program.stdin.close()
    elif kind == WINDOW_SIZE and (size := re.match(rb"(\d+)x(\d+)", data)):
        program.stdin.resize(int(size[1]), int(size[2]))
