"""Compiles farmrt for the machine itself or another ABI, once for each state of its sources."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from runtime.errors import BuildError, ConfigError
from runtime.version import RUNTIME_VERSION

_FOLDER = Path(__file__).parent
_WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
_COMMON = (
    *("-std=c11", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"),
    "-fno-builtin-bcmp",  # not every C library has it
)
_SANITIZERS = (
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g"),
    "-DRT_TEST_ALLOCATION",
)
_FAST = ("-O3", "-ffp-contract=fast", "-fno-math-errno")
_TILES = _FOLDER / "src" / "cpu_tile.c"
_X86_SETS = {"avx2": ("-mavx2", "-mfma"), "avx512": ("-mavx512f", "-mavx2", "-mfma", "-mprefer-vector-width=512")}
_LIBRARIES = ("-lpthread", "-ldl", "-lm")
_LOG_LINES = 30


@dataclasses.dataclass(frozen=True)
class Abi:
    """What farmrt is built for: the name that its probe answers, and ziglang's target ("" is this machine)."""

    name: str
    zig_target: str = ""
    flags: tuple[str, ...] = ()


ABIS = {
    "host": Abi(f"{platform.machine()}-linux"),
    "aarch64-linux": Abi("aarch64-linux", "aarch64-linux-gnu.2.28"),
    "armhf-linux": Abi("armhf-linux", "arm-linux-gnueabihf.2.28", ("-mcpu=cortex_a7",)),
}


@dataclasses.dataclass(frozen=True)
class Unit:
    """A C file to compile; with a suffix where it is compiled several times."""

    source: Path
    suffix: str = ""
    extra_flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the object."""
        return f"{self.source.stem}_{self.suffix}" if self.suffix else self.source.stem

    @property
    def flags(self) -> tuple[str, ...]:
        """Small code, but for the CPU operators fast code."""
        return (*(_FAST if self.source.stem.startswith("cpu_") else ("-Os",)), *self.extra_flags)


def build_farmrt(
    abi: str = "host", output_dir: Path | None = None, sanitize: bool = False, compiler: Sequence[str] | None = None
) -> Path:
    """Path of a farmrt executable for an ABI, compiled if its sources changed; beside it the library and its header.

    Args:
        abi: a key of `ABIS`.
        output_dir: default `build/farmrt` of the source tree.
        sanitize: with address and undefined-behaviour sanitizers; beside it then the programs of `fuzz/`.
        compiler: argument list of a C compiler; default the system's `cc` for the host if there is one, else ziglang's.

    Raises:
        ConfigError: the ABI is unknown.
        BuildError: no compiler, or it failed; the text ends with its log.
    """
    if abi not in ABIS:
        raise ConfigError(f"ABI '{abi}' is unknown; farmrt is built for {', '.join(ABIS)}")
    target = ABIS[abi]
    chosen = tuple(compiler or _default_compiler(target))
    folder = (output_dir or default_output_dir()) / (f"{abi}-sanitized" if sanitize else abi)
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / "stamp"
    wanted = _digest(target, chosen, sanitize)
    with FileLock(folder / "lock"):
        if not stamp.is_file() or stamp.read_text() != wanted or not (folder / "farmrt").is_file():
            _build(target, chosen, folder, sanitize)
            stamp.write_text(wanted)
    return folder / "farmrt"


def default_output_dir() -> Path:
    """`build/farmrt` of the source tree; of the working folder where farm is installed without its source tree."""
    tree = _FOLDER.parents[1]
    return (tree if (tree / "pyproject.toml").is_file() else Path.cwd()) / "build" / "farmrt"


def sources() -> list[Unit]:
    """The library without its innermost loops."""
    return [Unit(path) for path in sorted((_FOLDER / "src").glob("*.c")) if path.name != "main.c" and path != _TILES]


def _default_compiler(target: Abi) -> list[str]:
    system = shutil.which("cc")
    if not target.zig_target and system:
        return [system]
    command = [sys.executable, "-m", "ziglang", "cc"]
    return [*command, "-target", target.zig_target] if target.zig_target else command


def _digest(target: Abi, compiler: Sequence[str], sanitize: bool) -> str:
    digest = hashlib.sha256(repr((target, tuple(compiler), sanitize, RUNTIME_VERSION)).encode())
    for path in sorted([*_FOLDER.rglob("*.[ch]"), Path(__file__)]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _build(target: Abi, compiler: Sequence[str], folder: Path, sanitize: bool) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as work:
        scratch = Path(work)
        defines = [f'-DRT_VERSION="{RUNTIME_VERSION}"', f'-DRT_ABI="{target.name}"']
        checks = _SANITIZERS if sanitize else ()
        flags = [*_COMMON, *_WARNINGS, *defines, *target.flags, *checks]
        link = [*compiler, *target.flags, *(checks or ("-s",)), "-Wl,--gc-sections"]
        library = _compile(compiler, flags, [*sources(), *_tile_units(target)], scratch)
        _link_program(link, [*_compile(compiler, flags, [Unit(_FOLDER / "src" / "main.c")], scratch), *library])
        _run([*_archiver(compiler), "rcs", str(scratch / "libfarmrt.a"), *map(str, library)])
        shutil.copy(_FOLDER / "include" / "farmrt.h", scratch)
        if sanitize:
            _build_fuzzer(compiler, flags, link, library, scratch)
        for made in scratch.iterdir():
            if made.suffix != ".o":
                made.replace(folder / made.name)


def _link_program(link: Sequence[str], objects: Sequence[Path]) -> None:
    """A program named farmrt, or after the first of its objects, beside them."""
    name = "farmrt" if objects[0].stem == "main" else objects[0].stem
    _run([*link, "-o", str(objects[0].with_name(name)), *map(str, objects), *_LIBRARIES])


def _build_fuzzer(
    compiler: Sequence[str], flags: Sequence[str], link: Sequence[str], library: Sequence[Path], folder: Path
) -> None:
    """`fuzz`, and `libfake_opencl.so` for it to load."""
    fuzzer = _compile(compiler, flags, [Unit(_FOLDER / "fuzz" / name) for name in ("fuzz.c", "mutate.c")], folder)
    _link_program(link, [*fuzzer, *library])
    (fake,) = _compile(compiler, flags, [Unit(_FOLDER / "fuzz" / "fake_opencl.c")], folder)
    _run([*link, "-shared", "-o", str(folder / "libfake_opencl.so"), str(fake)])


def _compile(compiler: Sequence[str], flags: Sequence[str], units: Sequence[Unit], folder: Path) -> list[Path]:
    """Objects of all units, several compilers at a time."""
    objects = [folder / f"{unit.name}.o" for unit in units]
    pending = [
        [*compiler, *flags, *unit.flags, "-c", str(unit.source), "-o", str(made)]
        for unit, made in zip(units, objects, strict=True)
    ]
    width = os.cpu_count() or 1
    for start in range(0, len(pending), width):
        batch = pending[start : start + width]
        running = [_start(command) for command in batch]
        logs = [process.communicate()[0] for process in running]
        for command, process, log in zip(batch, running, logs, strict=True):
            _check(command, process.returncode, log)
    return objects


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        raise BuildError(f"farmrt: {command[0]} cannot be started: {error.strerror}") from None


def _tile_units(target: Abi) -> list[Unit]:
    """The innermost loops, once for each instruction set."""
    sets = {"generic": ()} | (_X86_SETS if target.name.startswith("x86_64") else {})
    return [Unit(_TILES, name, (f"-DRT_ISA={name}", *extra)) for name, extra in sets.items()]


def _archiver(compiler: Sequence[str]) -> list[str]:
    if "ziglang" in compiler or shutil.which("ar") is None:
        return [sys.executable, "-m", "ziglang", "ar"]
    return ["ar"]


def _run(command: Sequence[str]) -> None:
    process = _start(command)
    log, _ = process.communicate()
    _check(command, process.returncode, log)


def _check(command: Sequence[str], status: int, log: str) -> None:
    if status:
        shown = "\n".join(log.strip().splitlines()[:_LOG_LINES])
        raise BuildError(f"farmrt: {' '.join(command[:4])} ... failed with exit status {status}:\n{shown}")
