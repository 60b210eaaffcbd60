"""Compiles users' C functions: into a library that farmrt opens beside a plan, or for a program that links a model.

A function's file gets two things of ours around it: before it a static declaration, which makes the compiler check the
function against what was declared, in the user's lines, and keeps its name to the file; behind it the row of the table
(runtime/native/include/farmrt_operators.h) that farmrt calls it by.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from runtime.custom.binding import BoundOperator
from runtime.custom.declaration import OUTPUT, output_type
from runtime.kernels.spec import ArgumentForm, Kernel, MemoryType
from runtime.native import android
from runtime.native.abi import ABIS, HOST
from runtime.native.build import default_output_dir
from runtime.native.compiling import TranslationUnit, compile_translation_units, run_compiler, writable_folder
from runtime.native.model_code import LinkedOperators
from runtime.native.scratch import locked_folder, scratch_folder
from runtime.native.toolchains import Toolchain, find_toolchain
from runtime.plan.plan import Plan
from runtime.types import ELEMENT_BYTES, ELEMENT_TYPES

SYMBOL = "farm_operators"
HEADERS = Path(__file__).parents[1] / "native" / "include"

_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-O3", "-ffp-contract=fast", "-fno-math-errno")
_C_TYPES: Mapping[str, str] = {
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "bool": "uint8_t",
}
_OURS = '#line 1 "farm"\n'


def c_kernels(plan: Plan) -> list[CKernel]:
    """The users' C functions that a plan needs, each once, by name."""
    found = {step.kernel.name: step.kernel for step in plan.steps if isinstance(step.kernel, CKernel)}
    return [found[name] for name in sorted(found)]


def operators_library(kernels: Sequence[CKernel], abi: str) -> Path:
    """A library of C functions for an ABI, compiled unless the same is there already.

    Raises BuildError with the compiler's words where it refuses a function; else as `find_toolchain`.
    """
    toolchain = find_toolchain(abi)
    texts = sources(kernels, SYMBOL, "default")
    headers = "".join(path.read_text() for path in sorted(HEADERS.glob("*.h")))
    told = "\0".join([repr((toolchain, ABIS[abi], _FLAGS)), headers, *texts.values()])
    library = default_output_dir().parent / "operators" / abi / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.so"
    with writable_folder(library.parent), locked_folder(library.parent):
        if not library.is_file():
            with scratch_folder(library.parent) as scratch:
                objects = compile_sources(texts, toolchain, abi, scratch)
                run_compiler(_link_command(toolchain, abi, scratch / library.name, objects))
                (scratch / library.name).replace(library)
    return library


def linked_operators(plan: Plan, name: str) -> LinkedOperators | None:
    """The C functions that a plan needs, as part of a program that links the model; None where it needs none."""
    kernels = c_kernels(plan)
    symbol = f"{name}_operators"
    return LinkedOperators(symbol, sources(kernels, symbol, "hidden"), _FLAGS) if kernels else None


def sources(kernels: Sequence[CKernel], symbol: str, visibility: str) -> dict[str, str]:
    """Files of C by name: one for each function, and one with the table, which is called `symbol`."""
    rows = [f"{symbol}_{index}" for index in range(len(kernels))]
    texts = {f"{row}.c": _function_file(kernel, row) for row, kernel in zip(rows, kernels, strict=True)}
    return {**texts, f"{symbol}.c": _table_file(rows, symbol, visibility)}


def compile_sources(texts: Mapping[str, str], toolchain: Toolchain, abi: str, scratch: Path) -> list[Path]:
    """Compiles such files; the errors name the users' files and lines."""
    for name, text in texts.items():
        (scratch / name).write_text(text)
    units = [TranslationUnit(scratch / name) for name in texts]
    flags = (*_FLAGS, *ABIS[abi].flags, f"-I{HEADERS}")
    return compile_translation_units(toolchain.compiler, flags, units, scratch)


def abi_key(name: str) -> str:
    """The key of an ABI by the name that farmrt gives it, which of this machine is another."""
    return name if name in ABIS else HOST


def _link_command(toolchain: Toolchain, abi: str, library: Path, objects: Sequence[Path]) -> list[str]:
    files = [str(path) for path in objects]
    if toolchain.bare_linker:
        return android.shared_link_command(toolchain.compiler, toolchain.bare_linker, library, files)
    flags = [*ABIS[abi].flags, *(flag for flag in toolchain.link_flags if flag != "-pie")]
    return [*toolchain.compiler, *flags, "-shared", "-Wl,-z,defs", "-s", "-o", str(library), *files, "-lm"]


def _function_file(kernel: CKernel, row: str) -> str:
    c = kernel.bound.c
    assert c
    declared, types = c.declared, kernel.element_types
    ints, floats = declared.ints.split(), declared.floats.split()
    pointers = [*(f"const {c_type(kind)} *" for kind in types[:-1]), f"{c_type(types[-1])} *"]
    parameters = [*pointers, *["int32_t"] * len(ints), *["float"] * len(floats), "int64_t", "int64_t"]
    counts = {"tensors": len(types), "ints": len(ints), "floats": len(floats)}
    values = [f"a->{group}[{index}]" for group, count in counts.items() for index in range(count)]
    digits = "".join(str(ELEMENT_BYTES[ELEMENT_TYPES[kind]]) for kind in types)
    return (
        f"{_OURS}#include <stdint.h>\nstatic void {declared.function}({', '.join(parameters)});\n{c.text}"
        f'{_OURS}#include "farmrt_operators.h"\n'
        f"static void {row}_run(const rt_operator_arguments *a, int64_t first, int64_t end) {{\n"
        f"    {declared.function}({', '.join([*values, 'first', 'end'])});\n}}\n"
        f'const rt_user_operator {row} = {{"{c.name}", "{digits}", {len(ints)}, {len(floats)}, {row}_run}};\n'
    )


def c_type(kind: str) -> str:
    """The C type of an element: its own name with `_t` unless C has another; halves are their bits."""
    return _C_TYPES.get(kind, f"{kind}_t")


def _table_file(rows: Sequence[str], symbol: str, visibility: str) -> str:
    declared = "".join(f"extern const rt_user_operator {row};\n" for row in rows)
    entries = ", ".join(f"&{row}" for row in rows)
    return (
        f'{_OURS}#include "farmrt_operators.h"\n{declared}'
        f"static const rt_user_operator *const rows[] = {{{entries}}};\n"
        f'extern __attribute__((visibility("{visibility}"))) const rt_operator_table {symbol};\n'
        f"const rt_operator_table {symbol} = {{RT_OPERATOR_TABLE_VERSION, {len(rows)}, rows}};\n"
    )


@dataclasses.dataclass(frozen=True, eq=False)
class CKernel(Kernel):
    """A kernel that a library of users' C functions holds (runtime/custom/c_library.py)."""

    bound: BoundOperator = dataclasses.field(kw_only=True)

    @property
    def element_types(self) -> list[str]:
        """Of the tensors, the output last."""
        return [*(each.dtype for each in self.bound.inputs), output_type(self.bound.declared)]


@functools.cache
def c_kernel(bound: BoundOperator) -> CKernel:
    """The row; its ints are the items, the elements of each tensor (0: absent), then the user's."""
    assert bound.c
    names = [*(each.name for each in bound.inputs), OUTPUT]
    return CKernel(
        name=bound.c.name,
        source=bound.c.declared.source,
        operator=bound.declared.name,
        memory=MemoryType.BUFFER,
        tensors=tuple((name, ArgumentForm.FLAT) for name in names),
        ints=("items", *(f"{name} elements" for name in names), *bound.c.declared.ints.split()),
        floats=tuple(bound.c.declared.floats.split()),
        work_items=lambda dims, variant: (1,),
        bound=bound,
    )
