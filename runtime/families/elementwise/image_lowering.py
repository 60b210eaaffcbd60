"""Lowers element-wise operators on images."""

from __future__ import annotations

from runtime.families.elementwise.node import BINARY, UNARY, unary_numbers
from runtime.graph import Node
from runtime.kernels.spec import MemoryType
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder
from runtime.lowering.images import EXTENTS, emit, extents
from runtime.lowering.launch import Tensors
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


def lower_unary(builder: Builder, node: Node) -> str:
    """Lowers a function of each element."""
    dims = extents(builder.graph.shape(node.output))
    return emit(builder, node, "unary", node.op, dims, unary_numbers(node), {"UNARY": int(UNARY[node.op])})


def lower_binary(builder: Builder, node: Node) -> str:
    """Lowers a function of two tensors; a constant of fewer than 4 axes gets leading axes of size 1."""
    graph = builder.graph
    out = graph.shape(node.output)
    if any(len(graph.shape(name)) != 4 and builder.is_activation(name) for name in node.inputs):
        return "an operand of fewer than 4 axes"
    shapes = [(1,) * (4 - len(graph.shape(name))) + graph.shape(name) for name in node.inputs]
    dims = extents(out)
    for prefix, shape in zip("ab", shapes, strict=True):
        dims |= {f"{prefix}_{extent}": size for extent, size in zip(EXTENTS, shape, strict=True)}
    reason = builder.refusal("binary", MemoryType.IMAGE, dims)
    if reason:
        return reason
    a, b = (builder.read_image(name, shape) for name, shape in zip(node.inputs, shapes, strict=True))
    code, numbers = activation_code(node.attrs)
    defines = {"BINARY": int(BINARY[node.op]), "ACTIVATION": code}
    tensors: Tensors = {"a": a, "b": b, "y": builder.write(node.output, Storage.IMAGE)}
    memory, shown = MemoryType.IMAGE, ProfileInfo(out)
    builder.launch("binary", node.name, "Eltwise", tensors, dims, numbers, defines, shown, memory=memory)
    return ""


IMAGE_LOWERINGS = {**dict.fromkeys(UNARY, lower_unary), **dict.fromkeys(BINARY, lower_binary)}
