"""MaxPool, AveragePool, LpPool and the global pools.

Global pooling, and an average over the whole image, become ReduceMean and ReduceMax. Greatest elements over three axes
are found over two, then over one. Other windows over other than two axes, with dilation, or of other element types than
float32 are strided reductions.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from runtime.errors import ModelError
from runtime.exporters.onnx_writing import OnnxWriting, Writer
from runtime.graph import Node
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.importers.windows import Windows, read_windows
from runtime.semantics.generic import Shape, row_major_strides

_GLOBAL = {"axes": (2, 3), "keepdims": True}


def _max_pool(node: OnnxNode, builder: GraphBuilder) -> None:
    x, windows = node.input(0), _windows(node, builder)
    order = node.integer("storage_order", 0)
    wants_places = len(node.outputs) > 1 and bool(node.outputs[1])
    if _has_kernel(builder, x, windows):
        attributes = {"kernel": windows.kernel, "strides": windows.strides, "pads": windows.pads}
        builder.emit(node, "MaxPool", [x], attributes, node.output)
    elif len(windows.kernel) == 3 and builder.dtype(x) == np.float32 and windows.dilations == (1, 1, 1):
        _spatial_maximum(node, builder, x, windows)
    else:
        _reduced(node, builder, x, windows, "max", node.output)
    if wants_places:
        _places(node, builder, windows, order)


def _has_kernel(builder: GraphBuilder, x: str, windows: Windows) -> bool:
    return len(windows.kernel) == 2 and builder.dtype(x) == np.float32 and windows.dilations == (1, 1)


def _spatial_maximum(node: OnnxNode, builder: GraphBuilder, x: str, windows: Windows) -> None:
    """Windows within each frame, then along the frames."""
    emit, (batch, channels, frames, *size) = Emitter(node, builder), builder.shape(x)
    out, (before, top, left, behind, bottom, right) = windows.outputs((frames, *size)), windows.pads
    within: dict[str, Any] = {
        "kernel": windows.kernel[1:],
        "strides": windows.strides[1:],
        "pads": (top, left, bottom, right),
    }
    along: dict[str, Any] = {
        "kernel": (windows.kernel[0], 1),
        "strides": (windows.strides[0], 1),
        "pads": (before, 0, behind, 0),
    }
    x = emit.op("MaxPool", emit.reshape(x, (batch, channels * frames, *size)), **within)
    x = emit.op("MaxPool", emit.reshape(x, (batch, channels, frames, math.prod(out[1:]))), **along)
    emit.reshape(x, (batch, channels, *out), node.output)


def _lowest(dtype: np.dtype[Any]) -> float:
    return -math.inf if dtype.kind == "f" else float(np.iinfo(dtype).min)


def _padded(emit: Emitter, x: str, windows: Windows, value: float) -> str:
    shape, rank = emit.shape(x), len(windows.kernel)
    if not any(windows.pads):
        return x
    wide = (*shape[:2], *windows.padded(shape[2:]))
    starts = (0, 0, *windows.pads[:rank])
    return emit.op("Embedding", x, shape=wide, starts=starts, steps=(1,) * (rank + 2), value=value)


def _reduced(
    node: OnnxNode, builder: GraphBuilder, x: str, windows: Windows, function: str, output: str | None = None
) -> str:
    """A reduction of each window; outside of the image stands what changes nothing."""
    emit = Emitter(node, builder)
    out = windows.outputs(builder.shape(x)[2:])
    is_sum = function == "sum"
    x = _padded(emit, x, windows, 0.0 if is_sum else _lowest(builder.dtype(x)))
    shape = builder.shape(x)
    between, within = windows.strides_in(shape)
    attributes = {
        "function": function,
        "dtype": "int64" if function.startswith("arg") else builder.dtype(x).name,
        "shape": (*shape[:2], *out),
        "window": windows.kernel,
        "strides": (*row_major_strides(shape)[:2], *between, *within),
        "offset": 0,
    }
    return builder.emit(node, "StridedReduction", [x], attributes, output)


def _places(node: OnnxNode, builder: GraphBuilder, windows: Windows, order: int) -> None:
    """Where in the whole input the greatest stands: the window's place, and the place in the window by a table."""
    emit, x = Emitter(node, builder), node.input(0)
    shape = builder.shape(x)
    rank, out = len(windows.kernel), windows.outputs(shape[2:])
    steps: Shape = row_major_strides(shape)
    if order:
        steps = (*steps[:2], *(math.prod(shape[2 : 2 + axis]) for axis in range(rank)))
    table = [
        sum(at * step * dilation for at, step, dilation in zip(place, steps[2:], windows.dilations, strict=True))
        for place in itertools.product(*map(range, windows.kernel))
    ]
    base = np.zeros((*shape[:2], *out), np.int64)
    for axis in range(rank + 2):
        first = np.arange(base.shape[axis])
        if axis >= 2:
            first = first * windows.strides[axis - 2] - windows.pads[axis - 2]
        base += (first * steps[axis]).reshape([-1 if at == axis else 1 for at in range(rank + 2)])
    chosen = _reduced(node, builder, x, windows, "arg_max")
    attributes = {
        "shape": base.shape,
        "strides": (0,) * base.ndim,
        "index_strides": row_major_strides(base.shape),
        "component_stride": 0,
        "limits": (len(table),),
        "limit_strides": (1,),
    }
    within = builder.emit(node, "IndexedRead", [emit.constant(np.asarray(table), dtype="int64"), chosen], attributes)
    emit.op("Add", emit.constant(base, dtype="int64"), within, output=node.outputs[1])


def _average_pool(node: OnnxNode, builder: GraphBuilder) -> None:
    x, include = node.input(0), bool(node.integer("count_include_pad", 0))
    windows = _windows(node, builder)
    if not _has_kernel(builder, x, windows):
        _average(node, builder, x, windows, include)
        return
    pads, excess = windows.declared, windows.excess
    if include and any(excess):
        # The divisor counts the model's padding, but not the rows that only ceil_mode reads.
        before, after = (0, 0, *pads[:2]), (0, 0, *pads[2:])
        x = builder.emit(node, "Pad", [x], {"pads": (*before, *after), "value": 0.0, "mode": "constant"})
        pads, include = (0, 0, 0, 0), False
    pads = (*pads[:2], pads[2] + excess[0], pads[3] + excess[1])
    if windows.kernel == builder.shape(x)[2:] and not any(pads):
        builder.emit(node, "ReduceMean", [x], _GLOBAL, node.output)
        return
    attributes = {
        "kernel": windows.kernel,
        "strides": windows.strides,
        "pads": pads,
        "count_include_pad": include and any(pads),
    }
    builder.emit(node, "AveragePool", [x], attributes, node.output)


def _average(node: OnnxNode, builder: GraphBuilder, x: str, windows: Windows, include: bool) -> None:
    """Sums over the windows, divided by how many elements of each count."""
    emit, shape = Emitter(node, builder), builder.shape(x)
    rank = len(windows.kernel)
    divisor = np.ones((), np.int64)
    for axis, out in enumerate(windows.outputs(shape[2:])):
        begin, end = windows.declared[axis], windows.declared[axis + rank]
        low, high = (0, shape[2 + axis] + begin + end) if include else (begin, begin + shape[2 + axis])
        starts = np.arange(out) * windows.strides[axis]
        taps = starts[:, None] + np.arange(windows.kernel[axis]) * windows.dilations[axis]
        counted = ((taps >= low) & (taps < high)).sum(axis=1)
        divisor = divisor[..., None] * counted
    sums = _reduced(node, builder, x, windows, "sum")
    emit.op("Div", sums, emit.constant(divisor), output=node.output)


def _lp_pool(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x, windows = Emitter(node, builder), node.input(0), _windows(node, builder)
    order = float(node.integer("p", 2))
    powers = emit.op("Pow", emit.op("Abs", x), emit.constant(order))
    sums = _reduced(node, builder, powers, windows, "sum")
    emit.op("Pow", sums, emit.constant(1 / order), output=node.output)


def _windows(node: OnnxNode, builder: GraphBuilder) -> Windows:
    shape = builder.shape(node.input(0))
    if len(shape) < 3:
        raise node.unsupported("input shape", shape, "one spatial axis or more")
    kernel = node.integers("kernel_shape")
    if min(kernel, default=1) < 1:
        raise ModelError(f"{node}: kernel_shape is {list(kernel)}; at least 1 is needed")
    return read_windows(node, shape[2:], kernel)


def _global(op: str) -> Handler:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        axes = tuple(range(2, len(builder.shape(node.input(0)))))
        builder.emit(node, op, [node.input(0)], {"axes": axes, "keepdims": True}, node.output)

    return handle


def _global_lp(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x, order = Emitter(node, builder), node.input(0), float(node.integer("p", 2))
    axes = tuple(range(2, len(builder.shape(x))))
    powers = emit.op("Pow", emit.op("Abs", x), emit.constant(order))
    sums = emit.op("ReduceSum", powers, axes=axes, keepdims=True)
    emit.op("Pow", sums, emit.constant(1 / order), output=node.output)


HANDLERS: Mapping[str, Handler] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global("ReduceMean"),
    "GlobalMaxPool": _global("ReduceMax"),
    "GlobalLpPool": _global_lp,
}


def _write_pool(writing: OnnxWriting, node: Node) -> onnx.NodeProto:
    attributes = {name: value for name, value in node.attrs.items() if name != "kernel"}
    if "count_include_pad" in attributes:
        attributes["count_include_pad"] = int(attributes["count_include_pad"])
    return writing.plain(node, node.op, node.inputs, kernel_shape=node.attrs["kernel"], **attributes)


WRITERS: Mapping[str, Writer] = dict.fromkeys(("MaxPool", "AveragePool"), _write_pool)
