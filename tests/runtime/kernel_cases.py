"""What the launches of kernels in tests are made of: cases of buffer kernels, and sizes for those of images."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from runtime.kernels.buffer.spec import BufferKernel
from runtime.kernels.codes import BYTES_FIXED, INPUT_IN_BYTES, OUTPUT_IN_BYTES
from runtime.kernels.table import BUFFER_KERNELS, PROBES
from runtime.semantics.unary import ACTIVATIONS, Unary
from runtime.types import Dot

TABLE = {kernel.name: kernel for kernel in (*BUFFER_KERNELS, *PROBES)}
_NAMES = {"alpha": "act_a", "beta": "act_b"}
# Of each activation its defaults, and others where these would tell less.
ACTIVATION_FLOATS: dict[int, dict[str, float]] = {
    **{
        code: dict.fromkeys(("act_a", "act_b"), 0.0)
        | {_NAMES[each.name]: each.default for each in code.function.parameters}
        for code in ACTIVATIONS
    },
    Unary.CLAMP: {"act_a": -0.25, "act_b": 0.5},
    Unary.LEAKY_RELU: {"act_a": 0.1, "act_b": 0.0},
    Unary.ELU: {"act_a": 1.5, "act_b": 0.0},
    Unary.SWISH: {"act_a": 1.5, "act_b": 0.0},
    Unary.SELU: {"act_a": 1.5, "act_b": 1.25},
    Unary.CELU: {"act_a": 1.5, "act_b": 0.0},
}
SAME = (1, 1, 1, 1)

# Sizes of image kernels.
UNBOUNDED = (-math.inf, math.inf)
WINDOW = {"k_h": 3, "k_w": 2, "stride_h": 2, "stride_w": 1, "pad_t": 1, "pad_l": 1, "dil_h": 1, "dil_w": 2}
SPATIAL = {"batch": 2, "in_h": 5, "in_w": 6, "out_h": 3, "out_w": 6}
EXTENTS = {"batch": 2, "channels": 6, "height": 3, "width": 5}
EPILOGUE = {"ACTIVATION": 0, "RESIDUAL": 1}


@dataclasses.dataclass(frozen=True)
class Case:
    """One launch: the kernel's scalar arguments, its tables, and what the operator asks of its program."""

    kernel: BufferKernel
    dims: Mapping[str, int]
    defines: Mapping[str, int] = dataclasses.field(default_factory=dict)
    floats: Mapping[str, float] = dataclasses.field(default_factory=dict)
    tables: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)

    @property
    def scalars(self) -> list[float]:
        defaults = {"act_a": -math.inf, "act_b": math.inf}
        return [(defaults | dict(self.floats))[name] for name in self.kernel.floats]


def window(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    batch: int = 1,
) -> dict[str, int]:
    """Dims of a sliding window; pads are top, left, bottom, right."""
    out = [(size[i] + pad[i] + pad[i + 2] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    pairs = {"in": size, "out": out, "k": kernel, "stride": stride, "dil": dilation}
    dims = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    return dims | {"batch": batch, "pad_t": pad[0], "pad_l": pad[1]}


def fused(name: str, dims: dict[str, int], activation: int = 0, residual: int = 0, **defines: int) -> Case:
    defines = {"ACTIVATION": int(activation), "RESIDUAL": residual, **defines}
    return Case(TABLE[name], dims, defines, ACTIVATION_FLOATS[activation])


def in_bytes(case: Case, code: int) -> Case:
    """The case with its input (4), or its output (1) too in bytes, of steps from act_a to act_b."""
    floats = {"act_a": -100.0, "act_b": 155.0} if code & 1 else case.floats
    return dataclasses.replace(case, defines=dict(case.defines) | {"BYTES": code}, floats=floats)


def by_fixed_point(case: Case, channels: int, more: int = 0) -> Case:
    """The case in bytes, whose sums are rounded by fixed point, with seeded biases, multipliers and shifts."""
    random = np.random.default_rng(8)
    ends = (-3000, 3001), (2**30, 2**31), (-12, -8)
    rows = np.concatenate([random.integers(*each, channels) for each in ends])
    code = INPUT_IN_BYTES | OUTPUT_IN_BYTES | BYTES_FIXED | more
    return dataclasses.replace(in_bytes(case, code), tables={"b": tuple(map(int, rows))})


def by_dots(case: Case, dot: Dot) -> Case:
    """The case with instructions for products of bytes."""
    return dataclasses.replace(case, defines=dict(case.defines) | {"DOT": int(dot)})


def in_integers(case: Case, bits: int, group: int = 0) -> Case:
    """The case with weights of so many bits, `group` columns with a scale (0: a row)."""
    return dataclasses.replace(case, defines=dict(case.defines) | {"WEIGHT_BITS": bits, "WEIGHT_GROUP": group})


def row_major(extents: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for extent in extents[:0:-1]:
        strides.insert(0, strides[0] * extent)
    return tuple(strides)


def numbered(prefix: str, values: tuple[int, ...]) -> dict[str, int]:
    return {f"{prefix}{axis}": value for axis, value in enumerate(values)}
