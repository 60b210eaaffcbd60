"""An emulated phone: it listens on a port as a phone's adbd does, and runs commands in a private folder."""

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
from farm.emulation.connection import Connection, ConnectReply, Service
from farm.emulation.cpu_limit import limit_cpu
from farm.emulation.environment import command_line, make_environment, without_execution
from farm.emulation.faults import KILLERS, Fault, FaultInjector, FaultMonitor, FaultTarget
from farm.emulation.filesystem import (
    check_folder_name,
    host_programs,
    make_tree,
    remove_programs,
    toybox_programs,
    write_boot_id,
)
from farm.emulation.processes import RunningCommand
from farm.emulation.properties import PropertyStore, make_properties, sdk_level
from farm.emulation.shell import ShellRequest
from farm.emulation.socs import find_soc
from farm.emulation.state import PhoneState
from farm.emulation.streams import AdbStream
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
    """Which phone is emulated, and how; an empty `model` stands for that of the SoC's table.

    Attributes:
        serial: the serial number; empty for one derived from SoC, model and port.
        shell_v2: False emulates a phone before Android 7: no exit status, no separate stderr, small packets.
        exec_service: False emulates an adbd before Android 5, without `exec:`; it has no shell protocol 2 either.
        rooted: whether the shell may write what only root may, such as governors.
        compute_units: how many cores of this machine the OpenCL device uses; None for all. With one, phones that are
            busy at the same time disturb each other less.
        gpu: the GPU that it plays, `PROFILE[:KEY=VALUE,...]` (docs/emulation.md); empty for this machine's OpenCL.
        toybox: whether commands run in mksh with toybox's programs, as on a phone; this machine must have both.
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
    exec_service: bool = True
    gpu: str = ""

    @property
    def modern(self) -> bool:
        """Whether the phone has shell protocol 2, features and large packets."""
        return self.shell_v2 and self.exec_service


class Phone:
    """One phone; all its methods must be called in one event loop.

    Args:
        folder: an empty folder of its own.
        port: the port on this machine; 0 for any that is free.
    """

    def __init__(self, settings: PhoneSettings, folder: Path, port: int) -> None:
        check_linux("an emulated phone")
        check_folder_name(folder)
        self._settings, self._folder = settings, folder
        self._soc = find_soc(settings.soc)
        sdk_level(settings.android)
        self.root = folder / "root"
        self.state_folder = folder / "state"
        self._environment = make_environment(folder, self.root, self.state_folder, settings.compute_units, settings.gpu)
        find_programs = toybox_programs if settings.toybox else host_programs
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
        self._injector = FaultInjector()
        self._monitors: list[FaultMonitor] = []
        self._server: asyncio.Server | None = None
        self._connections: dict[Connection, asyncio.Task[None] | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._programs: dict[RunningCommand, float] = {}  # and the processor time that was already counted
        self._uncounted_s = 0.0
        self._offline = False
        self._view: list[str] = []  # what runs commands where they see files otherwise
        self._authorized = asyncio.Event()
        self._authorized.set()

    async def start(self) -> None:
        """Begins to listen, and starts the timers of the faults."""
        await self._listen(self._socket)
        self._keep_task(self._tick())
        self._keep_task(limit_cpu(self._limited_processes, lambda: self.state.relative_speed(time.monotonic())))
        for fault in self._settings.faults:
            self.inject(fault)

    async def close(self) -> None:
        """Ends all connections and processes of the phone."""
        for monitor in self._monitors:
            monitor.close()
        if self._server:
            self._server.close()
        tasks = [task for task in (*self._tasks, *self._connections.values()) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()
        processes.kill_all(self._folder)

    def inject(self, fault: Fault) -> None:
        """Adds a fault; requests that already run are not affected."""
        armed = self._injector.add(fault)
        if fault.matches("", ""):
            self._monitors.append(FaultMonitor([armed], self._apply_fault))

    def clear_faults(self) -> None:
        """Ends all faults but those that cannot be undone: broken links, altered or refused files, what was removed."""
        for monitor in self._monitors:
            monitor.close()
        self._monitors.clear()
        self._injector = FaultInjector()
        self._offline = False
        self._view = []
        self._authorized.set()
        self.state.reset()

    def go_away(self, away_s: float) -> None:
        """Resets all connections, and refuses new ones for `away_s`."""
        for connection in list(self._connections):
            connection.reset()
        if away_s and self._server:
            self._server.close()
            self._server = None
            self._keep_task(self._listen_after(away_s))

    def reboot(self, away_s: float = REBOOT_AWAY_S) -> None:
        """Ends all processes, and refuses connections for `away_s`; files stay."""
        self.go_away(away_s)
        processes.kill_all(self._folder)
        write_boot_id(self.root)

    # Connections and services

    async def _listen(self, listening: socket.socket) -> None:
        self._server = await asyncio.start_server(self._connected, sock=listening, limit=READ_AHEAD_BYTES)

    async def _listen_after(self, away_s: float) -> None:
        await asyncio.sleep(away_s)
        while True:
            with contextlib.suppress(OSError):
                return await self._listen(socket.create_server((ADDRESS, self.port)))
            await asyncio.sleep(RELISTEN_S)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self._service, self._connect_reply, lambda: self._authorized)
        self._connections[connection] = asyncio.current_task()
        try:
            if self._offline:
                connection.stall()
            with contextlib.suppress(asyncio.CancelledError), self._monitor(connection, "connect", "", _ignore_fault):
                await connection.serve()
        finally:
            del self._connections[connection]

    def _connect_reply(self) -> ConnectReply:
        product, model, device = (self.properties.get(f"ro.product.{name}") for name in ("name", "model", "device"))
        return ConnectReply.make(product, model, device, FEATURES, self._settings.modern)

    def _service(self, name: str, connection: Connection) -> Service | None:
        if name == "sync:":
            monitor = functools.partial(self._monitor, connection)
            return SyncService(self.root, monitor, self.state.free_bytes, self._settings.modern).serve
        if name.startswith("reboot:"):
            return self._serve_reboot
        if name == "root:":
            return _refuse_root
        if name.startswith("exec:") and not self._settings.exec_service:
            return None
        request = ShellRequest.parse(name, self._settings.modern)
        if request is None:
            return None
        monitor = functools.partial(self._monitor, connection, "shell")
        return functools.partial(shell.serve, request=request, run=self._run, root=self.root, monitor_command=monitor)

    async def _serve_reboot(self, stream: AdbStream) -> None:
        asyncio.get_running_loop().call_later(TICK_S, self.reboot)
        await stream.read()

    @contextlib.asynccontextmanager
    async def _run(self, request: ShellRequest) -> AsyncIterator[RunningCommand]:
        argv = command_line(request.command, self.root, self.state.free_bytes(), self._settings.rooted)
        argv = [*self._view, *argv]
        program = RunningCommand(argv, self.root, self._environment | {"TERM": request.terminal}, request.stdio)
        self._programs[program] = 0.0
        try:
            yield program
        finally:
            await program.end()
            self._uncounted_s += program.used_s - self._programs.pop(program)

    # Faults

    def _monitor(
        self, connection: Connection, request: str, text: str, act_on_command: Callable[[Fault], None]
    ) -> FaultMonitor:
        """Monitors a request; `act_on_command` carries out faults of the request's command."""

        def fire(fault: Fault) -> None:
            if killer := fault.values.get("by"):
                self.state.log(KILLERS[killer])
            act_on_command(fault) if fault.target is FaultTarget.COMMAND else self._apply_fault(fault, connection)

        return self._injector.monitor(request, text, fire)

    def _apply_fault(self, fault: Fault, connection: Connection | None = None) -> None:
        """Carries out a fault of the phone or of its link; without a connection it affects all of them."""
        match fault.name:
            case "reboot":
                self.reboot(fault.values["away"])
            case "disconnect" if connection and not fault.values["away"]:
                connection.reset()
            case "disconnect":
                self.go_away(fault.values["away"])
            case "stall":
                for stalled in [connection] if connection else self._connections:
                    stalled.stall()
            case "offline":
                self._offline = True
                self.go_away(0)
                self._undo_later(fault, self._come_online)
            case "unauthorized":
                self._authorized.clear()
                self.go_away(0)
                self._undo_later(fault, self._authorized.set)
            case "property":
                self.properties.set(
                    fault.values["name"], repeat_to_length(fault.values["value"], fault.values["length"])
                )
            case "noexec":
                self._view = without_execution(self.root / "data/local/tmp")
            case "lacks":
                remove_programs(self.root / "system/bin", fault.values["programs"].split(","))
            case _:
                self.state.apply_fault(fault, time.monotonic())

    def _undo_later(self, fault: Fault, undo: Callable[[], None]) -> None:
        if fault.values["for"] is not None:
            asyncio.get_running_loop().call_later(fault.values["for"], undo)

    def _come_online(self) -> None:
        self._offline = False
        self.go_away(0)

    # Time

    async def _tick(self) -> None:
        """Updates temperatures, clocks and load at each tick."""
        cores, last_s = os.cpu_count() or 1, time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            load = min(self._take_used_s() / ((now_s - last_s) * cores), 1.0)
            self.state.advance(now_s, now_s - last_s, load)
            last_s = now_s
            if self.state.take_reboot_request():
                self.reboot()

    def _limited_processes(self) -> list[int]:
        """The processes whose processor time is limited: those of all commands that no fault has stopped."""
        leaders = {program.session for program in self._programs if not program.stopped}
        return [process.number for process in processes.descendants(leaders)]

    def _take_used_s(self) -> float:
        """Returns the processor time that the phone's commands used since the last call."""
        used, self._uncounted_s = self._uncounted_s, 0.0
        running = dict.fromkeys((program.session for program in self._programs), 0.0)
        for process in processes.descendants(running, max_age_s=TICK_S / 2):
            running[process.leader] += process.used_s
        for program, counted_s in self._programs.items():
            used += running[program.session] - counted_s
            self._programs[program] = running[program.session]
        return max(used, 0.0)

    def _keep_task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        raise ConfigError(f"--port {port}: {os.strerror(error.errno or 0)}; 0 chooses one that is free") from None


def repeat_to_length(value: str | None, length: int | None) -> str | None:
    """Repeats a text up to the length; without a length returns it as it is."""
    if value is None or length is None:
        return value
    return (value * (length // max(len(value), 1) + 1))[:length]


def _serial(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


async def _refuse_root(stream: AdbStream) -> None:
    await stream.write(NOT_ROOT)


def _ignore_fault(fault: Fault) -> None:
    """Does nothing: a connection has no command that a fault could affect."""
