"""Channels of images as blocks of pixels, and the way back."""

from __future__ import annotations

from runtime.kernels.image.pixels import EXTENTS, image_of, pixel_items
from runtime.kernels.image.spec import Images, activation_image, image_kernel
from runtime.kernels.spec import Defines, Dims


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
