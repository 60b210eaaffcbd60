"""BatchNorm, LRN, MVN, Normalize and Softmax."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runtime.graph import Array
from runtime.importers.caffe.layer_import import Handler, LayerImport
from runtime.importers.caffe.windows import MAX_SIZE

ACROSS_CHANNELS = 0


def _batch_norm(layer: LayerImport) -> None:
    """(x - mean) / sqrt(variance + eps): stored sums, to be divided by a stored factor, or the batch's own figures."""
    layer.expect(1)
    parameters = layer.parameters("batch_norm_param")
    shape = layer.shape()
    if len(shape) < 2:
        raise layer.unsupported(f"its bottom has shape {shape}; supported: two axes and more")
    if parameters.HasField("use_global_stats") and not parameters.use_global_stats:
        centred, variance = _moments(layer, [axis for axis in range(len(shape)) if axis != 1])
        total = layer.step("Add", [variance, layer.constant("eps", parameters.eps)])
        layer.result("Div", [centred, layer.step("Sqrt", [total])], shape)
        return
    values = {
        "scale": np.ones(shape[1]),
        "shift": np.zeros(shape[1]),
        "mean": _stored(layer, 0, "a mean"),
        "variance": _stored(layer, 1, "a variance"),
    }
    names = [layer.constant(what, value) for what, value in values.items()]
    layer.result("BatchNormalization", [layer.inputs[0], *names], epsilon=parameters.eps)


def _stored(layer: LayerImport, index: int, what: str) -> Array:
    """A mean or variance: the blob times 1 / blob 2, or 0 where that is 0."""
    factor = float(layer.blob(2, "a factor", (1,))[0])
    value: Array = layer.blob(index, what, (layer.shape()[1],)) * np.float32(1 / factor if factor else 0)
    return value


def _moments(layer: LayerImport, axes: Sequence[int]) -> tuple[str, str]:
    """(x - mean, variance) over some axes, which stay with size 1."""
    x = layer.inputs[0]
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(layer.shape()))
    centred = layer.step("Sub", [x, layer.step("ReduceMean", [x], shape, axes=axes, keepdims=1)])
    squares = layer.step("Mul", [centred, centred])
    return centred, layer.step("ReduceMean", [squares], shape, axes=axes, keepdims=1)


def _mvn(layer: LayerImport) -> None:
    """(x - mean) / (deviation + eps) of each channel, or of each sample."""
    layer.expect(1)
    parameters = layer.parameters("mvn_param")
    layer.expect_image()
    centred, variance = _moments(layer, [1, 2, 3] if parameters.across_channels else [2, 3])
    if not parameters.normalize_variance:
        layer.result("Identity", [centred])
        return
    deviation = layer.step("Add", [layer.step("Sqrt", [variance]), layer.constant("eps", parameters.eps)])
    layer.result("Div", [centred, deviation])


def _lrn(layer: LayerImport) -> None:
    layer.expect(1)
    parameters = layer.parameters("lrn_param")
    layer.expect_image()
    size = parameters.local_size
    if size % 2 == 0 or size > MAX_SIZE:
        raise layer.error(f"local_size is {size}; an odd number up to {MAX_SIZE} is needed")
    if parameters.norm_region == ACROSS_CHANNELS:
        attributes = {"alpha": parameters.alpha, "beta": parameters.beta, "bias": parameters.k}
        layer.result("LRN", layer.inputs, size=size, **attributes)
    else:
        _lrn_within_channel(layer, size, parameters.alpha, parameters.beta)


def _lrn_within_channel(layer: LayerImport, size: int, alpha: float, beta: float) -> None:
    """x / (1 + alpha * average of x ** 2 over the window) ** beta; zeros around the image count, `k` does not."""
    x, half = layer.inputs[0], (size - 1) // 2
    layer.check_shape((*layer.shape()[:2], *(extent + 2 * half for extent in layer.shape()[2:])))
    window: dict[str, Any] = {"kernel_shape": [size] * 2, "pads": [half] * 4, "count_include_pad": 1}
    average = layer.step("AveragePool", [layer.step("Mul", [x, x])], **window)
    scaled = layer.step("Mul", [average, layer.constant("alpha", alpha)])
    total = layer.step("Add", [scaled, layer.constant("one", 1.0)])
    layer.result("Mul", [x, layer.step("Pow", [total, layer.constant("exponent", -beta)])])


def _normalize(layer: LayerImport) -> None:
    """x / sqrt(eps + sum of x ** 2) over the channels, or over each sample, times a scale of each channel."""
    layer.expect(1)
    parameters, shape = layer.parameters("norm_param"), layer.expect_image()
    x = layer.inputs[0]
    axes = [1, 2, 3] if parameters.across_spatial else [1]
    reduced = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    squares = layer.step("Mul", [x, x])
    total = layer.step("ReduceSum", [squares, layer.constant("axes", axes)], reduced, keepdims=1)
    norm = layer.step("Sqrt", [layer.step("Add", [total, layer.constant("eps", parameters.eps)])])
    count = 1 if parameters.channel_shared else shape[1]
    scale = layer.constant("scale", layer.blob(0, "a scale", (count,)).reshape(count, 1, 1))
    layer.result("Mul", [layer.step("Div", [x, norm]), scale])


def _softmax(layer: LayerImport) -> None:
    layer.expect(1)
    layer.result("Softmax", layer.inputs, axis=layer.axis(layer.parameters("softmax_param").axis))


LAYERS: Mapping[str, Handler] = {
    "BatchNorm": _batch_norm,
    "LRN": _lrn,
    "MVN": _mvn,
    "Normalize": _normalize,
    "Softmax": _softmax,
}
