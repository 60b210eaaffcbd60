"""Compiles the example application for an ABI, as its users would: with farmrt.h and libfarmrt.a alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

from filelock import FileLock

from runtime.native import android
from runtime.native.abi import ABIS, HOST
from runtime.native.build import build_farmrt
from runtime.native.compiling import TranslationUnit, compile_translation_units, run_compiler, writable_folder
from runtime.native.toolchains import find_toolchain

NAME = "infer"
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-Os", "-fPIC", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def build_example(abi: str = HOST) -> Path:
    """Path of the example `infer` for an ABI, beside farmrt; compiled where farmrt is newer.

    Raises ConfigError or BuildError, as `build_farmrt` does.
    """
    farmrt = build_farmrt(abi)
    program = farmrt.with_name(NAME)
    with writable_folder(farmrt.parent), FileLock(farmrt.with_name("example.lock")):
        if not program.is_file() or program.stat().st_mtime_ns < farmrt.with_name("stamp").stat().st_mtime_ns:
            _build(abi, farmrt.parent, program)
    return program


def _build(abi: str, folder: Path, program: Path) -> None:
    target, toolchain = ABIS[abi], find_toolchain(abi)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = Path(work, NAME)
        source = TranslationUnit(folder / f"{NAME}.c")
        flags = (*FLAGS, *target.flags, f"-I{folder}")
        objects = compile_translation_units(toolchain.compiler, flags, [source], made.parent)
        objects.append(folder / "libfarmrt.a")
        if toolchain.bare_linker:
            run_compiler(android.link_command(toolchain.compiler, toolchain.bare_linker, made, objects))
        else:
            libraries = ("-ldl", "-lm") if target.is_android else ("-lpthread", "-ldl", "-lm")
            link = (*toolchain.compiler, *target.flags, *toolchain.link_flags, "-s", "-Wl,--gc-sections")
            run_compiler([*link, "-o", str(made), *map(str, objects), *libraries])
        made.replace(program)
