"""Convolutions in image memory.

The filters' layouts are the same for every variant, so that nothing is packed anew when the tuner changes it.
"""

import itertools

from runtime.kernels.image.spec import (
    Images,
    activation_image,
    argument_image,
    bias_image,
    blocks_of,
    image_kernel,
    pixel_grid,
)
from runtime.kernels.spec import WINDOW, Defines, Dims, Variant, WorkItems, ceil_div, variant
from runtime.layout.image import LANES, ImageLayout
from runtime.target import Target

_TILES = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (2, 2), (2, 4), (2, 8))  # blocks of four channels x pixels
# RUN: how many products half arithmetic adds in half before their sum goes to a float, 16 where not given.
_RUNS = tuple(variant(BLOCKS=blocks, PIXELS=4, FMA=0, RUN=run) for blocks in (1, 2) for run in (8, 24))
VARIANTS = (
    *(variant(BLOCKS=blocks, PIXELS=pixels, FMA=fma) for (blocks, pixels), fma in itertools.product(_TILES, (0, 1))),
    *_RUNS,
)
DEFAULTS = {
    "": variant(BLOCKS=1, PIXELS=4, FMA=0),
    "adreno": variant(BLOCKS=1, PIXELS=4, FMA=0),
    "mali": variant(BLOCKS=1, PIXELS=4, FMA=0),
    "pocl": variant(BLOCKS=1, PIXELS=8, FMA=0),
}
ROW_VARIANTS = tuple(chosen for chosen in VARIANTS if chosen["BLOCKS"] == 1)
ROW_DEFAULTS = {
    "": variant(BLOCKS=1, PIXELS=4, FMA=0),
    "adreno": variant(BLOCKS=1, PIXELS=4, FMA=0),
    "mali": variant(BLOCKS=1, PIXELS=2, FMA=0),
    "pocl": variant(BLOCKS=1, PIXELS=8, FMA=0),
}
_TENSORS = "x w b residual y"


def _conv2d_images(dims: Dims, defines: Defines) -> Images:
    in_c, out_c = dims["groups"] * dims["in_c"], dims["groups"] * dims["out_c"]
    output = activation_image(dims["batch"], out_c, dims["out_h"], dims["out_w"])
    return {
        "x": activation_image(dims["batch"], in_c, dims["in_h"], dims["in_w"]),
        "w": (ImageLayout.CONV_FILTER, (out_c, dims["in_c"], dims["k_h"], dims["k_w"])),
        "b": bias_image(out_c, defines),
        "residual": output,
        "y": output,
    }


def _conv2d_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    blocks = dims["groups"] * blocks_of(dims["out_c"])
    return (
        ceil_div(blocks, chosen["BLOCKS"]),
        ceil_div(dims["out_w"], chosen["PIXELS"]),
        dims["batch"] * dims["out_h"],
    )


def grouped_rule(dims: Dims, chosen: Variant, target: Target) -> str:
    """Says why groups cannot be served: a block of four channels must not lie in two of them."""
    if dims["groups"] == 1:
        return ""
    if dims["in_c"] % LANES or dims["out_c"] % LANES:
        return f"groups of {dims['in_c']} -> {dims['out_c']} channels; images need multiples of {LANES}"
    if dims["out_c"] // LANES % chosen["BLOCKS"]:
        return f"{chosen['BLOCKS']} blocks of {LANES} channels cross groups of {dims['out_c']}"
    return ""


def _conv2d_macs(dims: Dims) -> int:
    outputs = dims["batch"] * dims["out_h"] * dims["out_w"] * dims["groups"] * dims["out_c"]
    return outputs * dims["in_c"] * dims["k_h"] * dims["k_w"]


def _conv1x1_images(dims: Dims, defines: Defines) -> Images:
    output = activation_image(1, dims["out_c"], dims["rows"], dims["width"])
    return {
        "x": activation_image(1, dims["in_c"], dims["rows"], dims["width"]),
        "w": (ImageLayout.CONV_FILTER, (dims["out_c"], dims["in_c"], 1, 1)),
        "b": bias_image(dims["out_c"], defines),
        "residual": output,
        "y": output,
    }


def _conv1x1_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    blocks = ceil_div(blocks_of(dims["out_c"]), chosen["BLOCKS"])
    return blocks, ceil_div(dims["width"], chosen["PIXELS"]), dims["rows"]


def _depthwise_images(dims: Dims, defines: Defines) -> Images:
    output = activation_image(dims["batch"], dims["channels"], dims["out_h"], dims["out_w"])
    return {
        "x": activation_image(dims["batch"], dims["channels"], dims["in_h"], dims["in_w"]),
        "w": (ImageLayout.DEPTHWISE_FILTER, (dims["channels"], 1, dims["k_h"], dims["k_w"])),
        "b": argument_image(dims["channels"]),
        "residual": output,
        "y": output,
    }


def _depthwise_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    columns = ceil_div(dims["out_w"], chosen["PIXELS"])
    return pixel_grid(dims["batch"], dims["channels"], dims["out_h"], columns)


def _depthwise_macs(dims: Dims) -> int:
    return dims["batch"] * dims["out_h"] * dims["out_w"] * dims["channels"] * dims["k_h"] * dims["k_w"]


IMAGE_KERNELS = (
    image_kernel(
        "conv2d",
        "Conv2D",
        _TENSORS,
        f"batch in_h in_w in_c out_h out_w out_c {WINDOW} groups",
        _conv2d_images,
        _conv2d_work_items,
        floats="act_a act_b",
        variants=VARIANTS,
        defaults=DEFAULTS,
        rule=grouped_rule,
        macs=_conv2d_macs,
        tunable=True,
        integer_weights=True,
    ),
    image_kernel(
        "conv1x1",
        "Conv2D",
        _TENSORS,
        "rows width in_c out_c",
        _conv1x1_images,
        _conv1x1_work_items,
        floats="act_a act_b",
        variants=VARIANTS,
        defaults=DEFAULTS,
        macs=lambda dims: dims["rows"] * dims["width"] * dims["in_c"] * dims["out_c"],
        tunable=True,
        integer_weights=True,
    ),
    image_kernel(
        "depthwise",
        "DepthwiseConv2d",
        _TENSORS,
        f"batch in_h in_w channels out_h out_w {WINDOW}",
        _depthwise_images,
        _depthwise_work_items,
        floats="act_a act_b",
        variants=ROW_VARIANTS,
        defaults=ROW_DEFAULTS,
        macs=_depthwise_macs,
        tunable=True,
    ),
)
