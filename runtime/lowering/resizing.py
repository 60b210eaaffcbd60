"""What a Resize node is, whatever memory it runs on.

Nearest: tables of the input row and column of each output row and column. Bilinear: source coordinate = output
coordinate * scale + shift.
"""

from __future__ import annotations

from runtime.graph import Graph, Node
from runtime.lowering.builder import Builder
from runtime.lowering.value import Value
from runtime.nearest import nearest_indices


def resize_kernel(node: Node) -> str:
    """The kernel of its interpolation."""
    return "resize_nearest" if node.attrs["mode"] == "nearest" else "resize_bilinear"


def resize_dims(graph: Graph, node: Node) -> dict[str, int]:
    """Batch, channels and both extents."""
    n, channels, in_h, in_w = graph.shape(node.inputs[0])
    out_h, out_w = graph.shape(node.output)[2:]
    return {"batch": n, "in_h": in_h, "in_w": in_w, "channels": channels, "out_h": out_h, "out_w": out_w}


def resize_tables(builder: Builder, node: Node) -> dict[str, Value]:
    """Nearest: the input row of each output row, and the input column of each output column; bilinear: nothing."""
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
    """Bilinear: scale and shift of both axes."""
    numbers = {}
    for axis, name in enumerate("hw"):
        size, out = graph.shape(node.inputs[0])[2 + axis], graph.shape(node.output)[2 + axis]
        mode = node.attrs["coordinate_transformation_mode"]
        numbers[f"scale_{name}"], numbers[f"shift_{name}"] = _coordinates(mode, size, out, node.attrs["scales"][axis])
    return numbers


def _coordinates(mode: str, size: int, out: int, scale: float) -> tuple[float, float]:
    """(scale, shift) of the source coordinate (ONNX, Resize, coordinate_transformation_mode)."""
    if mode == "align_corners":
        return ((size - 1) / (out - 1) if out > 1 else 0.0), 0.0
    if mode == "asymmetric":
        return 1 / scale, 0.0
    if mode == "pytorch_half_pixel" and out == 1:
        return 0.0, 0.0
    return 1 / scale, 0.5 / scale - 0.5
