"""What a pooling node is, whatever memory it runs on."""

from __future__ import annotations

from runtime.graph import Graph, Node
from runtime.kernels.codes import Pooling
from runtime.plan.plan import ProfileInfo


def pool_dims(graph: Graph, node: Node) -> dict[str, int]:
    """The window and both extents."""
    attrs = node.attrs
    n, channels, in_h, in_w = graph.shape(node.inputs[0])
    out_h, out_w = graph.shape(node.output)[2:]
    dims = {"batch": n, "in_h": in_h, "in_w": in_w, "channels": channels, "out_h": out_h, "out_w": out_w}
    dims |= {"k_h": attrs["kernel"][0], "k_w": attrs["kernel"][1]}
    dims |= {"stride_h": attrs["strides"][0], "stride_w": attrs["strides"][1]}
    dims |= {"pad_t": attrs["pads"][0], "pad_l": attrs["pads"][1], "dil_h": 1, "dil_w": 1}
    return dims | {"count_include_pad": int(attrs.get("count_include_pad", False))}


def pool_kind(node: Node) -> int:
    """The POOL option."""
    return int(Pooling.MAX if node.op == "MaxPool" else Pooling.AVERAGE)


def pool_shown(graph: Graph, node: Node) -> ProfileInfo:
    """What profiles print."""
    attrs = node.attrs
    return ProfileInfo(graph.shape(node.output), tuple(attrs["kernel"]), tuple(attrs["strides"]), tuple(attrs["pads"]))
