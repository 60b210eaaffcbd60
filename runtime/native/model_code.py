"""A model as part of a program: its plan, and its weights too where they are wanted, as C source and a static library.

    <name>.h                declares one function, which puts them into rt_options
    <name>.c                their bytes, as string literals: compilers take a hundred megabytes of those in seconds
    lib<name>.a             the same, compiled for one ABI
    farmrt.h, libfarmrt.a   the runtime that executes them

A program links both libraries, and on Linux `-lpthread -ldl -lm`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

import numpy as np
from filelock import FileLock

from runtime.native.abi import ABIS, HOST
from runtime.native.build import build_farmrt
from runtime.native.compiling import Unit, compile_units, run, writing
from runtime.native.toolchains import find_toolchain
from runtime.version import RUNTIME_VERSION

FLAGS = ("-std=c11", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
LINE_BYTES = 1024
LINES_AT_ONCE = 4096
# `\ooo` for every byte: three digits, so that no digit that follows is taken for a fourth.
_ESCAPES = np.array([list(f"\\{byte:03o}".encode()) for byte in range(256)], np.uint8)


@dataclasses.dataclass(frozen=True)
class ModelCode:
    """The files of one model; `function` is what the header declares."""

    header: Path
    source: Path
    library: Path
    function: str


def write_model_code(folder: Path, name: str, plan: bytes, data: bytes | None, abi: str = HOST) -> ModelCode:
    """Writes and compiles a model, unless the same is there already.

    Args:
        folder: where the files go; made if need be.
        name: of the files; the function is `<name>_options` with `_` for what C does not allow in a name.
        plan: the plan file's content.
        data: the data file's, or None where the program will name a file.

    Raises:
        ConfigError, BuildError: as `build_farmrt` does.
    """
    made = ModelCode(folder / f"{name}.h", folder / f"{name}.c", folder / f"lib{name}.a", f"{c_name(name)}_options")
    farmrt = build_farmrt(abi).parent
    header = _header(name, made.function, plan, data, find_toolchain(abi).name)
    with writing(folder), FileLock(folder / "lock"):
        _provide_runtime(farmrt, folder)
        complete = all(path.is_file() for path in (made.header, made.source, made.library))
        if not complete or made.header.read_text() != header:
            _write(made, header, plan, data, abi)
    return made


def c_name(name: str) -> str:
    """A name as C allows it."""
    word = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return word if word[:1].isalpha() else f"model_{word}"


def _provide_runtime(farmrt: Path, folder: Path) -> None:
    for name in ("farmrt.h", "libfarmrt.a"):
        if not (folder / name).is_file() or (folder / name).read_bytes() != (farmrt / name).read_bytes():
            shutil.copy(farmrt / name, folder)


def _write(made: ModelCode, header: str, plan: bytes, data: bytes | None, abi: str) -> None:
    """Makes the files aside, then moves them to their place; the header comes last, since it says what they are of."""
    with tempfile.TemporaryDirectory(dir=made.header.parent) as work:
        scratch = Path(work)
        (scratch / made.header.name).write_text(header)
        with (scratch / made.source.name).open("wb") as file:
            _write_source(file, made, plan, data)
        toolchain = find_toolchain(abi)
        flags = (*FLAGS, *ABIS[abi].flags, f"-I{scratch}", f"-I{made.header.parent}")
        objects = compile_units(toolchain.compiler, flags, [Unit(scratch / made.source.name)], scratch)
        run([*toolchain.archiver, "rcs", str(scratch / made.library.name), *map(str, objects)])
        for path in (made.library, made.source, made.header):
            (scratch / path.name).replace(path)


def _header(name: str, function: str, plan: bytes, data: bytes | None, compiler: str) -> str:
    guard = f"{c_name(name).upper()}_H"
    weights = "and its weights " if data is not None else ""
    rest = "" if data is not None else f"; data_path must name {name}.data"
    hashes = f"plan {hashlib.sha256(plan).hexdigest()}"
    if data is not None:
        hashes += f"\n *         data {hashlib.sha256(data).hexdigest()}"
    return f"""\
/* The model {name} as part of a program, made by farm {RUNTIME_VERSION} with {compiler}.
 *
 * SHA-256 {hashes}
 */
#ifndef {guard}
#define {guard}

#include "farmrt.h"

#ifdef __cplusplus
extern "C" {{
#endif

/* Puts the model's plan {weights}into the options of rt_engine_create{rest}. */
RT_API void {function}(rt_options *options);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _write_source(file: BinaryIO, made: ModelCode, plan: bytes, data: bytes | None) -> None:
    parts = {"plan": plan} | ({"data": data} if data is not None else {})
    file.write(
        f"""\
/* Made by farm: what it holds is said in the header. Not const, and aligned to pages, as files are mapped: some drivers
 * refuse to use read-only memory in place. */
#include "{made.header.name}"
""".encode()
    )
    for part, content in parts.items():
        file.write(f"\n_Alignas(4096) static char {part}[] =\n".encode())
        _write_literal(file, content)
    file.write(f"\nvoid {made.function}(rt_options *options) {{\n".encode())
    for part in parts:
        file.write(f"    options->{part}_bytes = {part};\n    options->{part}_size = sizeof {part} - 1;\n".encode())
    file.write(b"}\n")


def _write_literal(file: BinaryIO, content: bytes) -> None:
    """A string literal of many lines, which ends the declaration."""
    values = np.frombuffer(content, np.uint8)
    for start in range(0, max(1, len(values)), LINE_BYTES * LINES_AT_ONCE):
        part = values[start : start + LINE_BYTES * LINES_AT_ONCE]
        escaped = _ESCAPES[part]
        lines = [escaped[first : first + LINE_BYTES].tobytes() for first in range(0, max(1, len(part)), LINE_BYTES)]
        file.write(b'    "' + b'"\n    "'.join(lines) + b'"\n')
    file.write(b"    ;\n")
