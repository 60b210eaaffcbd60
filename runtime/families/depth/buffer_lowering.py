"""Lowers DepthToSpace and SpaceToDepth on buffers: one copy along six axes."""

from __future__ import annotations

from runtime.families.depth.axes import Blocks
from runtime.graph import Node
from runtime.lowering.builder import Builder
from runtime.types import Storage


def lower_blocks(builder: Builder, node: Node) -> None:
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


BUFFER_LOWERINGS = {"DepthToSpace": lower_blocks, "SpaceToDepth": lower_blocks}
