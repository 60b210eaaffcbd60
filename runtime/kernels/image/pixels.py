"""What the rows of several families share: kernels that write a pixel for each, or for several, that they read."""

from runtime.kernels.image.spec import Images, activation_image, pixel_grid
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems
from runtime.layout.arrangement import Shape
from runtime.layout.image import ImageLayout

AXES = ("batch", "channels", "height", "width")
EXTENTS = " ".join(AXES)  # as the ints of a kernel


def image_of(dims: Dims) -> tuple[ImageLayout, Shape]:
    """The image of an activation."""
    return activation_image(*(dims[axis] for axis in AXES))


def same_images(dims: Dims, defines: Defines) -> Images:
    """Input and output of one shape."""
    return {"x": image_of(dims), "y": image_of(dims)}


def pixel_items(dims: Dims, chosen: Variant) -> WorkItems:
    """A work item for each pixel."""
    return pixel_grid(*(dims[axis] for axis in AXES))


def sampled_images(dims: Dims, defines: Defines) -> Images:
    """Input and output of other extents."""
    return {
        "x": activation_image(dims["batch"], dims["channels"], dims["in_h"], dims["in_w"]),
        "y": activation_image(dims["batch"], dims["channels"], dims["out_h"], dims["out_w"]),
    }


def sampled_grid(dims: Dims, chosen: Variant) -> WorkItems:
    """A work item for each pixel of the output."""
    return pixel_grid(dims["batch"], dims["channels"], dims["out_h"], dims["out_w"])
