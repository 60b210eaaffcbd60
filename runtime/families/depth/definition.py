"""What DepthToSpace and SpaceToDepth are: their rows, what they compute, and their kernels.

A block is `blocksize` x `blocksize` pixels (i, j) of a channel c. The deep tensor has them as channels: in the order
(i, j, c) where `mode` is DCR (TensorFlow's), (c, i, j) where it is CRD (PyTorch's pixel_shuffle).
"""

from collections.abc import Mapping, Sequence

from runtime.errors import ModelError
from runtime.families.depth.axes import Blocks
from runtime.graph import Array
from runtime.kernels.image.pixels import EXTENTS, image_of, pixel_items
from runtime.kernels.image.spec import Images, activation_image, image_kernel
from runtime.kernels.spec import Defines, Dims
from runtime.operators.row import FIXED, AttributeKind, Operator
from runtime.oracle.shared import Compute, first_input
from runtime.semantics import quantization
from runtime.semantics.shape_functions import Attributes, Shape, require_rank


def _wide(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of DepthToSpace: fewer channels, more pixels."""
    require_rank(shapes[0], 4, "the input")
    n, channels, height, width = shapes[0]
    size = attributes["blocksize"]
    if channels % size**2:
        raise ModelError(f"{channels} channels do not split into blocks of {size} x {size} pixels")
    return n, channels // size**2, height * size, width * size


def _deep(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of SpaceToDepth: more channels, fewer pixels."""
    require_rank(shapes[0], 4, "the input")
    n, channels, height, width = shapes[0]
    size = attributes["blocksize"]
    if height % size or width % size:
        raise ModelError(f"{height} x {width} pixels do not split into blocks of {size} x {size}")
    return n, channels * size**2, height // size, width // size


MODES = ("DCR", "CRD")
_ATTRIBUTES: Mapping[str, AttributeKind] = {"blocksize": "count", "mode": MODES}

OPERATORS = {
    "DepthToSpace": Operator((1, 1), _wide, _ATTRIBUTES, format=FIXED, quantization=quantization.moved),
    "SpaceToDepth": Operator((1, 1), _deep, _ATTRIBUTES, format=FIXED, quantization=quantization.moved),
}


def _rearrangement(op: str) -> Compute:
    def compute(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
        x = first_input(arguments)
        out = OPERATORS[op].shape([x.shape], attributes)
        blocks = Blocks.between(op, attributes["mode"], attributes["blocksize"], x.shape, out)
        return x.reshape(blocks.split).transpose(blocks.perm).reshape(out)

    return compute


COMPUTE: Mapping[str, Compute] = {op: _rearrangement(op) for op in OPERATORS}


def _deep_source(dims: Dims, defines: Defines) -> Images:
    size = dims["size"]
    x = activation_image(dims["batch"], dims["channels"] * size**2, dims["height"] // size, dims["width"] // size)
    return {"x": x, "y": image_of(dims)}


def _wide_source(dims: Dims, defines: Defines) -> Images:
    size = dims["size"]
    x = activation_image(dims["batch"], dims["in_c"], dims["height"] * size, dims["width"] * size)
    return {"x": x, "y": image_of(dims)}


IMAGE_KERNELS = (
    image_kernel("depth_to_space", "DepthToSpace", "x y", f"{EXTENTS} size", _deep_source, pixel_items),
    image_kernel("space_to_depth", "SpaceToDepth", "x y", f"{EXTENTS} size in_c", _wide_source, pixel_items),
)
