"""Makes an emulated phone a unit that every job can use, attached to a private adb server."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.config.adb_address import THIS_MACHINE, AdbAddress
from farm.config.inventory import Unit
from farm.emulation.phone import PhoneSettings
from farm.emulation.phone_thread import EmulatedPhone
from farm.transport.adb_server import find_adb
from runtime.errors import DeviceLostError

START_S = 30.0


@contextmanager
def emulated_phone_unit(name: str, settings: PhoneSettings) -> Iterator[Unit]:
    """Runs an emulated phone for the block, attached to a private adb server; yields it as a unit."""
    with TemporaryDirectory() as home, private_adb_server(Path(home)) as port, EmulatedPhone(settings) as phone:
        yield unit_of_phone(name, phone, port)


def unit_of_phone(name: str, phone: EmulatedPhone, server_port: int) -> Unit:
    """Describes a phone as a unit of the adb server on `server_port`."""
    return Unit(
        name=name,
        transport="adb",
        soc=phone.soc,
        model=phone.model,
        abis=("host",),
        serial=f"{THIS_MACHINE}:{phone.port}",
        adb_server=AdbAddress(port=server_port),
    )


@contextmanager
def private_adb_server(home: Path) -> Iterator[int]:
    """Runs an adb server for the block, with keys and log in the folder `home`; yields its port."""
    with socket.create_server((THIS_MACHINE, 0)) as listener:
        port = int(listener.getsockname()[1])
    environment = os.environ | {"HOME": str(home), "TMPDIR": str(home), "ADB_MDNS": "0"}

    def adb(*arguments: str) -> None:
        command = [find_adb(), "-P", str(port), *arguments]
        completed = subprocess.run(command, env=environment, capture_output=True, timeout=START_S)
        if completed.returncode:
            raise DeviceLostError(f"adb {' '.join(arguments)}: {completed.stderr.decode(errors='replace').strip()}")

    adb("start-server")
    try:
        yield port
    finally:
        adb("kill-server")
