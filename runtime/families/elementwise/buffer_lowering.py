"""Lowers element-wise operators of one and two tensors, in whatever buffer storage their inputs have."""

from __future__ import annotations

from runtime.families.elementwise.node import BINARY, UNARY, unary_numbers
from runtime.graph import Node
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder, node_error
from runtime.lowering.iteration import broadcast_strides, loop_nest, padded
from runtime.lowering.value import Value
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

_RANK = 4


def lower_unary(builder: Builder, node: Node) -> None:
    """Emits an operator of one tensor; the output gets the input's storage."""
    x = builder.read_any(node.inputs[0])
    y = builder.write(node.output, x.storage)
    extents, (xs, ys) = _nest(node, x.shape, [x.strides, y.strides])
    dims = _dims(extents, {"xs": xs, "ys": ys})
    defines = {"UNARY": int(UNARY[node.op])}
    numbers = unary_numbers(node)
    builder.launch("unary", node.name, node.op, {"x": x, "y": y}, dims, numbers, defines, ProfileInfo(y.shape))


def lower_binary(builder: Builder, node: Node) -> None:
    """Emits an operator of two tensors; the output is NHWC where it has 4 axes and an operand is NHWC, else flat."""
    out = builder.graph.shape(node.output)
    a, b = _operands(builder, node, out)
    storage = Storage.NHWC if len(out) == 4 and Storage.NHWC in (a.storage, b.storage) else Storage.FLAT
    y = builder.write(node.output, storage)
    steps = [broadcast_strides(v.shape, v.strides, len(out), out) for v in (a, b)]
    extents, (as_, bs, ys) = _nest(node, out, [*steps, y.strides])
    dims = _dims(extents, {"as": as_, "bs": bs, "ys": ys})
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


def _nest(node: Node, shape: tuple[int, ...], operands: list[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    extents, strides = loop_nest(shape, operands)
    if len(extents) > _RANK:
        raise node_error(node, f"operands that need {len(extents)} nested loops; {_RANK} are supported")
    return extents, strides


def _dims(extents: list[int], operands: dict[str, list[int]]) -> dict[str, int]:
    dims = {f"d{i}": v for i, v in enumerate(padded(extents, _RANK, 1))}
    for prefix, strides in operands.items():
        dims |= {f"{prefix}{i}": v for i, v in enumerate(padded(strides, _RANK, 0))}
    return dims


BUFFER_LOWERINGS = {**dict.fromkeys(UNARY, lower_unary), **dict.fromkeys(BINARY, lower_binary)}
