"""Conv.

A convolution of floats over one or two axes with constant filters has kernels, and one over three becomes such; any
other is one strided product of the padded input's windows and the filters.
"""

from collections.abc import Mapping

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


def _conv(node: OnnxNode, builder: GraphBuilder) -> None:
    x, w, bias = node.input(0), node.input(1), node.optional(2)
    shape, filters = builder.shape(x), builder.shape(w)
    if len(shape) < 3 or len(filters) != len(shape):
        raise node.unsupported("input and filter shape", (shape, filters), "one spatial axis or more, as many of both")
    if node.integers("kernel_shape", filters[2:]) != filters[2:]:
        raise ModelError(f"{node}: kernel_shape {node.integers('kernel_shape')} differs from the filter's {filters}")
    windows = read_windows(node, shape[2:], filters[2:])
    group = node.integer("group", 1)
    constant = builder.constant(w) is not None and (not bias or builder.constant(bias) is not None)
    if len(shape) > 5 or not constant or builder.dtype(x) != np.float32:
        windowed_product(node, builder, x, w, windows, group, bias, node.output)
        return
    for index, what in ((1, "filter"), (2, "bias")):
        if node.optional(index):
            builder.weights(node, index, what)
    convolution = planar_convolution if len(shape) < 5 else _spatial_convolution
    convolution(node, builder, x, w, windows, group, bias, node.output)


def planar_convolution(
    node: OnnxNode,
    builder: GraphBuilder,
    x: str,
    w: str,
    windows: Windows,
    group: int,
    bias: str,
    output: str | None = None,
) -> str:
    """Adds the graph's convolution over two axes; a signal becomes an image of one row."""
    emit, shape, rank = Emitter(node, builder), builder.shape(x), len(windows.kernel)
    if rank == 1:
        x = emit.reshape(x, (*shape[:2], 1, shape[2]))
        w = emit.reshape(w, (*builder.shape(w)[:2], 1, windows.kernel[0]))
    before = (1,) * (2 - rank)
    pads = windows.pads if rank == 2 else (0, windows.pads[0], 0, windows.pads[1])
    attributes = {
        "strides": (*before, *windows.strides),
        "pads": pads,
        "dilations": (*before, *windows.dilations),
        "group": group,
    }
    y = builder.emit(node, "Conv", [x, w, bias], attributes, output if rank == 2 else None)
    if rank == 2:
        return y
    batch, channels, _, length = builder.shape(y)
    return emit.reshape(y, (batch, channels, length), output)


def _spatial_convolution(
    node: OnnxNode, builder: GraphBuilder, x: str, w: str, windows: Windows, group: int, bias: str, output: str
) -> None:
    """Adds a convolution over three axes as one over two, whose images are frames.

    Each frame of the result has the frames under its filter as channels; a filter of one pixel needs no such copies.
    """
    emit, (batch, channels, frames, height, width) = Emitter(node, builder), builder.shape(x)
    filters, (depth, *kernel) = builder.shape(w)[0], windows.kernel
    top, left, bottom, right = windows.pads[1:3] + windows.pads[4:]
    out, before, behind = windows.outputs((frames, height, width)), windows.pads[0], windows.pads[3]
    x = emit.reshape(x, (batch, channels, frames, height * width))
    if out[1:] == (height, width) and kernel == [1, 1] and not any((top, left, bottom, right)):
        along = [(windows.strides[0], 1), (windows.dilations[0], 1), (depth, 1), (before, 0, behind, 0)]
        strides, dilations, size, pads = along
        plain = Windows(size, strides, dilations, pads, (0,) * 4)
        w = emit.reshape(w, (*builder.shape(w)[:2], *size))
        emit.reshape(planar_convolution(node, builder, x, w, plain, group, bias), (batch, filters, *out), output)
        return
    if before or behind:
        pads = (0, 0, before, 0, 0, 0, behind, 0)
        x = emit.op("Pad", x, pads=pads, value=0.0, mode="constant")
    if depth == windows.strides[0] == 1:
        x = emit.transpose(x, (0, 2, 1, 3))
    else:
        each, channel, frame, _ = row_major_strides(builder.shape(x))
        steps = (each, windows.strides[0] * frame, channel, windows.dilations[0] * frame, 1)
        x = emit.view(x, (batch, out[0], channels, depth, height * width), steps)
    x = emit.reshape(x, (batch * out[0], channels * depth, height, width))
    w = emit.reshape(w, (filters, builder.shape(w)[1] * depth, *kernel))
    plain = Windows(tuple(kernel), windows.strides[1:], windows.dilations[1:], (top, left, bottom, right), (0,) * 4)
    y = planar_convolution(node, builder, x, w, plain, group, bias)
    y = emit.reshape(y, (batch, out[0], filters, *out[1:]))
    emit.transpose(y, (0, 2, 1, 3, 4), output)


def windowed_product(
    node: OnnxNode,
    builder: GraphBuilder,
    x: str,
    w: str,
    windows: Windows,
    group: int,
    bias: str = "",
    output: str | None = None,
) -> str:
    """Adds a convolution of any number of axes and any element type as a product of strided views."""
    emit, rank = Emitter(node, builder), len(windows.kernel)
    if any(windows.pads):
        pads = (0, 0, *windows.pads[:rank], 0, 0, *windows.pads[rank:])
        x = _padded(emit, x, pads)
    shape, filters = builder.shape(x), builder.shape(w)
    if shape[1] != filters[1] * group or filters[0] % group:
        raise ModelError(f"{node}: filter {filters} in {group} group(s) does not fit an input of shape {shape}")
    plain = Windows(windows.kernel, windows.strides, windows.dilations, (0,) * 2 * rank, (0,) * 2 * rank)
    out, per_group = plain.outputs(shape[2:]), filters[0] // group
    attributes = _product(shape, filters, plain, out, group, per_group)
    y = builder.emit(node, "StridedProduct", [x, w], attributes)
    if not bias:
        return emit.reshape(y, (shape[0], filters[0], *out), output)
    y = emit.reshape(y, (shape[0], filters[0], *out))
    return emit.op("Add", y, emit.reshape(bias, (filters[0], *(1,) * rank)), output=output)


def _product(x: Shape, w: Shape, windows: Windows, out: Shape, group: int, per_group: int) -> dict[str, Shape]:
    """Loops: batch, group, filter, position, then channel and place in the window."""
    between, within = windows.strides_in(x)
    steps, filter_steps, zeros = row_major_strides(x), row_major_strides(w), (0,) * len(out)
    return {
        "shape": (x[0], group, per_group, *out),
        "summed": (w[1], *windows.kernel),
        "a_strides": (steps[0], w[1] * steps[1], 0, *between, steps[1], *within),
        "b_strides": (0, per_group * filter_steps[0], filter_steps[0], *zeros, *filter_steps[1:]),
    }


def _padded(emit: Emitter, x: str, pads: Shape) -> str:
    """Zeros around a tensor of any number of axes and any element type."""
    shape, rank = emit.shape(x), len(pads) // 2
    wide = tuple(size + pads[axis] + pads[axis + rank] for axis, size in enumerate(shape))
    return emit.op("Embedding", x, shape=wide, starts=tuple(pads[:rank]), steps=(1,) * rank, value=0.0)


HANDLERS: Mapping[str, Handler] = {"Conv": _conv}


def _write_conv(writing: OnnxWriting, node: Node) -> onnx.NodeProto | None:
    if node.input(3):
        return None
    kernel = writing.graph.shape(node.inputs[1])[2:]
    return writing.plain(node, "Conv", node.inputs, kernel_shape=kernel, **node.attrs)


WRITERS: Mapping[str, Writer] = {"Conv": _write_conv}
