"""Resizing of images."""

from __future__ import annotations

from runtime.kernels.image.sampling import sampled_grid, sampled_images
from runtime.kernels.image.spec import image_kernel

IMAGE_KERNELS = (
    image_kernel(
        "resize_nearest",
        "Resize",
        "x rows:table columns:table y",
        "batch in_h in_w channels out_h out_w",
        sampled_images,
        sampled_grid,
        source="resize",
    ),
    image_kernel(
        "resize_bilinear",
        "Resize",
        "x y",
        "batch in_h in_w channels out_h out_w",
        sampled_images,
        sampled_grid,
        source="resize",
        floats="scale_h scale_w shift_h shift_w",
    ),
)
