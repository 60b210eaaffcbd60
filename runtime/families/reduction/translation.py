"""How reductions are lowered to buffers, images and blocks of channels, and at which sizes measured."""

from collections.abc import Sequence

from runtime.families.pooling.definition import BLOCKED_GLOBAL_POOL
from runtime.families.pooling.translation import emit_bytes
from runtime.families.reduction.definition import REDUCTIONS
from runtime.graph import Graph, Node
from runtime.kernels.codes import Pooling, Reduce
from runtime.layout.blocked import is_blocked_row_major
from runtime.lowering.blocks import BlockedOperator, QuantizedOperator
from runtime.lowering.builder import Builder
from runtime.lowering.images import emit, extents
from runtime.lowering.iteration import reduced_loops
from runtime.lowering.value import Value, row_major
from runtime.operators.case import sized
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


def _on_buffers(builder: Builder, node: Node) -> None:
    """Lowers a mean, sum, maximum or minimum over some axes; rearranges them first where they make no three loops."""
    axes = node.attrs["axes"] or tuple(range(len(builder.graph.shape(node.inputs[0]))))
    x = builder.read_any(node.inputs[0])
    outer_axes = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    y = builder.write(node.output, x.storage if node.attrs["keepdims"] else Storage.FLAT)
    y_strides = _kept_strides(y, outer_axes, node.attrs["keepdims"])
    loops = reduced_loops(x, outer_axes, axes, y_strides)
    if loops is None:
        x = _rearranged(builder, node, x, (*outer_axes, *axes))
        outer_axes, axes = tuple(range(len(outer_axes))), tuple(range(len(outer_axes), len(x.shape)))
        loops = reduced_loops(x, outer_axes, axes, row_major(tuple(x.shape[axis] for axis in outer_axes)))
        y = builder.write(node.output, Storage.FLAT)
    assert loops is not None  # row-major, reduced axes last: always three loops
    outer, reduced, inner = loops
    dims = {"outer": outer[0], "reduced": reduced[0], "inner": inner[0]}
    dims |= {"x_outer_stride": outer[1], "x_reduced_stride": reduced[1], "x_inner_stride": inner[1]}
    dims |= {"y_outer_stride": outer[2], "y_inner_stride": inner[2]}
    kind = Reduce[node.op.removeprefix("Reduce").upper()]
    op = "Pooling" if tuple(axes) == (2, 3) and x.storage == Storage.NHWC else "Reduce"
    builder.launch(
        "reduce", node.name, op, {"x": x, "y": y}, dims, defines={"REDUCE": int(kind)}, shown=ProfileInfo(y.shape)
    )


def _kept_strides(y: Value, axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    return tuple(y.strides[axis] for axis in axes) if keepdims else y.strides


def _rearranged(builder: Builder, node: Node, x: Value, order: tuple[int, ...]) -> Value:
    """Emits a copy of `x` that is row-major with its axes in the given order, and returns it."""
    shape = tuple(x.shape[axis] for axis in order)
    copy = Value(f"{node.name}:arranged", shape, Storage.FLAT, x.element)
    source = tuple(x.strides[axis] for axis in order)
    builder.strided_copy(copy.name, "Transpose", x, copy, shape, source, copy.strides, note="axes rearranged to reduce")
    return copy


def _on_images(builder: Builder, node: Node) -> str:
    """Lowers a reduction of height and width, which stay as axes of size 1."""
    if tuple(node.attrs["axes"]) != (2, 3) or not node.attrs["keepdims"]:
        return f"reduction of axes {node.attrs['axes']}; images reduce height and width, kept"
    kind = Reduce[node.op.removeprefix("Reduce").upper()]
    dims = extents(builder.graph.shape(node.inputs[0]))
    return emit(builder, node, "reduce", "Pooling", dims, defines={"REDUCE": int(kind)})


def _is_global(graph: Graph, node: Node, block: int) -> bool:
    return len(graph.shape(node.inputs[0])) == 4 and node.attrs["axes"] == (2, 3)


def _on_blocks(builder: Builder, node: Node) -> None:
    """Emits the mean of each channel; its result is row-major, which single pixels in blocks are, too."""
    x, shape = builder.read(node.inputs[0], Storage.BLOCKED), builder.graph.shape(node.output)
    blocked = len(shape) == 4 and is_blocked_row_major(shape, builder.block)
    y = builder.write(node.output, Storage.BLOCKED if blocked else Storage.FLAT)
    dims = dict(zip(("batch", "channels", "in_h", "in_w"), x.shape, strict=True))
    defines, shown = {"BLOCK": builder.block}, ProfileInfo(y.shape)
    builder.launch(BLOCKED_GLOBAL_POOL, node.name, "Pooling", {"x": x, "y": y}, dims, None, defines, shown)


def _serves_bytes(builder: Builder, node: Node) -> bool:
    return _is_global(builder.graph, node, builder.block) and node.attrs["keepdims"]


def _on_bytes(builder: Builder, node: Node) -> None:
    """Emits a pool whose window is the image."""
    batch, channels, height, width = builder.graph.shape(node.inputs[0])
    dims = {"batch": batch, "channels": channels, "in_h": height, "in_w": width, "k_h": height, "k_w": width}
    dims |= {**dict.fromkeys(("out_h", "out_w", "stride_h", "stride_w", "dil_h", "dil_w"), 1), "pad_t": 0, "pad_l": 0}
    kind = Pooling.MAX if node.op == "ReduceMax" else Pooling.AVERAGE
    emit_bytes(builder, node, kind, dims | {"count_include_pad": 0}, ProfileInfo(builder.graph.shape(node.output)))


BUFFER_LOWERINGS = dict.fromkeys(REDUCTIONS, _on_buffers)
IMAGE_LOWERINGS = dict.fromkeys(REDUCTIONS, _on_images)
BLOCKED_OPERATORS = {"ReduceMean": BlockedOperator(_is_global, _on_blocks)}
QUANTIZED_OPERATORS = dict.fromkeys(("ReduceMean", "ReduceMax"), QuantizedOperator(_serves_bytes, _on_bytes))
BYTE_OPERATORS = QUANTIZED_OPERATORS
OPBENCH_CASES = (sized("ReduceMean", (1, 1024, 7, 7), axes=(2, 3), keepdims=True),)
