"""Transposed convolutions in image memory; filters lie with their taps in the order of the phases, as one row."""

from runtime.families.convolution.image_kernels import DEFAULTS, ROW_DEFAULTS, ROW_VARIANTS, VARIANTS, grouped_rule
from runtime.families.transposed_convolution.buffer_kernels import macs, scattered_macs
from runtime.kernels.image.spec import Images, activation_image, argument_image, blocks_of, image_kernel, pixel_grid
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div
from runtime.layout.image import ImageLayout

_TENSORS = "x w b residual y"
_GEOMETRY = "k_h k_w stride_h stride_w pad_t pad_l dil_h dil_w step_h step_w"


def _images(dims: Dims, defines: Defines) -> Images:
    in_c, out_c = dims["groups"] * dims["in_c"], dims["groups"] * dims["out_c"]
    output = activation_image(dims["batch"], out_c, dims["out_h"], dims["out_w"])
    return {
        "x": activation_image(dims["batch"], in_c, dims["in_h"], dims["in_w"]),
        "w": (ImageLayout.CONV_FILTER, (out_c, dims["in_c"], 1, dims["k_h"] * dims["k_w"])),
        "b": argument_image(out_c),
        "residual": output,
        "y": output,
    }


def _column_tiles(dims: Dims, chosen: Variant) -> int:
    """Tiles of a row of the output: of each phase as many as hold its columns."""
    return dims["stride_w"] * ceil_div(ceil_div(dims["out_w"], dims["stride_w"]), chosen["PIXELS"])


def _work_items(dims: Dims, chosen: Variant) -> WorkItems:
    blocks = ceil_div(dims["groups"] * blocks_of(dims["out_c"]), chosen["BLOCKS"])
    return blocks, _column_tiles(dims, chosen), dims["batch"] * dims["out_h"]


def _depthwise_images(dims: Dims, defines: Defines) -> Images:
    output = activation_image(dims["batch"], dims["channels"], dims["out_h"], dims["out_w"])
    return {
        "x": activation_image(dims["batch"], dims["channels"], dims["in_h"], dims["in_w"]),
        "w": (ImageLayout.DEPTHWISE_FILTER, (dims["channels"], 1, 1, dims["k_h"] * dims["k_w"])),
        "b": argument_image(dims["channels"]),
        "residual": output,
        "y": output,
    }


IMAGE_KERNELS = (
    image_kernel(
        "deconv2d",
        "Deconv2D",
        _TENSORS,
        f"batch in_h in_w in_c out_h out_w out_c {_GEOMETRY} groups",
        _images,
        _work_items,
        source="deconvolution",
        floats="act_a act_b",
        variants=VARIANTS,
        defaults=DEFAULTS,
        rule=grouped_rule,
        macs=macs,
        tunable=True,
    ),
    image_kernel(
        "deconv_depthwise",
        "DepthwiseDeconv2d",
        _TENSORS,
        f"batch in_h in_w channels out_h out_w {_GEOMETRY}",
        _depthwise_images,
        lambda dims, chosen: pixel_grid(dims["batch"], dims["channels"], dims["out_h"], _column_tiles(dims, chosen)),
        source="deconvolution",
        floats="act_a act_b",
        variants=ROW_VARIANTS,
        defaults=ROW_DEFAULTS,
        macs=scattered_macs,
        tunable=True,
    ),
)
