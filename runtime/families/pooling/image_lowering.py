"""Lowers pooling on images."""

from __future__ import annotations

from runtime.families.pooling.node import pool_dims, pool_kind, pool_shown
from runtime.graph import Node
from runtime.lowering.builder import Builder
from runtime.lowering.images import emit


def lower_pool(builder: Builder, node: Node) -> str:
    """Lowers MaxPool and AveragePool."""
    defines, shown = {"POOL": pool_kind(node)}, pool_shown(builder.graph, node)
    return emit(builder, node, "pool", "Pooling", pool_dims(builder.graph, node), defines=defines, shown=shown)


LOWERINGS = {"MaxPool": lower_pool, "AveragePool": lower_pool}
