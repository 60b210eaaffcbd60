"""Axes as nodes write them, from either end."""

from __future__ import annotations

from runtime.errors import ModelError
from runtime.importers.onnx_node import OnnxNode


def normalized_axis(node: OnnxNode, axis: int, rank: int) -> int:
    """Counts an axis from the front; raises ModelError where a tensor of `rank` axes does not have it."""
    if not -rank <= axis < rank:
        raise ModelError(f"{node}: axis {axis} is not an axis of a tensor of {rank} axes")
    return axis % rank
