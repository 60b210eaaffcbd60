"""Operators that move quantised integers, or choose some, move the floats that these stand for.

Floats have kernels on every device, and dequantising, moving and quantising again changes no integer: what is joined to
an activation afterwards (passes/fake_quantization.py) leaves no trace of it.
"""

import numpy as np
from onnx import NodeProto, helper

from runtime.importers.builder import GraphBuilder
from runtime.importers.onnx_node import OnnxNode
from runtime.semantics.quantization import EXACT_IN_FLOATS, Quantization

# By the number of inputs that are moved.
_OF_FIRST = frozenset(
    (
        *("DepthToSpace", "Flatten", "GlobalMaxPool", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Split"),
        *("Squeeze", "Transpose", "Unsqueeze"),
    )
)
_OF_ALL = frozenset({"Concat"})


def moves_integers(node: OnnxNode, builder: GraphBuilder) -> bool:
    """Whether a node moves integers of one scale, which are computed at run time."""
    known = [_known(name, builder) for name in _moved(node)]
    return bool(known) and known[0] is not None and all(each == known[0] for each in known)


def _moved(node: OnnxNode) -> tuple[str, ...]:
    if node.op == "MaxPool" and len(node.outputs) > 1:
        return ()  # places of the largest, too
    return node.inputs if node.op in _OF_ALL else node.inputs[: int(node.op in _OF_FIRST)]


def _known(name: str, builder: GraphBuilder) -> Quantization | None:
    info = builder.graph.tensors[name]
    if builder.constant(name) is not None or info.dtype.name not in EXACT_IN_FLOATS or not info.quantization:
        return None
    return info.quantization if info.quantization.is_whole else None


def nodes_in_floats(proto: NodeProto, node: OnnxNode, builder: GraphBuilder) -> list[NodeProto]:
    """The nodes that stand for one: what dequantises its inputs, itself, and what quantises its outputs."""
    moved = _moved(node)
    known = _known(moved[0], builder)
    assert known is not None
    scale = builder.derived(f"{node.label}/scale", np.array(known.scale[0], np.float32))
    zero = builder.derived(f"{node.label}/zero_point", np.array(known.zero_point[0], known.integers))

    def around(op: str, x: str, y: str) -> NodeProto:
        return helper.make_node(op, [x, scale, zero], [y], f"{node.name}/{y}")

    inputs = {name: builder.fresh(f"{node.label}/{name}/real") for name in moved}
    outputs = {name: builder.fresh(f"{name}/real") for name in proto.output if name}
    itself = NodeProto()
    itself.CopyFrom(proto)
    itself.input[:] = [*(inputs[name] for name in moved), *proto.input[len(moved) :]]
    itself.output[:] = [outputs.get(name, "") for name in proto.output]
    loads = [around("DequantizeLinear", name, real) for name, real in inputs.items()]
    stores = [around("QuantizeLinear", real, name) for name, real in outputs.items()]
    return [*loads, itself, *stores]
