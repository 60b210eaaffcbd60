"""What rows of several families share: variants by vectors, along channels, and by work items that share a sum."""

from collections.abc import Callable

from runtime.kernels.buffer.spec import Shapes, default_buffer_local_size
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div, variant
from runtime.target import Target

VARIANTS = tuple(variant(VECTOR=vector) for vector in (4, 8, 16))
DEFAULTS = {"": (variant(VECTOR=4),), "pocl": (variant(VECTOR=8),), "pocl-3.1": (variant(VECTOR=16),)}
# ITEMS: how often a work item repeats its work, where one vector is too little to pay for it.
ITEM_VARIANTS = tuple(variant(VECTOR=vector, ITEMS=items) for vector in (4, 8, 16) for items in (1, 4, 16))
ITEM_DEFAULTS = {
    "": (variant(VECTOR=4, ITEMS=1),),
    "pocl": (variant(VECTOR=8, ITEMS=16),),
    "pocl-3.1": (variant(VECTOR=16, ITEMS=16),),
}


def image_shapes(dims: Dims, defines: Defines) -> Shapes:
    """Input and output images of a window."""
    return {
        "x": (dims["batch"] * dims["in_h"] * dims["in_w"], dims["channels"]),
        "y": (dims["batch"] * dims["out_h"] * dims["out_w"], dims["channels"]),
    }


def window_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    """A vector of channels of an output pixel."""
    return ceil_div(dims["channels"], chosen["VECTOR"]), dims["out_w"], dims["batch"] * dims["out_h"]


def pixel_shapes(dims: Dims, defines: Defines) -> Shapes:
    """Pixels, and scale and shift of each channel."""
    tensor = (dims["pixels"], dims["channels"])
    return {"x": tensor, "s": (dims["channels"],), "t": (dims["channels"],), "y": tensor}


def pixel_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    """A vector of channels of ITEMS pixels."""
    return ceil_div(dims["channels"], chosen["VECTOR"]), ceil_div(dims["pixels"], chosen.get("ITEMS", 1))


def shared_variants(*vectors: int) -> tuple[Variant, ...]:
    """A work item alone, or LANES work items that share a sum, each with vectors of so many elements."""
    return tuple(variant(LANES=lanes, VECTOR=vector) for lanes in (1, 16, 64) for vector in vectors)


# A row of neighbouring elements, alone or shared; `rows_alone` says where it cannot be.
ROW_LANES = tuple(variant(LANES=lanes, VECTOR=4) for lanes in (16, 64))
ROW_DEFAULTS = {**DEFAULTS, "": (ROW_LANES[0], *DEFAULTS[""])}


def row_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    """Vectors of the inner of three loops, or the work items that share a row."""
    return chosen.get("LANES") or ceil_div(dims["inner"], chosen["VECTOR"]), dims["outer"]


def rows_alone(*strides: str) -> Callable[[Dims, Variant, Target], str]:
    """The rule of variants that share rows: `strides` name those that must be 1."""

    def rule(dims: Dims, chosen: Variant, target: Target) -> str:
        is_row = dims["inner"] == 1 and all(dims[stride] == 1 for stride in strides)
        return "no row of neighbouring elements to share" if chosen.get("LANES") and not is_row else ""

    return rule


def lanes_local_size(items: WorkItems, chosen: Variant, target: Target) -> WorkItems:
    """The work items that share a sum make a work group; those that work alone are grouped as any others."""
    if chosen.get("LANES", 1) == 1:
        return default_buffer_local_size(items, target)
    lanes = min(chosen["LANES"], target.max_work_group_size, target.max_work_item_sizes[0])
    return lanes, *(1 for _ in items[1:])
