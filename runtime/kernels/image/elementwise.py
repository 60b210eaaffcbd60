"""Element-wise functions of images."""

from __future__ import annotations

from runtime.kernels.image.spec import Images, activation_image, argument_image, image_kernel, pixel_grid
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems

_EXTENTS = ("batch", "channels", "height", "width")


def _binary_images(dims: Dims, defines: Defines) -> Images:
    prefixes = {"a": "a_", "b": "b_", "y": ""}
    return {name: activation_image(*(dims[prefix + axis] for axis in _EXTENTS)) for name, prefix in prefixes.items()}


def _unary_images(dims: Dims, defines: Defines) -> Images:
    image = activation_image(*(dims[axis] for axis in _EXTENTS))
    return {"x": image, "y": image}


def _scale_shift_images(dims: Dims, defines: Defines) -> Images:
    constant = argument_image(dims["channels"])
    return {**_unary_images(dims, defines), "s": constant, "t": constant}


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
    image_kernel(
        "unary",
        "Activation",
        "x y",
        "batch channels height width",
        _unary_images,
        _grid,
        floats="alpha beta",
    ),
    image_kernel(
        "scale_shift",
        "BatchNorm",
        "x s t y",
        "batch channels height width",
        _scale_shift_images,
        _grid,
        floats="act_a act_b",
    ),
)
