"""Fully connected layers in image memory."""

from runtime.kernels.image.spec import Images, activation_image, bias_image, blocks_of, image_kernel
from runtime.kernels.spec import Defines, Dims, variant


def _fully_connected_images(dims: Dims, defines: Defines) -> Images:
    return {
        "x": activation_image(dims["batch"], dims["in_c"], dims["in_h"], dims["in_w"]),
        "w": activation_image(dims["out_c"], dims["in_c"], 1, dims["in_h"] * dims["in_w"]),
        "b": bias_image(dims["out_c"], defines),
        "y": activation_image(dims["batch"], dims["out_c"], 1, 1),
    }


def _fully_connected_macs(dims: Dims) -> int:
    return dims["batch"] * dims["out_c"] * dims["in_c"] * dims["in_h"] * dims["in_w"]


IMAGE_KERNELS = (
    image_kernel(
        "fully_connected",
        "FullyConnected",
        "x w b y",
        "batch in_h in_w in_c out_c",
        _fully_connected_images,
        lambda dims, chosen: (blocks_of(dims["out_c"]), 1, dims["batch"]),
        floats="act_a act_b",
        variants=(variant(FMA=0), variant(FMA=1)),
        macs=_fully_connected_macs,
        tunable=True,
        integer_weights=True,
    ),
)
