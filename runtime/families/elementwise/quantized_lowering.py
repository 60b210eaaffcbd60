"""Lowers element-wise operators on activations of eight bits in blocks.

Any function of one tensor, or of one and a number, is a table of what becomes of each byte.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from runtime.families.elementwise.block_kernels import QUANTIZED_BINARY, QUANTIZED_LOOKUP
from runtime.families.elementwise.definition import ACTIVATIONS, BINARY, COMPUTE, UNARY
from runtime.families.elementwise.translation import nest_dims, strides_in
from runtime.graph import Array, Node
from runtime.kernels.codes import BYTES_FIXED, INPUT_IN_BYTES, OUTPUT_IN_BYTES, Binary
from runtime.layout.blocked import blocked_shape
from runtime.lowering.blocks import QuantizedOperator
from runtime.lowering.builder import IMAGE_RANK, Builder
from runtime.lowering.value import Steps, Value, byte_bounds
from runtime.oracle.fixed_point import computed, fixed_point_of, product_factor, sum_factors
from runtime.plan.plan import ProfileInfo
from runtime.semantics.quantization import EIGHT_BITS
from runtime.types import ElementType, Storage

_NUMBERS = ("multiplier", "shift")
_SIGNS = {"Add": 1.0, "Sub": -1.0, "Mul": 1.0}


def emit_lookup(builder: Builder, name: str, op: str, x: Value, y: Value, table: Array, images: int = 0) -> None:
    """Emits a step that writes what a table has of each byte; `images`: elements from one image of y to the next."""
    if x.storage != Storage.BLOCKED:
        builder.look_up(name, op, x, y, table)
        return
    batch, blocks, *sizes = blocked_shape(x.shape, builder.block)
    each = blocks * math.prod(sizes)
    dims = {"runs": batch, "pixels": each // builder.block, "x_stride": each, "y_stride": images or each}
    bytes_of = Value(f"{name}:table", (256,), Storage.FLAT, ElementType.U8, data=table)
    tensors, shown = {"x": x, "table": bytes_of, "y": y}, ProfileInfo(x.shape)
    builder.launch(QUANTIZED_LOOKUP, name, op, tensors, dims, None, {"BLOCK": builder.block}, shown, "eight bits")


def requantized(builder: Builder, name: str, x: Value, steps: Steps) -> Value:
    """A tensor in other steps; the same where they are its own."""
    if x.steps == steps:
        return x
    y = Value(f"{name}:steps", x.shape, Storage.BLOCKED, ElementType.U8, block=x.block, steps=steps)
    emit_lookup(builder, y.name, "Quantize", x, y, steps_table(x, steps))
    return y


def steps_table(x: Value, steps: Steps) -> Array:
    """The bytes in other steps of all bytes of a tensor."""
    assert x.steps is not None
    return nearest_bytes(x.steps.reals(), steps)


def nearest_bytes(reals: Array, steps: Steps) -> Array:
    """The bytes of the nearest steps of real values; of a NaN those of zero."""
    whole = np.rint(np.nan_to_num(reals.astype(np.float64)) / steps.step) + steps.zero
    return np.asarray(np.clip(whole, 0, 255), np.uint8)


def _is_image(builder: Builder, node: Node) -> bool:
    return len(builder.graph.shape(node.output)) == IMAGE_RANK


def _always(builder: Builder, node: Node) -> bool:
    return True


def _has_table(builder: Builder, node: Node) -> bool:
    """Whether the result depends on one element of one tensor, and numbers."""
    graph = builder.graph
    given = [name for name in node.inputs if not graph.is_constant(name)]
    numbers = (graph.constants[name].size == 1 for name in node.inputs if graph.is_constant(name))
    is_same = len(given) == 1 and graph.shape(given[0]) == graph.shape(node.output)
    return is_same and all(numbers)


def _lower_function(builder: Builder, node: Node) -> None:
    graph = builder.graph
    (name,) = (name for name in node.inputs if not graph.is_constant(name))
    x, y = builder.read_bytes(name), builder.write_bytes(builder.result(node))
    assert x.steps and y.steps
    given = x.steps.reals()
    arguments = [graph.constants[each].reshape(()) if graph.is_constant(each) else given for each in node.inputs]
    reals = computed(graph, node, arguments)
    if reals is None:
        reals = _function_of(node, arguments)
    emit_lookup(builder, node.name, node.op, x, y, nearest_bytes(reals, y.steps))


def _function_of(node: Node, arguments: Sequence[Array]) -> Array:
    with np.errstate(all="ignore"):
        return ACTIVATIONS[node.attrs.get("activation", "none")](COMPUTE[node.op](arguments, node.attrs), node.attrs)


def _lower_rounding(builder: Builder, node: Node) -> None:
    """What rounds floats is a conversion."""
    source = builder.home(node.inputs[0])
    if source.steps:
        _lower_function(builder, node)
    else:
        y = builder.write_bytes(node.output)
        if source.shape != y.shape:
            source = Value(source.name, y.shape, source.storage, source.element, 0, source)
        builder.convert(node.name, source, y, f"{source.storage.name} -> eight bits")


def _serves_binary(builder: Builder, node: Node) -> bool:
    """Two tensors of one shape, or one with a number for each channel of each image; or a table."""
    graph, out = builder.graph, builder.graph.shape(node.output)
    if node.attrs.get("activation", "fake_quantize") != "fake_quantize":
        return False
    if _has_table(builder, node):
        return True
    shapes = [graph.shape(name) for name in node.inputs]
    are_rows = builder.target.memory == "cpu" and len(out) != IMAGE_RANK and out[-1] % builder.block == 0
    fits = all(shape in (out, (*out[:2], 1, 1)) for shape in shapes)
    are_given = not any(graph.is_constant(name) for name in node.inputs)
    return node.op in _SIGNS and (are_rows or _is_image(builder, node)) and are_given and fits and out in shapes


def _lower_binary(builder: Builder, node: Node) -> None:
    if _has_table(builder, node):
        _lower_function(builder, node)
        return
    out, signs = builder.graph.shape(node.output), (1.0, _SIGNS[node.op])
    wide_first = sorted(zip(node.inputs, signs, strict=True), key=lambda each: builder.graph.shape(each[0]) != out)
    y, (a, b) = builder.write_bytes(builder.result(node)), (builder.read_bytes(name) for name, _ in wide_first)
    assert a.steps and b.steps and y.steps
    scales = [sign * x.steps.step for x, (_, sign) in zip((a, b), wide_first, strict=True) if x.steps]
    divisors = (y.steps.step, 1.0 if node.op == "Mul" else y.steps.step)
    numbers = {f"{name}_scale": scale / by for name, scale, by in zip("ab", scales, divisors, strict=True)}
    numbers |= {"a_zero": float(a.steps.zero), "b_zero": float(b.steps.zero)}
    defines = {"BINARY": int(Binary.MUL if node.op == "Mul" else Binary.ADD)}
    is_fixed, factors = _fixed(builder, node, [name for name, _ in wide_first] != node.inputs)
    if builder.target.memory != "cpu":
        operands, bounds = {"a": a, "b": b, "y": y}, byte_bounds(y.steps, "act_a act_b")
        dims = nest_dims(node, out, {"as": strides_in(a, out), "bs": strides_in(b, out), "ys": y.strides})
        dims |= factors
        defines["BYTES"] = INPUT_IN_BYTES | OUTPUT_IN_BYTES | BYTES_FIXED * is_fixed
        shown = ProfileInfo(out)
        builder.launch(
            "binary_bytes", node.name, "Eltwise", operands, dims, numbers | bounds, defines, shown, "eight bits"
        )
        return
    numbers |= byte_bounds(y.steps, "low high")
    batch, blocks, height, width, _ = blocked_shape(y.shape, builder.block)
    dims = {"planes": batch * blocks, "pixels": height * width, "b_pixels": b.shape[2] * b.shape[3]}
    if len(out) != IMAGE_RANK:  # rows, which follow each other
        dims = dict.fromkeys(("pixels", "b_pixels"), batch * blocks) | {"planes": 1}
    dims |= factors | {"fixed": int(is_fixed)}
    defines |= {"BLOCK": builder.block}
    tensors, shown = {"a": a, "b": b, "y": y}, ProfileInfo(out)
    builder.launch(QUANTIZED_BINARY, node.name, "Eltwise", tensors, dims, numbers, defines, shown, "eight bits")


def _fixed(builder: Builder, node: Node, is_swapped: bool) -> tuple[bool, dict[str, int]]:
    """Whether a sum or a product is rounded by fixed point, and the ints of a kernel that tell how."""
    found = fixed_point_of(builder.graph, node)
    none = np.zeros((), np.int64)
    each = [(none, none)] * 3
    if found:
        each = [*each[:2], product_factor(found)] if node.op == "Mul" else sum_factors(found)
    names = ("b", "a", "y") if is_swapped else ("a", "b", "y")
    numbers = zip(names, each, strict=True)
    ints = {f"{name}_{what}": int(one) for name, both in numbers for what, one in zip(_NUMBERS, both, strict=True)}
    return found is not None, ints


def _pays_binary(builder: Builder, node: Node) -> bool:
    """Whether one of two operands in rows is worth to be brought into bytes: where the other is a product's result."""
    graph = builder.graph
    known = [graph.tensors[name].quantization for name in node.inputs]
    are_known = all(each is not None and each.is_whole and each.integers in EIGHT_BITS for each in known)
    if _is_image(builder, node) or not are_known:
        return False
    writers = [graph.producer(name) for name in node.inputs]
    before = [graph.producer(each.inputs[0]) if each and each.op == "Reshape" else each for each in writers]
    return any(each is not None and each.op == "FullyConnected" for each in before)


QUANTIZED_OPERATORS = {
    **dict.fromkeys(UNARY.keys() - {"FakeQuantize"}, QuantizedOperator(_has_table, _lower_function)),
    **dict.fromkeys(BINARY, QuantizedOperator(_serves_binary, _lower_binary, _pays_binary)),
    "FakeQuantize": QuantizedOperator(_always, _lower_rounding, _always),
}
BYTE_OPERATORS = QUANTIZED_OPERATORS
