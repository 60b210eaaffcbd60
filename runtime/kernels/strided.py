"""Operators of farmrt's CPU on strided views of every element type: the rows that plans name; they have no OpenCL.

The ints of such an operator are its own, the *head*, then the extents of LOOPS loops, then for each tensor its element
type and its strides along the loops.
"""

import dataclasses
import enum

from runtime.kernels.spec import INT_RANGE, ArgumentForm, Kernel, MemoryType, Range, ranged_ints

LOOPS = 12
KEPT = 6  # of them, the first, are those of the result of what sums up along the others


@dataclasses.dataclass(frozen=True, eq=False)
class StridedKernel(Kernel):
    """A strided CPU operator; `head` names the ints before the extents."""

    head: tuple[str, ...] = dataclasses.field(kw_only=True)


def strided_row(name: str, tensors: str, head: str = "", floats: str = "") -> StridedKernel:
    """A row from blank-separated names, and a head as `ranged_ints` reads it; the last tensor is the result."""
    own = ranged_ints(head)
    loops: dict[str, Range] = {f"d{loop}": (1, INT_RANGE[1]) for loop in range(LOOPS)}
    for tensor in tensors.split():
        loops[type_of(tensor)] = (0, INT_RANGE[1])
        loops |= dict.fromkeys(strides_of(tensor), INT_RANGE)
    return StridedKernel(
        name,
        "",
        name,
        MemoryType.BUFFER,
        tuple((tensor, ArgumentForm.ELEMENTS) for tensor in tensors.split()),
        (*own, *loops),
        lambda dims, chosen: (1,),
        floats=tuple(floats.split()),
        ranges=own | loops,
        head=tuple(own),
    )


def type_of(tensor: str) -> str:
    """The int that is a tensor's element type."""
    return f"{tensor}_type"


def strides_of(tensor: str) -> list[str]:
    """The ints that are a tensor's strides."""
    return [f"{tensor}s{loop}" for loop in range(LOOPS)]


def code(name: str, codes: type[enum.IntEnum]) -> str:
    """An int of a head that is one of these codes."""
    return f"{name}:0-{max(codes)}"
