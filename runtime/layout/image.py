"""Layouts of RGBA 2D images: which element of a tensor lies in which of the four components of which pixel.

Pixel (x, y) is column x of row y, k its component, `//` floors; b4(v) = ceil(v / 4), r4(v) = 4 * b4(v). Tensors stand
in origin order (NCHW, OIHW, depthwise C1HW). Elements outside the tensor are zero.

    CHANNEL_MAJOR      [n, c, h, w]   (W*b4(C), N*H)      n = y // H, h = y % H, w = x % W, c = x // W * 4 + k
    HEIGHT_MAJOR       [n, c, h, w]   (W*C, N*b4(H))      n = y // b4(H), h = y % b4(H) * 4 + k, w = x % W, c = x // W
    WIDTH_MAJOR        [n, c, h, w]   (b4(W)*C, N*H)      n = y // H, h = y % H, w = x % b4(W) * 4 + k, c = x // b4(W)
    CONV_FILTER        [o, i, h, w]   (r4(I), HW*b4(O))   t = y % HW, h = t // W, w = t % W, o = y // HW * 4 + k, i = x
    DEPTHWISE_FILTER   [c, 1, h, w]   (HW, b4(C))         h = x // W, w = x % W, c = y * 4 + k
    ARGUMENT           [c]            (b4(C), 1)          c = x * 4 + k

The layouts are MACE's ("Memory layout" in its documentation), whose text is read as follows where it contradicts
itself:

- `W * (C+3)/4` and the like mean W * ceil(C/4), with the division first; else the size is too small for odd W.
- Height-major has `n=j%N, h=[j/H*4 + k]`: with N*ceil(H/4) rows, j/H is 0 nearly everywhere, so that most of the
  tensor would be lost. The batch is the slowest index of a row here, as in the two other activation layouts.
- Width-major has `w=[i%W*4 + k], c=i/W`: with ceil(W/4)*C columns the divisor is ceil(W/4), not W.
- The filter's remark that there is no difference to `[H*w*I, (O+3)/4]` holds for the number of pixels at most, and
  only where I is a multiple of 4: that size belongs to another arrangement. The coordinates given are those of
  `[RoundUp<4>(I), H*W*(O+3)/4]`, with zero in the columns from I on.
- The depthwise filter's multiplier M is in the size only; the coordinates hold for M = 1, and M != 1 is refused.
"""

from __future__ import annotations

import dataclasses
import enum
import math

import numpy as np

from runtime.graph import Array

LANES = 4  # components of an RGBA pixel

Shape = tuple[int, ...]


class ImageLayout(enum.StrEnum):
    """Which element lies in which pixel; the module's table has the formulas."""

    CHANNEL_MAJOR = "channel_major"
    HEIGHT_MAJOR = "height_major"
    WIDTH_MAJOR = "width_major"
    CONV_FILTER = "conv_filter"
    DEPTHWISE_FILTER = "depthwise_filter"
    ARGUMENT = "argument"


@dataclasses.dataclass(frozen=True)
class _Rule:
    """A layout as data: one letter an axis, in origin order.

    Four neighbours on axis `lanes` share a pixel, so that in `rows` and `columns` (slowest axis first) this letter
    stands for the blocks of four. Axes in `rounded` are extended to a multiple of four; those in `single` must be 1.
    """

    axes: str
    lanes: str
    rows: str
    columns: str
    rounded: str = ""
    single: str = ""


_RULES = {
    ImageLayout.CHANNEL_MAJOR: _Rule("nchw", lanes="c", rows="nh", columns="cw"),
    ImageLayout.HEIGHT_MAJOR: _Rule("nchw", lanes="h", rows="nh", columns="cw"),
    ImageLayout.WIDTH_MAJOR: _Rule("nchw", lanes="w", rows="nh", columns="cw"),
    ImageLayout.CONV_FILTER: _Rule("oihw", lanes="o", rows="ohw", columns="i", rounded="i"),
    ImageLayout.DEPTHWISE_FILTER: _Rule("cmhw", lanes="c", rows="c", columns="mhw", single="m"),
    ImageLayout.ARGUMENT: _Rule("c", lanes="c", rows="", columns="c"),
}


def image_size(layout: ImageLayout, shape: Shape) -> tuple[int, int]:
    """Width and height in pixels of the image that holds a tensor of this shape (origin order)."""
    extents = _extents(layout, shape)
    rule = _RULES[layout]
    return math.prod(extents[axis] for axis in rule.columns), math.prod(extents[axis] for axis in rule.rows)


def to_image(array: Array, layout: ImageLayout) -> Array:
    """The pixels [height, width, 4] of a tensor in origin order; its element type is kept, gaps are zero."""
    rule = _RULES[layout]
    extents = _extents(layout, array.shape)
    padded = np.pad(
        array, [(0, stored - size) for stored, size in zip(_stored(rule, extents), array.shape, strict=True)]
    )
    order = [_split_axes(rule).index(axis) for axis in (*rule.rows, *rule.columns, "lane")]
    width, height = image_size(layout, array.shape)
    return padded.reshape(_split_shape(rule, extents)).transpose(order).reshape(height, width, LANES)


def from_image(pixels: Array, layout: ImageLayout, shape: Shape) -> Array:
    """The tensor of `shape` (origin order) in the upper left of an image [height, width, 4]; inverse of `to_image`."""
    rule = _RULES[layout]
    extents = _extents(layout, shape)
    width, height = image_size(layout, shape)
    stored_order = (*rule.rows, *rule.columns, "lane")
    split = pixels[:height, :width].reshape([LANES if axis == "lane" else extents[axis] for axis in stored_order])
    padded = split.transpose([stored_order.index(axis) for axis in _split_axes(rule)]).reshape(_stored(rule, extents))
    return padded[tuple(slice(size) for size in shape)]


def _extents(layout: ImageLayout, shape: Shape) -> dict[str, int]:
    """Axis -> its extent in the image: blocks of four on the axis of the lanes, else elements."""
    rule = _RULES[layout]
    if len(shape) != len(rule.axes):
        raise ValueError(f"{layout} holds tensors of {len(rule.axes)} axes, not of shape {shape}")
    sizes = dict(zip(rule.axes, shape, strict=True))
    if any(sizes[axis] != 1 for axis in rule.single):
        raise ValueError(f"{layout}: a multiplier other than 1 in shape {shape}")
    for axis in rule.rounded:
        sizes[axis] = -(-sizes[axis] // LANES) * LANES
    return sizes | {rule.lanes: -(-sizes[rule.lanes] // LANES)}


def _stored(rule: _Rule, extents: dict[str, int]) -> Shape:
    """The tensor's shape with its padding."""
    return tuple(extents[axis] * (LANES if axis == rule.lanes else 1) for axis in rule.axes)


def _split_axes(rule: _Rule) -> list[str]:
    """The axes in origin order, the lanes behind their blocks."""
    return [part for axis in rule.axes for part in ((axis, "lane") if axis == rule.lanes else (axis,))]


def _split_shape(rule: _Rule, extents: dict[str, int]) -> Shape:
    return tuple(LANES if axis == "lane" else extents[axis] for axis in _split_axes(rule))
