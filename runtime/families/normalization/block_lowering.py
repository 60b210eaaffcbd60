"""Lowers scale and shift on blocked activations."""

from __future__ import annotations

from runtime.families.convolution.block_kernels import BLOCKED_DEPTHWISE
from runtime.graph import Node
from runtime.layout.buffer import pack_rows
from runtime.lowering.activation import activation_code
from runtime.lowering.blocks import BlockedOperator, any_image
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

_ONE_TAP = {"k_h": 1, "k_w": 1, "stride_h": 1, "stride_w": 1, "pad_t": 0, "pad_l": 0, "dil_h": 1, "dil_w": 1}


def lower_scale_shift(builder: Builder, node: Node) -> None:
    """Lowers BatchNormalization, y = activation(x * s[c] + t[c]), as a depthwise convolution of one tap."""
    x, y = builder.read(node.inputs[0], Storage.BLOCKED), builder.write(node.output, Storage.BLOCKED)
    scale, shift = (builder.graph.constants[name].reshape(-1) for name in node.inputs[1:3])
    batch, channels, height, width = x.shape
    tensors: Tensors = {"x": x, "residual": x, "y": y}
    tensors["w"] = builder.constant(node.inputs[1], pack_rows(scale[None, :, None], builder.block))
    tensors["b"] = builder.constant(node.inputs[2], shift)
    dims = {"batch": batch, "in_h": height, "in_w": width, "out_h": height, "out_w": width, "channels": channels}
    code, numbers = activation_code(node.attrs)
    defines = {"ACTIVATION": code, "RESIDUAL": 0, "BLOCK": builder.block}
    shown = ProfileInfo(y.shape)
    builder.launch(BLOCKED_DEPTHWISE, node.name, "BatchNorm", tensors, dims | _ONE_TAP, numbers, defines, shown)


BLOCKED_OPERATORS = {"BatchNormalization": BlockedOperator(any_image, lower_scale_shift)}
