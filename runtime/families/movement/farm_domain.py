"""Operators of the project's own domain that move blocks of pixels into the batch and back.

    SpaceToBatch(x; block, pads)     [n, c, h, w] -> [blocks * n, c, rows, columns]; pads: top, left, bottom, right
    BatchToSpace(x; block, crops)    the way back; crops: top, left, bottom, right

TensorFlow's SpaceToBatchND and BatchToSpaceND arrive as the transpositions that they stand for.
"""

from collections.abc import Mapping

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.images import image_shape
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler


def _pair(node: OnnxNode, name: str) -> tuple[int, int]:
    values = node.integers(name)
    if len(values) != 2 or min(values) < 1:
        raise ModelError(f"{node}: {name} is {values}; two numbers, at least 1, are needed")
    return values[0], values[1]


def _sides(node: OnnxNode, name: str) -> tuple[int, ...]:
    values = node.integers(name, (0,) * 4)
    if len(values) != 4 or min(values) < 0:
        raise ModelError(f"{node}: {name} is {values}; four numbers, not negative, are needed")
    return values


def _space_to_batch(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x, shape = Emitter(node, builder), node.input(0), image_shape(node, builder)
    (down, across), pads = _pair(node, "block"), _sides(node, "pads")
    if any(pads):
        around = (0, 0, *pads[:2], 0, 0, *pads[2:])
        x = emit.op("Pad", x, pads=around, value=0.0, mode="constant")
    batch, channels, height, width = builder.shape(x)
    if height % down or width % across:
        raise ModelError(f"{node}: {height} x {width} pixels of {shape} do not split into blocks of {down} x {across}")
    rows, columns = height // down, width // across
    split = emit.reshape(x, (batch, channels, rows, down, columns, across))
    turned = emit.transpose(split, (3, 5, 0, 1, 2, 4))
    emit.reshape(turned, (down * across * batch, channels, rows, columns), node.output)


def _batch_to_space(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x = Emitter(node, builder), node.input(0)
    blocks, channels, rows, columns = image_shape(node, builder)
    (down, across), crops = _pair(node, "block"), _sides(node, "crops")
    batch, height, width = blocks // (down * across), rows * down, columns * across
    if blocks % (down * across) or crops[0] + crops[2] >= height or crops[1] + crops[3] >= width:
        raise ModelError(
            f"{node}: blocks of {down} x {across} and crops {crops} of shape {builder.shape(x)} do not fit"
        )
    split = emit.reshape(x, (down, across, batch, channels, rows, columns))
    whole = emit.reshape(emit.transpose(split, (2, 3, 4, 0, 5, 1)), (batch, channels, height, width))
    lines = emit.slice(whole, 2, crops[0], height - crops[2])
    emit.slice(lines, 3, crops[1], width - crops[3], node.output)


FARM_HANDLERS: Mapping[str, Handler] = {"SpaceToBatch": _space_to_batch, "BatchToSpace": _batch_to_space}
