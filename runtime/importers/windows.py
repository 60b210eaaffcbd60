"""Sliding windows of convolution and pooling: explicit padding from auto_pad and ceil_mode, of any number of axes."""

import dataclasses

from runtime.errors import ModelError
from runtime.importers.onnx_node import OnnxNode
from runtime.semantics.generic import Shape, row_major_strides

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows over the spatial axes; `pads` are all begins, then all ends, what only ceil_mode reads included.

    `declared` are the pads without that.
    """

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: Shape
    declared: Shape

    @property
    def excess(self) -> Shape:
        """What ceil_mode adds at the end of each axis."""
        rank = len(self.kernel)
        return tuple(self.pads[axis + rank] - self.declared[axis + rank] for axis in range(rank))

    def padded(self, size: Shape) -> Shape:
        """Spatial sizes with their pads."""
        rank = len(size)
        return tuple(n + self.pads[axis] + self.pads[axis + rank] for axis, n in enumerate(size))

    def outputs(self, size: Shape) -> Shape:
        """Windows along each axis; ModelError where one is larger than the padded input."""
        spans = [step * (extent - 1) + 1 for step, extent in zip(self.dilations, self.kernel, strict=True)]
        out = tuple((n - s) // step + 1 for n, s, step in zip(self.padded(size), spans, self.strides, strict=True))
        if min(out) < 1:
            raise ModelError(f"window {tuple(spans)} is larger than the padded input {self.padded(size)}")
        return out

    def strides_in(self, shape: Shape) -> tuple[Shape, Shape]:
        """Strides from window to window and within one, in a dense padded tensor of `shape` (n, c, spatial...)."""
        steps = row_major_strides(shape)[2:]
        between = tuple(own * step for own, step in zip(self.strides, steps, strict=True))
        return between, tuple(own * step for own, step in zip(self.dilations, steps, strict=True))


def read_windows(node: OnnxNode, size: Shape, kernel: Shape) -> Windows:
    """Windows of a node over an input of spatial size `size`."""
    rank = len(size)
    if len(kernel) != rank:
        raise ModelError(f"{node}: a window of {len(kernel)} axes over {rank} spatial axes")
    strides, dilations = window_counts(node, "strides", rank), window_counts(node, "dilations", rank)
    spans = tuple(step * (extent - 1) + 1 for step, extent in zip(dilations, kernel, strict=True))
    pads = resolve_pads(node, size, spans, strides)
    ceil = node.integer("ceil_mode", 0)
    excess = ceil_excess(size, spans, strides, pads) if ceil else (0,) * rank
    if any(excess) and node.text("auto_pad", "NOTSET") == "VALID":
        # ONNX's formula then rounds down all the same, ONNX Runtime rounds up.
        raise node.unsupported("ceil_mode", ceil, "0 where windows of auto_pad VALID do not end with the input")
    ends = (pad + more for pad, more in zip(pads[rank:], excess, strict=True))
    return Windows(kernel, strides, dilations, (*pads[:rank], *ends), pads)


def window_counts(node: OnnxNode, name: str, rank: int) -> Shape:
    """An attribute that is a number of at least 1 for each spatial axis, 1 where it is absent."""
    value = node.integers(name) or (1,) * rank
    if len(value) != rank or min(value) < 1:
        raise ModelError(f"{node}: {name} is {list(value)}; {rank} numbers of at least 1 are needed")
    return value


def resolve_pads(node: OnnxNode, size: Shape, window: Shape, strides: Shape) -> Shape:
    """Explicit pads, all begins, then all ends. `size`: of the input; `window`: with dilation."""
    mode = node.choice("auto_pad", "NOTSET", AUTO_PADS)
    rank = len(size)
    pads = node.integers("pads") or (0,) * 2 * rank
    if len(pads) != 2 * rank:
        raise node.unsupported("pads", list(pads), f"{2 * rank} values, for {rank}D")
    if min(pads) < 0:
        raise node.unsupported("pads", list(pads), "values that are not negative")
    if mode == "NOTSET":
        return pads
    if mode == "VALID":
        return (0,) * 2 * rank
    totals = [max((-(-n // s) - 1) * s + w - n, 0) for n, w, s in zip(size, window, strides, strict=True)]
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (*small, *large) if mode == "SAME_UPPER" else (*large, *small)


def ceil_excess(size: Shape, window: Shape, strides: Shape, pads: Shape) -> Shape:
    """What to add at the end of each axis so that rounding down gives the outputs of ceil_mode.

    A window that would start beyond the input and its leading padding is dropped, as ONNX defines.
    """
    excess = []
    for axis in range(len(size)):
        room = size[axis] + pads[axis] + pads[axis + len(size)] - window[axis]
        last = -(-room // strides[axis])
        if last * strides[axis] >= size[axis] + pads[axis]:
            last -= 1
        excess.append(max(0, last * strides[axis] - room))
    return tuple(excess)
