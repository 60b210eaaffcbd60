"""Moving pixels between buffers and images."""

from __future__ import annotations

from runtime.kernels.image.spec import activation_image, image_kernel, pixel_grid
from runtime.kernels.spec import Dims, Variant, WorkItems
from runtime.layout.arrangement import Shape
from runtime.layout.image import ImageLayout

EXTENTS = "batch channels height width"
_STRIDES = "stride_n stride_c stride_h stride_w"


def image_of(dims: Dims) -> tuple[ImageLayout, Shape]:
    """The image of an activation."""
    return activation_image(dims["batch"], dims["channels"], dims["height"], dims["width"])


def grid_of(dims: Dims, chosen: Variant) -> WorkItems:
    """A work item for each pixel."""
    return pixel_grid(dims["batch"], dims["channels"], dims["height"], dims["width"])


KERNELS = (
    image_kernel(
        "buffer_to_image",
        "BufferToImage",
        "x:flat y",
        f"{EXTENTS} {_STRIDES}",
        lambda dims, defines: {"y": image_of(dims)},
        grid_of,
        source="convert",
    ),
    image_kernel(
        "image_to_buffer",
        "ImageToBuffer",
        "x y:flat",
        f"{EXTENTS} {_STRIDES}",
        lambda dims, defines: {"x": image_of(dims)},
        grid_of,
        source="convert",
    ),
)
