"""Lowers pooling and resizing on images."""

from __future__ import annotations

from runtime.graph import Node
from runtime.lowering.builder import Builder
from runtime.lowering.image_operators.emit import emit
from runtime.lowering.pooling import pool_dims, pool_kind, pool_shown
from runtime.lowering.resizing import resize_dims, resize_kernel, resize_numbers, resize_tables


def lower_pool(builder: Builder, node: Node) -> str:
    """Lowers MaxPool and AveragePool."""
    defines, shown = {"POOL": pool_kind(node)}, pool_shown(builder.graph, node)
    return emit(builder, node, "pool", "Pooling", pool_dims(builder.graph, node), defines=defines, shown=shown)


def lower_resize(builder: Builder, node: Node) -> str:
    """Lowers Resize, by nearest or linear interpolation."""
    dims, numbers = resize_dims(builder.graph, node), resize_numbers(builder.graph, node)
    tables = resize_tables(builder, node)
    return emit(builder, node, resize_kernel(node), "Resize", dims, numbers, constants=tables)


LOWERINGS = {"MaxPool": lower_pool, "AveragePool": lower_pool, "Resize": lower_resize}
