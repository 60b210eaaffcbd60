"""Lowers Resize on blocked activations."""

from __future__ import annotations

from runtime.families.resize.node import resize_dims, resize_kernel, resize_numbers, resize_tables
from runtime.graph import Node
from runtime.lowering.blocks import BlockedOperator, any_image
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


def lower_resize(builder: Builder, node: Node) -> None:
    """Lowers Resize: each block of channels is an image of pixels."""
    x, y = builder.read(node.inputs[0], Storage.BLOCKED), builder.write(node.output, Storage.BLOCKED)
    pixels, resized = x.lanes(), y.lanes()
    dims = resize_dims(builder.graph, node) | {"batch": pixels.shape[0], "channels": builder.block}
    tensors: Tensors = {"x": pixels, "y": resized, **resize_tables(builder, node)}
    numbers, shown = resize_numbers(builder.graph, node), ProfileInfo(y.shape)
    builder.launch(resize_kernel(node), node.name, "Resize", tensors, dims, numbers, shown=shown)


BLOCKED_OPERATORS = {"Resize": BlockedOperator(any_image, lower_resize)}
