"""Describes a Resize node for the lowering to buffers and to images alike.

A nearest resize reads tables: the input row of each output row, and the input column of each output column. A bilinear
one computes its source coordinates as output coordinate * scale + shift.
"""

from __future__ import annotations

from runtime.families.resize.nearest import nearest_indices
from runtime.graph import Graph, Node
from runtime.lowering.builder import Builder
from runtime.lowering.value import Value


def resize_kernel(node: Node) -> str:
    """Returns the name of the kernel for the node's interpolation."""
    return "resize_nearest" if node.attrs["mode"] == "nearest" else "resize_bilinear"


def resize_dims(graph: Graph, node: Node) -> dict[str, int]:
    """Returns the kernel's integer arguments: batch, channels, and the extents of input and output."""
    n, channels, in_h, in_w = graph.shape(node.inputs[0])
    out_h, out_w = graph.shape(node.output)[2:]
    return {"batch": n, "in_h": in_h, "in_w": in_w, "channels": channels, "out_h": out_h, "out_w": out_w}


def resize_tables(builder: Builder, node: Node) -> dict[str, Value]:
    """Returns the tables `rows` and `columns` of a nearest resize: the input index of each output; else nothing."""
    if node.attrs["mode"] != "nearest":
        return {}
    tables = {}
    for axis, name in enumerate(("rows", "columns")):
        extent, size = builder.graph.shape(node.inputs[0])[2 + axis], node.attrs["sizes"][axis]
        modes = node.attrs["coordinate_transformation_mode"], node.attrs["nearest_mode"]
        indices = nearest_indices(extent, size, node.attrs["scales"][axis], *modes)
        tables[name] = builder.table(f"{node.name}:{name}", indices)
    return tables


def resize_numbers(graph: Graph, node: Node) -> dict[str, float]:
    """Returns the kernel's numbers: scale and shift of height and width, which a bilinear resize needs."""
    numbers = {}
    for axis, name in enumerate("hw"):
        size, out = graph.shape(node.inputs[0])[2 + axis], graph.shape(node.output)[2 + axis]
        mode = node.attrs["coordinate_transformation_mode"]
        numbers[f"scale_{name}"], numbers[f"shift_{name}"] = _coordinates(mode, size, out, node.attrs["scales"][axis])
    return numbers


def _coordinates(mode: str, size: int, out: int, scale: float) -> tuple[float, float]:
    """Returns scale and shift that give the source coordinate, as ONNX Resize defines its coordinate modes."""
    if mode == "align_corners":
        return ((size - 1) / (out - 1) if out > 1 else 0.0), 0.0
    if mode == "asymmetric":
        return 1 / scale, 0.0
    if mode == "pytorch_half_pixel" and out == 1:
        return 0.0, 0.0
    return 1 / scale, 0.5 / scale - 0.5
