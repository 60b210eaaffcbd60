"""Makes of a network in the order NCHW its twin in NHWC, as exporters of TensorFlow's networks write them.

The twin has the same weights. Its images, inputs and outputs included, are NHWC; what ONNX knows in NCHW only stands
between two Transposes. With the style `affine` a batch norm is a Mul and an Add, a bias an Add and the padding of a
convolution a Pad of their own, all in NHWC; with `transposed` they are as in the original.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, helper, numpy_helper

Style = Literal["affine", "transposed"]
STYLES: tuple[Style, ...] = ("affine", "transposed")
TO_NCHW = (0, 3, 1, 2)
TO_NHWC = (0, 2, 3, 1)
_IMAGE_RANK = 4
_GROUPED_ORDER = (0, 3, 4, 1, 2)  # of an image whose channels are split into two axes
_PLANAR = ("Conv", "ConvTranspose", "MaxPool", "AveragePool")
Array = npt.NDArray[Any]


def nhwc_twin(model: onnx.ModelProto, style: Style) -> onnx.ModelProto:
    """The twin of a model of ONNX's own domain, opset 13 or later."""
    return _Twin(model, style).model()


def in_nhwc(image: Array) -> Array:
    """An array as the twin has it: images are transposed, all others are the same."""
    return image.transpose(TO_NHWC) if image.ndim == _IMAGE_RANK else image


def _order(rank: int) -> tuple[int, ...]:
    """The axes of a tensor of the original in the twin's order."""
    return {4: TO_NHWC, 5: _GROUPED_ORDER}.get(rank, tuple(range(rank)))


class _Twin:
    """Writes the nodes one by one; tensors keep their names, constants get new ones."""

    def __init__(self, model: onnx.ModelProto, style: Style) -> None:
        self._source, self._style = onnx.shape_inference.infer_shapes(model, data_prop=True), style
        graph = self._source.graph
        self._constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        values = (*graph.input, *graph.value_info, *graph.output)
        self._shapes = {each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in values}
        self._flat: dict[str, list[int]] = {}  # the shape that a flat tensor had before
        self._nodes: list[NodeProto] = []
        self._written: dict[str, Array] = {}

    def model(self) -> onnx.ModelProto:
        """The whole twin."""
        graph = self._source.graph
        for node in graph.node:
            self._write(node)
        twin = helper.make_graph(
            self._nodes,
            f"{graph.name}_nhwc",
            [self._boundary(value) for value in graph.input if value.name not in self._constants],
            [self._boundary(value) for value in graph.output],
            [numpy_helper.from_array(value, name) for name, value in self._written.items()],
        )
        return helper.make_model(twin, opset_imports=self._source.opset_import, ir_version=self._source.ir_version)

    def _boundary(self, value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
        kind = value.type.tensor_type
        dims = [dim.dim_param or dim.dim_value for dim in kind.shape.dim]
        return helper.make_tensor_value_info(value.name, kind.elem_type, [dims[axis] for axis in _order(len(dims))])

    def _write(self, node: NodeProto) -> None:
        if node.op_type in _PLANAR:
            self._planar(node)
        else:
            _WRITERS.get(node.op_type, _Twin._elementwise)(self, node)

    # Parts

    def _is_image(self, name: str) -> bool:
        return len(self._shapes.get(name, ())) == _IMAGE_RANK

    def _constant(self, name: str, value: Array) -> str:
        self._written[name] = value
        return name

    def _add(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(op, inputs, [output], f"{output}:{op}", **attributes))
        return output

    def _weights(self, names: Sequence[str]) -> list[str]:
        """Constant inputs as they are."""
        return [self._constant(name, self._constants[name]) if name else "" for name in names]

    def _between_transposes(self, node: NodeProto, x: str, weights: Sequence[str], output: str, **changed: Any) -> str:
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute} | changed
        image = self._add("Transpose", [x], f"{output}:nchw_in", perm=TO_NCHW)
        inputs = [image, *self._weights(weights)]
        computed = self._add(node.op_type, inputs, f"{output}:nchw", **attributes)
        return self._add("Transpose", [computed], output, perm=TO_NHWC)

    # Kinds of operators

    def _planar(self, node: NodeProto) -> None:
        x, *weights = node.input
        if node.op_type != "Conv" or self._style == "transposed":
            self._between_transposes(node, x, weights, node.output[0])
            return
        pads = next((tuple(each.ints) for each in node.attribute if each.name == "pads"), (0,) * 4)
        if any(pads):
            widths = np.array((0, *pads[:2], 0, 0, *pads[2:], 0))
            x = self._add("Pad", [x, self._constant(f"{node.output[0]}:pads", widths)], f"{node.output[0]}:padded")
        has_bias = len(weights) > 1
        output = f"{node.output[0]}:linear" if has_bias else node.output[0]
        self._between_transposes(node, x, weights[:1], output, pads=(0,) * 4)
        if has_bias:
            self._add("Add", [output, *self._weights(weights[1:])], node.output[0])

    def _batch_norm(self, node: NodeProto) -> None:
        x, *names = node.input
        if self._style == "transposed" or not self._is_image(x):
            self._between_transposes(node, x, names, node.output[0])
            return
        epsilon = next((each.f for each in node.attribute if each.name == "epsilon"), 1e-5)
        gamma, beta, mean, variance = (self._constants[name].astype(np.float64) for name in names)
        scale = gamma / np.sqrt(variance + epsilon)
        factor = self._constant(f"{node.output[0]}:scale", scale.astype(np.float32))
        shift = self._constant(f"{node.output[0]}:shift", (beta - mean * scale).astype(np.float32))
        scaled = self._add("Mul", [x, factor], f"{node.output[0]}:scaled")
        self._add("Add", [scaled, shift], node.output[0])

    def _global_pool(self, node: NodeProto) -> None:
        if self._style == "transposed":
            self._between_transposes(node, node.input[0], [], node.output[0])
            return
        self._add("ReduceMean", node.input, node.output[0], axes=[1, 2], keepdims=1)

    def _flatten(self, node: NodeProto) -> None:
        """A flat image has the twin's order; the layer that reads it gets its weights in this order."""
        self._flat[node.output[0]] = self._shapes[node.input[0]]
        self._copy(node, node.input)

    def _reshape(self, node: NodeProto) -> None:
        shape = self._constants[node.input[1]]
        wanted = self._constant(f"{node.output[0]}:shape", shape[list(_order(len(shape)))])
        self._add("Reshape", [node.input[0], wanted], node.output[0])

    def _transpose(self, node: NodeProto) -> None:
        perm = next(tuple(each.ints) for each in node.attribute if each.name == "perm")
        order = _order(len(perm))
        moved = tuple(order.index(perm[axis]) for axis in order)
        self._copy(node, node.input, perm=moved)

    def _along_axis(self, node: NodeProto) -> None:
        axis = next(each.i for each in node.attribute if each.name == "axis")
        moved = TO_NHWC.index(axis % _IMAGE_RANK) if self._is_image(node.output[0]) else axis
        self._copy(node, [self._operand(name) for name in node.input], axis=moved)

    def _elementwise(self, node: NodeProto) -> None:
        self._copy(node, [self._operand(name) for name in node.input])

    def _operand(self, name: str) -> str:
        """A tensor; a constant that broadcasts to an image is one in NHWC."""
        value = self._constants.get(name)
        if value is None:
            return name
        if value.ndim == _IMAGE_RANK - 1:
            value = value[None]
        return self._constant(f"{name}:nhwc", value.transpose(TO_NHWC)) if value.ndim == 4 else self._weights([name])[0]

    def _copy(self, node: NodeProto, inputs: Sequence[str], **changed: Any) -> None:
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute} | changed
        self._nodes.append(helper.make_node(node.op_type, inputs, node.output, node.name, **attributes))

    def _matrix(self, node: NodeProto) -> None:
        x, weights, *others = node.input
        value, shape = self._constants[weights], self._flat.get(x, [])
        if len(shape) == _IMAGE_RANK:
            value = value.reshape(-1, *shape[1:]).transpose(TO_NHWC).reshape(value.shape)
        self._copy(node, [x, self._constant(weights, value), *self._weights(others)])


_WRITERS: Mapping[str, Callable[[_Twin, NodeProto], None]] = {
    "BatchNormalization": _Twin._batch_norm,
    "GlobalAveragePool": _Twin._global_pool,
    "Flatten": _Twin._flatten,
    "Reshape": _Twin._reshape,
    "Transpose": _Twin._transpose,
    "Concat": _Twin._along_axis,
    "Softmax": _Twin._along_axis,
    "Gemm": _Twin._matrix,
}
