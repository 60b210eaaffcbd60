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
_COMMON = ("-std=c11", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections")
_SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g")
_FAST = ("-O3", "-ffp-contract=fast", "-fno-math-errno")
_TILES = _FOLDER / "src" / "cpu_tile.c"
_X86_SETS = {"avx2": ("-mavx2", "-mfma"), "avx512": ("-mavx512f", "-mavx2", "-mfma", "-mprefer-vector-width=512")}
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


def build_farmrt(
    abi: str = "host", output_dir: Path | None = None, sanitize: bool = False, compiler: Sequence[str] | None = None
) -> Path:
    """Path of a farmrt executable for an ABI, compiled if its sources changed; `libfarmrt.a` lies beside it.

    Args:
        abi: a key of `ABIS`.
        output_dir: default `build/farmrt` of the source tree.
        sanitize: with address and undefined-behaviour sanitizers.
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


def sources() -> list[Path]:
    """The C files of the library, without `main.c` and the innermost loops."""
    return sorted(path for path in (_FOLDER / "src").glob("*.c") if path.name != "main.c" and path != _TILES)


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
        flags = [*_COMMON, *_WARNINGS, *defines, *target.flags, *(_SANITIZERS if sanitize else ())]
        objects = _compile(compiler, target, flags, scratch)
        link = ["-s"] if not sanitize else list(_SANITIZERS)
        program = scratch / "farmrt"
        libraries = ["-Wl,--gc-sections", "-lpthread", "-ldl", "-lm"]
        _run([*compiler, *target.flags, *link, "-o", str(program), *map(str, objects), *libraries])
        archive = scratch / "libfarmrt.a"
        _run([*_archiver(compiler), "rcs", str(archive), *(str(o) for o in objects if o.stem != "main")])
        for made in (program, archive):
            made.replace(folder / made.name)


def _compile(compiler: Sequence[str], target: Abi, flags: Sequence[str], folder: Path) -> list[Path]:
    """Objects of all files, several compilers at a time."""
    units = [*((path, path.stem, ()) for path in [*sources(), _FOLDER / "src" / "main.c"]), *_tile_units(target)]
    objects = [folder / f"{name}.o" for _, name, _ in units]
    pending = [
        [*compiler, *flags, *extra, *(_FAST if name.startswith("cpu_") else ("-Os",)), "-c", str(path), "-o", str(made)]
        for (path, name, extra), made in zip(units, objects, strict=True)
    ]
    width = os.cpu_count() or 1
    for start in range(0, len(pending), width):
        batch = pending[start : start + width]
        running = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for c in batch]
        for command, process in zip(batch, running, strict=True):
            log, _ = process.communicate()
            _check(command, process.returncode, log)
    return objects


def _tile_units(target: Abi) -> list[tuple[Path, str, tuple[str, ...]]]:
    """The innermost loops, once for each instruction set: file, name, flags."""
    x86 = target.name.startswith("x86_64")
    sets = {"generic": ()} | (_X86_SETS if x86 else {})
    return [(_TILES, f"cpu_tile_{name}", (f"-DRT_ISA={name}", *extra)) for name, extra in sets.items()]


def _archiver(compiler: Sequence[str]) -> list[str]:
    if "ziglang" in compiler or shutil.which("ar") is None:
        return [sys.executable, "-m", "ziglang", "ar"]
    return ["ar"]


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"farmrt: {command[0]} cannot be started: {error.strerror}") from None
    _check(command, done.returncode, done.stdout + done.stderr)


def _check(command: Sequence[str], status: int, log: str) -> None:
    if status:
        shown = "\n".join(log.strip().splitlines()[:_LOG_LINES])
        raise BuildError(f"farmrt: {' '.join(command[:4])} ... failed with exit status {status}:\n{shown}")
