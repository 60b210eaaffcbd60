"""MaxPool and AveragePool."""

from __future__ import annotations

from runtime.graph import Node
from runtime.kernels.codes import Pool
from runtime.lowering.builder import Builder
from runtime.plan.plan import Shown
from runtime.plan.records import Storage


def lower_pool(builder: Builder, node: Node) -> None:
    """One launch over NHWC."""
    attrs = node.attrs
    x = builder.read(node.inputs[0], Storage.NHWC)
    y = builder.write(node.output, Storage.NHWC)
    n, channels, in_h, in_w = x.shape
    dims = {"batch": n, "in_h": in_h, "in_w": in_w, "channels": channels, "out_h": y.shape[2], "out_w": y.shape[3]}
    dims |= {"k_h": attrs["kernel"][0], "k_w": attrs["kernel"][1]}
    dims |= {"stride_h": attrs["strides"][0], "stride_w": attrs["strides"][1]}
    dims |= {"pad_t": attrs["pads"][0], "pad_l": attrs["pads"][1], "dil_h": 1, "dil_w": 1}
    dims["count_include_pad"] = int(attrs.get("count_include_pad", False))
    kind = Pool.MAX if node.op == "MaxPool" else Pool.AVERAGE
    shown = Shown(y.shape, tuple(attrs["kernel"]), tuple(attrs["strides"]), tuple(attrs["pads"]))
    builder.launch("pool", node.name, "Pooling", {"x": x, "y": y}, dims, defines={"POOL": kind}, shown=shown)


LOWERINGS = {"MaxPool": lower_pool, "AveragePool": lower_pool}
