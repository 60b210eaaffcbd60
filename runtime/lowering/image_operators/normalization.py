"""Lowers layer, group, instance and root-mean-square normalisation on images."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.graph import Node
from runtime.kernels.spec import MemoryType
from runtime.layout.image import ImageLayout
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder
from runtime.lowering.image_operators.emit import emit, extents
from runtime.lowering.normalization import scale_and_shift


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


LOWERINGS = {
    "LayerNormalization": lower_layer_normalization,
    "GroupNormalization": lower_group_normalization,
}
