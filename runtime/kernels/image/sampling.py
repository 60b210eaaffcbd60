"""Kernels that read several pixels of an image for each one that they write: pooling and resizing."""

from __future__ import annotations

from runtime.kernels.image.spec import Images, activation_image, image_kernel, pixel_grid
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems


def _images(dims: Dims, defines: Defines) -> Images:
    return {
        "x": activation_image(dims["batch"], dims["channels"], dims["in_h"], dims["in_w"]),
        "y": activation_image(dims["batch"], dims["channels"], dims["out_h"], dims["out_w"]),
    }


def _grid(dims: Dims, chosen: Variant) -> WorkItems:
    return pixel_grid(dims["batch"], dims["channels"], dims["out_h"], dims["out_w"])


KERNELS = (
    image_kernel(
        "pool",
        "Pooling",
        "x y",
        "batch in_h in_w channels out_h out_w k_h k_w stride_h stride_w pad_t pad_l dil_h dil_w count_include_pad",
        _images,
        _grid,
        tunable=True,
    ),
    image_kernel(
        "resize_nearest",
        "Resize",
        "x rows:table columns:table y",
        "batch in_h in_w channels out_h out_w",
        _images,
        _grid,
        source="resize.cl",
    ),
    image_kernel(
        "resize_bilinear",
        "Resize",
        "x y",
        "batch in_h in_w channels out_h out_w",
        _images,
        _grid,
        source="resize.cl",
        floats="scale_h scale_w shift_h shift_w",
    ),
)
