"""Element-wise operators on images."""

from __future__ import annotations

from runtime.graph import Node
from runtime.kernels.spec import Memory
from runtime.lowering.activation import activation
from runtime.lowering.builder import Builder
from runtime.lowering.elementwise import BINARY
from runtime.plan.plan import Shown
from runtime.plan.records import Storage

_EXTENTS = ("batch", "channels", "height", "width")


def lower_binary(builder: Builder, node: Node) -> str:
    """Both operands as images; an operand of fewer axes counts as one with leading axes of one element."""
    out = builder.graph.shape(node.output)
    shapes = [(1,) * (4 - len(builder.graph.shape(name))) + builder.graph.shape(name) for name in node.inputs]
    dims = dict(zip(_EXTENTS, out, strict=True))
    for prefix, shape in zip("ab", shapes, strict=True):
        dims |= {f"{prefix}_{extent}": size for extent, size in zip(_EXTENTS, shape, strict=True)}
    reason = builder.refusal("binary", Memory.IMAGE, dims)
    if not reason and any(len(builder.graph.shape(name)) != 4 and builder.is_activation(name) for name in node.inputs):
        reason = "an operand of fewer than 4 axes"
    if reason:
        return reason
    a, b = (builder.read_image(name, shape) for name, shape in zip(node.inputs, shapes, strict=True))
    code, numbers = activation(node.attrs)
    defines = {"BINARY": int(BINARY[node.op]), "ACTIVATION": code}
    tensors = {"a": a, "b": b, "y": builder.write(node.output, Storage.IMAGE)}
    memory, shown = Memory.IMAGE, Shown(out)
    builder.launch("binary", node.name, "Eltwise", tensors, dims, numbers, defines, shown, memory=memory)
    return ""


LOWERINGS = dict.fromkeys(BINARY, lower_binary)
