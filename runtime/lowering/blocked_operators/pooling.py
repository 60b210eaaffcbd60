"""Lowers pooling and reductions over whole images on blocked activations."""

from __future__ import annotations

from runtime.graph import Graph, Node
from runtime.kernels.blocked import BLOCKED_GLOBAL_POOL, BLOCKED_POOL
from runtime.layout.blocked import is_blocked_row_major
from runtime.lowering.blocked_operators.operator import BlockedOperator, any_image
from runtime.lowering.builder import Builder
from runtime.lowering.pooling import pool_dims, pool_kind, pool_shown
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


def lower_pool(builder: Builder, node: Node) -> None:
    """Emits a pooling as one step."""
    x, y = builder.read(node.inputs[0], Storage.BLOCKED), builder.write(node.output, Storage.BLOCKED)
    defines = {"POOL": pool_kind(node), "BLOCK": builder.block}
    dims, shown = pool_dims(builder.graph, node), pool_shown(builder.graph, node)
    builder.launch(BLOCKED_POOL, node.name, "Pooling", {"x": x, "y": y}, dims, None, defines, shown)


def _is_global(graph: Graph, node: Node, block: int) -> bool:
    return len(graph.shape(node.inputs[0])) == 4 and node.attrs["axes"] == (2, 3)


def lower_global_mean(builder: Builder, node: Node) -> None:
    """Emits the mean of each channel; its result is row-major, which single pixels in blocks are, too."""
    x, shape = builder.read(node.inputs[0], Storage.BLOCKED), builder.graph.shape(node.output)
    blocked = len(shape) == 4 and is_blocked_row_major(shape, builder.block)
    y = builder.write(node.output, Storage.BLOCKED if blocked else Storage.FLAT)
    dims = dict(zip(("batch", "channels", "in_h", "in_w"), x.shape, strict=True))
    defines, shown = {"BLOCK": builder.block}, ProfileInfo(y.shape)
    builder.launch(BLOCKED_GLOBAL_POOL, node.name, "Pooling", {"x": x, "y": y}, dims, None, defines, shown)


OPERATORS = {
    **dict.fromkeys(("MaxPool", "AveragePool"), BlockedOperator(any_image, lower_pool)),
    "ReduceMean": BlockedOperator(_is_global, lower_global_mean),
}
