"""A row of the buffer table, and what the rows share: argument shapes, default local sizes."""

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
)
from runtime.target import AVX512, Target, runs_on_cpu, shares_an_axis

# Tensor argument -> its shape without gaps: (pixels, channels) of a view, (elements,) of a flat tensor, table or plain
# weights, (groups, rows, cols) of weights that the variant packs in blocks of rows.
Shapes = Mapping[str, tuple[int, ...]]
Rule = Callable[[Dims, Variant, Target], str]

_GPU_WORK_GROUP = 64
_CPU_WORK_GROUP = 16
_GROUPS_A_CORE = 2
# PoCL's threads take from a pile of work groups: of those that are left their share, and one more. Of few that is too
# many: of four, three. A group costs 10 ns.
_POCL_GROUPS_A_CORE = 16
_AVX2_LEAST = 2  # work items: a group of one is compiled to code that spills; tiles of 12 sums took twice the time
_SHARED_GROUPS_A_CORE = 8  # along the axis that is shared
_EQUAL = 1.1  # the largest of shares that count as equal, in equal ones


@dataclasses.dataclass(frozen=True, eq=False)
class BufferKernel(Kernel):
    """A kernel on buffers; `shapes` tells the shape of each tensor argument of a launch."""

    shapes: Callable[[Dims, Defines], Shapes] = dataclasses.field(kw_only=True)


def buffer_kernel(
    name: str,
    operator: str,
    tensors: str,
    ints: str,
    shapes: Callable[[Dims, Defines], Shapes],
    work_items: Callable[[Dims, Variant], WorkItems],
    *,
    source: str = "",
    floats: str = "",
    variants: tuple[Variant, ...],
    defaults: Mapping[str, tuple[Variant, ...]],
    cost: Callable[[Dims, Variant], float] = no_cost,
    rule: Rule = always_fits,
    macs: Callable[[Dims], int] = no_macs,
    packed: bool = False,
    cpu_local: WorkItems = (),
    pocl_local: WorkItems = (),
    row_axis: int | None = None,
    local: Callable[[WorkItems, Variant, Target], WorkItems] | None = None,
    tunable: bool = True,
    cpu: bool = True,
    integer_weights: bool = False,
    integer_defaults: Mapping[str, tuple[Variant, ...]] | None = None,
    picked: tuple[str, ...] = (),
) -> BufferKernel:
    """Makes a row of the buffer table.

    `tensors` are blank-separated `name:form`, `ints` what `ranged_ints` reads, `floats` names. The source is
    `<source or name>.buffer.cl`. `packed`: the weights lie in blocks of PACK (if not given: BLOCK) rows. `cpu_local`:
    default local size on a CPU, the same for all launches that give its cores enough to do, since PoCL compiles a
    kernel once for each; `pocl_local`: the same on PoCL alone; `row_axis`: along it the pixels of the output lie, which
    a driver that compiles a kernel once for all (families `cpu`) then shares among the cores.
    `local`: default local size of work items and a variant, where it is not `default_buffer_local_size`.
    """
    forms = (argument.split(":") for argument in tensors.split())
    return BufferKernel(
        name=name,
        source=f"{source or name}.{MemoryType.BUFFER}.cl",
        operator=operator,
        memory=MemoryType.BUFFER,
        tensors=tuple((argument, ArgumentForm(form)) for argument, form in forms),
        ints=tuple(ranged_ints(ints)),
        floats=tuple(floats.split()),
        ranges=ranged_ints(ints),
        work_items=work_items,
        variants=variants,
        defaults=defaults,
        cost=cost,
        fits=lambda dims, chosen, target: (
            needs_half(chosen, target) or _compiler_aborts(chosen, target) or rule(dims, chosen, target)
        ),
        local_size=lambda dims, chosen, target: (
            local(work_items(dims, chosen), chosen, target)
            if local
            else local_size_of(work_items(dims, chosen), cpu_local, target, row_axis, pocl_local)
        ),
        block=(lambda chosen: chosen.get("PACK", chosen["BLOCK"])) if packed else None,
        macs=macs,
        one_group=has_lanes,
        tunable=tunable,
        cpu=cpu,
        integer_weights=integer_weights,
        integer_defaults=integer_defaults or {},
        picked=picked,
        shapes=shapes,
    )


def _compiler_aborts(chosen: Variant, target: Target) -> str:
    """Says why a variant would crash PoCL 3.0: its LLVM 14 aborts over functions of 16 floats (fma, vload_half16)."""
    if target.gpu_family.startswith("pocl-3.0") and chosen["VECTOR"] == 16:
        return "the compiler of PoCL 3.0 aborts on vectors of 16"
    return ""


def local_size_of(
    grid: WorkItems, cpu_local: WorkItems, target: Target, row_axis: int | None = None, pocl_local: WorkItems = ()
) -> WorkItems:
    """The default local size of work items; the other arguments are those of `buffer_kernel`."""
    shared = shares_an_axis(target.gpu_family)
    cpu_local = cpu_local or (() if shared else pocl_local)
    if not cpu_local or not runs_on_cpu(target.gpu_family):
        return default_buffer_local_size(grid, target)
    if shared:
        axis = None if row_axis is None else _shared_axis(grid, row_axis, target.compute_units)
        if axis is not None:
            return _shared_along(grid, axis, target)
        return _with_groups_for_all(grid, cpu_local, _GROUPS_A_CORE * target.compute_units)
    enough = 1 if target.compute_units == 1 else _POCL_GROUPS_A_CORE * target.compute_units
    least = 1 if target.gpu_family.endswith(AVX512) else _AVX2_LEAST
    return cpu_local if _groups(grid, cpu_local) >= enough else (least, *cpu_local[1:])  # two, since it builds for each


def _shared_axis(grid: WorkItems, row_axis: int, cores: int) -> int | None:
    """The axis to share among cores: that of the rows, or where its shares are not equal, the one whose are most."""
    shares = {
        axis: ceil_div(extent, cores) * cores / extent
        for axis, extent in enumerate(grid)
        if extent >= _GROUPS_A_CORE * cores
    }
    return row_axis if shares.get(row_axis, math.inf) <= _EQUAL else min(shares, key=shares.__getitem__, default=None)


def _shared_along(grid: WorkItems, shared: int, target: Target) -> WorkItems:
    """A local size with groups along one axis, and none, if they may be so large, along the others.

    Intel's driver halves the axis that has the most groups. Where the halves of each launch are the same pixels, a core
    reads what it has written itself, in a third of the time that it takes from another core's cache.
    """
    size, most = grid[shared] // (_SHARED_GROUPS_A_CORE * target.compute_units), target.max_work_item_sizes
    local = [1] * len(grid)
    for axis in sorted(range(len(grid)), key=lambda axis: axis != shared):
        limit = min(most[axis], target.max_work_group_size // math.prod(local))
        local[axis] = max(1, min(size if axis == shared else grid[axis], limit))
    return tuple(local)


def _groups(grid: WorkItems, local: WorkItems) -> int:
    return math.prod(map(ceil_div, grid, local))


def _with_groups_for_all(grid: WorkItems, local: WorkItems, enough: int) -> WorkItems:
    """Halves the first axis of a local size until there are work groups enough, or one item is left."""
    first, *rest = local
    while first > 1 and _groups(grid, (first, *rest)) < enough:
        first //= 2
    return (first, *rest)


def default_buffer_local_size(grid: WorkItems, target: Target) -> WorkItems:
    """Chooses powers of two, the first axes first: work items that are neighbours there read neighbouring memory."""
    group_size = _CPU_WORK_GROUP if runs_on_cpu(target.gpu_family) else _GPU_WORK_GROUP
    budget = min(group_size, target.max_work_group_size)
    size = [1] * len(grid)
    for axis, extent in enumerate(grid):
        limit = min(extent, target.max_work_item_sizes[axis])
        while size[axis] * 2 <= limit and math.prod(size) * 2 <= budget:
            size[axis] *= 2
    first, *rest = size
    enough = _GROUPS_A_CORE * target.compute_units if runs_on_cpu(target.gpu_family) else 1
    return _with_groups_for_all(grid, (first, *rest), enough)


def too_wide(channels: int, chosen: Variant) -> str:
    """Says why vectors of VECTOR channels cannot be used; empty where there are at least as many channels."""
    return f"vectors of {chosen['VECTOR']} for {channels} channels" if chosen["VECTOR"] > channels else ""
