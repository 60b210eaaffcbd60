"""Pooling on images."""

from __future__ import annotations

from runtime.graph import Node
from runtime.kernels.spec import Memory
from runtime.lowering.builder import Builder
from runtime.lowering.pooling import pool_dims, pool_kind, pool_shown
from runtime.plan.records import Storage


def lower_pool(builder: Builder, node: Node) -> str:
    """One launch."""
    dims = pool_dims(builder.graph, node)
    reason = builder.refusal("pool", Memory.IMAGE, dims)
    if reason:
        return reason
    tensors = {"x": builder.read(node.inputs[0], Storage.IMAGE), "y": builder.write(node.output, Storage.IMAGE)}
    defines = {"POOL": pool_kind(node)}
    shown = pool_shown(builder.graph, node)
    builder.launch("pool", node.name, "Pooling", tensors, dims, None, defines, shown, memory=Memory.IMAGE)
    return ""


LOWERINGS = {"MaxPool": lower_pool, "AveragePool": lower_pool}
