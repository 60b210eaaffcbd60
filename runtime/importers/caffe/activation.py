"""Layers that compute each element on its own: ReLU and its kin, Power, Exp, Log, Threshold, Dropout."""

import math
from collections.abc import Mapping
from typing import Any

from runtime.importers.caffe.layer_import import Handler, LayerImport


def _plain(op: str) -> Handler:
    def handle(layer: LayerImport) -> None:
        layer.expect(1)
        layer.result(op, layer.inputs)

    return handle


def _relu(layer: LayerImport) -> None:
    layer.expect(1)
    slope = layer.parameters("relu_param").negative_slope
    if slope:
        layer.result("LeakyRelu", layer.inputs, alpha=slope)
    else:
        layer.result("Relu", layer.inputs)


def _prelu(layer: LayerImport) -> None:
    """The slope of each channel, or one for all, to broadcast from the channels on."""
    layer.expect(1)
    shape = layer.shape()
    if len(shape) < 2:
        raise layer.unsupported(f"its bottom has shape {shape}; supported: two axes and more")
    count = 1 if layer.parameters("prelu_param").channel_shared else shape[1]
    slope = layer.blob(0, "a slope", (count,)).reshape(count, *(1,) * (len(shape) - 2))
    layer.result("PRelu", [layer.inputs[0], layer.constant("slope", slope)])


def _elu(layer: LayerImport) -> None:
    layer.expect(1)
    layer.result("Elu", layer.inputs, alpha=layer.parameters("elu_param").alpha)


def _swish(layer: LayerImport) -> None:
    layer.expect(1)
    x, beta = layer.inputs[0], layer.parameters("swish_param").beta
    scaled = x if beta == 1 else layer.step("Mul", [x, layer.constant("beta", beta)])
    layer.result("Mul", [x, layer.step("Sigmoid", [scaled])])


def _clip(layer: LayerImport) -> None:
    layer.expect(1)
    bounds = layer.parameters("clip_param")
    _clipped(layer, bounds.min, bounds.max)


def _clipped(layer: LayerImport, low: float, high: float) -> None:
    layer.result("Clip", [layer.inputs[0], layer.constant("min", low), layer.constant("max", high)])


def _relu6(layer: LayerImport) -> None:
    layer.expect(1)
    _clipped(layer, 0.0, 6.0)


def _power(layer: LayerImport) -> None:
    """(shift + scale * x) ** power."""
    layer.expect(1)
    parameters = layer.parameters("power_param")
    steps = _affine(layer, parameters)
    if parameters.power != 1:
        steps.append(("Pow", layer.constant("power", parameters.power)))
    layer.chain(layer.inputs[0], *steps)


def _affine(layer: LayerImport, parameters: Any, factor: float = 1.0) -> list[tuple[str, str]]:
    """factor * (shift + scale * x), without the steps that change nothing."""
    steps = []
    if parameters.scale * factor != 1:
        steps.append(("Mul", layer.constant("scale", parameters.scale * factor)))
    if parameters.shift:
        steps.append(("Add", layer.constant("shift", parameters.shift * factor)))
    return steps


def _natural_log_of_base(layer: LayerImport, base: float) -> float:
    """The natural logarithm of a base; -1 stands for e."""
    if base == -1:
        return 1.0
    if not base > 0:
        raise layer.error(f"base is {base:g}; a positive number, or -1 for e, is needed")
    return math.log(base)


def _exp(layer: LayerImport) -> None:
    """base ** (shift + scale * x)."""
    layer.expect(1)
    parameters = layer.parameters("exp_param")
    x = layer.inputs[0]
    for op, operand in _affine(layer, parameters, _natural_log_of_base(layer, parameters.base)):
        x = layer.step(op, [x, operand])
    layer.result("Exp", [x])


def _log(layer: LayerImport) -> None:
    """Logarithm to a base of shift + scale * x."""
    layer.expect(1)
    parameters = layer.parameters("log_param")
    divisor = _natural_log_of_base(layer, parameters.base)
    if not divisor:
        raise layer.error("base is 1, to which no logarithm exists")
    x = layer.inputs[0]
    for op, operand in _affine(layer, parameters):
        x = layer.step(op, [x, operand])
    layer.chain(layer.step("Log", [x]), *([("Mul", layer.constant("factor", 1 / divisor))] if divisor != 1 else []))


def _threshold(layer: LayerImport) -> None:
    """1 where an element is above the threshold, else 0."""
    layer.expect(1)
    threshold = layer.constant("threshold", layer.parameters("threshold_param").threshold)
    layer.result("Cast", [layer.step("Greater", [layer.inputs[0], threshold])], to=1)


LAYERS: Mapping[str, Handler] = {
    "AbsVal": _plain("Abs"),
    "BNLL": _plain("Softplus"),
    "Clip": _clip,
    "Dropout": _plain("Identity"),
    "ELU": _elu,
    "Exp": _exp,
    "Log": _log,
    "Power": _power,
    "PReLU": _prelu,
    "ReLU": _relu,
    "ReLU6": _relu6,
    "Sigmoid": _plain("Sigmoid"),
    "Swish": _swish,
    "TanH": _plain("Tanh"),
    "Threshold": _threshold,
}
