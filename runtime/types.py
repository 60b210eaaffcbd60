"""Defines what a tensor is made of: origin, precision, element type, storage and role; everything else builds on these.

The numbers of integer ones are part of plan files and of farmrt's header (plan/records.py, plan/header.py).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Literal

# How a file asks for algorithms: the output tile of Winograd's, 0 for none, `auto` for the best of each layer,
# `default` for what is known to pay on the device.
Winograd = Literal[0, 2, 4, "auto", "default"]


class Algorithm(enum.StrEnum):
    """How a convolution is computed; every other operator is DIRECT."""

    DIRECT = "direct"
    WINOGRAD_2 = "winograd2"
    WINOGRAD_4 = "winograd4"

    @property
    def tile(self) -> int:
        """Output tile of Winograd's convolution, 0 for none."""
        return {Algorithm.DIRECT: 0, Algorithm.WINOGRAD_2: 2, Algorithm.WINOGRAD_4: 4}[self]


EVERY_ALGORITHM = tuple(Algorithm)


def asked_algorithms(winograd: Winograd) -> tuple[Algorithm, ...]:
    """The algorithms of which a convolution that Winograd's serves has one, by what a file says; none for `default`."""
    return tuple(algorithm for algorithm in Algorithm if winograd in ("auto", algorithm.tile))


class OriginFormat(enum.StrEnum):
    """The order of an image's axes; `ND` is none of these."""

    NCHW = "NCHW"
    NHWC = "NHWC"
    ND = "ND"

    def permuted(self, perm: Sequence[int]) -> OriginFormat:
        """The order behind a transposition, whose axis i is `perm[i]` here; `ND` for one that has no name."""
        letters = "" if self == OriginFormat.ND else "".join(self[axis] for axis in perm)
        return OriginFormat(letters) if letters in OriginFormat.__members__ else OriginFormat.ND


@dataclasses.dataclass(frozen=True)
class Origin:
    """A tensor as the model's author means it: the order of its axes, and its shape in this order."""

    format: OriginFormat
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.format != OriginFormat.ND and len(self.shape) != len(self.format):
            raise ValueError(f"an origin in {self.format} has {len(self.format)} axes, not the shape {self.shape}")


class Precision(enum.IntEnum):
    """How tensors of float32 are stored, and computed with; all others are of their own element type everywhere."""

    FP32 = 0
    FP16_STORAGE = 1  # half in memory, float arithmetic
    FP16 = 2  # half in memory, half arithmetic (needs cl_khr_fp16; on a CPU asimdhp, for products alone)

    @property
    def label(self) -> str:
        """Its name in files, options and tables."""
        return self.name.lower()

    @property
    def element(self) -> ElementType:
        """Type of floats in memory."""
        return ElementType.F16 if self.stores_half else ElementType.F32

    @property
    def stores_half(self) -> bool:
        """Whether floats lie in memory as halves."""
        return self != Precision.FP32

    @property
    def computes_in_half(self) -> bool:
        """Whether floats are computed with as halves."""
        return self == Precision.FP16


Precisions = tuple[Precision, ...]  # those that the operators of a plan may have, from float to half arithmetic
PRECISIONS: Mapping[str, Precision] = {precision.label: precision for precision in Precision}


def device_precisions(has_half: bool) -> Precisions:
    """What a GPU can compute in, which has arithmetic in half or not."""
    return tuple(each for each in Precision if has_half or not each.computes_in_half)


class Storage(enum.IntEnum):
    """How a tensor lies in memory.

    FLAT   row-major in origin order.
    NHWC   pixel-major: element (n, c, h, w) at offset + ((n*H + h)*W + w)*stride + c; stride >= C, so that a channel
           range of a wider tensor is a tensor too (concatenation and splitting cost nothing).
    IMAGE  RGBA 2D image, channel-major: element (n, c, h, w) is component c%4 of pixel (c/4*W + w, n*H + h).
    BLOCKED
           blocks of B channels, for CPUs: element (n, c, h, w) at ((n*ceil(C/B) + c/B)*H + h)*W + w)*B + c%B. What lies
           in the lanes behind C has no meaning.
    """

    FLAT = 0
    NHWC = 1
    IMAGE = 2
    BLOCKED = 3


class ElementType(enum.IntEnum):
    """Element type of a tensor in memory."""

    F32 = 0
    F16 = 1
    I32 = 2
    F64 = 3
    BF16 = 4
    I8 = 5
    U8 = 6
    I16 = 7
    U16 = 8
    U32 = 9
    I64 = 10
    U64 = 11
    BOOL = 12


# NumPy's name of each element type's values; `bfloat16` is of ml_dtypes.
ELEMENT_NAMES: Mapping[ElementType, str] = {
    ElementType.F32: "float32",
    ElementType.F16: "float16",
    ElementType.F64: "float64",
    ElementType.BF16: "bfloat16",
    ElementType.I8: "int8",
    ElementType.I16: "int16",
    ElementType.I32: "int32",
    ElementType.I64: "int64",
    ElementType.U8: "uint8",
    ElementType.U16: "uint16",
    ElementType.U32: "uint32",
    ElementType.U64: "uint64",
    ElementType.BOOL: "bool",
}
ELEMENT_BYTES: Mapping[ElementType, int] = {
    **dict.fromkeys((ElementType.I8, ElementType.U8, ElementType.BOOL), 1),
    **dict.fromkeys((ElementType.F16, ElementType.BF16, ElementType.I16, ElementType.U16), 2),
    **dict.fromkeys((ElementType.F32, ElementType.I32, ElementType.U32), 4),
    **dict.fromkeys((ElementType.F64, ElementType.I64, ElementType.U64), 8),
}
ELEMENT_TYPES: Mapping[str, ElementType] = {name: kind for kind, name in ELEMENT_NAMES.items()}


class Role(enum.IntEnum):
    """What a tensor is to the plan's user; inputs and outputs are FLAT in a scratch pool, of any element type."""

    INTERMEDIATE = 0
    INPUT = 1
    OUTPUT = 2


class Dot(enum.IntEnum):
    """DOT: how an OpenCL device adds the products of four bytes with four others at once, by its extension."""

    NONE = 0
    KHRONOS = 1  # cl_khr_integer_dot_product, of OpenCL C 3.0
    QUALCOMM = 2  # cl_qcom_dot_product8: signed with unsigned bytes
    ARM = 3  # cl_arm_integer_dot_product_accumulate_int8: both signed
    AVX2 = 4  # PoCL's compiler on such a CPU, whose instructions add two products of 16 bits


class ImageFormat(enum.IntEnum):
    """Channel type of an RGBA image."""

    FLOAT = 0
    HALF = 1
    BYTES = 2  # signed
