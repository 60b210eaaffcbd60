"""Every kernel compiles with half arithmetic; ziglang's clang checks it, also where no driver has such arithmetic."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.kernels import table
from runtime.kernels.source import build_options, program_source
from runtime.kernels.spec import Kernel, Variant
from runtime.types import Precision

DEFINES = {"ACTIVATION": 1, "RESIDUAL": 1, "WINO": 4, "POOL": 0, "REDUCE": 0, "LOG": 0, "UNARY": 1}
DEFINES |= {"BINARY": 1, "PAD": 0, "SRC_F32": 0, "DST_F32": 1, "DEPTH": 24, "VALUES": 16}
DEFINES |= {"RECURRENT": 1, "LINEAR": 1, "STEPWISE": 0, "EXTRA": 0, "COUPLED": 0, "GATE": 0, "CELL": 1, "OUT": 1}
LANGUAGE = ("-target", "spir64-unknown-unknown", "-x", "cl", "-cl-std=CL1.2", "-Xclang", "-cl-ext=+cl_khr_fp16")
WARNINGS = ("-fsyntax-only", "-Wall", "-Werror", "-Wno-unused-function")


def header() -> Path | None:
    """OpenCL C's built-in functions, as PyPI's PoCL brings them."""
    found = importlib.util.find_spec("pocl_binary_distribution")
    places = found.submodule_search_locations if found else None
    paths = [Path(place) / ".libs/share/pocl/include/opencl-c.h" for place in places or ()]
    return next((path for path in paths if path.exists()), None)


def spread(variants: tuple[Variant, ...]) -> tuple[Variant, ...]:
    """The first, a middle and the last one."""
    return tuple(dict.fromkeys((variants[0], variants[len(variants) // 2], variants[-1])))


@pytest.mark.slow
@pytest.mark.skipif(header() is None, reason="no opencl-c.h")
@pytest.mark.parametrize("kernel", (*table.KERNELS, *table.PROBES), ids=lambda kernel: f"{kernel.name}-{kernel.memory}")
def test_half_arithmetic_compiles(kernel: Kernel) -> None:
    for variant in spread(kernel.variants):
        options = build_options(variant, Precision.FP16, DEFINES).split()
        arguments = [*LANGUAGE, *WARNINGS, f"-I{header().parent}", "-include", "opencl-c.h", *options, "-"]
        command = [sys.executable, "-m", "ziglang", "clang", *arguments]
        result = subprocess.run(command, input=program_source(kernel), capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{variant.name}: {result.stderr}"
