"""Asks the kernel whether a USB device offers adb: only then is an adb server worth starting."""

from __future__ import annotations

import sys
from pathlib import Path

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
