"""A row of the image table, and what the rows share: device limits, work items, local sizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

from runtime.kernels.spec import (
    ArgumentForm,
    Defines,
    Dims,
    Kernel,
    MemoryType,
    Variant,
    WorkItems,
    always_fits,
    ceil_div,
    has_lanes,
    needs_half,
    no_cost,
    no_macs,
    ranged_ints,
    variant,
)
from runtime.layout.arrangement import Shape
from runtime.layout.image import LANES, ImageLayout, image_size
from runtime.target import Target, runs_on_cpu

Images = dict[str, tuple[ImageLayout, Shape]]  # tensor argument -> its layout, and its shape in origin order
Rule = Callable[[Dims, Variant, Target], str]

_GPU_WORK_GROUP = 64  # work items of a default group: one or two hardware waves on the mobile GPUs
_CPU_WORK_GROUP = 16


@dataclasses.dataclass(frozen=True, eq=False)
class ImageKernel(Kernel):
    """A kernel on images.

    `images` tells, for a launch, the layout and shape of the image arguments, as far as dims and defines determine
    them: an input that may be larger than what is read of it is left out.
    """

    images: Callable[[Dims, Defines], Images] = dataclasses.field(kw_only=True)


def image_kernel(
    name: str,
    operator: str,
    tensors: str,
    ints: str,
    images: Callable[[Dims, Defines], Images],
    work_items: Callable[[Dims, Variant], WorkItems],
    *,
    source: str = "",
    floats: str = "",
    variants: tuple[Variant, ...] = (Variant(),),
    defaults: Mapping[str, Variant | tuple[Variant, ...]] | None = None,
    cost: Callable[[Dims, Variant], float] = no_cost,
    rule: Rule = always_fits,
    local: Callable[[WorkItems, Variant, Target], WorkItems] | None = None,
    macs: Callable[[Dims], int] = no_macs,
    tunable: bool = False,
    integer_weights: bool = False,
) -> ImageKernel:
    """Makes a row of the image table.

    `tensors`, `ints` and `floats` are blank-separated names; a tensor that is no image is written `x:flat`, with its
    form. The source is `<source or name>.image.cl`. The launch fits where `rule` and the device's image limits
    allow it. `local`: default local size of work items and a variant, where it is not `default_image_local_size`.
    """
    forms = (argument.partition(":") for argument in tensors.split())
    return ImageKernel(
        name=name,
        source=f"{source or name}.{MemoryType.IMAGE}.cl",
        operator=operator,
        memory=MemoryType.IMAGE,
        tensors=tuple((argument, ArgumentForm(form or "image")) for argument, _, form in forms),
        ints=tuple(ranged_ints(ints)),
        floats=tuple(floats.split()),
        work_items=work_items,
        variants=variants,
        defaults={family: each if isinstance(each, tuple) else (each,) for family, each in (defaults or {}).items()},
        cost=cost,
        fits=lambda dims, chosen, target: (
            needs_half(chosen, target) or rule(dims, chosen, target) or _exceeded_limit(images(dims, {}), target)
        ),
        local_size=lambda dims, chosen, target: (
            local(work_items(dims, chosen), chosen, target)
            if local
            else default_image_local_size(work_items(dims, chosen), target)
        ),
        macs=macs,
        one_group=has_lanes,
        tunable=tunable,
        cpu=False,
        integer_weights=integer_weights,
        images=images,
    )


# Lanes of a work group that share what is summed, or joined otherwise.
SHARING = tuple(variant(LANES=lanes) for lanes in (1, 16, 64))
SHARING_DEFAULTS: Mapping[str, Variant | tuple[Variant, ...]] = {
    "": (SHARING[1], SHARING[0]),
    "nvidia": (SHARING[2], SHARING[0]),
    "pocl": SHARING[0],
}
_MOST_SHARED = 64  # sums; beyond, work items enough to fill a mobile GPU


def sharing_cost(work_items: Callable[[Dims, Variant], WorkItems]) -> Callable[[Dims, Variant], float]:
    """Prefers a work item for each sum where there are many; the first of `work_items` are the lanes."""

    def cost(dims: Dims, chosen: Variant) -> float:
        return float(chosen["LANES"] > 1 and math.prod(work_items(dims, chosen)[1:]) > _MOST_SHARED)

    return cost


def sharing_local_size(items: WorkItems, chosen: Variant, target: Target) -> WorkItems:
    """The work items that share a sum make a work group; those that work alone are grouped as any others."""
    if chosen["LANES"] == 1:
        return default_image_local_size(items, target)
    return min(chosen["LANES"], target.max_work_group_size, target.max_work_item_sizes[0]), 1, 1


def default_image_local_size(grid: WorkItems, target: Target) -> WorkItems:
    """Chooses powers of two: up to 4 blocks and 8 columns, then rows, then columns and blocks again up to the limit.

    Neighbouring columns and rows share input pixels in the texture cache, and blocks read the same input.
    """
    group_size = _CPU_WORK_GROUP if runs_on_cpu(target.gpu_family) else _GPU_WORK_GROUP
    budget = min(group_size, target.max_work_group_size)
    size = [1, 1, 1]
    for axis, most in ((0, 4), (1, 8), (2, budget), (1, budget), (0, budget)):
        limit = min(most, grid[axis], target.max_work_item_sizes[axis])
        while size[axis] * 2 <= limit and math.prod(size) * 2 <= budget:
            size[axis] *= 2
    return size[0], size[1], size[2]


def activation_image(batch: int, channels: int, height: int, width: int) -> tuple[ImageLayout, Shape]:
    """The image of an activation."""
    return ImageLayout.CHANNEL_MAJOR, (batch, channels, height, width)


def argument_image(length: int) -> tuple[ImageLayout, Shape]:
    """The image of a bias, scale or shift."""
    return ImageLayout.ARGUMENT, (length,)


def bias_image(channels: int, defines: Defines) -> tuple[ImageLayout, Shape]:
    """The image of a bias, with the scales of integer weights behind its last block."""
    return argument_image(2 * LANES * blocks_of(channels) if "WEIGHT_BITS" in defines else channels)


def blocks_of(channels: int) -> int:
    """Blocks of four that hold this number of channels."""
    return ceil_div(channels, LANES)


def pixel_grid(batch: int, channels: int, height: int, width: int) -> WorkItems:
    """A work item for each pixel of an activation's image: (blocks, columns, rows)."""
    return blocks_of(channels), width, batch * height


def _exceeded_limit(images: Images, target: Target) -> str:
    for name, (layout, shape) in images.items():
        width, height = image_size(layout, shape)
        if width > target.image2d_max_width or height > target.image2d_max_height:
            limit = f"{target.image2d_max_width} x {target.image2d_max_height}"
            return f"{name} needs an image of {width} x {height} pixels; the device's limit is {limit}"
        if (size := width * height * LANES * target.element_bytes) > target.max_allocation_bytes:
            return f"{name} needs an image of {size} bytes; the device allocates {target.max_allocation_bytes} at most"
    return ""
