"""Element-wise functions of images."""

from __future__ import annotations

from runtime.kernels.image.pixels import AXES, pixel_items, same_images
from runtime.kernels.image.spec import Images, activation_image, image_kernel
from runtime.kernels.spec import Defines, Dims


def _binary_images(dims: Dims, defines: Defines) -> Images:
    prefixes = {"a": "a_", "b": "b_", "y": ""}
    return {name: activation_image(*(dims[prefix + axis] for axis in AXES)) for name, prefix in prefixes.items()}


IMAGE_KERNELS = (
    image_kernel(
        "binary",
        "Eltwise",
        "a b y",
        "batch channels height width a_batch a_channels a_height a_width b_batch b_channels b_height b_width",
        _binary_images,
        pixel_items,
        floats="act_a act_b",
    ),
    image_kernel(
        "unary",
        "Activation",
        "x y",
        "batch channels height width",
        same_images,
        pixel_items,
        floats="alpha beta",
    ),
)
