"""Kernels of layer, group, instance and root-mean-square normalisation, on buffers of any strides."""

from __future__ import annotations

from runtime.kernels.buffer.spec import Shapes, buffer_kernel, default_buffer_local_size
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, variant
from runtime.target import Target

_STRIDES = "x_batch_stride x_channel_stride x_pixel_stride y_batch_stride y_channel_stride y_pixel_stride"


def shared_variants(*vectors: int) -> tuple[Variant, ...]:
    """A work item alone, or LANES work items that share a sum, each with vectors of so many elements."""
    return tuple(variant(LANES=lanes, VECTOR=vector) for lanes in (1, 16, 64) for vector in vectors)


def lanes_local_size(items: WorkItems, chosen: Variant, target: Target) -> WorkItems:
    """The work items that share a sum make a work group; those that work alone are grouped as any others."""
    if chosen["LANES"] == 1:
        return default_buffer_local_size(items, target)
    lanes = min(chosen["LANES"], target.max_work_group_size, target.max_work_item_sizes[0])
    return lanes, *(1 for _ in items[1:])


def _shapes(dims: Dims, defines: Defines) -> Shapes:
    axes = ("batch", "channel", "pixel")
    extents = (dims["batch"], dims["groups"] * dims["channels"], dims["pixels"])
    spans = {
        tensor: sum((size - 1) * dims[f"{tensor}_{axis}_stride"] for size, axis in zip(extents, axes, strict=True)) + 1
        for tensor in "xy"
    }
    return {"x": (spans["x"],), "s": (extents[1],), "t": (extents[1],), "y": (spans["y"],)}


def _work_items(dims: Dims, chosen: Variant) -> WorkItems:
    return chosen["LANES"], dims["batch"], dims["groups"]


KERNELS = (
    buffer_kernel(
        "normalization",
        "Normalization",
        "x:flat s:weights t:weights y:flat",
        f"batch groups channels pixels {_STRIDES} centered",
        _shapes,
        _work_items,
        floats="epsilon act_a act_b",
        variants=shared_variants(4, 8, 16),
        defaults={
            "": (variant(LANES=16, VECTOR=4),),
            "nvidia": (variant(LANES=64, VECTOR=4),),
            "pocl": (variant(LANES=1, VECTOR=8),),
            "pocl-3.1": (variant(LANES=1, VECTOR=16),),
        },
        local=lanes_local_size,
        splittable=False,
    ),
)
