"""Lowers element-wise operators on blocked activations: on all lanes, those without a channel too."""

import math

from runtime.families.elementwise.translation import BINARY, UNARY, unary_numbers
from runtime.graph import Graph, Node
from runtime.layout.arrangement import Shape
from runtime.layout.blocked import blocked_shape
from runtime.lowering.activation import activation_code
from runtime.lowering.blocks import BlockedOperator, any_image
from runtime.lowering.builder import Builder
from runtime.lowering.iteration import loop_nest, padded
from runtime.lowering.value import Value, row_major
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

_RANK = 4  # loops of the kernels


def lower_unary(builder: Builder, node: Node) -> None:
    """Emits an operator of one tensor."""
    x, y = builder.read(node.inputs[0], Storage.BLOCKED), builder.write(node.output, Storage.BLOCKED)
    count = math.prod(blocked_shape(y.shape, builder.block))
    dims = {f"{prefix}{axis}": 0 for prefix in ("xs", "ys") for axis in range(_RANK - 1)}
    dims |= {f"d{axis}": 1 for axis in range(_RANK - 1)} | {"d3": count, "xs3": 1, "ys3": 1}
    defines, numbers = {"UNARY": int(UNARY[node.op])}, unary_numbers(node)
    builder.launch("unary", node.name, node.op, {"x": x, "y": y}, dims, numbers, defines, ProfileInfo(y.shape))


def fits_binary(graph: Graph, node: Node, block: int) -> bool:
    """Operands of all channels or of one, that need no more loops than the kernel has."""
    out = graph.shape(node.output)
    if len(out) != 4 or not all(_fits_operand(graph, name, out) for name in node.inputs):
        return False
    return len(_loops(graph, node, block)[0]) <= _RANK


def _fits_operand(graph: Graph, name: str, out: Shape) -> bool:
    shape = graph.shape(name)
    return (_is_blocked(shape, out) and (len(shape) == 4 or graph.is_constant(name))) or _image(shape)[1] == 1


def _image(shape: Shape) -> Shape:
    """A shape with as many axes of one element before it as make four."""
    return (1,) * (4 - len(shape)) + tuple(shape)


def _is_blocked(shape: Shape, out: Shape) -> bool:
    """Whether an operand is read in blocks: it has the channels of the result, not one for all of them."""
    return _image(shape)[1] == out[1] and (out[1] > 1 or shape == out)


def _loops(graph: Graph, node: Node, block: int) -> tuple[list[int], list[list[int]]]:
    """Extents and strides of both operands and the result, merged."""
    out = graph.shape(node.output)
    strides = [_strides(graph.shape(name), out, block) for name in node.inputs]
    return loop_nest(blocked_shape(out, block), [*strides, row_major(blocked_shape(out, block))])


def _strides(shape: Shape, out: Shape, block: int) -> tuple[int, ...]:
    """Strides of an operand along batch, blocks, height, width and lanes of the result; 0 where it repeats."""
    image = _image(shape)
    if _is_blocked(shape, out):
        steps = row_major(blocked_shape(image, block))
    else:
        batch, _, height, width = row_major(image)
        steps = (batch, 0, height, width, 0)
    n, _, h, w = (size == 1 and wide > 1 for size, wide in zip(image, out, strict=True))
    return tuple(0 if repeats else step for step, repeats in zip(steps, (n, False, h, w, False), strict=True))


def lower_binary(builder: Builder, node: Node) -> None:
    """Emits an operator of two tensors, of which one may be a number for each channel, pixel or image."""
    a, b = (_operand(builder, node, name) for name in node.inputs)
    y = builder.write(node.output, Storage.BLOCKED)
    extents, strides = _loops(builder.graph, node, builder.block)
    dims = {f"d{axis}": size for axis, size in enumerate(padded(extents, _RANK, 1))}
    for prefix, steps in zip(("as", "bs", "ys"), strides, strict=True):
        dims |= {f"{prefix}{axis}": step for axis, step in enumerate(padded(steps, _RANK, 0))}
    code, numbers = activation_code(node.attrs)
    defines, tensors = {"BINARY": int(BINARY[node.op]), "ACTIVATION": code}, {"a": a, "b": b, "y": y}
    builder.launch("binary", node.name, "Eltwise", tensors, dims, numbers, defines, ProfileInfo(y.shape))


def _operand(builder: Builder, node: Node, name: str) -> Value:
    graph = builder.graph
    shape = graph.shape(name)
    if not _is_blocked(shape, graph.shape(node.output)):
        return builder.read(name, Storage.FLAT)
    if graph.is_constant(name):
        return builder.constant_blocked(name, graph.constants[name].reshape(_image(shape)))
    return builder.read(name, Storage.BLOCKED)


BLOCKED_OPERATORS = {
    **dict.fromkeys(UNARY, BlockedOperator(any_image, lower_unary)),
    **dict.fromkeys(BINARY, BlockedOperator(fits_binary, lower_binary)),
}
