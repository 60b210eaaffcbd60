"""Storage: how a tensor lies in memory. Shape and padding there are computed from its origin and its storage format.

`to_storage` and `from_storage` are exact in every element type: they only move elements, and fill padding with zero.
docs/layouts.md has the formula of each format; a test evaluates it against this module.
"""

import dataclasses
import math
from collections.abc import Mapping

from runtime.graph import Array
from runtime.layout.arrangement import Arrangement, Shape
from runtime.layout.blocked import blocked_channels
from runtime.layout.buffer import packed_rows
from runtime.layout.image import LANES, PIXELS, ImageLayout, Pixels
from runtime.types import Origin, OriginFormat


@dataclasses.dataclass(frozen=True)
class StorageFormat:
    """A way for tensors to lie in memory.

    Attributes:
        name: what people read.
        arrangement: None for row-major in the origin's own order, whatever its rank.
        rows: of an image, how many stored axes count its rows (`Pixels`); None for a buffer.
    """

    name: str
    arrangement: Arrangement | None = None
    rows: int | None = None

    @property
    def is_image(self) -> bool:
        """Whether it is one of RGBA 2D images; all others are of buffers, a CPU's memory included."""
        return self.rows is not None

    def __str__(self) -> str:
        return self.name


ROW_MAJOR = StorageFormat("row_major")
NCHW = StorageFormat("nchw", Arrangement("nchw", "nchw"))
NHWC = StorageFormat("nhwc", Arrangement("nchw", "nhwc"))


def blocked(block: int) -> StorageFormat:
    """Channels in blocks, as vector units read them: [n][ceil(C/block)][h][w][block]."""
    return StorageFormat(f"nchw{block}c", blocked_channels(block))


def rows_in_blocks(block: int) -> StorageFormat:
    """Weights [groups, rows, cols] in blocks of rows: [groups][ceil(rows/block)][cols][block]."""
    return StorageFormat(f"packed_rows{block}", packed_rows(block))


def of_image(layout: ImageLayout) -> StorageFormat:
    """The storage format of an image's layout."""
    return StorageFormat(str(layout), PIXELS[layout].arrangement, PIXELS[layout].rows)


BLOCKS = (4, 8, 16)
PACKINGS = (1, 2, 4, 8, 16, 32, 64)
# Formats of activations, which plans convert between, and those that only weights have.
ACTIVATIONS = (
    *(ROW_MAJOR, NCHW, NHWC, *map(blocked, BLOCKS)),
    *map(of_image, (ImageLayout.CHANNEL_MAJOR, ImageLayout.HEIGHT_MAJOR, ImageLayout.WIDTH_MAJOR)),
)
FILTERS = (
    *map(of_image, (ImageLayout.CONV_FILTER, ImageLayout.DEPTHWISE_FILTER, ImageLayout.ARGUMENT)),
    *map(rows_in_blocks, PACKINGS),
)
FORMATS: Mapping[str, StorageFormat] = {each.name: each for each in (*ACTIVATIONS, *FILTERS)}


@dataclasses.dataclass(frozen=True)
class TensorStorage:
    """A tensor in memory: its origin and its storage format, from which all else follows.

    Axes are matched by name where the origin names them (an NHWC tensor lies in `nchw8c` by its own channels), and by
    position where it does not (`ND`).
    """

    origin: Origin
    format: StorageFormat

    @property
    def shape(self) -> Shape:
        """Shape in memory, padding included: elements of a buffer, [height, width, 4] of an image."""
        return storage_shape(self.origin, self.format)

    @property
    def elements(self) -> int:
        """Elements in memory, padding included."""
        return math.prod(self.shape)

    @property
    def padding(self) -> int:
        """Elements in memory that hold no element of the tensor."""
        return self.elements - math.prod(self.origin.shape)


def of_graph_axes(form: StorageFormat, origin: OriginFormat, order: OriginFormat) -> StorageFormat:
    """The storage format, by the names of an origin's axes, of a tensor that a graph has in another order.

    The lowering takes axes by position: what it calls NHWC of a tensor whose axes are n, h, w, c has w where channels
    should be. Such formats are rare, and named after both: `nhwc(nhwc)`.
    """
    letters = order.lower()
    if order == OriginFormat.ND:
        return form
    if form.arrangement is None:
        return form if order == origin else FORMATS[letters]
    if form.arrangement.axes == letters or len(form.arrangement.axes) != len(letters):
        return form
    renamed = str.maketrans(form.arrangement.axes + form.arrangement.axes.upper(), letters + letters.upper())
    arrangement = dataclasses.replace(form.arrangement, axes=letters, stored=form.arrangement.stored.translate(renamed))
    return dataclasses.replace(form, name=f"{form.name}({letters})", arrangement=arrangement)


def storage_shape(origin: Origin, form: StorageFormat) -> Shape:
    """The shape in memory of a tensor in a storage format.

    Raises ValueError where the format cannot hold it: it has other axes.
    """
    if form.arrangement is None:
        return origin.shape
    try:
        order = _order(origin, form.arrangement)
        shape = tuple(origin.shape[axis] for axis in order)
        if form.rows is not None:
            width, height = Pixels(form.arrangement, form.rows).size(shape)
            return (height, width, LANES)
        return form.arrangement.extents(shape)
    except ValueError as error:
        raise ValueError(f"{form}: {error}") from None


def to_storage(array: Array, storage: TensorStorage) -> Array:
    """The memory, of `storage.shape`, of a tensor that is given in origin order; padding is zero."""
    if array.shape != storage.origin.shape:
        raise ValueError(f"an array of shape {array.shape} is no tensor of shape {storage.origin.shape}")
    form = storage.format
    if form.arrangement is None:
        return array.copy(order="C")
    return form.arrangement.pack(array.transpose(_order(storage.origin, form.arrangement))).reshape(storage.shape)


def from_storage(memory: Array, storage: TensorStorage) -> Array:
    """The tensor in origin order that lies in memory of `storage.shape`; padding is not looked at."""
    if memory.shape != storage.shape:
        raise ValueError(f"memory of shape {memory.shape} is none of shape {storage.shape} ({storage.format})")
    form = storage.format
    if form.arrangement is None:
        return memory.copy(order="C")
    order = _order(storage.origin, form.arrangement)
    tensor = form.arrangement.unpack(memory, tuple(storage.origin.shape[axis] for axis in order))
    return tensor.transpose([order.index(axis) for axis in range(len(order))]).copy(order="C")


def _order(origin: Origin, arrangement: Arrangement) -> tuple[int, ...]:
    """The axes of an origin in the order of an arrangement's, by their names where the origin has any."""
    if origin.format == OriginFormat.ND:
        return tuple(range(len(origin.shape)))
    letters = origin.format.lower()
    if sorted(letters) != sorted(arrangement.axes):
        raise ValueError(f"a tensor in {origin.format} is none with the axes {arrangement.axes}")
    return tuple(letters.index(axis) for axis in arrangement.axes)
