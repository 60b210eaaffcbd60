"""What a Resize node is, whatever memory it runs on: source coordinate = output coordinate * scale + shift."""

from __future__ import annotations

from runtime.graph import Graph, Node
from runtime.kernels.codes import Resize

_ROUND_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def resize_dims(graph: Graph, node: Node) -> dict[str, int]:
    """Both extents and the rounding of nearest interpolation."""
    n, channels, in_h, in_w = graph.shape(node.inputs[0])
    out_h, out_w = graph.shape(node.output)[2:]
    dims = {"batch": n, "in_h": in_h, "in_w": in_w, "channels": channels, "out_h": out_h, "out_w": out_w}
    return dims | {"round_mode": _ROUND_MODES.index(node.attrs["nearest_mode"])}


def resize_numbers(graph: Graph, node: Node) -> dict[str, float]:
    """Scale and shift of both axes."""
    numbers = {}
    for axis, name in enumerate("hw"):
        size, out = graph.shape(node.inputs[0])[2 + axis], graph.shape(node.output)[2 + axis]
        mode = node.attrs["coordinate_transformation_mode"]
        numbers[f"scale_{name}"], numbers[f"shift_{name}"] = _coordinates(mode, size, out, node.attrs["scales"][axis])
    return numbers


def resize_kind(node: Node) -> int:
    """The RESIZE option."""
    return int(Resize.NEAREST if node.attrs["mode"] == "nearest" else Resize.BILINEAR)


def _coordinates(mode: str, size: int, out: int, scale: float) -> tuple[float, float]:
    """(scale, shift) of the source coordinate (ONNX, Resize, coordinate_transformation_mode)."""
    if mode == "align_corners":
        return ((size - 1) / (out - 1) if out > 1 else 0.0), 0.0
    if mode == "asymmetric":
        return 1 / scale, 0.0
    if mode == "pytorch_half_pixel" and out == 1:
        return 0.0, 0.0
    return 1 / scale, 0.5 / scale - 0.5
