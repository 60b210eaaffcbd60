"""Lowers Resize on images."""

from __future__ import annotations

from runtime.families.resize.node import resize_dims, resize_kernel, resize_numbers, resize_tables
from runtime.graph import Node
from runtime.lowering.builder import Builder
from runtime.lowering.images import emit


def lower_resize(builder: Builder, node: Node) -> str:
    """Lowers Resize, by nearest or linear interpolation."""
    dims, numbers = resize_dims(builder.graph, node), resize_numbers(builder.graph, node)
    tables = resize_tables(builder, node)
    return emit(builder, node, resize_kernel(node), "Resize", dims, numbers, constants=tables)


IMAGE_LOWERINGS = {"Resize": lower_resize}
