"""Lists the phones that an adb server sees, each with its state and what the user can do about that; and says whether
USB has one that makes a server worth starting."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from farm.config.adb_address import LOCAL, AdbAddress
from farm.transport.adb import TRANSIENT_STATES, remedy
from farm.transport.adb_reconnect import OFFLINE, reconnect
from farm.transport.adb_server import AdbDevice, AdbServer
from farm.units.survey import AdbPhone

ASK_S = 10.0
RETURN_S = 6.0  # how long a phone that the server connects to anew may take
POLL_S = 0.1
MAX_AT_ONCE = 32


def adb_phones(address: AdbAddress = LOCAL) -> list[AdbPhone]:
    """Lists the phones of an adb server; one that returned and is still offline there is connected first.

    Raises JobError where no server runs or can be started.
    """
    server = AdbServer(address)
    devices = server.devices(time.monotonic() + ASK_S)
    if offline := [device.serial for device in devices if device.state == OFFLINE]:
        devices = _keep_absent(devices, _after_reconnecting(server, offline))
    return [
        AdbPhone(device.serial, device.state, remedy(device.state), device.model, device.path, device.shared)
        for device in devices
    ]


def _keep_absent(before: Sequence[AdbDevice], after: Sequence[AdbDevice]) -> list[AdbDevice]:
    """Keeps those in the list that the server does not name while it connects to them anew."""
    named = {device.serial for device in after}
    return [*after, *(device for device in before if device.state == OFFLINE and device.serial not in named)]


def _after_reconnecting(server: AdbServer, offline: Sequence[str]) -> list[AdbDevice]:
    """The server's devices once those that could be connected anew have answered, or had their time to."""
    end = time.monotonic() + RETURN_S
    with ThreadPoolExecutor(min(len(offline), MAX_AT_ONCE)) as pool:
        tried = pool.map(lambda serial: reconnect(server, serial, end), offline)
    waited_for = {serial for serial, was_tried in zip(offline, tried, strict=True) if was_tried}
    while True:
        devices = server.devices(time.monotonic() + ASK_S)
        ready = {device.serial for device in devices if device.state not in TRANSIENT_STATES}
        if waited_for <= ready or time.monotonic() >= end:
            return devices
        time.sleep(POLL_S)


SYSFS = Path("/sys/bus/usb/devices")
# Class, subclass and protocol of adb's USB interface.
ADB_INTERFACE = {"bInterfaceClass": "ff", "bInterfaceSubClass": "42", "bInterfaceProtocol": "01"}


def may_have_phone(sysfs: Path = SYSFS, system: str = sys.platform) -> bool:
    """Whether a USB device may offer adb; always true on systems other than Linux, which has no sysfs to ask."""
    if not system.startswith("linux"):
        return True
    return any(_speaks_adb(interface) for interface in sysfs.glob("*:*"))


def _speaks_adb(interface: Path) -> bool:
    try:
        return all((interface / name).read_text().strip() == value for name, value in ADB_INTERFACE.items())
    except OSError:  # unplugged in this moment
        return False
