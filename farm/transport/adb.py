"""Connects to phones over adb: implements the link that posix.py needs, through the adb server of this machine."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shlex
import socket
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from farm.config.inventory import Unit
from farm.transport import adb_reconnect
from farm.transport.adb_channel import LegacyShellChannel, ShellV2Channel, legacy_command_line
from farm.transport.adb_server import AdbDevice, AdbRefusedError, AdbServer
from farm.transport.adb_sync import SyncClient
from farm.transport.channel import Channel
from farm.transport.interruption import Interruption
from farm.transport.posix import PosixTransport, Transfer
from runtime.errors import DeadlineError, DeviceError, DeviceLostError, FarmError, JobError

DEFAULT_FOLDER = "/data/local/tmp/farm"
CONNECT_S = 20.0
SETTLE_S = 10.0  # how long a phone that was just plugged in or restarted may take to answer
SETTLE_POLL_S = 0.3
RECONNECT_S = 2.0  # how long a phone may stay offline before the adb server is made to connect to it anew
DIAL_S = 5.0  # how long the server's answer is waited for; where a link breaks in between, adb 29 takes 10 s to give it
REDIAL_S = 3.0  # how long an address is dialled again: the phone's network may be coming back
SILENCE_S = 8.0  # the phone is probed when nothing came from it for so long
ANSWER_S = 12.0  # and must answer within this time, so that a lost phone is noticed within 20 s
GONE_S = 2.0  # how long a phone that was waited for in vain is given: each step that tidies up asks once more
OLD_COMMAND_BYTES = 3000  # phones before Android 7 take packets of 4 KiB
COMMAND_BYTES = 32_000
TRANSIENT_STATES = (adb_reconnect.OFFLINE, "connecting", "authorizing", "host")
ABSENT = "absent"
WAKE = "wake its screen, plug it in again, or restart it"
TOO_OLD = (
    "its adbd is too old: it has no service `exec:`, which came with Android 5. farm needs Android 7 or newer, or "
    "`transport: ssh` where it runs an sshd"
)

# State that `adb devices` shows -> what it means, and what the user can do.
REMEDIES = {
    "unauthorized": "it has not allowed this computer: accept the dialogue on its screen (tick `always allow`)",
    "authorizing": "it asks whether to allow this computer: accept the dialogue on its screen",
    "no permissions": "this user may not open its USB device: add a udev rule for its vendor (apt install "
    "android-sdk-platform-tools-common) and join the group plugdev, then plug it in again",
    adb_reconnect.OFFLINE: f"adb sees it, but it does not answer: {WAKE}",
    "connecting": "adb is still connecting to it: try again in a moment",
    "recovery": "it is in recovery mode: restart it into Android",
    "sideload": "it waits for an update (sideload): restart it into Android",
    "bootloader": "it is in the boot loader: restart it into Android (fastboot reboot)",
    "rescue": "it is in rescue mode: restart it into Android",
    "host": "it is in host mode: restart it into Android",
    ABSENT: "adb does not see it: plug it in and turn USB debugging on, or check its address",
}
REFUSED_STATES = ("unauthorized", "no permissions")


def connect(unit: Unit, interruption: Interruption | None = None) -> AdbTransport:
    """Connects to a unit whose transport is adb.

    Raises DeviceLostError (absent, offline), DeviceError (not allowed) or DeadlineError, each with what to do.
    """
    server = AdbServer(unit.adb_server)
    serial = unit.serial or _only_serial(unit, server)
    _wait_until_ready(unit.name, server, serial)
    return AdbTransport(unit, server, serial, _features(unit.name, server, serial), interruption)


class AdbTransport(PosixTransport):
    """See transport.base.Transport."""

    max_command_bytes = 100_000
    keeps_receiver = True

    def __init__(
        self,
        unit: Unit,
        server: AdbServer,
        serial: str,
        features: Sequence[str],
        interruption: Interruption | None = None,
    ) -> None:
        super().__init__(unit.name, unit.folder or DEFAULT_FOLDER, interruption)
        self._server, self._serial = server, serial
        self._has_shell_v2 = "shell_v2" in features
        self._last_sign_s = time.monotonic()
        self._is_gone = False

    def _open(self, command_line: str, deadline: float) -> Channel:
        line = self._send_as_file(command_line, deadline) if self._is_long(command_line) else command_line
        if self._has_shell_v2:
            return ShellV2Channel(self._open_service(f"shell,v2,raw:{line}", deadline), self._name, self._check_alive)
        marker = secrets.token_hex(16)
        old_line = legacy_command_line(line, marker, self._folder)
        return LegacyShellChannel(
            self._open_service(f"exec:{old_line}", deadline), self._name, self._check_alive, marker
        )

    def _send(self, parts: Sequence[Transfer], deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        with self._open_service("sync:", deadline) as connection:
            files = [(local, f"{self._folder}/{part}") for local, part in parts]
            SyncClient(connection, self._name, self._check_alive).send(files, deadline)

    def _fetch(self, remote: str, file: BinaryIO, deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        with self._open_service("sync:", deadline) as connection:
            SyncClient(connection, self._name, self._check_alive).receive(f"{self._folder}/{remote}", file, deadline)

    def _is_long(self, line: str) -> bool:
        return len(os.fsencode(line)) > (COMMAND_BYTES if self._has_shell_v2 else OLD_COMMAND_BYTES)

    def _send_as_file(self, line: str, deadline: float) -> str:
        """Sends a command line that is too long for a packet as a script that removes itself; returns what runs it."""
        path, folder = f"{self._folder}.{secrets.token_hex(8)}", shlex.quote(self._folder)
        enter, then, program = line.partition(" && exec ")
        script = enter.replace(folder, '"$1"') + then + program
        with tempfile.NamedTemporaryFile() as file, self._open_service("sync:", deadline) as connection:
            file.write(b'rm -f -- "$0"\n' + os.fsencode(script) + b"\n")
            file.flush()
            SyncClient(connection, self._name, self._check_alive).send([(Path(file.name), path)], deadline)
        return f"exec sh {shlex.quote(path)} {folder}"

    def _open_service(self, service: str, deadline: float) -> socket.socket:
        """Opens a service of the phone; first connects a phone in the network again if the adb server lost it.

        A phone that was waited for in vain is not waited for again, only looked at.
        """
        try:
            connection = self._opened(
                service, min(deadline, time.monotonic() + (GONE_S if self._is_gone else CONNECT_S))
            )
        except DeviceLostError:
            self._is_gone = True
            raise
        self._last_sign_s, self._is_gone = time.monotonic(), False
        return connection

    def _opened(self, service: str, deadline: float) -> socket.socket:
        try:
            return self._server.open(service, deadline, self._serial)
        except AdbRefusedError as error:
            if not self._is_gone:
                _wait_until_ready(self._name, self._server, self._serial, deadline)
            elif (state := _state(self._name, self._server, self._serial)) != "device":
                raise _unusable(self._name, self._serial, state) from None
            return self._reopen(service, deadline, error)
        except DeadlineError:
            raise DeviceLostError(f"{self._name}: does not answer: {WAKE}") from None
        except FarmError as error:
            raise type(error)(f"{self._name}: {error}") from None

    def _reopen(self, service: str, deadline: float, error: AdbRefusedError) -> socket.socket:
        try:
            return self._server.open(service, deadline, self._serial)
        except DeadlineError:
            raise DeviceLostError(f"{self._name}: does not answer: {WAKE}") from None
        except FarmError:
            self._refuse_too_old(service, deadline)
            raise DeviceLostError(f"{self._name}: adb says: {error}") from None

    def _refuse_too_old(self, service: str, deadline: float) -> None:
        """Raises DeviceError where the phone runs programs, but not by `exec:`: its adbd just closes the connection."""
        if not service.startswith("exec:"):
            return
        try:
            self._server.open("shell:true", deadline, self._serial).close()
        except FarmError:
            return
        raise DeviceError(f"{self._name}: {TOO_OLD}")

    def _check_alive(self) -> None:
        """Runs `true` on a phone that has been silent for SILENCE_S; raises DeviceLostError unless it answers."""
        if time.monotonic() - self._last_sign_s < SILENCE_S:
            return
        deadline = time.monotonic() + ANSWER_S
        try:
            with self._server.open("shell:true", deadline, self._serial) as connection:
                connection.settimeout(max(deadline - time.monotonic(), 0.1))
                while connection.recv(4096):
                    pass
        except (DeadlineError, TimeoutError):
            self._is_gone = True
            raise DeviceLostError(f"{self._name}: does not answer any more: {WAKE}") from None
        except (JobError, OSError) as error:
            raise DeviceLostError(f"{self._name}: is gone: {error}") from None
        self._last_sign_s = time.monotonic()


def remedy(state: str) -> str:
    """What the user can do about a state that adb reports; empty for `device`, the state of a usable phone."""
    return "" if state == "device" else REMEDIES.get(state, f"adb says `{state}`: restart it into Android")


def _only_serial(unit: Unit, server: AdbServer) -> str:
    """The serial of the only phone that adb sees; raises DeviceError where there are none or several."""
    phones = server.devices(time.monotonic() + CONNECT_S)
    if len(phones) != 1:
        serials = ", ".join(phone.serial for phone in phones) or "none"
        raise DeviceError(f"{unit.name}: name its serial in devices.yml; adb sees these phones: {serials}")
    return phones[0].serial


def _features(name: str, server: AdbServer, serial: str) -> list[str]:
    """What the phone's adbd can do; raises DeviceLostError when the phone has gone since it was seen as usable."""
    try:
        return server.query_device(serial, "features", time.monotonic() + CONNECT_S).split(",")
    except AdbRefusedError as error:
        raise DeviceLostError(f"{name}: adb says: {error}") from None


def _wait_until_ready(name: str, server: AdbServer, serial: str, deadline: float | None = None) -> None:
    """Waits until adb reports the phone as usable.

    Raises DeviceError (not allowed) or DeviceLostError when it stays in another state; the text says what to do.
    """
    start_s = asked_s = time.monotonic()
    end = min(deadline or math.inf, start_s + SETTLE_S)
    deadlines = dict.fromkeys(TRANSIENT_STATES, end)
    if adb_reconnect.is_address(serial):
        deadlines[ABSENT] = min(end, start_s + REDIAL_S)
    while (state := _connected_state(name, server, serial)) != "device":
        if time.monotonic() >= deadlines.get(state, 0.0):
            raise _unusable(name, serial, state)
        if state == adb_reconnect.OFFLINE and time.monotonic() - asked_s >= RECONNECT_S:
            adb_reconnect.reconnect(server, serial, min(end, time.monotonic() + DIAL_S))
            asked_s, deadlines[ABSENT] = time.monotonic(), end  # it is absent while the server connects
        time.sleep(SETTLE_POLL_S)


def _unusable(name: str, serial: str, state: str) -> JobError:
    error_type = DeviceError if state in REFUSED_STATES else DeviceLostError
    return error_type(f"{name}: {serial} is {state}: {remedy(state)}")


def _connected_state(name: str, server: AdbServer, serial: str) -> str:
    """The phone's state; a phone in the network that the adb server does not know is connected first."""
    state = _state(name, server, serial)
    if state == ABSENT and adb_reconnect.is_address(serial):
        with contextlib.suppress(JobError):
            server.connect(serial, time.monotonic() + DIAL_S)
        state = _state(name, server, serial)
    return state


def _state(name: str, server: AdbServer, serial: str) -> str:
    try:
        phones: list[AdbDevice] = server.devices(time.monotonic() + CONNECT_S)
    except FarmError as error:
        raise type(error)(f"{name}: {error}") from None
    if paths := ", ".join(phone.serial for phone in phones if phone.shared == serial):
        raise DeviceError(f"{name}: several phones have the serial {serial}: name one by its path ({paths})")
    return next((phone.state for phone in phones if serial in (phone.serial, phone.path)), ABSENT)
