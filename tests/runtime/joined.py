"""Many builds of a kernel as one program: an entry for each set of options, which a driver compiles in one go.

PoCL takes a third of a second for any program, however small, and a tenth of one for each entry. So the tests of a
kernel's variants build it once. Each section of the joined source is the whole source of the kernel, in which all that
it defines has a name of its own; the macros of a section end with it.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pyopencl as cl

from runtime.kernels.spec import Kernel

# Tests of what a kernel computes need no optimiser, which takes half of the time; FARM_EXHAUSTIVE=1 builds with it.
UNOPTIMISED = "-cl-opt-disable"
_MACRO = re.compile(r"^\s*#define (\w+)", re.MULTILINE)
_FUNCTION = re.compile(r"^(?:\w[\w *]* \*?)(\w+)\(", re.MULTILINE)
_TYPE = re.compile(r"^(?:typedef [^{\n]*?|\} )(\w+);", re.MULTILINE)
_CONSTANT = re.compile(r"^__constant [\w ]* (\w+) =", re.MULTILINE)
# Macros make these names for each number of elements: buffer/prelude.cl.
_OF_VECTORS = (
    "floats_in_memory",
    "ints_in_memory",
    "bytes_in_memory",
    "halves_in_memory",
    "load_halves",
    "store_halves",
)
_VECTORS = (4, 8, 16)

Entry = Callable[[str], Any]  # options -> a new pyopencl kernel


def entries(context: Any, kernel: Kernel, source: str, options: Sequence[str], before: str = "") -> Entry:
    """Builds the kernel for all of these options at once, behind the source `before`."""
    distinct = list(dict.fromkeys(options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        program = cl.Program(context, before + joined_source(source, distinct)).build(options=[UNOPTIMISED])
    return lambda wanted: cl.Kernel(program, f"{kernel.name}_{distinct.index(wanted)}")


def joined_source(source: str, options: Sequence[str]) -> str:
    """The source once for each set of `-D` options; of set number i each name that it defines ends with `_i`."""
    macros = _MACRO.findall(source)
    names = {name for pattern in (_FUNCTION, _TYPE, _CONSTANT) for name in pattern.findall(source)}
    names |= {f"{name}{count}" for name in _OF_VECTORS for count in _VECTORS}
    names -= set(macros)
    return "\n".join(_section(source, number, each, names, macros) for number, each in enumerate(options))


def _section(source: str, number: int, options: str, names: set[str], macros: list[str]) -> str:
    given = dict(option.removeprefix("-D").split("=") for option in options.split() if option.startswith("-D"))
    defines = given | {name: f"{name}_{number}" for name in sorted(names)}
    begin = [f"#define {name} {value}" for name, value in defines.items()]
    end = [f"#undef {name}" for name in dict.fromkeys([*defines, *macros])]
    return "\n".join([*begin, source, *end])
