"""Lists the phones that an adb server sees, each with its state and what the user can do about that."""

from __future__ import annotations

import time

from farm.transport.adb import remedy
from farm.transport.adb_server import AdbServer
from farm.units.survey import AdbPhone

ASK_S = 10.0


def adb_phones(port: int | None = None) -> list[AdbPhone]:
    """Lists the phones of the adb server on a port; raises JobError where no server runs or can be started."""
    devices = AdbServer(port).devices(time.monotonic() + ASK_S)
    return [AdbPhone(device.serial, device.state, remedy(device.state), device.model) for device in devices]
