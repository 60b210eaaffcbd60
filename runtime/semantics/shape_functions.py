"""Shapes that operators give: functions from the shapes of the inputs and the attributes to the shape of the output.

All raise ModelError where shapes and attributes do not fit each other. Attributes are those of runtime/operators.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from runtime.errors import ModelError

Shape = tuple[int, ...]
Attributes = Mapping[str, Any]
ShapeFunction = Callable[[Sequence[Shape], Attributes], Shape]


def same(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's."""
    return shapes[0]


def broadcast(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That which all inputs are broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ModelError(f"shapes {shape_list(shapes)} do not broadcast") from None


def broadcast_to_first(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's, to which the others are broadcast."""
    if broadcast(shapes, attributes) != shapes[0]:
        raise ModelError(f"shape {shapes[1]} does not broadcast to {shapes[0]}")
    return shapes[0]


def shape_list(shapes: Sequence[Shape]) -> str:
    """Shapes as words."""
    return " and ".join(str(shape) for shape in shapes)


def require_rank(shape: Shape, rank: int, what: str) -> None:
    """Raises ModelError unless a tensor has so many axes."""
    if len(shape) != rank:
        raise ModelError(f"{what} has shape {shape}; {rank} axes are supported")


def window_outputs(size: Shape, window: Shape, strides: Shape, pads: Shape) -> Shape:
    """Output (height, width) of a window, its dilation included, that slides over a padded image."""
    padded = (size[0] + pads[0] + pads[2], size[1] + pads[1] + pads[3])
    out = tuple((extent - span) // stride + 1 for extent, span, stride in zip(padded, window, strides, strict=True))
    if min(out) < 1:
        raise ModelError(f"window {window} is larger than the padded input {padded}")
    return out


def require_bias(shapes: Sequence[Shape], channels: int) -> None:
    """Raises ModelError unless the bias, where there is one, has a value for each channel."""
    if len(shapes) > 2 and shapes[2] not in {(channels,), ()}:
        raise ModelError(f"bias of shape {shapes[2]} does not fit {channels} output channels")


def same_with_axis(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's, which has the axis."""
    if not 0 <= attributes["axis"] < len(shapes[0]):
        raise ModelError(f"axis {attributes['axis']} is not an axis of an input of shape {shapes[0]}")
    return shapes[0]
