"""Every kernel compiles with half arithmetic, and keeps its tiles in registers: ziglang's clang tells it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.kernels import table
from runtime.kernels.source import build_options, program_source
from runtime.kernels.spec import Kernel, Variant
from runtime.semantics.functions import ElementFunction
from runtime.types import ElementType, Precision

DEFINES = {"ACTIVATION": 1, "RESIDUAL": 1, "WINO": 4, "POOL": 0, "REDUCE": 0, "LOG": 0, "UNARY": 1}
DEFINES |= {"BINARY": 1, "PAD": 0, "SRC_F32": 0, "DST_F32": 1, "DEPTH": 24, "VALUES": 16}
DEFINES |= {"RECURRENT": 1, "LINEAR": 1, "STEPWISE": 0, "EXTRA": 0, "COUPLED": 0, "GATE": 0, "CELL": 1, "OUT": 1}
DEFINES |= {"ELEMENT": int(ElementFunction.WHERE), "REAL": 1, "Y_TYPE": int(ElementType.F16)}
DEFINES |= {"A_TYPE": int(ElementType.BOOL), "B_TYPE": int(ElementType.F16), "C_TYPE": int(ElementType.I64)}
LANGUAGE = ("-target", "spir64-unknown-unknown", "-x", "cl", "-cl-std=CL1.2", "-Xclang", "-cl-ext=+cl_khr_fp16")
WARNINGS = ("-fsyntax-only", "-Wall", "-Werror", "-Wno-unused-function", "-Wno-comment")


def header() -> Path | None:
    """OpenCL C's built-in functions, as PyPI's PoCL brings them."""
    found = importlib.util.find_spec("pocl_binary_distribution")
    places = found.submodule_search_locations if found else None
    paths = [Path(place) / ".libs/share/pocl/include/opencl-c.h" for place in places or ()]
    return next((path for path in paths if path.exists()), None)


def spread(variants: tuple[Variant, ...]) -> tuple[Variant, ...]:
    """The first, a middle and the last one."""
    return tuple(dict.fromkeys((variants[0], variants[len(variants) // 2], variants[-1])))


def compiled(kernel: Kernel, variant: Variant, precision: Precision, *arguments: str) -> str:
    """What clang writes of a program; fails where it does not compile."""
    options = build_options(variant, precision, DEFINES).split()
    arguments = (*LANGUAGE, *arguments, f"-I{header().parent}", "-include", "opencl-c.h", *options, "-")
    command = [sys.executable, "-m", "ziglang", "clang", *arguments]
    result = subprocess.run(command, input=program_source(kernel), capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{variant.name}: {result.stderr}"
    return result.stdout


@pytest.mark.slow
@pytest.mark.skipif(header() is None, reason="no opencl-c.h")
@pytest.mark.parametrize("kernel", (*table.KERNELS, *table.PROBES), ids=lambda kernel: f"{kernel.name}-{kernel.memory}")
def test_half_arithmetic_compiles(kernel: Kernel) -> None:
    for variant in spread(kernel.variants):
        compiled(kernel, variant, Precision.FP16, *WARNINGS)


@pytest.mark.slow
@pytest.mark.skipif(header() is None, reason="no opencl-c.h")
@pytest.mark.parametrize("kernel", table.KERNELS, ids=lambda kernel: f"{kernel.name}-{kernel.memory}")
def test_no_array_of_a_mobile_gpus_kernel_lies_in_memory(kernel: Kernel) -> None:
    """What a work item holds in an array stays in registers: its loops are unrolled, and no call is left."""
    default, *others = dict.fromkeys([*kernel.defaults.get("", ()), kernel.variants[-1]])
    for variant in (default, *(each for each in others if not each.get("KEYS") and kernel.memory == "image")):
        text = compiled(kernel, variant, Precision.FP16_STORAGE, "-O2", "-S", "-emit-llvm", "-o", "-")
        bodies = re.findall(r"^define [^@\n]*spir_kernel.*?^}", text, re.DOTALL | re.MULTILINE)
        assert bodies and not [found for body in bodies for found in re.findall(r"alloca \[.*", body)], variant.name
