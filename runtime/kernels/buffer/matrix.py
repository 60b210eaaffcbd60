"""Fully connected layers and products of matrices in buffers."""

from __future__ import annotations

from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.spec import Defines, Dims, ceil_div, variant


def _fully_connected_shapes(dims: Dims, defines: Defines) -> Shapes:
    return {
        "x": (dims["rows"] * dims["in_c"],),
        "w": (1, dims["out_c"], dims["in_c"]),
        "b": (dims["out_c"],),
        "y": (dims["rows"] * dims["out_c"],),
    }


def _matmul_shapes(dims: Dims, defines: Defines) -> Shapes:
    last = dims["batch"] - 1
    return {
        "a": (last * dims["a_batch_stride"] + dims["m"] * dims["k"],),
        "b": (last * dims["b_batch_stride"] + dims["k"] * dims["n"],),
        "y": (dims["batch"] * dims["m"] * dims["n"],),
    }


KERNELS = (
    buffer_kernel(
        "fully_connected",
        "FullyConnected",
        "x:flat w:weights b:weights y:flat",
        "rows in_c out_c",
        _fully_connected_shapes,
        lambda dims, chosen: (ceil_div(dims["out_c"], chosen["BLOCK"]), ceil_div(dims["rows"], chosen["PIXELS"])),
        floats="act_a act_b",
        variants=tuple(
            variant(BLOCK=block, VECTOR=block, PIXELS=pixels, FMA=fma)
            for block in (4, 8, 16)
            for pixels in (1, 4)
            for fma in (0, 1)
        ),
        defaults={
            "": (variant(BLOCK=4, VECTOR=4, PIXELS=1, FMA=0),),
            "pocl": (variant(BLOCK=8, VECTOR=8, PIXELS=1, FMA=0),),
            "pocl-3.1": (variant(BLOCK=16, VECTOR=16, PIXELS=1, FMA=1),),
        },
        macs=lambda dims: dims["rows"] * dims["in_c"] * dims["out_c"],
        packed=True,
    ),
    buffer_kernel(
        "matmul",
        "MatMul",
        "a:flat b:flat y:flat",
        "batch m k n a_batch_stride b_batch_stride",
        _matmul_shapes,
        lambda dims, chosen: (
            ceil_div(dims["n"], chosen["VECTOR"]),
            ceil_div(dims["m"], chosen["PIXELS"]),
            dims["batch"],
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
        macs=lambda dims: dims["batch"] * dims["m"] * dims["k"] * dims["n"],
    ),
)
