"""Layers that combine tensors: InnerProduct, Eltwise, Scale, Bias, Axpy, Reduction, ArgMax."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from runtime.importers.caffe.layer_import import Handler, LayerImport
from runtime.importers.caffe.onnx_writer import Shape

PRODUCT, SUM, MAXIMUM = 0, 1, 2
REDUCTIONS = {1: "ReduceSum", 2: "ReduceSum", 3: "ReduceSum", 4: "ReduceMean"}
ABSOLUTE_SUM, SQUARE_SUM = 2, 3


def _inner_product(layer: LayerImport) -> None:
    layer.expect(1)
    parameters = layer.parameters("inner_product_param")
    shape, axis = layer.shape(), layer.axis(parameters.axis)
    rows, inner, outer = math.prod(shape[:axis]), math.prod(shape[axis:]), parameters.num_output
    weights = (inner, outer) if parameters.transpose else (outer, inner)
    operands = [
        layer.reshape(layer.inputs[0], (rows, inner)),
        layer.constant("weights", layer.blob(0, "weights", weights)),
    ]
    if parameters.bias_term:
        operands.append(layer.constant("bias", layer.blob(1, "a bias", (outer,))))
    out = (*shape[:axis], outer)
    transposed = 0 if parameters.transpose else 1
    if axis == 1:
        layer.result("Gemm", operands, out, transB=transposed)
    else:
        layer.result_reshaped(layer.step("Gemm", operands, (rows, outer), transB=transposed), out)


def _eltwise(layer: LayerImport) -> None:
    parameters = layer.parameters("eltwise_param")
    if len(layer.inputs) < 2:
        layer.expect(2)
    for tensor in layer.inputs:
        if layer.shape_of(tensor) != layer.shape():
            raise layer.error(
                f"its bottoms have the shapes {layer.shape()} and {layer.shape_of(tensor)}; one is needed"
            )
    if parameters.coeff and (parameters.operation != SUM or len(parameters.coeff) != len(layer.inputs)):
        raise layer.error(f"{len(parameters.coeff)} coeff for {len(layer.inputs)} bottoms; only a sum has one for each")
    if parameters.operation == SUM:
        _weighted_sum(layer, list(parameters.coeff) or [1.0] * len(layer.inputs))
        return
    op = "Mul" if parameters.operation == PRODUCT else "Max"
    layer.chain(layer.inputs[0], *((op, tensor) for tensor in layer.inputs[1:]))


def _weighted_sum(layer: LayerImport, coefficients: Sequence[float]) -> None:
    """The sum of all bottoms, each times its coefficient; -1 is a subtraction."""
    first = _scaled(layer, layer.inputs[0], coefficients[0])
    steps = []
    for tensor, coefficient in zip(layer.inputs[1:], coefficients[1:], strict=True):
        is_difference = coefficient == -1
        term = tensor if is_difference else _scaled(layer, tensor, coefficient)
        steps.append(("Sub" if is_difference else "Add", term))
    layer.chain(first, *steps)


def _scaled(layer: LayerImport, tensor: str, factor: float) -> str:
    return tensor if factor == 1 else layer.step("Mul", [tensor, layer.constant("coeff", factor)])


def _scale(layer: LayerImport) -> None:
    """x * scale + bias: the scale is a blob, or a second bottom; it has the sizes of the axes from `axis` on."""
    parameters = layer.parameters("scale_param")
    scale, axis, shape = _operand(layer, "scale", parameters.axis, parameters.num_axes)
    steps = [("Mul", scale)]
    if parameters.bias_term:
        bias = layer.blob(1 if len(layer.inputs) == 1 else 0, "a bias", shape)
        steps.append(("Add", layer.constant("bias", _aligned(layer, bias.shape, axis, bias))))
    layer.chain(layer.inputs[0], *steps)


def _bias(layer: LayerImport) -> None:
    parameters = layer.parameters("bias_param")
    layer.chain(layer.inputs[0], ("Add", _operand(layer, "bias", parameters.axis, parameters.num_axes)[0]))


def _operand(layer: LayerImport, what: str, axis: int, axes: int) -> tuple[str, int, Shape]:
    """The right operand, shaped so that it broadcasts; the axis where it starts, and its own shape."""
    if len(layer.inputs) == 2:
        layer.expect(2)
        shape = layer.shape(1)
        axis = layer.axis(axis) if shape else 0
        if layer.shape()[axis : axis + len(shape)] != shape:
            raise layer.error(f"its second bottom of shape {shape} does not fit axis {axis} of {layer.shape()}")
        return layer.reshape(layer.inputs[1], (*shape, *(1,) * (len(layer.shape()) - axis - len(shape)))), axis, shape
    layer.expect(1)
    axis = layer.axis(axis)
    end = len(layer.shape()) if axes == -1 else axis + axes
    if not axis <= end <= len(layer.shape()):
        raise layer.error(f"num_axes is {axes}, from axis {axis} of a bottom of shape {layer.shape()}")
    shape = layer.shape()[axis:end]
    value = layer.blob(0, f"a {what}", shape)
    return layer.constant(what, _aligned(layer, shape, axis, value)), axis, shape


def _aligned(layer: LayerImport, shape: Shape, axis: int, value: np.ndarray) -> np.ndarray:
    """A value with axes of size 1 behind it, down to the last axis of the bottom."""
    return value.reshape(*shape, *(1,) * (len(layer.shape()) - axis - len(shape)))


def _axpy(layer: LayerImport) -> None:
    """a * x + y, with one a for each channel: the excitation of SENet."""
    layer.expect(3)
    a, x, y = layer.inputs
    n, c = layer.expect_image()[:2]
    if layer.shape(0) != (n, c, 1, 1) or layer.shape(1)[:2] != (n, c) or layer.shape(1) != layer.shape(2):
        shapes = ", ".join(str(layer.shape(index)) for index in range(3))
        raise layer.error(f"its bottoms have the shapes {shapes}; (N, C, 1, 1) and two of (N, C, H, W) are needed")
    layer.result("Add", [layer.step("Mul", [x, a]), y])


def _reduction(layer: LayerImport) -> None:
    """Coefficient times the sum (of magnitudes, of squares) or mean over the axes from `axis` on, which go away."""
    layer.expect(1)
    parameters = layer.parameters("reduction_param")
    x, shape = layer.inputs[0], layer.shape()
    axis = layer.axis(parameters.axis)
    if parameters.operation == ABSOLUTE_SUM:
        x = layer.step("Abs", [x])
    elif parameters.operation == SQUARE_SUM:
        x = layer.step("Mul", [x, x])
    x = layer.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))
    x = _reduced(layer, REDUCTIONS[parameters.operation], x)
    layer.result_reshaped(_scaled(layer, x, parameters.coeff), shape[:axis])


def _reduced(layer: LayerImport, op: str, tensor: str) -> str:
    """A matrix reduced along its rows."""
    shape = (layer.shape_of(tensor)[0], 1)
    if op == "ReduceSum":
        return layer.step(op, [tensor, layer.constant("axes", [1])], shape, keepdims=1)
    return layer.step(op, [tensor], shape, axes=[1], keepdims=1)


def _arg_max(layer: LayerImport) -> None:
    """The index of the largest element along an axis, or of each sample; as a float, as all of Caffe's blobs."""
    layer.expect(1)
    parameters, shape = layer.parameters("argmax_param"), layer.shape()
    if parameters.top_k != 1 or parameters.out_max_val:
        raise layer.unsupported("top_k or out_max_val is given; supported: the index of the largest element")
    x, axis = layer.inputs[0], 1
    if parameters.HasField("axis"):
        axis = layer.axis(parameters.axis)
        out = (*shape[:axis], 1, *shape[axis + 1 :])
    else:
        x = layer.reshape(x, (shape[0], math.prod(shape[1:])))
        out = (shape[0], *(1,) * (max(3, len(shape)) - 1))
    reduced = tuple(1 if index == axis else size for index, size in enumerate(layer.shape_of(x)))
    index = layer.step("ArgMax", [x], reduced, axis=axis, keepdims=1)
    layer.result_reshaped(layer.step("Cast", [index], reduced, to=1), out)


LAYERS: Mapping[str, Handler] = {
    "ArgMax": _arg_max,
    "Axpy": _axpy,
    "Bias": _bias,
    "Eltwise": _eltwise,
    "InnerProduct": _inner_product,
    "Reduction": _reduction,
    "Scale": _scale,
}
