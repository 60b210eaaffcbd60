"""Lowers operators to launches on buffers, one file for each operator family; `LOWERINGS` has a function for each."""

from __future__ import annotations

from collections.abc import Callable

from runtime.graph import Node
from runtime.lowering.buffer_operators import (
    attention,
    channels,
    convolution,
    elementwise,
    matrix,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    transposed_convolution,
)
from runtime.lowering.builder import Builder

Lower = Callable[[Builder, Node], None]

LOWERINGS: dict[str, Lower] = {
    **convolution.LOWERINGS,
    **transposed_convolution.LOWERINGS,
    **pooling.LOWERINGS,
    **channels.LOWERINGS,
    **elementwise.LOWERINGS,
    **matrix.LOWERINGS,
    **movement.LOWERINGS,
    **recurrent.LOWERINGS,
    **reduction.LOWERINGS,
    **normalization.LOWERINGS,
    **attention.LOWERINGS,
}
