"""Writes a model as part of a program: its plan, and if wanted its weights, as C source and a static library.

    <name>.h                declares one function, which puts them into rt_options
    <name>.c                the function, and their bytes as string literals
    lib<name>.a             the same for one ABI; the bytes by way of the assembler, which takes any number at once
    farmrt.h, libfarmrt.a   the runtime that executes them
    libfarmrt.so            the same as a shared library, where it is wanted
    <name>_operators*.c     where the plan needs users' operators: their C functions, which lib<name>.a has too

A program links both static libraries, and on Linux `-lpthread -ldl -lm`.
"""

import dataclasses
import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from runtime.native import shared_library
from runtime.native.abi import ABIS, HOST
from runtime.native.build import build_farmrt
from runtime.native.compiling import TranslationUnit, compile_translation_units, run_compiler, writable_folder
from runtime.native.scratch import locked_folder, scratch_folder
from runtime.native.toolchains import find_toolchain
from runtime.version import RUNTIME_VERSION

FLAGS = ("-std=c11", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
OPERATORS_HEADER = Path(__file__).parent / "include" / "farmrt_operators.h"
LINE_BYTES = 1024
LINES_AT_ONCE = 4096

# As files are mapped: writable pages, since some drivers refuse to use read-only memory in place.
SECTION = ".data"
ALIGNMENT = 4096

# `\ooo` for every byte: three digits, so that no digit that follows is taken for a fourth.
_ESCAPES = np.array([list(f"\\{byte:03o}".encode()) for byte in range(256)], np.uint8)


@dataclasses.dataclass(frozen=True)
class ModelCode:
    """The files of one model; `function` is what the header declares."""

    header: Path
    source: Path
    library: Path
    function: str


@dataclasses.dataclass(frozen=True)
class LinkedOperators:
    """Users' CPU operators that become part of a program: the name of their table, files of C by name, and how those
    are compiled."""

    symbol: str
    sources: Mapping[str, str]
    flags: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """Of all the files."""
        return hashlib.sha256("\0".join(self.sources.values()).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class _Part:
    """Bytes that become part of a program: their name there, and what rt_options calls them."""

    symbol: str
    member: str
    content: bytes


def write_model_code(
    folder: Path,
    name: str,
    plan: bytes,
    data: bytes | None,
    abi: str = HOST,
    shared: bool = False,
    operators: LinkedOperators | None = None,
) -> ModelCode:
    """Writes and compiles a model, unless the same is there already.

    Args:
        folder: where the files go; made if need be.
        name: of the files; the function is `<name>_options` with `_` for what C does not allow in a name.
        plan: the plan file's content.
        data: the data file's, or None where the program will name a file.
        abi: what it is compiled for.
        shared: whether the runtime is there as a shared library too.
        operators: users' CPU operators that the plan needs.

    Raises:
        ConfigError, BuildError: as `build_farmrt` does.
    """
    word = c_name(name)
    code = ModelCode(folder / f"{name}.h", folder / f"{name}.c", folder / f"lib{name}.a", f"{word}_options")
    parts = [_Part(f"{word}_plan", "plan", plan)]
    if data is not None:
        parts.append(_Part(f"{word}_data", "data", data))
    farmrt = build_farmrt(abi, shared=shared).parent
    header = _header(name, code.function, parts, operators, find_toolchain(abi).name)
    with writable_folder(folder), locked_folder(folder):
        _provide_runtime(farmrt, folder, ("farmrt.h", "libfarmrt.a", *([shared_library.NAME] if shared else [])))
        complete = all(path.is_file() for path in (code.header, code.source, code.library))
        if not complete or code.header.read_text() != header:
            _write(code, header, parts, operators, abi)
    return code


def c_name(name: str) -> str:
    """Turns a name into one that C allows: other characters become `_`, and `model_` goes before a digit."""
    word = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return word if word[:1].isalpha() else f"model_{word}"


def _provide_runtime(farmrt: Path, folder: Path, names: Sequence[str]) -> None:
    for name in names:
        if not (folder / name).is_file() or (folder / name).read_bytes() != (farmrt / name).read_bytes():
            shutil.copy(farmrt / name, folder)


def _write(code: ModelCode, header: str, parts: Sequence[_Part], operators: LinkedOperators | None, abi: str) -> None:
    """Makes the files in a scratch folder and moves them into place; the header comes last, a sign of completeness."""
    with scratch_folder(code.header.parent) as scratch:
        (scratch / code.header.name).write_text(header)
        own = _write_operators(scratch, operators)
        _compile_library(scratch, code, parts, operators, abi)
        with (scratch / code.source.name).open("wb") as file:
            _write_source(file, code, parts, operators)
        for path in (*own, code.library, code.source, code.header):
            (scratch / path.name).replace(path)


def _write_operators(scratch: Path, operators: LinkedOperators | None) -> list[Path]:
    """Writes the files of users' operators, and the header that they include; returns where they go to."""
    if operators is None:
        return []
    shutil.copy(OPERATORS_HEADER, scratch)
    for name, text in operators.sources.items():
        (scratch / name).write_text(text)
    return [Path(name) for name in (OPERATORS_HEADER.name, *operators.sources)]


def _compile_library(
    scratch: Path, code: ModelCode, parts: Sequence[_Part], operators: LinkedOperators | None, abi: str
) -> None:
    toolchain = find_toolchain(abi)
    function, content = scratch / "function.c", scratch / "content.s"
    function.write_text(_function(code, parts, operators))
    content.write_text('    .section .note.GNU-stack, "", %progbits\n' + "".join(map(_assembler, parts)))
    for part in parts:
        (scratch / part.symbol).write_bytes(part.content)
    flags = (*FLAGS, *ABIS[abi].flags, f"-I{scratch}", f"-I{code.header.parent}")
    objects = compile_translation_units(toolchain.compiler, flags, [TranslationUnit(function)], scratch)
    objects += compile_translation_units(toolchain.compiler, (f"-Wa,-I{scratch}",), [TranslationUnit(content)], scratch)
    if operators:
        units = [TranslationUnit(scratch / name) for name in operators.sources]
        objects += compile_translation_units(
            toolchain.compiler, (*operators.flags, *ABIS[abi].flags, f"-I{scratch}"), units, scratch
        )
    run_compiler([*toolchain.archiver, "rcs", str(scratch / code.library.name), *map(str, objects)])


def _header(name: str, function: str, parts: Sequence[_Part], operators: LinkedOperators | None, compiler: str) -> str:
    guard = f"{c_name(name).upper()}_H"
    embedded = " and ".join(part.member for part in parts)
    rest = "" if len(parts) > 1 else f"; data_path must name {name}.data"
    hashes = "".join(f" *     {part.member} {hashlib.sha256(part.content).hexdigest()}\n" for part in parts)
    hashes += f" *     operators {operators.sha256}\n" if operators else ""
    return f"""\
/* The model {name} as part of a program, made by farm {RUNTIME_VERSION} with {compiler}. SHA-256 of what it holds:
 *
{hashes} */
#ifndef {guard}
#define {guard}

#include "farmrt.h"

#ifdef __cplusplus
extern "C" {{
#endif

/* Puts the model's {embedded} into the options of rt_engine_create{rest}. */
RT_API void {function}(rt_options *options);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _function(code: ModelCode, parts: Sequence[_Part], operators: LinkedOperators | None) -> str:
    """Returns the C source of the function, which points to the bytes that other code defines."""
    lines = [f'#include "{code.header.name}"', "", *(f"extern char {part.symbol}[];" for part in parts)]
    lines += [f"extern const char {operators.symbol}[];", ""] if operators else [""]
    lines.append(f"void {code.function}(rt_options *options) {{")
    for part in parts:
        lines.append(f"    options->{part.member}_bytes = {part.symbol};")
        lines.append(f"    options->{part.member}_size = {len(part.content)};")
    lines += [f"    options->operators = {operators.symbol};"] if operators else []
    return "\n".join([*lines, "}", ""])


def _assembler(part: _Part) -> str:
    """Returns assembler code that includes the bytes of a file named as the part's symbol."""
    return f"""\
    .section {SECTION}, "aw", %progbits
    .balign {ALIGNMENT}
    .globl {part.symbol}
    .hidden {part.symbol}
    .type {part.symbol}, %object
    .size {part.symbol}, {len(part.content)}
{part.symbol}:
    .incbin "{part.symbol}"
"""


def _write_source(file: BinaryIO, code: ModelCode, parts: Sequence[_Part], operators: LinkedOperators | None) -> None:
    file.write(_function(code, parts, operators).encode())
    for part in parts:
        file.write(f"\n_Alignas({ALIGNMENT}) char {part.symbol}[] =\n".encode())
        _write_literal(file, part.content)


def _write_literal(file: BinaryIO, content: bytes) -> None:
    """Writes bytes as a C string literal of many lines, and the semicolon that ends its declaration."""
    values = np.frombuffer(content, np.uint8)
    for start in range(0, max(1, len(values)), LINE_BYTES * LINES_AT_ONCE):
        part = _ESCAPES[values[start : start + LINE_BYTES * LINES_AT_ONCE]]
        lines = [part[first : first + LINE_BYTES].tobytes() for first in range(0, max(1, len(part)), LINE_BYTES)]
        file.write(b'    "' + b'"\n    "'.join(lines) + b'"\n')
    file.write(b"    ;\n")
