"""Lowers the mean of each channel on blocked activations."""

from __future__ import annotations

from runtime.families.pooling.definition import BLOCKED_GLOBAL_POOL
from runtime.graph import Graph, Node
from runtime.layout.blocked import is_blocked_row_major
from runtime.lowering.blocks import BlockedOperator
from runtime.lowering.builder import Builder
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


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


BLOCKED_OPERATORS = {"ReduceMean": BlockedOperator(_is_global, lower_global_mean)}
