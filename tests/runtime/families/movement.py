"""What tests launch the kernels of movement with, and what they compute."""

import numpy as np

from runtime.kernels.codes import Pad
from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, indexed, nest
from tests.runtime.kernel_cases import EXTENTS, TABLE, Case, numbered, row_major

JOINED = {"a_channels": 3, "b_channels": 4, "c_channels": 2, "d_channels": 4, "y_block": 0}
PART = {"start_n": 0, "start_c": 1, "start_h": 1, "start_w": 2, "step_h": 1, "step_w": 1, "in_h": 4, "in_w": 7}


def copy(extents: tuple[int, ...], xs: tuple[int, ...], ys: tuple[int, ...], source: int = 1, target: int = 1) -> Case:
    lead = 6 - len(extents)
    dims = numbered("d", (1,) * lead + extents)
    dims |= numbered("xs", (0,) * lead + xs) | numbered("ys", (0,) * lead + ys)
    return Case(TABLE["copy"], dims, {"SRC_F32": source, "DST_F32": target})


def pad(
    kind: int, extents: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...], nhwc: bool = False
) -> Case:
    out = tuple(e + b + a for e, b, a in zip(extents, before, after, strict=True))
    xs, ys = row_major(extents), row_major(out)
    if nhwc:
        xs, ys = channels_last(extents), channels_last(out)
    dims = numbered("d", out) | numbered("i", extents) | numbered("p", before) | numbered("xs", xs) | numbered("ys", ys)
    return Case(TABLE["pad"], dims, {"PAD": kind}, {"value": 0.5})


def channels_last(extents: tuple[int, ...], gap: int = 0) -> tuple[int, ...]:
    """Strides of (n, c, h, w) axes in NHWC."""
    _, c, h, w = extents
    return (h * w * (c + gap), 1, w * (c + gap), c + gap)


def compute_copy(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    return nest(arrays["x"], indexed(dims, "d", 6), indexed(dims, "xs", 6))


def compute_pad(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    extents, outputs, before = (indexed(dims, prefix, 4) for prefix in "idp")
    x = nest(arrays["x"], extents, indexed(dims, "xs", 4))
    widths = [(b, d - i - b) for b, d, i in zip(before, outputs, extents, strict=True)]
    if defines["PAD"] == Pad.CONSTANT:
        return np.pad(x, widths, constant_values=floats["value"])
    return np.pad(x, widths, mode="reflect" if defines["PAD"] == Pad.REFLECT else "edge")


CASES: dict[str, Case] = {
    "copy row": copy((67,), (1,), (1,)),
    "copy NCHW to NHWC": copy((35, 3), (1, 35), (3, 1)),
    "copy NHWC to NCHW": copy((19, 35), (1, 19), (35, 1)),
    "copy shuffle": copy((6, 3, 8), (24, 8, 1), (24, 1, 3)),
    "copy 6 axes": copy((2, 3, 2, 3, 2, 5), (180, 60, 30, 10, 5, 1), (1, 2, 6, 12, 36, 72)),
    "copy to plan": copy((5, 19), (19, 1), (25, 1), source=1, target=0),
    "copy from plan": copy((5, 19), (25, 1), (19, 1), source=0, target=1),
    "copy narrow": copy((4, 33), (40, 1), (33, 1), source=0, target=0),
    **{f"pad {kind.name}": pad(kind, (2, 3, 4, 7), (0, 1, 2, 3), (0, 1, 2, 1)) for kind in Pad},
    **{f"pad {kind.name} NHWC": pad(kind, (1, 19, 4, 3), (0, 0, 1, 2), (0, 0, 2, 1), nhwc=True) for kind in Pad},
}
ORACLES = {"copy": compute_copy, "pad": compute_pad}
IMAGE_CASES = {
    "concat": ({"rows": 3, "width": 5} | JOINED, (), {}),
    "slice": (EXTENTS | PART, (), {}),
    "channel_shuffle": (EXTENTS | {"groups": 3}, (), {}),
    "pad": (EXTENTS | {"in_h": 2, "in_w": 4, "pad_t": 1, "pad_l": 0}, (0.5,), {"PAD": 0}),
}
IMAGE_SHAPES = {
    "concat": {"a": (1, 3, 3, 5), "b": (1, 4, 3, 5), "c": (1, 2, 3, 5), "d": (1, 4, 3, 5)},
    "slice": {"x": (2, 9, 4, 7)},
}
