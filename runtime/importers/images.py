"""Reads the shape of an input that is an image."""

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.onnx_node import OnnxNode


def image_shape(node: OnnxNode, builder: GraphBuilder, index: int = 0) -> tuple[int, ...]:
    """The shape [n, channels, height, width] of an input; raises ModelError where it has other axes."""
    shape = builder.shape(node.input(index))
    if len(shape) != 4:
        raise ModelError(f"{node}: its input {index} has shape {shape}; [n, channels, height, width] is needed")
    return shape
