"""Generic operators (runtime/semantics/generic.py) become steps of farmrt's CPU operators on strided views.

In a plan for a GPU such a step works on mapped memory, between the launches; an IndexedRead of floats is a launch, and
so are functions of elements and copies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from runtime.families.matrix.buffer_lowering import emit_product
from runtime.families.strided.buffer_kernels import NEST_LOOPS
from runtime.families.strided.strided_kernels import COMPONENTS
from runtime.graph import Node
from runtime.kernels.spec import MemoryType
from runtime.kernels.strided import KEPT, LOOPS
from runtime.lowering.builder import Builder, node_error
from runtime.lowering.iteration import merge_axes, padded
from runtime.lowering.large_weights import too_large
from runtime.lowering.value import Value
from runtime.plan.plan import ProfileInfo
from runtime.semantics.functions import CumulationFunction, ElementFunction, ReductionFunction, UpdateFunction
from runtime.semantics.generic import broadcast_view, row_major_strides
from runtime.types import ElementType, Storage

Strides = Sequence[int]
Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor argument of a strided step: the memory, and its strides along the step's loops."""

    value: Value
    strides: Strides


def _loops(node: Node, shape: Sequence[int], views: Sequence[View], loops: int) -> tuple[list[int], list[list[int]]]:
    """Extents and strides, merged and filled up to so many loops."""
    extents, strides = merge_axes(shape, [tuple(view.strides) for view in views])
    if len(extents) > loops:
        raise node_error(node, f"{len(extents)} nested loops; {loops} are supported")
    return padded(extents, loops, 1), [padded(steps, loops, 0) for steps in strides]


def _emit(
    builder: Builder,
    node: Node,
    operator: str,
    head: Mapping[str, int],
    shape: Sequence[int],
    views: Sequence[View],
    floats: Mapping[str, float] | None = None,
    shown: str = "",
) -> None:
    """One launch on a GPU that has a kernel for it, else one step whose loops run over `shape`."""
    if operator.startswith("elements") and _launch_elements(builder, node, head, shape, views, floats, shown):
        return
    extents, strides = _loops(node, shape, views, LOOPS)
    launch_loops(builder, node, operator, head, extents, [view.value for view in views], strides, floats, shown)


# Of these the kernel knows all functions but those that have a meaning for reals alone, bits, powers and shifts.
_TYPES = frozenset(
    getattr(ElementType, name) for name in ("F32", "F16", "I8", "I16", "I32", "I64", "U8", "U16", "BOOL")
)
_REALS = (ElementType.F32, ElementType.F16)
_ON_GPU = frozenset(
    function
    for function in ElementFunction
    if function not in range(ElementFunction.CEIL, ElementFunction.IS_NAN)
    and function not in range(ElementFunction.BIT_AND, ElementFunction.EQUAL)
    and function not in (ElementFunction.BIT_NOT, ElementFunction.POW)
)


def _launch_elements(
    builder: Builder,
    node: Node,
    head: Mapping[str, int],
    shape: Sequence[int],
    views: Sequence[View],
    floats: Mapping[str, float] | None,
    shown: str,
) -> bool:
    """Emits a launch; False, and nothing, where it takes the CPU."""
    function, types = ElementFunction(head["function"]), [view.value.element for view in views]
    known = _TYPES - {each for each in _REALS if each != builder.element}
    if builder.on_cpu or function not in _ON_GPU or not known.issuperset(types):
        return False
    extents, strides = merge_axes(shape, [tuple(view.strides) for view in views])
    if len(extents) > NEST_LOOPS or min(min(steps) for steps in strides) < 0:
        return False
    operands = list(zip((view.value for view in views[:-1]), strides, strict=False))
    operands = operands or [(builder.zeros(1), [0] * len(extents))]
    operands = [*operands, *[operands[-1]] * (3 - len(operands)), (views[-1].value, strides[-1])]
    dims = {f"d{loop}": size for loop, size in enumerate(padded(extents, NEST_LOOPS, 1))}
    for name, (_, steps) in zip("abcy", operands, strict=True):
        dims |= {f"{name}s{loop}": step for loop, step in enumerate(padded(steps, NEST_LOOPS, 0))}
    if builder.has_cpu and builder.refusal("elements", MemoryType.BUFFER, dims):
        return False
    computed = types[1:] if function == ElementFunction.WHERE else types[:-1] or types
    real = function.is_of_reals or not set(_REALS).isdisjoint(computed)
    defines = {"ELEMENT": int(function), "REAL": int(real)}
    defines |= {f"{name.upper()}_TYPE": int(value.element) for name, (value, _) in zip("abcy", operands, strict=True)}
    tensors = {name: value for name, (value, _) in zip("abcy", operands, strict=True)}
    profile = ProfileInfo(views[-1].value.shape)
    builder.launch("elements", node.name, shown or node.op, tensors, dims, floats, defines, profile)
    return True


def launch_loops(
    builder: Builder,
    node: Node,
    operator: str,
    head: Mapping[str, int],
    extents: Sequence[int],
    values: Sequence[Value],
    strides: Sequence[Strides],
    floats: Mapping[str, float] | None = None,
    shown: str = "",
) -> None:
    """One step of these loops, the same for all values."""
    builder.launch_strided(operator, node.name, shown or node.op, values, head, extents, strides, floats)


def _fill(builder: Builder, node: Node, y: Value, number: float) -> None:
    views = [View(y, row_major_strides(y.shape))]
    _emit(
        builder, node, "elements0", {"function": ElementFunction.FILL}, y.shape, views, {"alpha": number, "beta": 0.0}
    )


def _copy(builder: Builder, node: Node, shape: Shape, x: View, y: View) -> None:
    _emit(builder, node, "elements1", {"function": ElementFunction.CAST}, shape, [x, y], {"alpha": 0.0, "beta": 0.0})


def lower_elementwise(builder: Builder, node: Node) -> None:
    """One step."""
    values = [builder.read(name, Storage.FLAT) for name in node.inputs]
    y = builder.write(node.output, Storage.FLAT)
    views = [View(value, broadcast_view(value.shape, y.shape)) for value in values]
    function = ElementFunction[node.attrs["function"].upper()]
    operands = [] if function == ElementFunction.FILL else views
    numbers = {name: node.attrs[name] for name in ("alpha", "beta")}
    views = [*operands, View(y, row_major_strides(y.shape))]
    shown = node.attrs["function"].title().replace("_", "")
    _emit(builder, node, f"elements{len(operands)}", {"function": function}, y.shape, views, numbers, shown)


def lower_strided(builder: Builder, node: Node) -> None:
    """The same memory where its elements lie in order, else a copy."""
    x = builder.read(node.inputs[0], Storage.FLAT)
    shape, strides, offset = (node.attrs[name] for name in ("shape", "strides", "offset"))
    part = Value(node.output, shape, Storage.FLAT, x.element, 0, x, offset)
    dense = row_major_strides(shape)
    if all(size == 1 or step == wanted for size, step, wanted in zip(shape, strides, dense, strict=True)):
        builder.alias(node.output, part)
        return
    y = builder.write(node.output, Storage.FLAT)
    _copy(builder, node, shape, View(x.from_element(offset), strides), View(y, dense))


def lower_embedding(builder: Builder, node: Node) -> None:
    """Fills the wide tensor, then copies the narrow one into it."""
    x = builder.read(node.inputs[0], Storage.FLAT)
    y = builder.write(node.output, Storage.FLAT)
    _fill(builder, node, y, node.attrs["value"])
    strides = row_major_strides(y.shape)
    offset = sum(start * step for start, step in zip(node.attrs["starts"], strides, strict=True))
    steps = [count * step for count, step in zip(node.attrs["steps"], strides, strict=True)]
    _copy(builder, node, x.shape, View(x, row_major_strides(x.shape)), View(y.from_element(offset), steps))


def lower_join(builder: Builder, node: Node) -> None:
    """A copy for each part."""
    y = builder.write(node.output, Storage.FLAT)
    strides, start = row_major_strides(y.shape), 0
    for name in node.inputs:
        x = builder.read(name, Storage.FLAT)
        part = y.from_element(start * strides[node.attrs["axis"]])
        _copy(builder, node, x.shape, View(x, row_major_strides(x.shape)), View(part, strides))
        start += x.shape[node.attrs["axis"]]


def _emit_summing(
    builder: Builder,
    node: Node,
    operator: str,
    head: Mapping[str, int],
    window: Shape,
    inputs: Sequence[View],
    y: Value,
    shown: str,
) -> None:
    """One step whose first loops are the result's, and the others those of a window."""
    rank = len(y.shape)
    kept = [View(view.value, view.strides[:rank]) for view in inputs]
    summed = [View(view.value, view.strides[rank:]) for view in inputs]
    outer, outer_strides = _loops(node, y.shape, [*kept, View(y, row_major_strides(y.shape))], KEPT)
    inner, inner_strides = _loops(node, window, [*summed, View(y, (0,) * len(window))], LOOPS - KEPT)
    strides = [[*a, *b] for a, b in zip(outer_strides, inner_strides, strict=True)]
    strides[-1][KEPT:] = [0] * (LOOPS - KEPT)
    values = [*(view.value for view in inputs), y]
    launch_loops(builder, node, operator, head, [*outer, *inner], values, strides, None, shown)


def lower_reduction(builder: Builder, node: Node) -> None:
    """One step."""
    x = builder.read(node.inputs[0], Storage.FLAT)
    y = builder.write(node.output, Storage.FLAT)
    function = ReductionFunction[node.attrs["function"].upper()]
    view = View(x.from_element(node.attrs["offset"]), node.attrs["strides"])
    shown = "Reduce" if function < ReductionFunction.ARG_MAX else "Arg"
    _emit_summing(builder, node, "strided_reduction", {"function": function}, node.attrs["window"], [view], y, shown)


def lower_product(builder: Builder, node: Node) -> None:
    """One step: of the kernel for matrices where the loops are theirs."""
    if emit_product(builder, node, node.attrs):
        return
    a, b = (builder.read(name, Storage.FLAT) for name in node.inputs)
    y = builder.write(node.output, Storage.FLAT)
    views = [View(a, node.attrs["a_strides"]), View(b, node.attrs["b_strides"])]
    _emit_summing(builder, node, "strided_product", {}, node.attrs["summed"], views, y, "StridedProduct")


def _axis_last(shape: Shape, axis: int) -> tuple[list[int], list[int]]:
    """Extents with the axis as the last loop, and the order of the axes."""
    order = [*(other for other in range(len(shape)) if other != axis), axis]
    return [shape[other] for other in order], order


def launch_rows(
    builder: Builder, node: Node, operator: str, head: Mapping[str, int], x: Value, y: Value, reverse: bool = False
) -> None:
    """One step that works on the rows of an axis."""
    axis = node.attrs["axis"]
    extents, order = _axis_last(y.shape, axis)
    strides = [[row_major_strides(value.shape)[other] for other in order] for value in (x, y)]
    values = [x, y]
    if reverse:
        values = [
            value.from_element((extents[-1] - 1) * steps[-1]) for value, steps in zip(values, strides, strict=True)
        ]
        strides = [[*steps[:-1], -steps[-1]] for steps in strides]
    outer = [View(value, steps[:-1]) for value, steps in zip(values, strides, strict=True)]
    merged, merged_strides = _loops(node, extents[:-1], outer, LOOPS - 1)
    all_strides = [[*steps, last[-1]] for steps, last in zip(merged_strides, strides, strict=True)]
    launch_loops(builder, node, operator, head, [*merged, extents[-1]], values, all_strides)


def lower_cumulation(builder: Builder, node: Node) -> None:
    """One step; backwards from the end where it is reversed."""
    x = builder.read(node.inputs[0], Storage.FLAT)
    y = builder.write(node.output, Storage.FLAT)
    function = CumulationFunction[node.attrs["function"].upper()]
    head = {"function": function, "exclusive": node.attrs["exclusive"]}
    launch_rows(builder, node, "cumulation", head, x, y, node.attrs["reverse"])


def _index_head(node: Node) -> dict[str, int]:
    limits, strides = node.attrs["limits"], node.attrs["limit_strides"]
    if len(limits) > COMPONENTS:
        raise node_error(node, f"an index of {len(limits)} components; {COMPONENTS} are supported")
    head = {"components": len(limits), "component_stride": node.attrs["component_stride"]}
    for index in range(COMPONENTS):
        used = index < len(limits)
        head[f"limit{index}"], head[f"limit_stride{index}"] = (limits[index], strides[index]) if used else (0, 0)
    return head


def lower_indexed_read(builder: Builder, node: Node) -> None:
    """One launch on a GPU that has a kernel for it, else one step, which reads a table in half as it is."""
    if _emit_gather(builder, node):
        return
    name, table = node.inputs[0], builder.graph.constants.get(node.inputs[0])
    if table is not None and table.dtype == np.float32 and builder.holds_in_half(table):
        x = builder.constant_later(name, table, table.shape, ElementType.F16)
    else:
        x = builder.read(name, Storage.FLAT)
    indices = builder.read(node.inputs[1], Storage.FLAT)
    y = builder.write(node.output, Storage.FLAT)
    views = [View(x, node.attrs["strides"]), View(indices, node.attrs["index_strides"])]
    views.append(View(y, row_major_strides(y.shape)))
    _emit(builder, node, "indexed_read", _index_head(node), y.shape, views)


def _emit_gather(builder: Builder, node: Node) -> bool:
    """Emits a launch that reads floats by one index each; False, and nothing, where it takes the CPU."""
    dims, (x, k) = _gather_dims(node), (builder.graph.tensors[name].dtype for name in node.inputs)
    if dims is None or x != np.float32 or k not in (np.int32, np.int64):
        return False
    refusal = too_large(builder.graph, node, builder.target) or builder.refusal("gather", MemoryType.BUFFER, dims)
    if builder.on_cpu or (builder.has_cpu and refusal):
        return False
    tensors = {argument: builder.read(name, Storage.FLAT) for argument, name in zip("xk", node.inputs, strict=True)}
    tensors["y"] = y = builder.write(node.output, Storage.FLAT)
    is_run = dims["d3"] == 1 or (dims["xs3"], dims["ks3"]) == (1, 0)
    defines = {"INDEX_WORDS": k.itemsize // 4, "RUNS": int(is_run)}
    builder.launch("gather", node.name, node.op, tensors, dims, None, defines, ProfileInfo(y.shape))
    return True


def _gather_dims(node: Node) -> dict[str, int] | None:
    """The loops of a `gather`; None where an index has several components, or loops are more or run backwards."""
    form = node.attrs
    given = [tuple(form[name]) for name in ("strides", "index_strides")]
    extents, strides = merge_axes(form["shape"], [*given, row_major_strides(form["shape"])])
    if (
        len(form["limits"]) != 1
        or len(extents) > NEST_LOOPS
        or min(*form["limit_strides"], *strides[0], *strides[1]) < 0
    ):
        return None
    loops = {"d": padded(extents, NEST_LOOPS, 1)}
    loops |= {name: padded(steps, NEST_LOOPS, 0) for name, steps in zip(("xs", "ks"), strides, strict=False)}
    dims = {f"{name}{loop}": size for name, sizes in loops.items() for loop, size in enumerate(sizes)}
    return dims | {"limit": form["limits"][0], "step": form["limit_strides"][0]}


def lower_indexed_write(builder: Builder, node: Node) -> None:
    """A copy of the tensor, and the updates into it."""
    x, indices, updates = (builder.read(name, Storage.FLAT) for name in node.inputs)
    y = builder.write(node.output, Storage.FLAT)
    dense = row_major_strides(y.shape)
    _copy(builder, node, y.shape, View(x, dense), View(y, dense))
    shape = node.attrs["shape"]
    views = [View(indices, node.attrs["index_strides"]), View(updates, row_major_strides(shape))]
    views.append(View(y, node.attrs["strides"]))
    head = {"function": UpdateFunction[node.attrs["function"].upper()], **_index_head(node)}
    _emit(builder, node, "indexed_write", head, shape, views)


STRIDED_LOWERINGS: dict[str, Callable[[Builder, Node], None]] = {
    "Elementwise": lower_elementwise,
    "Strided": lower_strided,
    "Embedding": lower_embedding,
    "Join": lower_join,
    "StridedReduction": lower_reduction,
    "StridedProduct": lower_product,
    "Cumulation": lower_cumulation,
    "IndexedRead": lower_indexed_read,
    "IndexedWrite": lower_indexed_write,
}
