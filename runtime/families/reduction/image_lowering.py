"""Lowers global pooling on images."""

from __future__ import annotations

from runtime.graph import Node
from runtime.kernels.codes import Reduce
from runtime.lowering.builder import Builder
from runtime.lowering.images import emit, extents


def lower_reduce(builder: Builder, node: Node) -> str:
    """Lowers a reduction of height and width, which stay as axes of size 1."""
    if tuple(node.attrs["axes"]) != (2, 3) or not node.attrs["keepdims"]:
        return f"reduction of axes {node.attrs['axes']}; images reduce height and width, kept"
    kind = Reduce[node.op.removeprefix("Reduce").upper()]
    dims = extents(builder.graph.shape(node.inputs[0]))
    return emit(builder, node, "reduce", "Pooling", dims, defines={"REDUCE": int(kind)})


IMAGE_LOWERINGS = dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), lower_reduce)
