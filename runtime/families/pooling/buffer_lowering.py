"""Lowers MaxPool and AveragePool over NHWC buffers."""

from __future__ import annotations

from runtime.families.pooling.node import pool_dims, pool_kind, pool_shown
from runtime.graph import Node
from runtime.lowering.builder import Builder
from runtime.types import Storage


def lower_pool(builder: Builder, node: Node) -> None:
    """Emits a pooling as one launch."""
    tensors = {"x": builder.read(node.inputs[0], Storage.NHWC), "y": builder.write(node.output, Storage.NHWC)}
    shown = pool_shown(builder.graph, node)
    defines = {"POOL": pool_kind(node)}
    builder.launch("pool", node.name, "Pooling", tensors, pool_dims(builder.graph, node), None, defines, shown)


LOWERINGS = {"MaxPool": lower_pool, "AveragePool": lower_pool}
