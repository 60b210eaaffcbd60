"""Convolution and Deconvolution, of any groups."""

from collections.abc import Mapping
from typing import Any

from runtime.importers.caffe.layer_import import Handler, LayerImport
from runtime.importers.caffe.onnx_writer import Shape
from runtime.importers.caffe.windows import check_window, spread, window_pair


def _convolution(layer: LayerImport) -> None:
    _convolve(layer, layer.parameters("convolution_param"), None)


def _depthwise(layer: LayerImport) -> None:
    """A fork's layer of its own for as many groups as channels; `group` is not said."""
    _convolve(layer, layer.parameters("convolution_param"), layer.expect_image()[1])


def _convolve(layer: LayerImport, parameters: Any, group: int | None) -> None:
    n, channels, *size = layer.expect_image()
    window = _Window(layer, parameters, group or parameters.group)
    window.check_groups(channels)
    padded = [extent + 2 * pad for extent, pad in zip(size, window.pads, strict=True)]
    layer.check_shape((n, channels, *padded))
    extents = [dilation * (kernel - 1) + 1 for dilation, kernel in zip(window.dilations, window.kernel, strict=True)]
    out = [(a - b) // stride + 1 for a, b, stride in zip(padded, extents, window.strides, strict=True)]
    filters = (window.outputs, channels // window.group, *window.kernel)
    window.emit("Conv", filters, (n, window.outputs, *out))


def _deconvolution(layer: LayerImport) -> None:
    n, channels, *size = layer.expect_image()
    window = _Window(layer, layer.parameters("convolution_param"), layer.parameters("convolution_param").group)
    window.check_groups(channels)
    out = [
        stride * (extent - 1) + dilation * (kernel - 1) + 1 - 2 * pad
        for extent, stride, dilation, kernel, pad in zip(
            size, window.strides, window.dilations, window.kernel, window.pads, strict=True
        )
    ]
    filters = (channels, window.outputs // window.group, *window.kernel)
    window.emit("ConvTranspose", filters, (n, window.outputs, *out))


class _Window:
    """The window of a (de)convolution: kernel, strides, pads and dilations as (vertical, horizontal)."""

    def __init__(self, layer: LayerImport, parameters: Any, group: int) -> None:
        layer.expect(1)
        if parameters.axis != 1:
            raise layer.unsupported(f"axis is {parameters.axis}; supported: 1")
        self._layer = layer
        self.outputs, self.group, self._has_bias = parameters.num_output, group, parameters.bias_term
        self.kernel = window_pair(layer, parameters, "kernel", parameters.kernel_size)
        self.strides = window_pair(layer, parameters, "stride", parameters.stride, 1)
        self.pads = window_pair(layer, parameters, "pad", parameters.pad)
        self.dilations = spread(layer, "dilation", parameters.dilation, 1)
        check_window(layer, kernel=self.kernel, stride=self.strides, dilation=self.dilations)
        check_window(layer, 0, pad=self.pads)

    def check_groups(self, channels: int) -> None:
        """Requires groups that divide the channels of both sides."""
        if min(self.outputs, self.group) < 1 or channels % self.group or self.outputs % self.group:
            raise self._layer.error(f"{channels} channels to {self.outputs} do not split into {self.group} group(s)")

    def emit(self, op: str, filters: Shape, out: Shape) -> None:
        """Adds the node with its weights."""
        layer = self._layer
        inputs = [layer.inputs[0], layer.constant("filter", layer.blob(0, "a filter", filters))]
        if self._has_bias:
            inputs.append(layer.constant("bias", layer.blob(1, "a bias", (self.outputs,))))
        layer.result(
            op,
            inputs,
            out,
            kernel_shape=self.kernel,
            strides=self.strides,
            pads=self.pads * 2,
            dilations=self.dilations,
            group=self.group,
        )


LAYERS: Mapping[str, Handler] = {
    "Convolution": _convolution,
    "ConvolutionDepthwise": _depthwise,
    "DepthwiseConvolution": _depthwise,
    "Deconvolution": _deconvolution,
}
