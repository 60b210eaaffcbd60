"""Lowers normalisation, softmax, scale and shift on images."""

from collections.abc import Mapping

from runtime.families.normalization.node import scale_and_shift
from runtime.graph import Node
from runtime.kernels.spec import MemoryType
from runtime.layout.image import ImageLayout
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder
from runtime.lowering.images import emit, extents


def lower_layer_normalization(builder: Builder, node: Node) -> str:
    """Lowers LayerNormalization over the channels of each pixel."""
    if node.attrs["axes"] != (1,):
        return f"normalisation over axes {node.attrs['axes']}; images take channels"
    return _emit(builder, node, {"groups": 1, "spatial": 0, "centered": int(node.attrs["centered"])})


def lower_group_normalization(builder: Builder, node: Node) -> str:
    """Lowers GroupNormalization."""
    return _emit(builder, node, {"groups": node.attrs["groups"], "spatial": 1, "centered": 1})


def _emit(builder: Builder, node: Node, dims: Mapping[str, int]) -> str:
    shape = builder.graph.shape(node.output)
    all_dims = {**extents(shape), **dims}
    reason = builder.refusal("normalization", MemoryType.IMAGE, all_dims)
    if reason:
        return reason
    named = zip("st", scale_and_shift(builder.graph, node, shape[1]), strict=True)
    constants = {key: builder.constant_image(name, data, ImageLayout.ARGUMENT) for key, (name, data) in named}
    code, numbers = activation_code(node.attrs)
    floats = {"epsilon": node.attrs["epsilon"], **numbers}
    return emit(builder, node, "normalization", node.op, all_dims, floats, {"ACTIVATION": code}, constants)


def lower_scale_shift(builder: Builder, node: Node) -> str:
    """Lowers BatchNormalization: y = activation(x * s[c] + t[c])."""
    code, numbers = activation_code(node.attrs)
    data = (builder.graph.constants[name] for name in node.inputs[1:3])
    names = zip("st", node.inputs[1:3], data, strict=True)
    constants = {key: builder.constant_image(name, values, ImageLayout.ARGUMENT) for key, name, values in names}
    dims = extents(builder.graph.shape(node.output))
    return emit(builder, node, "scale_shift", "BatchNorm", dims, numbers, {"ACTIVATION": code}, constants)


def lower_softmax(builder: Builder, node: Node) -> str:
    """Lowers Softmax and LogSoftmax over the channels."""
    if node.attrs["axis"] != 1:
        return f"softmax along axis {node.attrs['axis']}; images take channels"
    defines = {"LOG": int(node.op == "LogSoftmax")}
    return emit(builder, node, "softmax", node.op, extents(builder.graph.shape(node.output)), defines=defines)


def lower_lrn(builder: Builder, node: Node) -> str:
    """Lowers LRN."""
    dims = extents(builder.graph.shape(node.output)) | {"size": node.attrs["size"]}
    return emit(builder, node, "lrn", "LRN", dims, {key: node.attrs[key] for key in ("alpha", "beta", "bias")})


IMAGE_LOWERINGS = {
    "BatchNormalization": lower_scale_shift,
    "LRN": lower_lrn,
    "LayerNormalization": lower_layer_normalization,
    "GroupNormalization": lower_group_normalization,
    **dict.fromkeys(("Softmax", "LogSoftmax"), lower_softmax),
}
