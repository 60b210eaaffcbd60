"""Kernels whose work items may share a sum: the variants and local sizes of several families."""

from __future__ import annotations

from runtime.kernels.buffer.spec import default_buffer_local_size
from runtime.kernels.spec import Variant, WorkItems, variant
from runtime.target import Target


def shared_variants(*vectors: int) -> tuple[Variant, ...]:
    """A work item alone, or LANES work items that share a sum, each with vectors of so many elements."""
    return tuple(variant(LANES=lanes, VECTOR=vector) for lanes in (1, 16, 64) for vector in vectors)


def lanes_local_size(items: WorkItems, chosen: Variant, target: Target) -> WorkItems:
    """The work items that share a sum make a work group; those that work alone are grouped as any others."""
    if chosen["LANES"] == 1:
        return default_buffer_local_size(items, target)
    lanes = min(chosen["LANES"], target.max_work_group_size, target.max_work_item_sizes[0])
    return lanes, *(1 for _ in items[1:])
