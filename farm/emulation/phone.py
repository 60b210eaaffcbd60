"""An emulated phone: listens on a port as a phone's adbd does, and runs what it is told in a private folder."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import hashlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path

from farm.emulation import processes, shell
from farm.emulation.connection import Connection, Greeting, Service
from farm.emulation.environment import command_line, make_environment
from farm.emulation.faults import Board, Concern, Fault, Watch
from farm.emulation.filesystem import check_root, make_tree, new_boot, own_programs, toybox_programs
from farm.emulation.pace import keep_pace
from farm.emulation.processes import Program
from farm.emulation.properties import PropertyStore, make_properties, sdk_level
from farm.emulation.shell import Asked
from farm.emulation.socs import find_soc
from farm.emulation.state import PhoneState
from farm.emulation.streams import Stream
from farm.emulation.sync import SyncService
from farm.host_system import check_linux
from runtime.errors import ConfigError

ADDRESS = "127.0.0.1"
FEATURES = ("shell_v2", "cmd", "stat_v2", "ls_v2", "fixed_push_mkdir", "sendrecv_v2")
READ_AHEAD_BYTES = 4 * 1024**2
TICK_S = 0.5
REBOOT_AWAY_S = 3.0
RELISTEN_S = 0.2
NOT_ROOT = b"adbd cannot run as root in production builds\n"


@dataclasses.dataclass(frozen=True)
class PhoneSettings:
    """What is emulated; empty words stand for what the SoC's table says.

    Attributes:
        serial: empty for one made from the SoC, the model and the port.
        shell_v2: False for an old phone: no exit status, no separate stderr, small packets.
        rooted: the shell may write what only root may, such as governors.
        compute_units: cores of this machine that its OpenCL device uses; None for all. Phones that are busy at the
            same time disturb each other less with one.
        toybox: commands run in mksh with toybox's programs, as on a phone; this machine must have both.
    """

    soc: str = "sdm845"
    model: str = ""
    serial: str = ""
    android: int = 14
    shell_v2: bool = True
    rooted: bool = False
    toybox: bool = False
    compute_units: int | None = None
    faults: Sequence[Fault] = ()


class Phone:
    """One phone; its methods belong to one event loop.

    Args:
        folder: an empty folder of its own.
        port: where it listens on this machine; 0 for any that is free.
    """

    def __init__(self, settings: PhoneSettings, folder: Path, port: int) -> None:
        check_linux("an emulated phone")
        check_root(folder)
        self._settings, self._folder = settings, folder
        self._soc = find_soc(settings.soc)
        sdk_level(settings.android)
        self.root = folder / "root"
        self.state_folder = folder / "state"
        self._environment = make_environment(folder, self.root, self.state_folder, settings.compute_units)
        find_programs = toybox_programs if settings.toybox else own_programs
        programs = find_programs(self._environment["PHONE_HOST_PATH"])
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        self.model = settings.model or self._soc.model
        self.serial = settings.serial or _serial(self._soc.key, self.model, self.port)
        make_tree(self.root, self._soc, settings.android, settings.rooted, programs)
        self.properties = PropertyStore(self.state_folder / "properties")
        for name, value in make_properties(self._soc, self.model, self.serial, settings.android).items():
            self.properties.set(name, value)
        self.state = PhoneState(self.state_folder, self.root, self._soc, settings.rooted)
        self._board = Board()
        self._watches: list[Watch] = []
        self._server: asyncio.Server | None = None
        self._connections: dict[Connection, asyncio.Task[None] | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._programs: dict[Program, float] = {}  # and the processor time that was already counted
        self._uncounted_s = 0.0
        self._offline = False
        self._authorized = asyncio.Event()
        self._authorized.set()

    async def start(self) -> None:
        """Listens, and lets its faults begin."""
        await self._listen(self._socket)
        self._keep(self._tick())
        self._keep(keep_pace(self._moving, lambda: self.state.pace(time.monotonic())))
        for fault in self._settings.faults:
            self.inject(fault)

    async def close(self) -> None:
        """Ends everything that runs on it."""
        for watch in self._watches:
            watch.close()
        if self._server:
            self._server.close()
        tasks = [task for task in (*self._tasks, *self._connections.values()) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()
        processes.kill_all(self._folder)

    def inject(self, fault: Fault) -> None:
        """Adds a fault; requests that already run are not concerned."""
        armed = self._board.add(fault)
        if fault.concerns("", ""):
            self._watches.append(Watch([armed], self._act))

    def clear_faults(self) -> None:
        """Ends all faults but those that cannot be undone: links stay broken, files altered, properties changed."""
        for watch in self._watches:
            watch.close()
        self._watches.clear()
        self._board = Board()
        self._offline = False
        self._authorized.set()
        self.state.recover()

    def leave(self, away_s: float) -> None:
        """Resets all connections, and refuses new ones for so long."""
        for connection in list(self._connections):
            connection.reset()
        if away_s and self._server:
            self._server.close()
            self._server = None
            self._keep(self._return_after(away_s))

    def reboot(self, away_s: float = REBOOT_AWAY_S) -> None:
        """Ends all processes and goes away for so long; files stay."""
        self.leave(away_s)
        processes.kill_all(self._folder)
        new_boot(self.root)

    # Connections and services

    async def _listen(self, listening: socket.socket) -> None:
        self._server = await asyncio.start_server(self._connected, sock=listening, limit=READ_AHEAD_BYTES)

    async def _return_after(self, away_s: float) -> None:
        await asyncio.sleep(away_s)
        while True:
            with contextlib.suppress(OSError):
                return await self._listen(socket.create_server((ADDRESS, self.port)))
            await asyncio.sleep(RELISTEN_S)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self._service, self._greeting, lambda: self._authorized)
        self._connections[connection] = asyncio.current_task()
        try:
            if self._offline:
                connection.stall()
            with contextlib.suppress(asyncio.CancelledError), self._watch(connection, "connect", "", _nothing):
                await connection.serve()
        finally:
            del self._connections[connection]

    def _greeting(self) -> Greeting:
        product, model, device = (self.properties.get(f"ro.product.{name}") for name in ("name", "model", "device"))
        return Greeting.make(product, model, device, FEATURES, self._settings.shell_v2)

    def _service(self, name: str, connection: Connection) -> Service | None:
        if name == "sync:":
            watch_over = functools.partial(self._watch, connection)
            return SyncService(self.root, watch_over, self.state.free_bytes, self._settings.shell_v2).serve
        if name.startswith("reboot:"):
            return self._serve_reboot
        if name == "root:":
            return _refuse_root
        asked = Asked.parse(name, self._settings.shell_v2)
        if asked is None:
            return None
        watch_over = functools.partial(self._watch, connection, "shell")
        return functools.partial(shell.serve, asked=asked, run=self._run, root=self.root, watch_over=watch_over)

    async def _serve_reboot(self, stream: Stream) -> None:
        asyncio.get_running_loop().call_later(TICK_S, self.reboot)
        await stream.read()

    @contextlib.asynccontextmanager
    async def _run(self, asked: Asked) -> AsyncIterator[Program]:
        argv = command_line(asked.command, self.root, self.state.free_bytes(), self._settings.rooted)
        program = Program(argv, self.root, self._environment | {"TERM": asked.terminal}, asked.wiring)
        self._programs[program] = 0.0
        try:
            yield program
        finally:
            await program.end()
            self._uncounted_s += program.used_s - self._programs.pop(program)

    # Faults

    def _watch(self, connection: Connection, request: str, text: str, act: Callable[[Fault], None]) -> Watch:
        """Watches over a request; `act` does what concerns the request's own command."""

        def fire(fault: Fault) -> None:
            act(fault) if fault.concern is Concern.COMMAND else self._act(fault, connection)

        return self._board.watch(request, text, fire)

    def _act(self, fault: Fault, connection: Connection | None = None) -> None:
        """Lets a fault of the phone, or of its link, happen; without a connection it is that of all."""
        match fault.name:
            case "reboot":
                self.reboot(fault.values["away"])
            case "disconnect" if connection and not fault.values["away"]:
                connection.reset()
            case "disconnect":
                self.leave(fault.values["away"])
            case "stall":
                for each in [connection] if connection else self._connections:
                    each.stall()
            case "offline":
                self._offline = True
                self.leave(0)
                self._later(fault, self._come_online)
            case "unauthorized":
                self._authorized.clear()
                self.leave(0)
                self._later(fault, self._authorized.set)
            case "property":
                self.properties.set(fault.values["name"], repeated(fault.values["value"], fault.values["length"]))
            case _:
                self.state.suffer(fault, time.monotonic())

    def _later(self, fault: Fault, undo: Callable[[], None]) -> None:
        if fault.values["for"] is not None:
            asyncio.get_running_loop().call_later(fault.values["for"], undo)

    def _come_online(self) -> None:
        self._offline = False
        self.leave(0)

    # Time

    async def _tick(self) -> None:
        """Keeps temperatures, clocks and load up to date."""
        cores, last_s = os.cpu_count() or 1, time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            load = min(self._take_used_s() / ((now_s - last_s) * cores), 1.0)
            self.state.advance(now_s, now_s - last_s, load)
            last_s = now_s
            if self.state.take_reboot():
                self.reboot()

    def _moving(self) -> list[int]:
        """The processes of the commands that no fault has stopped."""
        leaders = {program.session for program in self._programs if not program.stopped}
        return [process.number for process in processes.descendants(leaders)]

    def _take_used_s(self) -> float:
        """Processor time that the phone's commands used since the last call."""
        used, self._uncounted_s = self._uncounted_s, 0.0
        running = dict.fromkeys((program.session for program in self._programs), 0.0)
        for process in processes.descendants(running):
            running[process.leader] += process.used_s
        for program, counted_s in self._programs.items():
            used += running[program.session] - counted_s
            self._programs[program] = running[program.session]
        return max(used, 0.0)

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        raise ConfigError(f"--port {port}: {os.strerror(error.errno or 0)}; 0 chooses one that is free") from None


def repeated(value: str | None, length: int | None) -> str | None:
    """The text, over and over until it is so long."""
    if value is None or length is None:
        return value
    return (value * (length // max(len(value), 1) + 1))[:length]


def _serial(*words: object) -> str:
    return hashlib.sha256(repr(words).encode()).hexdigest()[:8]


async def _refuse_root(stream: Stream) -> None:
    await stream.write(NOT_ROOT)


def _nothing(fault: Fault) -> None:
    """A command's fault cannot happen to a connection."""
