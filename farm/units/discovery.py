"""The phones that an adb server knows, each with its state and what to do about it."""

from __future__ import annotations

import time

from farm.transport.adb import remedy
from farm.transport.adb_server import AdbServer
from farm.units.survey import AdbPhone

ASK_S = 10.0


def adb_phones(port: int | None = None) -> list[AdbPhone]:
    """All phones of the server on a port; raises JobError where none runs and none can be started."""
    found = AdbServer(port).devices(time.monotonic() + ASK_S)
    return [AdbPhone(each.serial, each.state, remedy(each.state), each.model) for each in found]
