"""How DepthToSpace and SpaceToDepth of every opset are read and lowered, and at which sizes measured."""

from collections.abc import Mapping

import numpy as np
import onnx

from runtime.errors import ModelError
from runtime.exporters.onnx_writing import OnnxWriting, Writer, write_same
from runtime.families.depth.axes import Blocks
from runtime.families.depth.definition import MODES, OPERATORS
from runtime.graph import Node
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.images import image_shape
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.lowering.builder import Builder
from runtime.lowering.images import emit, extents
from runtime.operators.case import sized
from runtime.types import Storage


def _rearrange(node: OnnxNode, builder: GraphBuilder) -> None:
    """Adds the operator; other element types than float32 take the way over six axes."""
    emit, x, shape = Emitter(node, builder), node.input(0), image_shape(node, builder)
    size, mode = node.integer("blocksize", 0), node.choice("mode", "DCR", MODES)
    if size < 1:
        raise ModelError(f"{node}: blocksize is {size}; a block has at least one pixel")
    attributes = {"blocksize": size, "mode": mode}
    if builder.dtype(x) == np.float32:
        emit.op(node.op, x, output=node.output, **attributes)
        return
    try:
        out = OPERATORS[node.op].shape([shape], attributes)
    except ModelError as error:
        raise ModelError(f"{node}: {error}") from None
    blocks = Blocks.between(node.op, mode, size, shape, out)
    emit.reshape(emit.transpose(emit.reshape(x, blocks.split), blocks.perm), out, node.output)


HANDLERS: Mapping[str, Handler] = {"DepthToSpace": _rearrange, "SpaceToDepth": _rearrange}


def _write_space_to_depth(writing: OnnxWriting, node: Node) -> onnx.NodeProto | None:
    """Leaves the mode that this opset lacks to the project's domain."""
    if node.attrs["mode"] != "DCR":
        return None
    return writing.plain(node, node.op, node.inputs, blocksize=node.attrs["blocksize"])


WRITERS: Mapping[str, Writer] = {"DepthToSpace": write_same, "SpaceToDepth": _write_space_to_depth}


def _on_buffers(builder: Builder, node: Node) -> None:
    """Writes a result of the model row-major, as it is wanted, and any other pixel by pixel.

    From blocks of channels either form is a conversion, and (c, i, j) is copied in longer runs row-major.
    """
    source = node.inputs[0]
    is_result = node.output in builder.graph.outputs and not builder.is_part(node.output)
    from_blocks = node.attrs["mode"] == "CRD" and builder.home(source).storage == Storage.BLOCKED
    x = builder.read(source, Storage.FLAT) if from_blocks else builder.read_any(source)
    y = builder.write(node.output, Storage.FLAT if is_result or from_blocks else Storage.NHWC)
    blocks = Blocks.between(node.op, node.attrs["mode"], node.attrs["blocksize"], x.shape, y.shape)
    extents, xs, ys = blocks.extents, blocks.strides(x.strides, True), blocks.strides(y.strides, False)
    shape, x_strides, y_strides = (tuple(steps[axis] for axis in extents) for steps in (extents, xs, ys))
    builder.strided_copy(node.name, node.op, x, y, shape, x_strides, y_strides)


BUFFER_LOWERINGS = {"DepthToSpace": _on_buffers, "SpaceToDepth": _on_buffers}


def _depth_to_space(builder: Builder, node: Node) -> str:
    """Lowers DepthToSpace."""
    dims = extents(builder.graph.shape(node.output)) | {"size": node.attrs["blocksize"]}
    return emit(builder, node, "depth_to_space", "DepthToSpace", dims, defines=_defines(node))


def _space_to_depth(builder: Builder, node: Node) -> str:
    """Lowers SpaceToDepth."""
    dims = extents(builder.graph.shape(node.output)) | {"size": node.attrs["blocksize"]}
    dims["in_c"] = builder.graph.shape(node.inputs[0])[1]
    return emit(builder, node, "space_to_depth", "SpaceToDepth", dims, defines=_defines(node))


def _defines(node: Node) -> dict[str, int]:
    return {"CRD": int(node.attrs["mode"] == "CRD")}


IMAGE_LOWERINGS = {"DepthToSpace": _depth_to_space, "SpaceToDepth": _space_to_depth}
OPBENCH_CASES = (
    sized("DepthToSpace", (1, 256, 56, 56), detail="2", blocksize=2, mode="CRD"),
    sized("SpaceToDepth", (1, 64, 112, 112), detail="2", blocksize=2, mode="DCR"),
)
