"""Kernels that write one pixel for each that they read: what the rows of several families share."""

from __future__ import annotations

from runtime.kernels.image.spec import Images, activation_image, pixel_grid
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems

AXES = ("batch", "channels", "height", "width")


def same_images(dims: Dims, defines: Defines) -> Images:
    """Input and output of one shape."""
    image = activation_image(*(dims[axis] for axis in AXES))
    return {"x": image, "y": image}


def same_grid(dims: Dims, chosen: Variant) -> WorkItems:
    """A work item for each pixel."""
    return pixel_grid(dims["batch"], dims["channels"], dims["height"], dims["width"])
