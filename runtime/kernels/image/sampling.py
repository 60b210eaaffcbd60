"""Kernels that read several pixels of an image for each one that they write: what rows of several families share."""

from __future__ import annotations

from runtime.kernels.image.spec import Images, activation_image, pixel_grid
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems


def sampled_images(dims: Dims, defines: Defines) -> Images:
    """Input and output of other extents."""
    return {
        "x": activation_image(dims["batch"], dims["channels"], dims["in_h"], dims["in_w"]),
        "y": activation_image(dims["batch"], dims["channels"], dims["out_h"], dims["out_w"]),
    }


def sampled_grid(dims: Dims, chosen: Variant) -> WorkItems:
    """A work item for each pixel of the output."""
    return pixel_grid(dims["batch"], dims["channels"], dims["out_h"], dims["out_w"])
