"""Lowers Resize on buffers."""

from __future__ import annotations

from runtime.families.resize.node import resize_dims, resize_kernel, resize_numbers, resize_tables
from runtime.graph import Node
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


def lower_resize(builder: Builder, node: Node) -> None:
    """Lowers Resize, by nearest or linear interpolation."""
    dims, numbers = resize_dims(builder.graph, node), resize_numbers(builder.graph, node)
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    tensors: Tensors = {"x": x, "y": y, **resize_tables(builder, node)}
    builder.launch(resize_kernel(node), node.name, "Resize", tensors, dims, numbers, shown=ProfileInfo(y.shape))


BUFFER_LOWERINGS = {"Resize": lower_resize}
