"""Transposed convolutions in buffers."""

import math

from runtime.families.convolution.buffer_kernels import depthwise_shapes, window_shapes
from runtime.kernels.buffer import tile
from runtime.kernels.buffer.spec import buffer_kernel, too_wide
from runtime.kernels.spec import WINDOW, Dims, Variant, WorkItems, ceil_div, variant
from runtime.target import Target

# A negative padding adds outputs.
_GEOMETRY = f"{WINDOW.replace(':0', ':any')} step_h step_w"


def _depthwise_variant(vector: int, pixels: int, fma: int) -> Variant:
    return variant(VECTOR=vector, PIXELS=pixels, FMA=fma)


_DEPTHWISE_VARIANTS = tuple(
    _depthwise_variant(*tile)
    for tile in ((16, 7, 1), (16, 4, 1), (8, 4, 0), (8, 1, 0), (4, 4, 0), (4, 2, 0), (4, 1, 0), (1, 4, 0))
)


def _rows(dims: Dims) -> int:
    """Rows of a phase."""
    return ceil_div(dims["out_h"], dims["stride_h"])


def _columns(dims: Dims) -> int:
    """Columns of a phase."""
    return ceil_div(dims["out_w"], dims["stride_w"])


def _phase_pixels(dims: Dims) -> int:
    return dims["batch"] * _rows(dims) * _columns(dims)


def _work_items(dims: Dims, chosen: Variant) -> WorkItems:
    phases = dims["stride_h"] * dims["stride_w"]
    tiles = phases * ceil_div(_phase_pixels(dims), chosen["PIXELS"]), ceil_div(dims["out_c"], chosen["BLOCK"])
    return *(tiles[::-1] if chosen.get("ORDER") else tiles), dims["groups"]


def _cost(dims: Dims, chosen: Variant) -> float:
    return tile.tile_cost(_phase_pixels(dims), dims["out_c"], dims["in_c"], chosen)


def _rule(dims: Dims, chosen: Variant, target: Target) -> str:
    return tile.tile_constraint(_phase_pixels(dims), dims["out_c"], chosen)


def macs(dims: Dims) -> int:
    """Multiply-accumulates of a transposed convolution, in whatever memory."""
    inputs = dims["batch"] * dims["in_h"] * dims["in_w"] * dims["groups"] * dims["in_c"]
    return inputs * dims["out_c"] * dims["k_h"] * dims["k_w"]


def _depthwise_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    tiles = dims["stride_w"] * ceil_div(_columns(dims), chosen["PIXELS"])
    return ceil_div(dims["channels"], chosen["VECTOR"]), tiles, dims["batch"] * dims["out_h"]


def _depthwise_cost(dims: Dims, chosen: Variant) -> float:
    """Estimates the vector multiply-adds of a tap, tiles rounded up."""
    return math.prod(_depthwise_work_items(dims, chosen)) * (chosen["PIXELS"] + 1)


def scattered_macs(dims: Dims) -> int:
    """Multiply-accumulates of a depthwise one, in whatever memory."""
    return dims["batch"] * dims["in_h"] * dims["in_w"] * dims["channels"] * dims["k_h"] * dims["k_w"]


BUFFER_KERNELS = (
    buffer_kernel(
        "deconv2d",
        "Deconv2D",
        "x:view w:weights b:weights zeros:weights residual:view y:view",
        f"batch in_h in_w in_c out_h out_w out_c {_GEOMETRY} groups",
        window_shapes,
        _work_items,
        source="deconvolution",
        floats="act_a act_b",
        variants=tile.VARIANTS,
        defaults=tile.DEFAULTS,
        cost=_cost,
        rule=_rule,
        macs=macs,
        packed=True,
        cpu_local=(16, 1, 1),
    ),
    buffer_kernel(
        "deconv_depthwise",
        "DepthwiseDeconv2d",
        "x:view w:weights b:weights zeros:weights residual:view y:view",
        f"batch in_h in_w channels out_h out_w {_GEOMETRY}",
        depthwise_shapes,
        _depthwise_work_items,
        source="deconvolution",
        floats="act_a act_b",
        variants=_DEPTHWISE_VARIANTS,
        defaults={
            "": (_depthwise_variant(4, 4, 0), _depthwise_variant(1, 4, 0)),
            "pocl": (_depthwise_variant(8, 4, 0), _depthwise_variant(4, 4, 0), _depthwise_variant(1, 4, 0)),
            "pocl-3.1": (
                *(_depthwise_variant(16, pixels, 1) for pixels in (7, 4)),
                *(_depthwise_variant(*tile) for tile in ((8, 4, 0), (4, 4, 0), (1, 4, 0))),
            ),
        },
        cost=_depthwise_cost,
        rule=lambda dims, chosen, target: too_wide(dims["channels"], chosen),
        macs=scattered_macs,
        cpu_local=(4, 1, 4),
    ),
)
