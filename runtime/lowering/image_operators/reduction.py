"""Lowers global pooling, softmax over channels and local response normalisation on images."""

from __future__ import annotations

from runtime.graph import Node
from runtime.kernels.codes import Reduce
from runtime.lowering.builder import Builder
from runtime.lowering.image_operators.emit import emit, extents


def lower_reduce(builder: Builder, node: Node) -> str:
    """Lowers a reduction of height and width, which stay as axes of size 1."""
    if tuple(node.attrs["axes"]) != (2, 3) or not node.attrs["keepdims"]:
        return f"reduction of axes {node.attrs['axes']}; images reduce height and width, kept"
    kind = Reduce[node.op.removeprefix("Reduce").upper()]
    dims = extents(builder.graph.shape(node.inputs[0]))
    return emit(builder, node, "reduce", "Pooling", dims, defines={"REDUCE": int(kind)})


def lower_softmax(builder: Builder, node: Node) -> str:
    """Lowers Softmax and LogSoftmax over the channels."""
    if node.attrs["axis"] != 1:
        return f"softmax along axis {node.attrs['axis']}; images take channels"
    defines = {"LOG": int(node.op == "LogSoftmax")}
    return emit(builder, node, "softmax", node.op, extents(builder.graph.shape(node.output)), defines=defines)


def lower_lrn(builder: Builder, node: Node) -> str:
    """Lowers LRN."""
    dims = extents(builder.graph.shape(node.output)) | {"size": node.attrs["size"]}
    return emit(builder, node, "lrn", "LRN", dims, {key: node.attrs[key] for key in ("alpha", "beta", "bias")})


LOWERINGS = {
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), lower_reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax"), lower_softmax),
    "LRN": lower_lrn,
}
