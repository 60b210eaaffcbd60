"""Element-wise functions of images."""

from __future__ import annotations

from runtime.kernels.image.spec import Images, activation, image_kernel, pixel_grid
from runtime.kernels.spec import Dims, Variant, WorkItems


def _binary_images(dims: Dims) -> Images:
    extents = ("batch", "channels", "height", "width")
    prefixes = {"a": "a_", "b": "b_", "y": ""}
    return {name: activation(*(dims[prefix + axis] for axis in extents)) for name, prefix in prefixes.items()}


def _grid(dims: Dims, chosen: Variant) -> WorkItems:
    return pixel_grid(dims["batch"], dims["channels"], dims["height"], dims["width"])


KERNELS = (
    image_kernel(
        "binary",
        "Eltwise",
        "a b y",
        "batch channels height width a_batch a_channels a_height a_width b_batch b_channels b_height b_width",
        _binary_images,
        _grid,
        floats="act_a act_b",
    ),
)
