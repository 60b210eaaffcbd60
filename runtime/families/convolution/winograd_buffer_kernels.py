"""The three steps of Winograd's convolution in buffers."""

from runtime.kernels.buffer import tile
from runtime.kernels.buffer.spec import Shapes, buffer_kernel, too_wide
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div, variant

_VARIANTS = tuple(variant(VECTOR=vector) for vector in (1, 4, 8, 16))
_DEFAULTS = {
    "": (variant(VECTOR=4),),
    "pocl": (variant(VECTOR=8), variant(VECTOR=4)),
    "pocl-3.1": (variant(VECTOR=16), variant(VECTOR=8), variant(VECTOR=4)),
}


def _tiles(dims: Dims) -> int:
    return dims["batch"] * dims["tiles_h"] * dims["tiles_w"]


def _points(defines: Defines) -> int:
    return (defines["WINO"] + 2) ** 2


def _input_shapes(dims: Dims, defines: Defines) -> Shapes:
    pixels = dims["batch"] * dims["in_h"] * dims["in_w"]
    return {"x": (pixels, dims["in_c"]), "v": (_points(defines) * _tiles(dims) * dims["in_c"],)}


def _gemm_shapes(dims: Dims, defines: Defines) -> Shapes:
    return {
        "v": (dims["points"] * dims["tiles"] * dims["in_c"],),
        "u": (dims["points"], dims["out_c"], dims["in_c"]),
        "m": (dims["points"] * dims["tiles"] * dims["out_c"],),
    }


def _gemm_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    return *tile.tile_grid(dims["tiles"], dims["out_c"], chosen), dims["points"]


def _output_shapes(dims: Dims, defines: Defines) -> Shapes:
    output = (dims["batch"] * dims["out_h"] * dims["out_w"], dims["out_c"])
    return {
        "m": (_points(defines) * _tiles(dims) * dims["out_c"],),
        "b": (dims["out_c"],),
        "residual": output,
        "y": output,
    }


BUFFER_KERNELS = (
    buffer_kernel(
        "winograd_input",
        "WinogradTransform",
        "x:view v:flat",
        "batch in_h in_w in_c tiles_h tiles_w pad_t pad_l",
        _input_shapes,
        lambda dims, chosen: (ceil_div(dims["in_c"], chosen["VECTOR"]), _tiles(dims)),
        source="winograd",
        rule=lambda dims, chosen, target: too_wide(dims["in_c"], chosen),
        pocl_local=(4, 4),
        variants=_VARIANTS,
        defaults=_DEFAULTS,
        cpu=False,
    ),
    buffer_kernel(
        "winograd_gemm",
        "Conv2D",
        "v:flat u:weights m:flat",
        "points tiles in_c out_c",
        _gemm_shapes,
        _gemm_work_items,
        variants=tile.GROUP_VARIANTS,
        defaults=tile.DEFAULTS,
        cost=lambda dims, chosen: tile.tile_cost(dims["tiles"], dims["out_c"], dims["in_c"], chosen),
        rule=lambda dims, chosen, target: tile.tile_constraint(dims["tiles"], dims["out_c"], chosen),
        macs=lambda dims: dims["points"] * dims["tiles"] * dims["in_c"] * dims["out_c"],
        packed=True,
        cpu_local=(16, 1, 1),
        cpu=False,
    ),
    buffer_kernel(
        "winograd_output",
        "WinogradInverse",
        "m:flat b:weights residual:view y:view",
        "batch out_h out_w out_c tiles_h tiles_w",
        _output_shapes,
        lambda dims, chosen: (ceil_div(dims["out_c"], chosen["VECTOR"]), _tiles(dims)),
        source="winograd",
        floats="act_a act_b",
        rule=lambda dims, chosen, target: too_wide(dims["out_c"], chosen),
        pocl_local=(4, 4),
        variants=_VARIANTS,
        defaults=_DEFAULTS,
        cpu=False,
    ),
)
