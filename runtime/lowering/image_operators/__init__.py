"""Lowers operators to launches on images, one file for each operator family.

A function emits the operator's launches and returns "", or emits nothing and returns why images cannot serve; the
operator is then lowered to buffers, with conversions around it.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.graph import Node
from runtime.lowering.builder import Builder
from runtime.lowering.image_operators import (
    convolution,
    elementwise,
    movement,
    normalization,
    reduction,
    sampling,
    transposed_convolution,
)

LowerOnImages = Callable[[Builder, Node], str]

IMAGE_LOWERINGS: dict[str, LowerOnImages] = {
    **convolution.LOWERINGS,
    **transposed_convolution.LOWERINGS,
    **sampling.LOWERINGS,
    **elementwise.LOWERINGS,
    **movement.LOWERINGS,
    **reduction.LOWERINGS,
    **normalization.LOWERINGS,
}
