"""Reductions of an image over height and width."""

from __future__ import annotations

from runtime.kernels.image.pixels import EXTENTS, image_of
from runtime.kernels.image.spec import Images, activation_image, blocks_of, image_kernel
from runtime.kernels.spec import Defines, Dims


def _reduce_images(dims: Dims, defines: Defines) -> Images:
    return {"x": image_of(dims), "y": activation_image(dims["batch"], dims["channels"], 1, 1)}


IMAGE_KERNELS = (
    image_kernel(
        "reduce",
        "Pooling",
        "x y",
        EXTENTS,
        _reduce_images,
        lambda dims, chosen: (blocks_of(dims["channels"]), 1, dims["batch"]),
        tunable=True,
    ),
)
