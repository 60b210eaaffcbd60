"""Convolutions, fully connected layers and matrix products in buffers."""

from __future__ import annotations

from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div, variant

_TILES = ((8, 4, 4), (8, 8, 4), (8, 8, 8), (16, 16, 4), (16, 16, 8), (16, 16, 12), (32, 16, 6))  # block, vector, pixels
TILE_VARIANTS = tuple(
    variant(BLOCK=block, VECTOR=vector, PIXELS=pixels, FMA=fma) for block, vector, pixels in _TILES for fma in (0, 1)
)
TILE_DEFAULTS = {
    "": variant(BLOCK=8, VECTOR=4, PIXELS=4, FMA=0),
    "pocl": variant(BLOCK=8, VECTOR=8, PIXELS=4, FMA=0),
    "pocl-3.1": variant(BLOCK=16, VECTOR=16, PIXELS=8, FMA=1),
}
WINDOW = "k_h k_w stride_h stride_w pad_t pad_l dil_h dil_w"


def _conv2d_shapes(dims: Dims, defines: Defines) -> Shapes:
    in_c, out_c = dims["groups"] * dims["in_c"], dims["groups"] * dims["out_c"]
    output = (dims["batch"] * dims["out_h"] * dims["out_w"], out_c)
    return {
        "x": (dims["batch"] * dims["in_h"] * dims["in_w"], in_c),
        "w": (dims["groups"], dims["out_c"], dims["k_h"] * dims["k_w"] * dims["in_c"]),
        "b": (out_c,),
        "zeros": (in_c,),
        "residual": output,
        "y": output,
    }


def _conv2d_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    pixels = dims["batch"] * dims["out_h"] * dims["out_w"]
    return ceil_div(pixels, chosen["PIXELS"]), ceil_div(dims["out_c"], chosen["BLOCK"]), dims["groups"]


def _conv2d_macs(dims: Dims) -> int:
    outputs = dims["batch"] * dims["out_h"] * dims["out_w"] * dims["groups"] * dims["out_c"]
    return outputs * dims["in_c"] * dims["k_h"] * dims["k_w"]


def _conv1x1_shapes(dims: Dims, defines: Defines) -> Shapes:
    output = (dims["pixels"], dims["out_c"])
    return {
        "x": (dims["pixels"], dims["in_c"]),
        "w": (1, dims["out_c"], dims["in_c"]),
        "b": (dims["out_c"],),
        "residual": output,
        "y": output,
    }


def _depthwise_shapes(dims: Dims, defines: Defines) -> Shapes:
    output = (dims["batch"] * dims["out_h"] * dims["out_w"], dims["channels"])
    return {
        "x": (dims["batch"] * dims["in_h"] * dims["in_w"], dims["channels"]),
        "w": (dims["k_h"] * dims["k_w"] * dims["channels"],),
        "b": (dims["channels"],),
        "zeros": (dims["channels"],),
        "residual": output,
        "y": output,
    }


def _depthwise_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    columns = ceil_div(dims["out_w"], chosen["PIXELS"])
    return ceil_div(dims["channels"], chosen["VECTOR"]), columns, dims["batch"] * dims["out_h"]


def _depthwise_macs(dims: Dims) -> int:
    return dims["batch"] * dims["out_h"] * dims["out_w"] * dims["channels"] * dims["k_h"] * dims["k_w"]


KERNELS = (
    buffer_kernel(
        "conv2d",
        "Conv2D",
        "x:view w:weights b:weights zeros:weights residual:view y:view",
        f"batch in_h in_w in_c out_h out_w out_c {WINDOW} groups",
        _conv2d_shapes,
        _conv2d_work_items,
        floats="act_a act_b",
        variants=TILE_VARIANTS,
        defaults=TILE_DEFAULTS,
        macs=_conv2d_macs,
        packed=True,
    ),
    buffer_kernel(
        "conv1x1",
        "Conv2D",
        "x:view w:weights b:weights residual:view y:view",
        "pixels in_c out_c",
        _conv1x1_shapes,
        lambda dims, chosen: (ceil_div(dims["pixels"], chosen["PIXELS"]), ceil_div(dims["out_c"], chosen["BLOCK"])),
        floats="act_a act_b",
        variants=TILE_VARIANTS,
        defaults=TILE_DEFAULTS,
        macs=lambda dims: dims["pixels"] * dims["in_c"] * dims["out_c"],
        packed=True,
    ),
    buffer_kernel(
        "depthwise",
        "DepthwiseConv2d",
        "x:view w:weights b:weights zeros:weights residual:view y:view",
        f"batch in_h in_w channels out_h out_w {WINDOW}",
        _depthwise_shapes,
        _depthwise_work_items,
        floats="act_a act_b",
        variants=tuple(
            variant(VECTOR=vector, PIXELS=pixels, FMA=fma)
            for vector in (4, 8, 16)
            for pixels in (1, 4)
            for fma in (0, 1)
        ),
        defaults={
            "": variant(VECTOR=4, PIXELS=4, FMA=0),
            "pocl": variant(VECTOR=8, PIXELS=4, FMA=0),
            "pocl-3.1": variant(VECTOR=16, PIXELS=4, FMA=1),
        },
        macs=_depthwise_macs,
    ),
)
