"""The kernel that shows how many multiply-adds a device does at most; no operator of a model uses it."""

from runtime.kernels.buffer.spec import buffer_kernel
from runtime.kernels.spec import Dims, Variant, WorkItems, ceil_div, variant

SUMS = 12  # of a work item, as in the source: enough to hide how long a multiply-add takes, and for 16 registers
FIRST, STARTS = 2, 16  # where the values begin in x that the sums start with, and how many there are
_WIDE, _NARROW, _SHORT = (
    tuple(variant(VECTOR=vector, FMA=form) for form in (1, 0)) for vector in (16, 8, 4)
)  # multiply-adds by `fma` first, then as a*b+c


def _work_items(dims: Dims, chosen: Variant) -> WorkItems:
    return (ceil_div(dims["elements"], chosen["VECTOR"]),)


def _macs(dims: Dims) -> int:
    return dims["rounds"] * dims["elements"] * SUMS


PEAK_MACS = buffer_kernel(
    "peak_macs",
    "PeakProbe",
    "x:flat y:flat",
    "rounds elements",
    lambda dims, defines: {"x": (FIRST + STARTS,), "y": (dims["elements"],)},
    _work_items,
    variants=(*_WIDE, *_NARROW, *_SHORT),
    defaults={
        "": (_SHORT[1],),
        "pocl": (_NARROW[1],),
        "pocl-3.1": (_NARROW[0],),
        "avx512": (_WIDE[0],),
    },
    macs=_macs,
    cpu=False,
)
