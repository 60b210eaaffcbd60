"""Winograd convolution in image memory: transform of the input, products, transform of the output.

The device limits of the transformed tensors are checked where their size is known, by the products; so a convolution
takes this way only if all three launches fit.
"""

from runtime.families.convolution.image_kernels import DEFAULTS, VARIANTS
from runtime.kernels.image.spec import Images, activation_image, argument_image, blocks_of, image_kernel
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div
from runtime.layout.image import ImageLayout


def _products_images(dims: Dims, defines: Defines) -> Images:
    points, tiles = dims["points"], dims["tiles"]
    return {
        "v": (ImageLayout.HEIGHT_MAJOR, (points, 1, dims["in_c"], tiles)),
        "u": (ImageLayout.CONV_FILTER, (dims["out_c"], dims["in_c"], points, 1)),
        "m": (ImageLayout.HEIGHT_MAJOR, (points, 1, dims["out_c"], tiles)),
    }


def _products_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    blocks = ceil_div(blocks_of(dims["out_c"]), chosen["BLOCKS"])
    return blocks, ceil_div(dims["tiles"], chosen["PIXELS"]), dims["points"]


def _input_images(dims: Dims, defines: Defines) -> Images:
    images = {"x": activation_image(dims["batch"], dims["in_c"], dims["in_h"], dims["in_w"])}
    return images | _transformed("v", dims["in_c"], dims, defines)


def _output_images(dims: Dims, defines: Defines) -> Images:
    output = activation_image(dims["batch"], dims["out_c"], dims["out_h"], dims["out_w"])
    images = {"b": argument_image(dims["out_c"]), "residual": output, "y": output}
    return images | _transformed("m", dims["out_c"], dims, defines)


def _transformed(name: str, channels: int, dims: Dims, defines: Defines) -> Images:
    """The transformed tensor, where the tile size is known."""
    if "WINO" not in defines:
        return {}
    points, tiles = (defines["WINO"] + 2) ** 2, dims["batch"] * dims["tiles_h"] * dims["tiles_w"]
    return {name: (ImageLayout.HEIGHT_MAJOR, (points, 1, channels, tiles))}


IMAGE_KERNELS = (
    image_kernel(
        "winograd_input",
        "WinogradTransform",
        "x v",
        "batch in_h in_w in_c tiles_h tiles_w pad_t pad_l",
        _input_images,
        lambda dims, chosen: (blocks_of(dims["in_c"]), dims["tiles_w"], dims["batch"] * dims["tiles_h"]),
        source="winograd",
        tunable=True,
    ),
    image_kernel(
        "winograd_gemm",
        "Conv2D",
        "v u m",
        "points tiles in_c out_c",
        _products_images,
        _products_work_items,
        variants=VARIANTS,
        defaults=DEFAULTS,
        macs=lambda dims: dims["points"] * dims["tiles"] * dims["in_c"] * dims["out_c"],
        tunable=True,
    ),
    image_kernel(
        "winograd_output",
        "WinogradInverse",
        "m b residual y",
        "batch out_h out_w out_c tiles_h tiles_w",
        _output_images,
        lambda dims, chosen: (blocks_of(dims["out_c"]), dims["tiles_w"], dims["batch"] * dims["tiles_h"]),
        source="winograd",
        floats="act_a act_b",
        tunable=True,
    ),
)
