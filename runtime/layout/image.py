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

import dataclasses
import enum
import math

import numpy as np

from runtime.graph import Array, fill
from runtime.layout.arrangement import Arrangement, Shape

LANES = 4  # components of an RGBA pixel


class ImageLayout(enum.StrEnum):
    """Which element lies in which pixel; the module's table has the formulas."""

    CHANNEL_MAJOR = "channel_major"
    HEIGHT_MAJOR = "height_major"
    WIDTH_MAJOR = "width_major"
    CONV_FILTER = "conv_filter"
    DEPTHWISE_FILTER = "depthwise_filter"
    ARGUMENT = "argument"


@dataclasses.dataclass(frozen=True)
class Pixels:
    """A layout as data: the first `rows` stored axes count rows of the image, the others columns, the last lanes."""

    arrangement: Arrangement
    rows: int

    def size(self, shape: Shape) -> tuple[int, int]:
        """Width and height in pixels."""
        extents = self.arrangement.extents(shape)
        return math.prod(extents[self.rows : -1]), math.prod(extents[: self.rows])


PIXELS = {
    ImageLayout.CHANNEL_MAJOR: Pixels(Arrangement("nchw", "nhCwc", LANES), 2),
    ImageLayout.HEIGHT_MAJOR: Pixels(Arrangement("nchw", "nHcwh", LANES), 2),
    ImageLayout.WIDTH_MAJOR: Pixels(Arrangement("nchw", "nhcWw", LANES), 2),
    ImageLayout.CONV_FILTER: Pixels(Arrangement("oihw", "Ohwio", LANES, rounded="i"), 3),
    ImageLayout.DEPTHWISE_FILTER: Pixels(Arrangement("cmhw", "Cmhwc", LANES, single="m"), 1),
    ImageLayout.ARGUMENT: Pixels(Arrangement("c", "Cc", LANES), 0),
}


def image_size(layout: ImageLayout, shape: Shape) -> tuple[int, int]:
    """Width and height in pixels of the image that holds a tensor of this shape (origin order)."""
    return PIXELS[layout].size(shape)


def to_image(array: Array, layout: ImageLayout, pixels: Array | None = None) -> Array:
    """The pixels [height, width, 4] of a tensor in origin order, gaps are zero; `pixels`: an array to write them
    into, in its element type."""
    width, height = image_size(layout, array.shape)
    made = np.empty((height, width, LANES), array.dtype) if pixels is None else pixels
    packed = PIXELS[layout].arrangement.view(array)
    fill(made.reshape(packed.shape), packed)
    return made
