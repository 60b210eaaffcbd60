"""Every operator that the importer has a function for, by name; ONNX's own definitions supply further ones."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.importers import (
    activation,
    constants,
    convolution,
    counting,
    deformable,
    einsum,
    elementwise,
    fourier,
    gathering,
    linear,
    logic,
    movement,
    normalization,
    normalized_groups,
    pooling,
    quantization,
    recurrence,
    reduction,
    regions,
    resize,
    scattering,
    selection,
    spatial,
    suppression,
    transposed_convolution,
)
from runtime.importers.registry import Handler

_FAMILIES = (
    activation,
    constants,
    convolution,
    counting,
    deformable,
    einsum,
    elementwise,
    fourier,
    gathering,
    linear,
    logic,
    movement,
    normalization,
    normalized_groups,
    pooling,
    quantization,
    recurrence,
    regions,
    reduction,
    resize,
    scattering,
    selection,
    spatial,
    suppression,
    transposed_convolution,
)
HANDLERS: Mapping[str, Handler] = {op: handler for family in _FAMILIES for op, handler in family.OPERATORS.items()}
