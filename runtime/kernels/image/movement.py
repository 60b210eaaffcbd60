"""Moving pixels: between buffers and images, and within images."""

from __future__ import annotations

from runtime.kernels.image.spec import Images, activation, image_kernel, pixel_grid
from runtime.kernels.spec import Dims, Variant, WorkItems

_STRIDES = "batch channels height width stride_n stride_c stride_h stride_w"


def _image(dims: Dims) -> Images:
    return {"image": activation(dims["batch"], dims["channels"], dims["height"], dims["width"])}


def _grid(dims: Dims, chosen: Variant) -> WorkItems:
    return pixel_grid(dims["batch"], dims["channels"], dims["height"], dims["width"])


KERNELS = (
    image_kernel(
        "buffer_to_image",
        "BufferToImage",
        "x:flat y",
        _STRIDES,
        lambda dims: {"y": _image(dims)["image"]},
        _grid,
        source="convert.cl",
    ),
    image_kernel(
        "image_to_buffer",
        "ImageToBuffer",
        "x y:flat",
        _STRIDES,
        lambda dims: {"x": _image(dims)["image"]},
        _grid,
        source="convert.cl",
    ),
)
