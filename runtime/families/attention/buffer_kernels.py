"""The kernel of scaled dot-product attention, on buffers of any strides."""

from __future__ import annotations

from runtime.kernels.buffer.lanes import lanes_local_size, shared_variants
from runtime.kernels.buffer.nests import indexed
from runtime.kernels.buffer.spec import Shapes, buffer_kernel, too_wide
from runtime.kernels.spec import Defines, Dims, Variant, variant
from runtime.target import Target

MOST_ELEMENTS = 256  # of a query or a value: a work item holds them in registers
_EXTENTS = "batch heads queries keys depth values"
_LOOPS = {
    "q": ("batch", "heads", "queries", "depth"),
    "k": ("batch", "heads", "keys", "depth"),
    "v": ("batch", "heads", "keys", "values"),
    "m": ("batch", "heads", "queries", "keys"),
    "y": ("batch", "heads", "queries", "values"),
}


def _shapes(dims: Dims, defines: Defines) -> Shapes:
    spans = {
        tensor: (1 + sum((dims[extent] - 1) * dims[f"{tensor}s{axis}"] for axis, extent in enumerate(loops)),)
        for tensor, loops in _LOOPS.items()
    }
    return {"mask" if tensor == "m" else tensor: span for tensor, span in spans.items()}


def _rule(dims: Dims, chosen: Variant, target: Target) -> str:
    most = max(dims["depth"], dims["values"])
    if most > MOST_ELEMENTS:
        return f"heads of {most} elements; up to {MOST_ELEMENTS} are supported"
    return too_wide(min(dims["depth"], dims["values"]), chosen) if chosen["VECTOR"] > 4 else ""


BUFFER_KERNELS = (
    buffer_kernel(
        "attention",
        "Attention",
        "q:flat k:flat v:flat mask:flat y:flat",
        f"{_EXTENTS} {' '.join(indexed(f'{tensor}s', 4, ':any') for tensor in _LOOPS)} masked:0-1 causal:0-1",
        _shapes,
        lambda dims, chosen: (chosen["LANES"], dims["queries"], dims["batch"] * dims["heads"]),
        floats="scale",
        variants=shared_variants(4, 8, 16),
        defaults={
            "": (variant(LANES=1, VECTOR=4),),
            "pocl": (variant(LANES=1, VECTOR=8), variant(LANES=1, VECTOR=4)),
            "pocl-3.1": tuple(variant(LANES=1, VECTOR=vector) for vector in (16, 8, 4)),
        },
        cost=lambda dims, chosen: -chosen["VECTOR"],
        rule=_rule,
        macs=lambda dims: (
            dims["batch"] * dims["heads"] * dims["queries"] * dims["keys"] * (dims["depth"] + dims["values"])
        ),
        local=lanes_local_size,
        splittable=False,
    ),
)
