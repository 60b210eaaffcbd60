"""Android's properties, each in a file, so that the phone's `getprop` and `setprop` need no server."""

import hashlib
from pathlib import Path

from farm.emulation.socs import Soc
from runtime.errors import ConfigError

SDK_LEVELS = {
    5: 21, 6: 23, 7: 24, 8: 26, 9: 28, 10: 29, 11: 30, 12: 31, 13: 33, 14: 34, 15: 35, 16: 36,
}  # fmt: skip
SOC_MODEL_SINCE = 12


def sdk_level(android: int) -> int:
    """The API level of an Android version; raises ConfigError for a version that is not emulated."""
    if android not in SDK_LEVELS:
        raise ConfigError(f"--android {android}: not one of {', '.join(map(str, SDK_LEVELS))}")
    return SDK_LEVELS[android]


def make_properties(soc: Soc, model: str, serial: str, android: int) -> dict[str, str]:
    """Makes the properties of a phone that has just booted."""
    build = hashlib.sha256(f"{soc.key} {android}".encode()).hexdigest()[:8].upper()
    fingerprint = f"{soc.brand}/{soc.device}/{soc.device}:{android}/{build}/1:user/release-keys"
    properties = {
        "ro.product.brand": soc.brand,
        "ro.product.manufacturer": soc.brand,
        "ro.product.model": model,
        "ro.product.name": soc.device,
        "ro.product.device": soc.device,
        "ro.product.board": soc.platform,
        "ro.product.cpu.abi": "host",
        "ro.product.cpu.abilist": "host",
        "ro.board.platform": soc.platform,
        "ro.hardware": soc.hardware,
        "ro.boot.hardware": soc.hardware,
        "ro.hardware.egl": soc.gpu.maker,
        "ro.build.version.release": str(android),
        "ro.build.version.sdk": str(sdk_level(android)),
        "ro.build.id": build,
        "ro.build.type": "user",
        "ro.build.fingerprint": fingerprint,
        "ro.serialno": serial,
        "ro.boot.serialno": serial,
        "ro.debuggable": "0",
        "ro.secure": "1",
        "sys.boot_completed": "1",
        "init.svc.adbd": "running",
        "service.adb.tcp.port": "5555",
        "persist.sys.timezone": "UTC",
    }
    if android >= SOC_MODEL_SINCE:
        properties |= {"ro.soc.manufacturer": soc.maker, "ro.soc.model": soc.soc_model}
    return properties


class PropertyStore:
    """The folder of a phone's properties."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder

    def get(self, name: str) -> str:
        """Reads a property; empty where there is none."""
        path = self._folder / name
        return path.read_text() if path.is_file() else ""

    def set(self, name: str, value: str | None) -> None:
        """Writes a property; a value of None removes it."""
        path = self._folder / name.replace("/", "_")
        if value is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(value)
