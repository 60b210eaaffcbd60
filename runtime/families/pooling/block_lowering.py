"""Lowers pooling on blocked activations."""

from __future__ import annotations

from runtime.families.pooling.block_kernels import BLOCKED_POOL
from runtime.families.pooling.node import pool_dims, pool_kind, pool_shown
from runtime.graph import Node
from runtime.lowering.blocks import BlockedOperator, any_image
from runtime.lowering.builder import Builder
from runtime.types import Storage


def lower_pool(builder: Builder, node: Node) -> None:
    """Emits a pooling as one step."""
    x, y = builder.read(node.inputs[0], Storage.BLOCKED), builder.write(node.output, Storage.BLOCKED)
    defines = {"POOL": pool_kind(node), "BLOCK": builder.block}
    dims, shown = pool_dims(builder.graph, node), pool_shown(builder.graph, node)
    builder.launch(BLOCKED_POOL, node.name, "Pooling", {"x": x, "y": y}, dims, None, defines, shown)


OPERATORS = dict.fromkeys(("MaxPool", "AveragePool"), BlockedOperator(any_image, lower_pool))
