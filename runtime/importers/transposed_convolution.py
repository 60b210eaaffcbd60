"""ConvTranspose: the input with zeros between its elements, convolved with the mirrored filters.

Of floats with constant filters over one or two axes, every step has kernels; any other is a strided product.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from runtime.errors import ModelError
from runtime.generic import Shape, row_major_strides
from runtime.importers.builder import GraphBuilder
from runtime.importers.convolution import planar_convolution, windowed_product
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.importers.windows import AUTO_PADS, Windows, window_counts


def _filters(emit: Emitter, w: str, group: int) -> str:
    """[inputs, outputs of a group, window] as [outputs, inputs of a group, window], each window mirrored."""
    inputs, per_group, *kernel = emit.shape(w)
    steps, rank = row_major_strides(emit.shape(w)), len(kernel)
    shape = (group, per_group, inputs // group, *kernel)
    strides = (inputs // group * steps[0], steps[1], steps[0], *(-step for step in steps[2:]))
    offset = sum((size - 1) * step for size, step in zip(kernel, steps[2:], strict=True))
    mirrored = emit.view(w, shape, strides, offset)
    return emit.reshape(mirrored, (group * per_group, inputs // group, *kernel[:rank]))


def _pads(node: OnnxNode, size: Shape, full: Shape, strides: Shape, extra: Shape) -> Shape:
    """What is cut off the full result at the begins, then at the ends (less where output_padding adds)."""
    rank = len(size)
    mode = node.choice("auto_pad", "NOTSET", AUTO_PADS)
    given = node.integers("output_shape")
    if given or mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = given[-rank:] if given else tuple(n * step for n, step in zip(size, strides, strict=True))
        totals = [whole + more - n for whole, more, n in zip(full, extra, wanted, strict=True)]
        small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
        return (*small, *large) if mode == "SAME_UPPER" else (*large, *small)
    return node.integers("pads") or (0,) * 2 * rank


def _zeros_between(emit: Emitter, x: str, strides: Shape) -> str:
    """The input with zeros between its elements; the graph's Pad does it for floats over two axes."""
    shape = emit.shape(x)
    wide = (*shape[:2], *((n - 1) * step + 1 for n, step in zip(shape[2:], strides, strict=True)))
    if all(step == 1 for step in strides):
        return x
    if emit.builder.dtype(x) != np.float32 or len(strides) > 2:
        starts = (0,) * len(shape)
        return emit.op("Embedding", x, shape=wide, starts=starts, steps=(1, 1, *strides), value=0.0)
    vertical, horizontal = strides if len(strides) == 2 else (1, strides[0])
    planes, height, width = shape[0] * shape[1], shape[2] if len(strides) == 2 else 1, shape[-1]
    rows = emit.reshape(x, (1, planes * height, width, 1))
    rows = emit.op("Pad", rows, pads=(0,) * 7 + (horizontal - 1,), value=0.0, mode="constant")
    rows = emit.reshape(rows, (1, planes * height, 1, width * horizontal))
    rows = emit.op("Pad", rows, pads=(0,) * 6 + (vertical - 1, 0), value=0.0, mode="constant")
    spread = emit.reshape(rows, (*shape[:2], *((height * vertical,) * (len(strides) - 1)), width * horizontal))
    for axis in range(2, len(shape)):
        spread = emit.slice(spread, axis, 0, wide[axis])
    return spread


def _conv_transpose(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x, w, bias = Emitter(node, builder), node.input(0), node.input(1), node.optional(2)
    shape, filters = builder.shape(x), builder.shape(w)
    rank, group = len(shape) - 2, node.integer("group", 1)
    if rank < 1 or len(filters) != len(shape) or filters[0] != shape[1] or shape[1] % group:
        raise ModelError(f"{node}: filters of shape {filters} do not fit an input of shape {shape}")
    kernel = filters[2:]
    node.integers("kernel_shape", kernel)
    strides, dilations = window_counts(node, "strides", rank), window_counts(node, "dilations", rank)
    extra = node.integers("output_padding") or (0,) * rank
    margins = tuple(step * (extent - 1) for step, extent in zip(dilations, kernel, strict=True))
    full = tuple((n - 1) * step + 1 + margin for n, step, margin in zip(shape[2:], strides, margins, strict=True))
    cut = _pads(node, shape[2:], full, strides, extra)
    ends = tuple(cut[axis + rank] - extra[axis] for axis in range(rank))
    # Margins that would be cut again are not made; what goes beyond them is cut, or filled with zeros.
    begin_pads = tuple(max(margin - pad, 0) for margin, pad in zip(margins, cut, strict=False))
    end_pads = tuple(max(margin - pad, 0) for margin, pad in zip(margins, ends, strict=True))
    spread = _zeros_between(emit, x, strides)
    for axis in range(rank):
        over = max(cut[axis] - margins[axis], 0), max(ends[axis] - margins[axis], 0)
        spread = emit.slice(spread, axis + 2, over[0], builder.shape(spread)[axis + 2] - over[1])
    pads = (*begin_pads, *end_pads)
    windows = Windows(kernel, (1,) * rank, dilations, pads, pads)
    constant = builder.constant(w) is not None and (not bias or builder.constant(bias) is not None)
    make = planar_convolution if rank <= 2 and constant and builder.dtype(x) == np.float32 else windowed_product
    make(node, builder, spread, _filters(emit, w, group), windows, group, bias, node.output)


OPERATORS: Mapping[str, Handler] = {"ConvTranspose": _conv_transpose}
