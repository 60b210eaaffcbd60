"""Reductions of an image: over height and width, and along the channels of each pixel."""

from __future__ import annotations

from runtime.kernels.image.spec import Images, activation_image, blocks_of, image_kernel, pixel_grid
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems

_EXTENTS = "batch channels height width"


def _images(dims: Dims, defines: Defines) -> Images:
    image = activation_image(dims["batch"], dims["channels"], dims["height"], dims["width"])
    return {"x": image, "y": image}


def _reduce_images(dims: Dims, defines: Defines) -> Images:
    return {"x": _images(dims, defines)["x"], "y": activation_image(dims["batch"], dims["channels"], 1, 1)}


def _grid(dims: Dims, chosen: Variant) -> WorkItems:
    return pixel_grid(dims["batch"], dims["channels"], dims["height"], dims["width"])


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
    image_kernel(
        "softmax",
        "Softmax",
        "x y",
        _EXTENTS,
        _images,
        lambda dims, chosen: (1, dims["width"], dims["batch"] * dims["height"]),
    ),
    image_kernel(
        "lrn",
        "LRN",
        "x y",
        f"{_EXTENTS} size",
        _images,
        _grid,
        floats="alpha beta bias",
        tunable=True,
    ),
)
