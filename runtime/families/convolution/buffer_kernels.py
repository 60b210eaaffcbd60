"""Convolutions, fully connected layers and matrix products in buffers."""

import math

from runtime.kernels.buffer import tile
from runtime.kernels.buffer.spec import Shapes, buffer_kernel, too_wide
from runtime.kernels.codes import INPUT_IN_BYTES
from runtime.kernels.spec import WINDOW, Defines, Dims, Variant, WorkItems, ceil_div, variant
from runtime.target import Target

_SPECIAL_STRIDES = (1, 2)  # of windows whose tile keeps its weights in registers


def _depthwise_variant(vector: int, pixels: int, rows: int, fma: int, window: int = 0, stride: int = 0) -> Variant:
    return variant(VECTOR=vector, PIXELS=pixels, ROWS=rows, FMA=fma, WINDOW=window, STRIDE=stride)


def _special(*tiles: tuple[int, int, int, int], window: int = 3) -> tuple[Variant, ...]:
    return tuple(_depthwise_variant(*tile, window, stride) for tile in tiles for stride in _SPECIAL_STRIDES)


def _general(*tiles: tuple[int, int, int, int]) -> tuple[Variant, ...]:
    return tuple(_depthwise_variant(*tile) for tile in tiles)


_DEPTHWISE_VARIANTS = (
    *_special((16, 7, 2, 1), (16, 14, 1, 1), (16, 4, 2, 1), (16, 4, 1, 0), (8, 7, 1, 0), (8, 4, 1, 0), (4, 4, 1, 0)),
    *_special((16, 7, 2, 1), (16, 7, 1, 1), window=5),
    *_general((16, 7, 1, 1), (16, 4, 1, 0), (8, 4, 1, 0), (4, 4, 1, 0), (4, 1, 1, 0), (1, 4, 1, 0)),
)
_DEPTHWISE_DEFAULTS = {
    "": (*_special((4, 4, 1, 0)), *_general((4, 4, 1, 0), (1, 4, 1, 0))),
    "pocl": (*_special((8, 7, 1, 0), (8, 4, 1, 0), (4, 4, 1, 0)), *_general((8, 4, 1, 0), (4, 4, 1, 0), (1, 4, 1, 0))),
    "pocl-3.1": (
        *_special((16, 4, 1, 0), (8, 7, 1, 0), (4, 4, 1, 0)),
        *_general((16, 7, 1, 1), (8, 4, 1, 0), (4, 4, 1, 0), (1, 4, 1, 0)),
    ),
    "avx512": (
        *_special((16, 7, 2, 1), (16, 4, 2, 1), (8, 7, 1, 0), (4, 4, 1, 0)),
        *_special((16, 7, 2, 1), (16, 7, 1, 1), window=5),
        *_general((16, 7, 1, 1), (8, 4, 1, 0), (4, 4, 1, 0), (1, 4, 1, 0)),
    ),
    # Intel's driver: two rows of 7 pixels are 30 to 60 % slower with stride 1, and the fastest with stride 2.
    "cpu-avx512": (
        *(_depthwise_variant(16, pixels, rows, 1, 3, 1) for pixels, rows in ((14, 1), (4, 2))),
        *(_depthwise_variant(16, pixels, rows, 1, 3, 2) for pixels, rows in ((7, 2), (4, 2))),
    ),
}


def window_shapes(dims: Dims, defines: Defines) -> Shapes:
    """Shapes of the tensors of a convolution, transposed or not, whose filter slides over an image."""
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


def _conv1x1_rule(dims: Dims, chosen: Variant, target: Target) -> str:
    if chosen in tile.FEW_ROWS and dims["pixels"] != chosen["PIXELS"]:
        return f"only for {chosen['PIXELS']} rows"
    return tile.tile_constraint(dims["pixels"], dims["out_c"], chosen)


def _conv2d_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    pixels = dims["batch"] * dims["out_h"] * dims["out_w"]
    return *tile.tile_grid(pixels, dims["out_c"], chosen), dims["groups"]


def _conv2d_cost(dims: Dims, chosen: Variant) -> float:
    return tile.tile_cost(dims["batch"] * dims["out_h"] * dims["out_w"], dims["out_c"], dims["in_c"], chosen)


def _conv2d_rule(dims: Dims, chosen: Variant, target: Target) -> str:
    return tile.tile_constraint(dims["batch"] * dims["out_h"] * dims["out_w"], dims["out_c"], chosen)


def conv2d_macs(dims: Dims) -> int:
    """Multiply-accumulates of a convolution, in whatever memory."""
    outputs = dims["batch"] * dims["out_h"] * dims["out_w"] * dims["groups"] * dims["out_c"]
    return outputs * dims["in_c"] * dims["k_h"] * dims["k_w"]


def _planes_shapes(dims: Dims, defines: Defines) -> Shapes:
    output = (dims["batch"] * dims["out_h"] * dims["out_w"], dims["out_c"])
    return {
        "x": (dims["batch"] * dims["in_c"] * dims["in_h"] * dims["in_w"],),
        "w": (1, dims["out_c"], dims["in_c"] * dims["k_h"] * dims["k_w"]),
        "b": (dims["out_c"],),
        "zeros": (dims["k_w"],),
        "residual": output,
        "y": output,
    }


# Pixels of a row without addresses of their own take 0.77 to 0.86 of the time on CPUs with AVX-512, on both drivers,
# and 0.63 to 0.89 with AVX2.
_AVX512_ROWS = tuple(
    variant(BLOCK=block, VECTOR=16, PIXELS=pixels, FMA=1, STRIDE=2) for block, pixels in ((64, 6), (32, 7), (16, 14))
)
_AVX2_ROWS = (variant(BLOCK=16, VECTOR=8, PIXELS=6, FMA=0, STRIDE=2),)
_ROWS = {"pocl-3.1-avx512": _AVX512_ROWS, "cpu-avx512": _AVX512_ROWS, "pocl": _AVX2_ROWS}
# Without wide tiles of one pixel, which are for images of a few.
_PLANES_VARIANTS = (
    *(each for each in tile.VARIANTS if each["VECTOR"] < 8 or each["PIXELS"] > 1),
    *_AVX512_ROWS,
    *_AVX2_ROWS,
)
_PLANES_DEFAULTS = {
    family: (*_ROWS.get(family, ()), *(each for each in tiles if each in _PLANES_VARIANTS))
    for family, tiles in tile.DEFAULTS.items()
}


def _planes_cost(dims: Dims, chosen: Variant) -> float:
    run = dims["in_c"] * dims["k_h"] * dims["k_w"] if chosen.get("STRIDE") else dims["k_w"]
    return tile.tile_cost(dims["batch"] * dims["out_h"] * dims["out_w"], dims["out_c"], run, chosen)


def _planes_rule(dims: Dims, chosen: Variant, target: Target) -> str:
    stride = chosen.get("STRIDE")
    return (
        f"only for a stride of {stride}" if stride not in (0, dims["stride_w"]) else _conv2d_rule(dims, chosen, target)
    )


def _conv1x1_shapes(dims: Dims, defines: Defines) -> Shapes:
    output = (dims["pixels"], dims["out_c"])
    return {
        "x": (dims["pixels"], dims["in_c"]),
        "w": (1, dims["out_c"], dims["in_c"]),
        "b": (dims["out_c"],),
        "residual": output,
        "y": output,
    }


def depthwise_shapes(dims: Dims, defines: Defines) -> Shapes:
    """Shapes of the tensors of a depthwise convolution, transposed or not."""
    output = (dims["batch"] * dims["out_h"] * dims["out_w"], dims["channels"])
    return {
        "x": (dims["batch"] * dims["in_h"] * dims["in_w"], dims["channels"]),
        "w": ((dims["k_h"] * dims["k_w"] + bool(defines.get("BYTES", 0) & INPUT_IN_BYTES)) * dims["channels"],),
        "b": (dims["channels"],),
        "zeros": (dims["channels"],),
        "residual": output,
        "y": output,
    }


def _depthwise_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    columns, rows = ceil_div(dims["out_w"], chosen["PIXELS"]), ceil_div(dims["out_h"], chosen["ROWS"])
    return ceil_div(dims["channels"], chosen["VECTOR"]), columns, dims["batch"] * rows


def _depthwise_cost(dims: Dims, chosen: Variant) -> float:
    """Estimates the vector multiply-adds of a tap, tiles rounded up; a tap whose bounds are checked counts twice."""
    cost_per_tap = chosen["ROWS"] * chosen["PIXELS"] + 1
    return math.prod(_depthwise_work_items(dims, chosen)) * cost_per_tap * (1 if chosen["WINDOW"] else 2)


def _depthwise_rule(dims: Dims, chosen: Variant, target: Target) -> str:
    window, stride = chosen["WINDOW"], chosen["STRIDE"]
    required = {"k_h": window, "k_w": window, "stride_h": stride, "stride_w": stride, "dil_h": 1, "dil_w": 1}
    if window and any(dims[name] != value for name, value in required.items()):
        return f"only for windows of {window}x{window} with stride {stride}"
    return too_wide(dims["channels"], chosen)


def depthwise_macs(dims: Dims) -> int:
    """Multiply-accumulates of a depthwise convolution, in whatever memory."""
    return dims["batch"] * dims["out_h"] * dims["out_w"] * dims["channels"] * dims["k_h"] * dims["k_w"]


BUFFER_KERNELS = (
    buffer_kernel(
        "conv2d",
        "Conv2D",
        "x:view w:weights b:weights zeros:weights residual:view y:view",
        f"batch in_h in_w in_c out_h out_w out_c {WINDOW} groups",
        window_shapes,
        _conv2d_work_items,
        floats="act_a act_b",
        variants=tile.VARIANTS,
        defaults=tile.DEFAULTS,
        cost=_conv2d_cost,
        rule=_conv2d_rule,
        macs=conv2d_macs,
        packed=True,
        integer_weights=True,
        integer_defaults=tile.INTEGER_DEFAULTS,
        cpu_local=(16, 1, 1),
        row_axis=0,
    ),
    buffer_kernel(
        "conv2d_planes",
        "Conv2D",
        "x:flat w:weights b:weights zeros:weights residual:view y:view",
        f"batch in_h in_w in_c out_h out_w out_c {WINDOW}",
        _planes_shapes,
        lambda dims, chosen: tile.tile_grid(dims["batch"] * dims["out_h"] * dims["out_w"], dims["out_c"], chosen),
        floats="act_a act_b",
        variants=_PLANES_VARIANTS,
        defaults=_PLANES_DEFAULTS,
        cost=_planes_cost,
        rule=_planes_rule,
        macs=lambda dims: conv2d_macs({"groups": 1, **dims}),
        packed=True,
        cpu_local=(16, 1),
        row_axis=0,
        cpu=False,
    ),
    buffer_kernel(
        "conv1x1",
        "Conv2D",
        "x:view w:weights b:weights residual:view y:view",
        "pixels in_c out_c",
        _conv1x1_shapes,
        lambda dims, chosen: tile.tile_grid(dims["pixels"], dims["out_c"], chosen),
        floats="act_a act_b",
        variants=(*tile.GROUP_VARIANTS, *tile.FEW_ROWS),
        defaults={
            family: (*tiles, *tile.FEW_ROWS) if "avx512" in family else tiles for family, tiles in tile.DEFAULTS.items()
        },
        cost=lambda dims, chosen: tile.tile_cost(dims["pixels"], dims["out_c"], dims["in_c"], chosen),
        rule=_conv1x1_rule,
        macs=lambda dims: dims["pixels"] * dims["in_c"] * dims["out_c"],
        packed=True,
        integer_weights=True,
        integer_defaults=tile.INTEGER_DEFAULTS,
        cpu_local=(16, 1),
        row_axis=0,
    ),
    buffer_kernel(
        "depthwise",
        "DepthwiseConv2d",
        "x:view w:weights b:weights zeros:weights residual:view y:view",
        f"batch in_h in_w channels out_h out_w {WINDOW}",
        depthwise_shapes,
        _depthwise_work_items,
        floats="act_a act_b",
        variants=_DEPTHWISE_VARIANTS,
        defaults=_DEPTHWISE_DEFAULTS,
        cost=_depthwise_cost,
        rule=_depthwise_rule,
        macs=depthwise_macs,
        cpu_local=(4, 1, 4),
        row_axis=2,
    ),
)
