"""Element-wise operators on buffers, in whatever storage they are, and on images; and the sizes to measure."""

import dataclasses
import math
from collections.abc import Mapping

from runtime.graph import Node
from runtime.kernels.codes import Binary
from runtime.kernels.spec import MemoryType
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder, node_error
from runtime.lowering.images import EXTENTS, emit, extents
from runtime.lowering.iteration import broadcast_strides, loop_nest, padded
from runtime.lowering.launch import Tensors
from runtime.lowering.launcher import NEST_RANK
from runtime.lowering.value import Value
from runtime.operators.case import IMAGE, in_bytes, sized
from runtime.plan.plan import ProfileInfo
from runtime.semantics.unary import Unary
from runtime.types import Storage

UNARY = {"Relu": Unary.CLAMP, **{code.function.operator: code for code in Unary}}
BINARY = {
    **{"Add": Binary.ADD, "Sub": Binary.SUB, "Mul": Binary.MUL, "Div": Binary.DIV},
    **{"Max": Binary.MAX, "Min": Binary.MIN, "Pow": Binary.POW, "PRelu": Binary.PRELU},
}


def unary_numbers(node: Node) -> dict[str, float]:
    """Returns the kernel's `alpha` and `beta` for an operator of one tensor."""
    if node.op == "Relu":
        return {"alpha": 0.0, "beta": math.inf}
    return {"alpha": node.attrs.get("alpha", 0.0), "beta": node.attrs.get("beta", 0.0)}


def lower_unary(builder: Builder, node: Node) -> None:
    """Emits an operator of one tensor; the output gets the input's storage."""
    x = builder.read_any(node.inputs[0])
    y = builder.write(node.output, x.storage)
    dims = nest_dims(node, x.shape, {"xs": x.strides, "ys": y.strides})
    defines = {"UNARY": int(UNARY[node.op])}
    numbers = unary_numbers(node)
    builder.launch("unary", node.name, node.op, {"x": x, "y": y}, dims, numbers, defines, ProfileInfo(y.shape))


def lower_binary(builder: Builder, node: Node) -> None:
    """Emits an operator of two tensors; the output is NHWC where it has 4 axes and an operand is NHWC, else flat."""
    out = builder.graph.shape(node.output)
    a, b = _operands(builder, node, out)
    storage = Storage.NHWC if len(out) == 4 and Storage.NHWC in (a.storage, b.storage) else Storage.FLAT
    y = builder.write(node.output, storage)
    dims = nest_dims(node, out, {"as": strides_in(a, out), "bs": strides_in(b, out), "ys": y.strides})
    code, numbers = activation_code(node.attrs)
    defines = {"BINARY": int(BINARY[node.op]), "ACTIVATION": code}
    builder.launch(
        "binary", node.name, "Eltwise", {"a": a, "b": b, "y": y}, dims, numbers, defines, ProfileInfo(y.shape)
    )


def _operands(builder: Builder, node: Node, out: tuple[int, ...]) -> list[Value]:
    """Reads both operands; if one of the output's shape lies in NHWC, all of that shape are read in NHWC."""
    wide = [name for name in node.inputs if builder.is_activation(name) and builder.graph.shape(name) == out]
    if len(out) == 4 and any(builder.home(name).storage == Storage.NHWC for name in wide):
        return [builder.read(n, Storage.NHWC) if n in wide else builder.read_any(n) for n in node.inputs]
    return [builder.read_any(name) for name in node.inputs]


def strides_in(operand: Value, out: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an operand along the axes of a result, 0 where it repeats."""
    return tuple(broadcast_strides(operand.shape, operand.strides, len(out), out))


def nest_dims(node: Node, shape: tuple[int, ...], operands: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The extents of the loops over a shape, and the strides of each operand along them."""
    extents, strides = loop_nest(shape, list(operands.values()))
    if len(extents) > NEST_RANK:
        raise node_error(node, f"operands that need {len(extents)} nested loops; {NEST_RANK} are supported")
    dims = {f"d{i}": v for i, v in enumerate(padded(extents, NEST_RANK, 1))}
    for prefix, own in zip(operands, strides, strict=True):
        dims |= {f"{prefix}{i}": v for i, v in enumerate(padded(own, NEST_RANK, 0))}
    return dims


BUFFER_LOWERINGS = {**dict.fromkeys(UNARY, lower_unary), **dict.fromkeys(BINARY, lower_binary)}


def unary_on_images(builder: Builder, node: Node) -> str:
    """Lowers a function of each element."""
    dims = extents(builder.graph.shape(node.output))
    return emit(builder, node, "unary", node.op, dims, unary_numbers(node), {"UNARY": int(UNARY[node.op])})


def binary_on_images(builder: Builder, node: Node) -> str:
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


IMAGE_LOWERINGS = {**dict.fromkeys(UNARY, unary_on_images), **dict.fromkeys(BINARY, binary_on_images)}


OPBENCH_CASES = (
    dataclasses.replace(sized("Relu", IMAGE), conversions=True),
    sized("HardSwish", IMAGE),
    sized("Gelu", IMAGE),
    sized("Sigmoid", IMAGE),
    sized("Add", IMAGE, IMAGE),
    sized("Mul", IMAGE, (1, 64, 1, 1), detail="1x64x1x1"),
    in_bytes(sized("HardSwish", IMAGE)),
    in_bytes(sized("Add", IMAGE, IMAGE)),
)
