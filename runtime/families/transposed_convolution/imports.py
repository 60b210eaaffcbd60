"""ConvTranspose.

Of floats with constant filters over one or two axes it is the graph's operator, which has kernels; any other is a
strided product of the input with zeros between its elements and the mirrored filters.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
import onnx

from runtime.errors import ModelError
from runtime.exporters.onnx_writing import OnnxWriting, Writer
from runtime.families.convolution.imports import windowed_product
from runtime.families.transposed_convolution.geometry import transposed_size
from runtime.graph import Node
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.importers.windows import AUTO_PADS, Windows, window_counts
from runtime.semantics.generic import Shape, row_major_strides


@dataclasses.dataclass(frozen=True)
class Geometry:
    """How inputs spread along one or two axes; pads are all begins, then all ends."""

    strides: Shape
    pads: Shape
    dilations: Shape
    output_padding: Shape

    def planar(self) -> dict[str, Shape]:
        """The attributes of the graph's operator, over two axes."""
        if len(self.strides) == 2:
            return dataclasses.asdict(self)
        begin, end = self.pads
        return {
            "strides": (1, *self.strides),
            "pads": (0, begin, 0, end),
            "dilations": (1, *self.dilations),
            "output_padding": (0, *self.output_padding),
        }


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
    """The input with zeros between its elements."""
    shape = emit.shape(x)
    if all(step == 1 for step in strides):
        return x
    wide = (*shape[:2], *((n - 1) * step + 1 for n, step in zip(shape[2:], strides, strict=True)))
    return emit.op("Embedding", x, shape=wide, starts=(0,) * len(shape), steps=(1, 1, *strides), value=0.0)


def _conv_transpose(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x, w, bias = Emitter(node, builder), node.input(0), node.input(1), node.optional(2)
    shape, filters, group = builder.shape(x), builder.shape(w), node.integer("group", 1)
    if len(shape) < 3 or len(filters) != len(shape) or filters[0] != shape[1] or shape[1] % group:
        raise ModelError(f"{node}: filters of shape {filters} do not fit an input of shape {shape}")
    geometry = _read_geometry(node, shape[2:], filters[2:])
    constant = builder.constant(w) is not None and (not bias or builder.constant(bias) is not None)
    if len(shape) <= 4 and constant and builder.dtype(x) == np.float32:
        for index, what in ((1, "filter"), (2, "bias")):
            if node.optional(index):
                builder.weights(node, index, what)
        _planar(emit, geometry, group)
    else:
        _product(emit, geometry, group)


def _read_geometry(node: OnnxNode, size: Shape, kernel: Shape) -> Geometry:
    """Strides, dilations and pads of a node, of which the attributes may leave the pads to the output's shape."""
    rank = len(size)
    node.integers("kernel_shape", kernel)
    strides, dilations = window_counts(node, "strides", rank), window_counts(node, "dilations", rank)
    extra = node.integers("output_padding") or (0,) * rank
    if len(extra) != rank:
        raise ModelError(f"{node}: output_padding is {list(extra)}; {rank} numbers are needed")
    full = tuple(transposed_size(*axis, pads=0, extra=0) for axis in zip(size, kernel, strides, dilations, strict=True))
    pads = _pads(node, size, full, strides, extra)
    if len(pads) != 2 * rank:
        raise ModelError(f"{node}: pads are {list(pads)}; {2 * rank} numbers are needed")
    return Geometry(strides, pads, dilations, extra)


def _product(emit: Emitter, geometry: Geometry, group: int) -> None:
    """Adds a strided product, of any number of axes and any element type."""
    node, w = emit.node, emit.node.input(1)
    rank, kernel, cut = len(geometry.strides), emit.shape(w)[2:], geometry.pads
    margins = tuple(step * (extent - 1) for step, extent in zip(geometry.dilations, kernel, strict=True))
    ends = tuple(cut[axis + rank] - geometry.output_padding[axis] for axis in range(rank))
    # Margins that would be cut again are not made; what goes beyond them is cut, or filled with zeros.
    begin_pads = tuple(max(margin - pad, 0) for margin, pad in zip(margins, cut, strict=False))
    end_pads = tuple(max(margin - pad, 0) for margin, pad in zip(margins, ends, strict=True))
    spread = _zeros_between(emit, node.input(0), geometry.strides)
    for axis in range(rank):
        over = max(cut[axis] - margins[axis], 0), max(ends[axis] - margins[axis], 0)
        spread = emit.slice(spread, axis + 2, over[0], emit.shape(spread)[axis + 2] - over[1])
    pads = (*begin_pads, *end_pads)
    windows = Windows(kernel, (1,) * rank, geometry.dilations, pads, pads)
    filters = _filters(emit, w, group)
    windowed_product(node, emit.builder, spread, filters, windows, group, node.optional(2), node.output)


def _planar(emit: Emitter, geometry: Geometry, group: int) -> None:
    """Adds the graph's operator over two axes; a signal becomes an image of one row."""
    node, shape = emit.node, emit.shape(emit.node.input(0))
    x, w, bias = node.input(0), node.input(1), node.optional(2)
    if len(shape) == 3:
        x = emit.reshape(x, (*shape[:2], 1, shape[2]))
        w = emit.reshape(w, (*emit.shape(w)[:2], 1, emit.shape(w)[2]))
    attributes, output = {**geometry.planar(), "group": group}, node.output if len(shape) == 4 else None
    y = emit.builder.emit(node, "ConvTranspose", [x, w, bias], attributes, output)
    if len(shape) == 3:
        batch, channels, _, length = emit.shape(y)
        emit.reshape(y, (batch, channels, length), node.output)


HANDLERS: Mapping[str, Handler] = {"ConvTranspose": _conv_transpose}


def _write_conv_transpose(writing: OnnxWriting, node: Node) -> onnx.NodeProto | None:
    """Leaves negative pads to the project's domain: the importer reads ONNX's only together with an output_shape."""
    if node.input(3) or min(node.attrs["pads"]) < 0:
        return None
    kernel = writing.graph.shape(node.inputs[1])[2:]
    return writing.plain(node, "ConvTranspose", node.inputs, kernel_shape=kernel, **node.attrs)


WRITERS: Mapping[str, Writer] = {"ConvTranspose": _write_conv_transpose}
