"""Finds the compiler for an ABI: the system's, ziglang's, or the NDK's where ANDROID_NDK_HOME names one."""

import dataclasses
import functools
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from runtime.errors import BuildError, ConfigError
from runtime.host import extras
from runtime.native import android
from runtime.native.abi import ABIS, HOST, find_abi

NDK_VARIABLE = "ANDROID_NDK_HOME"
_ZIG = (sys.executable, "-m", "ziglang")


@dataclasses.dataclass(frozen=True)
class Toolchain:
    """Programs that make code for one ABI, as argument lists that files are appended to.

    Attributes:
        name: what people call it, with its version.
        link_flags: what linking a program needs beside the compiler's own.
        bare_linker: what `android.link_command` links programs with, where nothing of bionic is there; else empty.
    """

    name: str
    compiler: tuple[str, ...]
    archiver: tuple[str, ...]
    link_flags: tuple[str, ...] = ()
    bare_linker: tuple[str, ...] = ()


def find_toolchain(abi: str, compiler: Sequence[str] = ()) -> Toolchain:
    """The toolchain for an ABI; `compiler` takes the place of the one that is found.

    Raises:
        ConfigError: the ABI is unknown, or needs an NDK that is not there.
        BuildError: there is no ziglang.
    """
    target = find_abi(abi)
    if compiler:
        return Toolchain(Path(compiler[0]).name, tuple(compiler), _archiver(compiler))
    if reason := _why_not_here(abi):
        raise ConfigError(reason)
    if target.is_android and (ndk := _ndk_folder()):
        return _ndk(ndk, target.ndk_target)
    system = shutil.which("cc")
    if abi == HOST and system:
        return Toolchain(_version_line(system), (system,), _archiver((system,)))
    if not _has_ziglang():
        raise BuildError(_no_ziglang(abi))
    return _ziglang(target.zig_target, target.is_android)


def why_missing(abi: str) -> str:
    """Why nothing here can compile for an ABI, and what to do; empty where something can."""
    by_system = (abi == HOST and shutil.which("cc")) or (ABIS[abi].is_android and _ndk_folder())
    return _why_not_here(abi) or ("" if by_system or _has_ziglang() else _no_ziglang(abi))


def _why_not_here(abi: str) -> str:
    if abi == HOST and platform.system() != "Linux":
        return f"farmrt runs on Linux, not on this machine ({platform.system()}); build it for a board or a phone"
    if abi == HOST or ABIS[abi].zig_target or _ndk_folder():
        return ""
    return f"{abi} needs the Android NDK: set {NDK_VARIABLE} to its folder (arm64-v8a is built without it)"


def _has_ziglang() -> bool:
    return importlib.util.find_spec("ziglang") is not None


def _no_ziglang(abi: str) -> str:
    found = "no C compiler is there, and building" if abi == HOST else "building"
    return f"farmrt for {abi}: {extras.needed(found, 'ziglang')}"


def _ziglang(zig_target: str, is_android: bool) -> Toolchain:
    name = f"ziglang {metadata.version('ziglang')}"
    compiler = (*_ZIG, "cc", *(("-target", zig_target) if zig_target else ()))
    if not is_android:
        return Toolchain(name, compiler, (*_ZIG, "ar"))
    return Toolchain(name, (*compiler, *android.COMPILE_FLAGS), (*_ZIG, "ar"), bare_linker=(*_ZIG, "ld.lld"))


def _ndk_folder() -> Path | None:
    folder = os.environ.get(NDK_VARIABLE)
    return Path(folder) if folder else None


def _ndk(folder: Path, ndk_target: str) -> Toolchain:
    programs = sorted(folder.glob("toolchains/llvm/prebuilt/*/bin/clang"))
    if not programs:
        raise ConfigError(f"{NDK_VARIABLE}: {folder} is no NDK: it has no toolchains/llvm/prebuilt/*/bin/clang")
    clang = programs[0]
    compiler = (str(clang), f"--target={ndk_target}")
    return Toolchain(_ndk_name(folder), compiler, (str(clang.with_name("llvm-ar")),), ("-pie", *android.LINK_FLAGS))


def _ndk_name(folder: Path) -> str:
    properties = folder / "source.properties"
    text = properties.read_text(errors="replace") if properties.is_file() else ""
    revision = re.search(r"^Pkg\.Revision\s*=\s*(\S+)", text, re.MULTILINE)
    return f"NDK {revision[1]}" if revision else "NDK"


def _archiver(compiler: Sequence[str]) -> tuple[str, ...]:
    system = shutil.which("ar")
    return (*_ZIG, "ar") if "ziglang" in compiler or system is None else (system,)


@functools.cache
def _version_line(program: str) -> str:
    """`cc (Debian 12.2.0-14) 12.2.0`: the first line of what a compiler says of itself."""
    try:
        output = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        output = ""
    return output.splitlines()[0].strip() if output.strip() else Path(program).name
