"""Sliding windows of convolution and pooling: explicit padding from auto_pad and ceil_mode."""

from __future__ import annotations

from runtime.errors import ModelError
from runtime.importers.onnx_node import OnnxNode

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def pair(node: OnnxNode, name: str, default: tuple[int, ...] = (1, 1)) -> tuple[int, ...]:
    """An attribute of a 2D window, (vertical, horizontal), each at least 1."""
    value = node.integers(name, default)
    if len(value) != 2:
        raise node.unsupported(name, list(value), "two values, for 2D")
    if min(value) < 1:
        raise ModelError(f"{node}: {name} is {list(value)}; at least 1 is needed")
    return value


def resolve_pads(
    node: OnnxNode, size: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, ...]:
    """Explicit pads (top, left, bottom, right). `size`: input (height, width); `window`: with dilation."""
    mode = node.choice("auto_pad", "NOTSET", AUTO_PADS)
    pads = node.integers("pads", (0, 0, 0, 0))
    if len(pads) != 4:
        raise node.unsupported("pads", list(pads), "four values, for 2D")
    if min(pads) < 0:
        raise node.unsupported("pads", list(pads), "values that are not negative")
    if mode == "NOTSET":
        return pads
    if mode == "VALID":
        return (0, 0, 0, 0)
    totals = [max((-(-n // s) - 1) * s + w - n, 0) for n, w, s in zip(size, window, strides, strict=True)]
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (*small, *large) if mode == "SAME_UPPER" else (*large, *small)


def ceil_excess(
    size: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...]
) -> tuple[int, int]:
    """Rows and columns to add at the end so that rounding down gives the outputs of ceil_mode.

    A window that would start beyond the input and its leading padding is dropped, as ONNX defines.
    """
    excess = []
    for axis in (0, 1):
        room = size[axis] + pads[axis] + pads[axis + 2] - window[axis]
        last = -(-room // strides[axis])
        if last * strides[axis] >= size[axis] + pads[axis]:
            last -= 1
        excess.append(max(0, last * strides[axis] - room))
    return excess[0], excess[1]
