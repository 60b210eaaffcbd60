"""Lowers users' operators to steps of the CPU, which their C functions compute."""

from __future__ import annotations

import math

import numpy as np

from runtime.custom.binding import MAX_EXTENT, BoundOperator
from runtime.custom.c_kernel import c_kernel
from runtime.custom.declaration import Shape
from runtime.custom.user_code import called
from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Node
from runtime.kernels.spec import ArgumentForm, Variant
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Launch
from runtime.lowering.value import Value
from runtime.operators.table import node_macs
from runtime.plan.plan import ProfileInfo
from runtime.plan.records import StepKind
from runtime.types import ElementType, Storage


def refusal(bound: BoundOperator, node: Node, problem: str) -> UnsupportedError:
    """The error that names node, operator and problem."""
    return UnsupportedError(f"node '{node.name}' ({bound.title}): {problem}")


def shapes_of(builder: Builder, node: Node) -> tuple[list[Shape], Shape]:
    """Shapes of the inputs, () for an absent one, and of the output."""
    return [builder.graph.shape(name) if name else () for name in node.inputs], builder.graph.shape(node.output)


def check_constant(bound: BoundOperator, builder: Builder, node: Node, index: int) -> None:
    """Raises UnsupportedError for an input that must be constant and is not."""
    name, declared = node.input(index), bound.inputs[index]
    if name and declared.constant and not builder.graph.is_constant(name):
        raise refusal(bound, node, f"input {declared.name} ('{name}') is computed at run time; supported: a constant")


def emit_c(bound: BoundOperator, builder: Builder, node: Node, note: str) -> None:
    """A step of the CPU, which has floats in float32 whatever the plan's precision."""
    assert bound.c
    shapes, output = shapes_of(builder, node)
    ints, floats = bound.numbers(bound.c.declared, shapes, output, node.attrs)
    values = []
    for index in range(len(bound.inputs)):
        check_constant(bound, builder, node, index)
        values.append(_read_full(builder, node.input(index)))
    result = builder.write(node.output, Storage.FLAT)
    narrow = result.element == ElementType.F16
    y = Value(node.output, output, Storage.FLAT, ElementType.F32) if narrow else result
    elements = [math.prod(shape) if shape is not None else 0 for shape in (*bound.present(shapes), output)]
    dims = dict(
        zip(c_kernel(bound).ints, [_items(bound, shapes, output, node), *elements, *ints.values()], strict=True)
    )
    builder.launches.append(_c_launch(bound, builder, node, [*values, y], dims, tuple(floats.values()), note))
    if narrow:
        _cast(builder, node.output, y, result)


def _c_launch(
    bound: BoundOperator,
    builder: Builder,
    node: Node,
    values: list[Value],
    dims: dict[str, int],
    floats: tuple[float, ...],
    note: str,
) -> Launch:
    tensors = tuple((value, ArgumentForm.FLAT) for value in values)
    shown, macs = ProfileInfo(output_shape=values[-1].shape), node_macs(builder.graph, node)
    title, why = bound.declared.name, note or builder.note
    return Launch(
        *(node.name, title, c_kernel(bound), StepKind.CPU, Variant(), {}, dims, floats, tensors, ()),
        *(macs, shown, why, "", builder.target.precision),
    )


def _items(bound: BoundOperator, shapes: list[Shape], output: Shape, node: Node) -> int:
    assert bound.c
    if bound.c.declared.items is None:
        return 1
    found = called(f"{bound.title}: items", bound.c.declared.items, bound.present(shapes), output, node.attrs)
    if not isinstance(found, int) or not 1 <= found <= MAX_EXTENT:
        raise ModelError(f"{bound.title}: its function `items` returned {found!r}; expected: an int of at least 1")
    return found


def _read_full(builder: Builder, name: str) -> Value:
    """A tensor row-major, floats in float32."""
    if not name:
        return Value("absent", (1,), Storage.FLAT, ElementType.F32, data=np.zeros(1, np.float32))
    if builder.graph.is_constant(name) and builder.graph.tensors[name].dtype == np.float32:
        data = np.ascontiguousarray(builder.graph.constants[name], np.float32)
        return Value(name, data.shape, Storage.FLAT, ElementType.F32, data=data)
    value = builder.read(name, Storage.FLAT)
    if value.element != ElementType.F16:
        return value
    wide = Value(f"{name}:float32", value.shape, Storage.FLAT, ElementType.F32)
    _cast(builder, name, value, wide)
    return wide


def _cast(builder: Builder, name: str, source: Value, value: Value) -> None:
    """Converts between float16 and float32 on the CPU."""
    builder.cast(f"{name}:cast", "Cast", source, value)
