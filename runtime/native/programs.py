"""Compiles programs that are linked with farmrt's library, for an ABI: the example application, the engine runner."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from runtime.native import android
from runtime.native.abi import ABIS, HOST
from runtime.native.build import build_farmrt
from runtime.native.compiling import TranslationUnit, compile_translation_units, run_compiler, writable_folder
from runtime.native.toolchains import find_toolchain

NAME = "infer"
RUNNER = "engine"
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-Os", "-fPIC", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
_RUNNER_SOURCES = sorted((Path(__file__).parent / RUNNER).glob("*.c"))


def build_example(abi: str = HOST) -> Path:
    """Path of the example `infer` for an ABI, beside farmrt, made as its users would: with farmrt.h and libfarmrt.a.

    Raises ConfigError or BuildError, as `build_farmrt` does.
    """
    folder = build_farmrt(abi).parent
    return _built(abi, folder / NAME, [folder / f"{NAME}.c"])


def build_engine_runner(abi: str = HOST) -> Path:
    """Path of the program that runs models in C libraries of engines, for an ABI, beside farmrt; raises as above."""
    return _built(abi, build_farmrt(abi).with_name(RUNNER), _RUNNER_SOURCES)


def _built(abi: str, program: Path, sources: Sequence[Path]) -> Path:
    """The program, compiled where farmrt, whose digest has the sources of both, is newer."""
    with writable_folder(program.parent), FileLock(program.with_name(f"{program.name}.lock")):
        if not program.is_file() or program.stat().st_mtime_ns < program.with_name("stamp").stat().st_mtime_ns:
            _build(abi, program, sources)
    return program


def _build(abi: str, program: Path, sources: Sequence[Path]) -> None:
    target, toolchain, folder = ABIS[abi], find_toolchain(abi), program.parent
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = Path(work, program.name)
        flags = (*FLAGS, *target.flags, f"-I{folder}")
        units = [TranslationUnit(source) for source in sources]
        objects = compile_translation_units(toolchain.compiler, flags, units, made.parent)
        objects.append(folder / "libfarmrt.a")
        if toolchain.bare_linker:
            run_compiler(android.link_command(toolchain.compiler, toolchain.bare_linker, made, objects))
        else:
            libraries = ("-ldl", "-lm") if target.is_android else ("-lpthread", "-ldl", "-lm")
            link = (*toolchain.compiler, *target.flags, *toolchain.link_flags, "-s", "-Wl,--gc-sections")
            run_compiler([*link, "-o", str(made), *map(str, objects), *libraries])
        made.replace(program)
