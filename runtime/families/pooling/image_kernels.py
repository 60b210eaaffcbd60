"""Pooling of images."""

from __future__ import annotations

from runtime.kernels.image.sampling import sampled_grid, sampled_images
from runtime.kernels.image.spec import image_kernel

KERNELS = (
    image_kernel(
        "pool",
        "Pooling",
        "x y",
        "batch in_h in_w channels out_h out_w k_h k_w stride_h stride_w pad_t pad_l dil_h dil_w count_include_pad",
        sampled_images,
        sampled_grid,
        tunable=True,
    ),
)
