"""The ABIs that farmrt is built for, by the names that deployment files and devices.yml use."""

import dataclasses
import platform

from runtime.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Abi:
    """A machine and C library that code is made for.

    Attributes:
        name: the ABI as farmrt's probe answers it.
        zig_target: ziglang's name for it; empty for this machine, and where only the NDK has its headers.
        ndk_target: the NDK's name for it; empty where the system is not Android.
        flags: further arguments for every compiler.
    """

    name: str
    zig_target: str = ""
    ndk_target: str = ""
    flags: tuple[str, ...] = ()

    @property
    def is_android(self) -> bool:
        """Whether the C library is bionic."""
        return bool(self.ndk_target)


HOST = "host"

# glibc 2.28 is that of Debian 10; Android's API level 24 that of Android 7.
ABIS = {
    HOST: Abi(f"{platform.machine()}-linux"),
    "arm64": Abi("arm64", "aarch64-linux-gnu.2.28"),
    "armhf": Abi("armhf", "arm-linux-gnueabihf.2.28", flags=("-mcpu=cortex_a7",)),
    "arm64-v8a": Abi("arm64-v8a", "aarch64-linux-musl", "aarch64-linux-android24"),
    "armeabi-v7a": Abi("armeabi-v7a", "", "armv7a-linux-androideabi24", ("-mfpu=neon",)),
}


def find_abi(name: str) -> Abi:
    """The ABI of this name; raises ConfigError that lists the known ones."""
    if name not in ABIS:
        raise ConfigError(f"ABI '{name}' is unknown; farmrt is built for {', '.join(ABIS)}")
    return ABIS[name]
