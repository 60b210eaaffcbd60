"""Lowers scale and shift, and normalisation by groups of channels, on blocked activations."""

from __future__ import annotations

from runtime.families.convolution.block_kernels import BLOCKED_DEPTHWISE
from runtime.families.normalization.block_kernels import BLOCKED_NORMALIZATION
from runtime.families.normalization.node import scale_and_shift
from runtime.graph import Node
from runtime.layout.buffer import pack_rows
from runtime.lowering.activation import activation_code
from runtime.lowering.blocks import BlockedOperator, any_image
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

_ONE_TAP = {
    "k_h": 1,
    "k_w": 1,
    "stride_h": 1,
    "stride_w": 1,
    "pad_t": 0,
    "pad_l": 0,
    "dil_h": 1,
    "dil_w": 1,
    "group": 1,
}


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


def lower_group_normalization(builder: Builder, node: Node) -> None:
    """Lowers GroupNormalization, which InstanceNormalization is with a group for each channel."""
    x, y = builder.read(node.inputs[0], Storage.BLOCKED), builder.write(node.output, Storage.BLOCKED)
    batch, channels, height, width = x.shape
    scale, shift = (builder.constant(name, data) for name, data in scale_and_shift(builder.graph, node, channels))
    dims = {"batch": batch, "channels": channels, "groups": node.attrs["groups"], "pixels": height * width}
    code, numbers = activation_code(node.attrs)
    defines = {"ACTIVATION": code, "BLOCK": builder.block}
    floats = {"epsilon": node.attrs["epsilon"], **numbers}
    tensors: Tensors = {"x": x, "s": scale, "t": shift, "y": y}
    builder.launch(BLOCKED_NORMALIZATION, node.name, node.op, tensors, dims, floats, defines, ProfileInfo(y.shape))


BLOCKED_OPERATORS = {
    "BatchNormalization": BlockedOperator(any_image, lower_scale_shift),
    "GroupNormalization": BlockedOperator(any_image, lower_group_normalization),
}
