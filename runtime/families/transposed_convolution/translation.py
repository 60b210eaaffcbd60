"""ConvTranspose, with a filter for each channel or any other, on buffers and on images; and the sizes to measure."""

from typing import Any

import numpy as np

from runtime.families.convolution import buffer_lowering as convolution
from runtime.families.convolution import image_lowering as on_images
from runtime.families.convolution.node import Convolution
from runtime.families.transposed_convolution.geometry import class_count, taps_by_class
from runtime.graph import Array, Node
from runtime.layout.image import ImageLayout
from runtime.lowering.builder import Builder
from runtime.operators.case import OperatorCase, shape_text
from runtime.plan.plan import ProfileInfo
from runtime.semantics.shape_functions import Shape


class TransposedConvolution(Convolution):
    """One ConvTranspose node, as a convolution whose filters are [outputs, inputs of a group, taps in their order]."""

    def __init__(self, builder: Builder, node: Node) -> None:
        super().__init__(builder, node)
        given = self.filter
        self._kernel: Shape = tuple(given.shape[2:])
        self.filter = self._ordered(given)[:, :, None]

    @property
    def kernel(self) -> Shape:
        """Filter (height, width)."""
        return self._kernel

    @property
    def shown(self) -> ProfileInfo:
        """What profiles print; a negative pad, which adds outputs, as none."""
        filters = (*self.filter.shape[:2], *self._kernel)
        pads = tuple(max(pad, 0) for pad in self.pads)
        return ProfileInfo(self.y_shape, filters, self.strides, pads, self.dilations)

    def _ordered(self, given: Array) -> Array:
        """Filters [inputs, outputs of a group, height, width] as [outputs, inputs of a group, taps by class]."""
        rows, columns = zip(*taps_by_class(self._kernel, self.strides, self.dilations), strict=True)
        inputs, outputs = given.shape[:2]
        taps = given[:, :, rows, columns].reshape(self.group, inputs // self.group, outputs, -1)
        return np.ascontiguousarray(taps.transpose(0, 2, 1, 3)).reshape(self.group * outputs, inputs // self.group, -1)

    def window(self) -> dict[str, int]:
        """Dims that describe how inputs spread."""
        steps = [class_count(stride, gap) for stride, gap in zip(self.strides, self.dilations, strict=True)]
        return super().window() | {"step_h": steps[0], "step_w": steps[1]}


def lower_conv_transpose(builder: Builder, node: Node) -> None:
    """Emits the one launch; depthwise filters lie as [taps][channels]."""
    conv = TransposedConvolution(builder, node)
    if conv.is_depthwise:
        taps = np.ascontiguousarray(conv.filter.reshape(conv.group, -1).T)
        weights = builder.constant(node.inputs[1], taps)
        convolution.emit_convolution(
            conv, "deconv_depthwise", "DepthwiseDeconv2d", conv.window() | {"channels": conv.group}, weights
        )
        return
    dims = conv.window() | conv.per_group() | {"groups": conv.group}
    convolution.emit_convolution(conv, "deconv2d", "Deconv2D", dims, convolution.filter_rows(conv))


BUFFER_LOWERINGS = {"ConvTranspose": lower_conv_transpose}


def conv_transpose_on_images(builder: Builder, node: Node) -> str:
    """Emits the one launch, or returns why it cannot run."""
    conv = TransposedConvolution(builder, node)
    if conv.is_depthwise:
        dims = conv.window() | {"channels": conv.group}
        layout = ImageLayout.DEPTHWISE_FILTER
        return on_images.emit_convolution(conv, "deconv_depthwise", "DepthwiseDeconv2d", dims, conv.filter, layout)
    dims = conv.window() | conv.per_group() | {"groups": conv.group}
    return on_images.emit_convolution(conv, "deconv2d", "Deconv2D", dims, conv.filter, ImageLayout.CONV_FILTER)


IMAGE_LOWERINGS = {"ConvTranspose": conv_transpose_on_images}


def _conv_transpose(c: int, size: int, out: int, k: int, stride: int, group: int = 1) -> OperatorCase:
    """Padded so that the size is multiplied by the stride."""
    pad, x = (k - stride) // 2, (1, c, size, size)
    attrs: dict[str, Any] = {"strides": (stride,) * 2, "pads": (pad,) * 4, "dilations": (1, 1), "group": group}
    attrs |= {"output_padding": (0, 0), "activation": "relu"}
    name = f"ConvTranspose_{shape_text(x)}_K{k}x{k}S{stride}x{stride}D1x1G{group}_{out}"
    return OperatorCase(name, "ConvTranspose", (x,), ((c, out // group, k, k), (out,)), attrs)


OPBENCH_CASES = (
    _conv_transpose(128, 28, 64, k=2, stride=2),
    _conv_transpose(256, 16, 128, k=4, stride=2),
    _conv_transpose(21, 32, 21, k=4, stride=2, group=21),
    _conv_transpose(21, 16, 21, k=16, stride=8, group=21),
)
