"""Moving pixels within images."""

from runtime.kernels.image.pixels import EXTENTS, image_of, pixel_items
from runtime.kernels.image.spec import Images, activation_image, blocks_of, image_kernel
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems
from runtime.layout.image import LANES

_CONCAT_INPUTS = "abcd"


def _joined_channels(dims: Dims) -> int:
    return sum(dims[f"{name}_channels"] for name in _CONCAT_INPUTS)


def _concat_images(dims: Dims, defines: Defines) -> Images:
    """Gives the output's width up to the last channel written here; a launch that writes further ones checks those."""
    channels = LANES * dims["y_block"] + _joined_channels(dims)
    return {"y": activation_image(1, channels, dims["rows"], dims["width"])}


def _concat_grid(dims: Dims, chosen: Variant) -> WorkItems:
    return blocks_of(_joined_channels(dims)), dims["width"], dims["rows"]


def _pad_images(dims: Dims, defines: Defines) -> Images:
    return {"x": activation_image(dims["batch"], dims["channels"], dims["in_h"], dims["in_w"]), "y": image_of(dims)}


IMAGE_KERNELS = (
    image_kernel(
        "concat",
        "Concat",
        "a b c d y",
        "rows width a_channels b_channels c_channels d_channels y_block",
        _concat_images,
        _concat_grid,
    ),
    image_kernel(
        "slice",
        "Slice",
        "x y",
        f"{EXTENTS} in_h in_w start_n start_c start_h start_w step_h step_w",
        lambda dims, defines: {"y": image_of(dims)},
        pixel_items,
    ),
    image_kernel(
        "channel_shuffle",
        "ChannelShuffle",
        "x y",
        f"{EXTENTS} groups",
        lambda dims, defines: {"x": image_of(dims), "y": image_of(dims)},
        pixel_items,
    ),
    image_kernel(
        "pad",
        "Pad",
        "x y",
        f"{EXTENTS} in_h in_w pad_t pad_l",
        _pad_images,
        pixel_items,
        floats="value",
    ),
)
