"""Describes a ConvTranspose node for the lowering to buffers and to images alike."""

from __future__ import annotations

import numpy as np

from runtime.families.convolution.node import Convolution
from runtime.families.transposed_convolution.geometry import class_count, taps_by_class
from runtime.graph import Array, Node
from runtime.lowering.builder import Builder
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
