"""Reductions of an image over height and width."""

from __future__ import annotations

from runtime.kernels.image.pixels import same_images
from runtime.kernels.image.spec import Images, activation_image, blocks_of, image_kernel
from runtime.kernels.spec import Defines, Dims

_EXTENTS = "batch channels height width"


def _reduce_images(dims: Dims, defines: Defines) -> Images:
    return {"x": same_images(dims, defines)["x"], "y": activation_image(dims["batch"], dims["channels"], 1, 1)}


KERNELS = (
    image_kernel(
        "reduce",
        "Pooling",
        "x y",
        _EXTENTS,
        _reduce_images,
        lambda dims, chosen: (blocks_of(dims["channels"]), 1, dims["batch"]),
        tunable=True,
    ),
)
