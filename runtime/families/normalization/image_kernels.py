"""Normalisation, softmax, scale and shift of images."""

from __future__ import annotations

from runtime.kernels.image.pixels import EXTENTS, pixel_items, same_images
from runtime.kernels.image.spec import (
    SHARING,
    SHARING_DEFAULTS,
    Images,
    argument_image,
    blocks_of,
    image_kernel,
    sharing_cost,
    sharing_local_size,
)
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, variant
from runtime.layout.image import LANES
from runtime.target import Target


def _work_items(dims: Dims, chosen: Variant) -> WorkItems:
    if not dims["spatial"]:
        return chosen["LANES"], dims["width"], dims["batch"] * dims["height"]
    by_channel = dims["groups"] == dims["channels"]
    return chosen["LANES"], blocks_of(dims["channels"]) if by_channel else dims["groups"], dims["batch"]


def _rule(dims: Dims, chosen: Variant, target: Target) -> str:
    of_group = dims["channels"] // dims["groups"]
    if dims["spatial"] and of_group != 1 and of_group % LANES:
        return f"groups of {of_group} channels; images normalise single ones and multiples of {LANES}"
    return ""


def _softmax_items(dims: Dims, chosen: Variant) -> WorkItems:
    return chosen["LANES"], dims["width"], dims["batch"] * dims["height"]


def _scaled_images(dims: Dims, defines: Defines) -> Images:
    constant = argument_image(dims["channels"])
    return {**same_images(dims, defines), "s": constant, "t": constant}


IMAGE_KERNELS = (
    image_kernel(
        "normalization",
        "Normalization",
        "x s t y",
        "batch channels height width groups spatial centered",
        _scaled_images,
        _work_items,
        floats="epsilon act_a act_b",
        variants=SHARING,
        defaults={"": variant(LANES=16), "nvidia": variant(LANES=64), "pocl": variant(LANES=1)},
        rule=_rule,
        local=sharing_local_size,
        tunable=True,
    ),
    image_kernel(
        "scale_shift",
        "BatchNorm",
        "x s t y",
        "batch channels height width",
        _scaled_images,
        pixel_items,
        floats="act_a act_b",
    ),
    image_kernel(
        "softmax",
        "Softmax",
        "x y",
        EXTENTS,
        same_images,
        _softmax_items,
        variants=SHARING,
        defaults=SHARING_DEFAULTS,
        cost=sharing_cost(_softmax_items),
        local=sharing_local_size,
        tunable=True,
    ),
    image_kernel(
        "lrn",
        "LRN",
        "x y",
        f"{EXTENTS} size",
        same_images,
        pixel_items,
        floats="alpha beta bias",
        tunable=True,
    ),
)
