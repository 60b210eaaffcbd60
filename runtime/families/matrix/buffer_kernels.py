"""Fully connected layers and products of matrices in buffers."""

from runtime.kernels.buffer.spec import Shapes, buffer_kernel, local_size_of
from runtime.kernels.buffer.vectors import lanes_local_size
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div, variant
from runtime.target import Target


def _rows(block: int, vector: int, fma: int) -> Variant:
    return variant(BLOCK=block, VECTOR=vector, PIXELS=1, FMA=fma)


# Neighbouring work items read neighbouring weights.
_GPU_ROW = variant(BLOCK=4, VECTOR=4, PIXELS=1, FMA=0, PACK=64)
# The work items of a work group share a block of outputs.
_SHARED_ROWS = tuple(variant(BLOCK=4, VECTOR=4, PIXELS=1, FMA=0, LANES=lanes) for lanes in (16, 64))
# A row reads each weight once: wide blocks, so that long runs of weights are read.
_ROW_VARIANTS = (
    *(_rows(block, 16, 1) for block in (16, 32, 64)),
    *(_rows(block, 8, 0) for block in (8, 16, 32)),
    *(_rows(block, 4, 0) for block in (4, 8, 16)),
    _GPU_ROW,
    *_SHARED_ROWS,
)


def _fully_connected_shapes(dims: Dims, defines: Defines) -> Shapes:
    layers = 1 + defines.get("GATED", 0)
    return {
        "x": (dims["rows"] * dims["in_c"],),
        "w": (layers, dims["out_c"], dims["in_c"]),
        "b": (layers * dims["out_c"],),
        "residual": (dims["rows"] * dims["out_c"],),
        "y": (dims["rows"] * dims["out_c"],),
    }


def _work_items(dims: Dims, chosen: Variant) -> WorkItems:
    blocks, lanes = ceil_div(dims["out_c"], chosen["BLOCK"]), chosen.get("LANES", 0)
    return (lanes, blocks, dims["rows"]) if lanes else (blocks, dims["rows"])


def _local_size(items: WorkItems, chosen: Variant, target: Target) -> WorkItems:
    if chosen.get("LANES"):
        return lanes_local_size(items, chosen, target)
    return local_size_of(items, (2, 1), target)


def _matmul_shapes(dims: Dims, defines: Defines) -> Shapes:
    loops = {"a": "mk", "b": "kn", "y": "mn"}
    return {
        tensor: (1 + sum((dims[extent] - 1) * dims[stride] for extent, stride in _loops(tensor, axes)),)
        for tensor, axes in loops.items()
    }


def _loops(tensor: str, axes: str) -> list[tuple[str, str]]:
    """Names of the extents of a tensor's loops, with those of its strides."""
    return [*((f"d{i}", f"{tensor}s{i}") for i in range(3)), *((axis, f"{tensor}{axis}") for axis in axes)]


def _batch(dims: Dims) -> int:
    return dims["d0"] * dims["d1"] * dims["d2"]


BUFFER_KERNELS = (
    buffer_kernel(
        "fully_connected",
        "FullyConnected",
        "x:flat w:weights b:weights residual:flat y:flat",
        "rows in_c out_c",
        _fully_connected_shapes,
        _work_items,
        floats="act_a act_b",
        variants=_ROW_VARIANTS,
        defaults={
            "": (_GPU_ROW,),
            "nvidia": (_SHARED_ROWS[-1],),
            "pocl": (_rows(32, 8, 0),),
            "pocl-3.0": (_rows(16, 8, 0),),
            "pocl-3.1": (_rows(16, 16, 1),),  # of a model that waits for memory wider blocks read a sixth less
        },
        integer_defaults={
            "pocl-3.0": (_rows(32, 8, 0),),
            "pocl-3.1": (_rows(32, 16, 1),),
            "avx512": (_rows(64, 16, 1),),
        },
        macs=lambda dims: dims["rows"] * dims["in_c"] * dims["out_c"],
        packed=True,
        integer_weights=True,
        local=_local_size,
    ),
    buffer_kernel(
        "matmul",
        "MatMul",
        "a:flat b:flat y:flat",
        "d0 d1 d2 m k n as0:0 as1:0 as2:0 am:0 ak:0 bs0:0 bs1:0 bs2:0 bk:0 bn:0 ys0:0 ys1:0 ys2:0 ym:0 yn:0",
        _matmul_shapes,
        lambda dims, chosen: (
            ceil_div(dims["n"], chosen["VECTOR"]),
            ceil_div(dims["m"], chosen["PIXELS"]),
            _batch(dims),
        ),
        variants=tuple(
            variant(VECTOR=vector, PIXELS=pixels, FMA=fma)
            for vector in (4, 8, 16)
            for pixels in (1, 4)
            for fma in (0, 1)
        ),
        defaults={
            "": (variant(VECTOR=4, PIXELS=4, FMA=0),),
            "pocl": (variant(VECTOR=8, PIXELS=4, FMA=0),),
            "pocl-3.1": (variant(VECTOR=16, PIXELS=4, FMA=1),),
        },
        macs=lambda dims: _batch(dims) * dims["m"] * dims["k"] * dims["n"],
    ),
)
