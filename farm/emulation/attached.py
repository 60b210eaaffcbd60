"""An emulated phone that is attached to an adb server of its own: a unit that every job can use."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.config.inventory import Unit
from farm.emulation.emulated import EmulatedPhone
from farm.emulation.phone import PhoneSettings
from farm.transport.adb_server import HOST, find_adb
from runtime.errors import DeviceLostError

START_S = 30.0


@contextmanager
def attached_phone(name: str, settings: PhoneSettings) -> Iterator[Unit]:
    """The unit, for as long as the block lasts; the user's own adb server is not touched."""
    with TemporaryDirectory() as home, adb_server(Path(home)) as port, EmulatedPhone(settings) as phone:
        yield attached(name, phone, port)


def attached(name: str, phone: EmulatedPhone, server: int) -> Unit:
    """A phone as a unit, at the adb server that listens on that port."""
    return Unit(
        name=name,
        transport="adb",
        soc=phone.soc,
        model=phone.model,
        abis=("host",),
        serial=f"{HOST}:{phone.port}",
        adb_server_port=server,
    )


@contextmanager
def adb_server(home: Path) -> Iterator[int]:
    """Port of a server with keys and log in the folder `home`, which ends after the block."""
    with socket.create_server((HOST, 0)) as listener:
        port = int(listener.getsockname()[1])
    environment = os.environ | {"HOME": str(home), "TMPDIR": str(home), "ADB_MDNS": "0"}

    def adb(*arguments: str) -> None:
        command = [find_adb(), "-P", str(port), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, timeout=START_S)
        if done.returncode:
            raise DeviceLostError(f"adb {' '.join(arguments)}: {done.stderr.decode(errors='replace').strip()}")

    adb("start-server")
    try:
        yield port
    finally:
        adb("kill-server")
