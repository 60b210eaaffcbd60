"""One layer on its way to ONNX nodes: what a family of layers reads it through, and writes nodes with."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array
from runtime.importers.caffe.layers import CaffeLayer
from runtime.importers.caffe.onnx_writer import OnnxWriter, Shape, checked_shape

NO_WEIGHTS = "its weights are missing"


class LayerImport:
    """A layer with the tensors that it reads and writes, and its blobs: its weights, None where there is no file."""

    def __init__(
        self,
        layer: CaffeLayer,
        inputs: Sequence[str],
        outputs: Sequence[str],
        blobs: Sequence[Array] | None,
        writer: OnnxWriter,
    ) -> None:
        self.layer = layer
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._blobs = blobs
        self._writer = writer

    def parameters(self, name: str) -> Any:
        """A message of the layer's parameters, with its defaults where the file does not say it."""
        return getattr(self.layer.message, name)

    def shape(self, index: int = 0) -> Shape:
        """Shape of an input."""
        return self.shape_of(self.inputs[index])

    def shape_of(self, tensor: str) -> Shape:
        """Shape of a tensor that was written."""
        return self._writer.shape(tensor)

    def error(self, problem: str) -> ModelError:
        """The error that names the layer."""
        return ModelError(f"{self.layer}: {problem}")

    def unsupported(self, problem: str) -> UnsupportedError:
        """The same, for what Caffe can do and this importer cannot."""
        return UnsupportedError(f"{self.layer}: {problem}")

    def expect(self, inputs: int, outputs: int = 1) -> None:
        """Requires a number of bottoms, and of tops."""
        given = (len(self.inputs), len(self.outputs))
        if given != (inputs, outputs):
            raise self.error(f"{given[0]} bottom(s) and {given[1]} top(s); it has {inputs} and {outputs}")

    def expect_image(self) -> Shape:
        """Shape (N, C, H, W) of the first input; UnsupportedError for any other rank."""
        shape = self.shape()
        if len(shape) != 4:
            raise self.unsupported(f"its bottom has shape {shape}; supported: four axes")
        return shape

    def check_shape(self, shape: Shape) -> None:
        """Refuses an intermediate shape, such as that of a padded bottom, that no tensor can have."""
        self._checked(shape)

    def axis(self, axis: int, rank: int | None = None) -> int:
        """An axis of the first input counted from the front; `rank` where the axis may be one past the last."""
        rank = len(self.shape()) if rank is None else rank
        if not -rank <= axis < rank:
            raise self.error(f"axis {axis} is not an axis of a bottom of shape {self.shape()}")
        return axis % rank

    def blob(self, index: int, what: str, shape: Shape) -> Array:
        """A blob of the weights file, which must have this shape; axes of size 1 before it count for nothing."""
        if self._blobs is None:
            raise self.error(f"{NO_WEIGHTS}: the deployment file gives no weight_file_path")
        if index >= len(self._blobs):
            raise self.error(f"{NO_WEIGHTS}: the weights file has {len(self._blobs)} blob(s) for it, none for {what}")
        value = self._blobs[index]
        if _core(value.shape) != _core(shape):
            raise self.error(f"blob {index} of the weights file has shape {value.shape}; {what} of {shape} is needed")
        return value.reshape(shape)

    def constant(self, what: str, value: Array | float | Sequence[int]) -> str:
        """Adds a constant of the layer: float32, or int64 for a list of integers."""
        kind = np.int64 if isinstance(value, list | tuple) else np.float32
        return self._writer.constant(f"{self.layer.name}/{what}", np.asarray(value, kind))

    def step(self, op: str, inputs: Sequence[str], shape: Shape | None = None, **attributes: Any) -> str:
        """Adds a node with a new tensor, of the first input's shape where none is given; returns the tensor's name."""
        output = self._writer.unique(f"{self.layer.name}/{op}")
        self._node(op, output, inputs, output, shape, attributes)
        return output

    def steps(self, op: str, inputs: Sequence[str], shapes: Sequence[Shape], **attributes: Any) -> tuple[str, ...]:
        """Adds a node with a new tensor for each of its outputs; returns the tensors' names."""
        name = self._writer.unique(f"{self.layer.name}/{op}")
        outputs = [self._writer.unique(f"{name}/output") for _ in shapes]
        self._writer.node(op, name, inputs, dict(zip(outputs, map(self._checked, shapes), strict=True)), attributes)
        return tuple(outputs)

    def result(
        self, op: str, inputs: Sequence[str], shape: Shape | None = None, index: int = 0, **attributes: Any
    ) -> None:
        """Adds the node that writes an output of the layer, of the first input's shape where none is given."""
        self._node(op, self.layer.name, inputs, self.outputs[index], shape, attributes)

    def results(self, op: str, inputs: Sequence[str], shapes: Sequence[Shape], **attributes: Any) -> None:
        """Adds the node that writes all outputs of the layer."""
        outputs = {name: self._checked(shape) for name, shape in zip(self.outputs, shapes, strict=True)}
        self._writer.node(op, self.layer.name, inputs, outputs, attributes)

    def chain(self, tensor: str, *steps: tuple[str, str]) -> None:
        """Applies binary operators (operator, right operand) one after the other; the last writes the output."""
        for op, operand in steps[:-1]:
            tensor = self.step(op, [tensor, operand])
        if steps:
            self.result(steps[-1][0], [tensor, steps[-1][1]])
        else:
            self.result("Identity", [tensor])

    def reshape(self, tensor: str, shape: Shape) -> str:
        """A tensor in another shape; itself where it has it."""
        if self.shape_of(tensor) == shape:
            return tensor
        return self.step("Reshape", [tensor, self.constant("shape", list(shape))], shape)

    def result_reshaped(self, tensor: str, shape: Shape) -> None:
        """Writes the output: a tensor in another shape."""
        if math.prod(self.shape_of(tensor)) != math.prod(shape):
            raise self.error(f"a bottom of shape {self.shape_of(tensor)} does not reshape to {shape}")
        self.result("Reshape", [tensor, self.constant("shape", list(shape))], shape)

    def _node(
        self, op: str, name: str, inputs: Sequence[str], output: str, shape: Shape | None, attributes: dict[str, Any]
    ) -> None:
        found = self.shape_of(inputs[0]) if shape is None else self._checked(shape)
        self._writer.node(op, name, inputs, {output: found}, attributes)

    def _checked(self, shape: Shape) -> Shape:
        return checked_shape(str(self.layer), shape)


def _core(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without the axes of size 1 before the first larger one, which older files add."""
    first = next((axis for axis, size in enumerate(shape) if size != 1), len(shape))
    return tuple(shape[first:])


Handler = Callable[[LayerImport], None]
