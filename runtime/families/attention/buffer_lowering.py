"""Lowers Attention: one launch, which reads heads and writes them wherever they lie."""

from __future__ import annotations

from runtime.graph import Node
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

_EXTENTS = ("batch", "heads", "queries", "keys", "depth", "values")


def lower_attention(builder: Builder, node: Node) -> None:
    """Lowers Attention, on row-major tensors."""
    values = [builder.read(name, Storage.FLAT) for name in node.inputs]
    q, k, v = (value.from_element(offset) for value, offset in zip(values, node.attrs["offsets"], strict=False))
    y = builder.write(node.output, Storage.FLAT)
    tensors: Tensors = {"q": q, "k": k, "v": v, "mask": values[3] if len(values) > 3 else q, "y": y}
    dims = dict(zip(_EXTENTS, node.attrs["extents"], strict=True))
    for name in ("q", "k", "v", "mask", "y"):
        dims |= {f"{name[0]}s{axis}": step for axis, step in enumerate(node.attrs[f"{name}_strides"])}
    dims |= {"masked": int(len(values) > 3), "causal": int(node.attrs["causal"])}
    floats, shown = {"scale": node.attrs["scale"]}, ProfileInfo(y.shape)
    defines = {"DEPTH": dims["depth"], "VALUES": dims["values"]}
    builder.launch("attention", node.name, "Attention", tensors, dims, floats, defines, shown)


BUFFER_LOWERINGS = {"Attention": lower_attention}
