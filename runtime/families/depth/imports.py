"""DepthToSpace and SpaceToDepth of every opset."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from runtime.errors import ModelError
from runtime.families.depth.axes import Blocks
from runtime.families.depth.rows import MODES, OPERATORS
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.images import image_shape
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler


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
