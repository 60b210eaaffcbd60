"""Says which taps of a transposed convolution reach which outputs: the ground of its shape, oracle, lowering and tests.

Output o of an axis receives input i through tap k where o = i * stride + k * dilation - pad. Outputs whose index leaves
the same remainder modulo the stride, a *phase*, are reached by the same taps: those of one class modulo
stride / gcd(stride, dilation). Weights lie class by class, so that a phase reads a run of them.
"""

import math

Shape = tuple[int, ...]


def transposed_size(size: int, kernel: int, stride: int, dilation: int, pads: int, extra: int) -> int:
    """Outputs along an axis; `pads` is the sum of both ends, `extra` the output padding."""
    return (size - 1) * stride + dilation * (kernel - 1) + 1 - pads + extra


def class_count(stride: int, dilation: int) -> int:
    """Classes of the taps of one axis."""
    return stride // math.gcd(stride, dilation)


def taps_by_class(kernel: Shape, strides: Shape, dilations: Shape) -> list[tuple[int, int]]:
    """The taps (row, column) in the order of their classes, row by row within one."""
    rows, columns = (
        [range(first, extent, class_count(stride, dilation)) for first in range(class_count(stride, dilation))]
        for extent, stride, dilation in zip(kernel, strides, dilations, strict=True)
    )
    return [(i, j) for of_rows in rows for of_columns in columns for i in of_rows for j in of_columns]
