"""Describes a pooling node for the lowering to buffers and to images alike."""

from __future__ import annotations

from runtime.graph import Graph, Node
from runtime.kernels.codes import Pooling
from runtime.plan.plan import ProfileInfo


def pool_dims(graph: Graph, node: Node) -> dict[str, int]:
    """Returns the kernel's integer arguments: window, strides, pads, and the extents of input and output."""
    attrs = node.attrs
    n, channels, in_h, in_w = graph.shape(node.inputs[0])
    out_h, out_w = graph.shape(node.output)[2:]
    dims = {"batch": n, "in_h": in_h, "in_w": in_w, "channels": channels, "out_h": out_h, "out_w": out_w}
    dims |= {"k_h": attrs["kernel"][0], "k_w": attrs["kernel"][1]}
    dims |= {"stride_h": attrs["strides"][0], "stride_w": attrs["strides"][1]}
    dims |= {"pad_t": attrs["pads"][0], "pad_l": attrs["pads"][1], "dil_h": 1, "dil_w": 1}
    return dims | {"count_include_pad": int(attrs.get("count_include_pad", False))}


def pool_kind(node: Node) -> int:
    """Returns the value of the kernel's POOL option."""
    return int(Pooling.MAX if node.op == "MaxPool" else Pooling.AVERAGE)


def pool_shown(graph: Graph, node: Node) -> ProfileInfo:
    """Returns what profiles print of a pooling node."""
    attrs = node.attrs
    return ProfileInfo(graph.shape(node.output), tuple(attrs["kernel"]), tuple(attrs["strides"]), tuple(attrs["pads"]))
