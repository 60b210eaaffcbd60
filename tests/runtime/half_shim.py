"""Half arithmetic on drivers that have none: kernels are built with a float in the place of each half.

What is `exact` shows that the code for half compiles and computes what it should. What is `rounded` also rounds each
multiply-add to the 11 bits of a half, so that its result shows how the kernel's sums run.
"""

from typing import Any

import pyopencl as cl

from runtime.kernels.source import program_source
from runtime.kernels.spec import Kernel
from tests.runtime import joined

# PoCL's own ways to load halves count on two bytes each.
EXACT = """
#undef POCL_DEVICE_ADDRESS_BITS
#define half float
#define half4 float4
#define half8 float8
#define half16 float16
#define vload_half(i, p) ((p)[i])
#define vload_half4 vload4
#define vload_half8 vload8
#define vload_half16 vload16
#define vstore_half(v, i, p) ((p)[i] = (v))
#define vstore_half4 vstore4
#define vstore_half8 vstore8
#define vstore_half16 vstore16
#define read_imageh read_imagef
"""
# T. Dekker's splitting (1971): the float nearest to v that 11 bits can hold.
_ROUND = """
#pragma OPENCL FP_CONTRACT OFF
#define ROUND(type) \\
    type __attribute__((overloadable)) rounded(type v) { const type high = v * 8193.0f; return high - (high - v); }
ROUND(float) ROUND(float4) ROUND(float8) ROUND(float16)
#undef MULTIPLY_ADD
#define MULTIPLY_ADD(a, b, c) rounded(rounded((a) * (b)) + (c))
"""
_FIRST_OF_MEMORY = ("\n// Buffer memory.", "\n// Image memory.")


def exact(kernel: Kernel) -> str:
    """The source of a kernel with float for half."""
    return EXACT + program_source(kernel)


def rounded(kernel: Kernel) -> str:
    """The same, with multiply-adds that round to 11 bits; they are defined where the common prelude ends."""
    source = exact(kernel)
    for heading in _FIRST_OF_MEMORY:
        source = source.replace(heading, _ROUND + heading)
    return source


def entries(context: Any, kernel: Kernel, options: list[str]) -> joined.Entry:
    """A kernel in half arithmetic for all of these options, built as one program."""
    built = joined.entries(context, kernel, exact(kernel), list(map(_in_half, options)))
    return lambda wanted: built(_in_half(wanted))


def build(context: Any, source: str, options: str) -> Any:
    """A program whose arithmetic is the half one, though its memory holds floats (the options say PRECISION 0)."""
    return cl.Program(context, source).build(options=_in_half(options).split())


def _in_half(options: str) -> str:
    return options.replace("PRECISION=0", "PRECISION=2")
