"""The row of a user's C function, as a CPU step has it."""

from __future__ import annotations

import dataclasses
import functools

from runtime.custom.binding import BoundOperator
from runtime.custom.declaration_check import OUTPUT, output_type
from runtime.kernels.spec import ArgumentForm, Kernel, MemoryType


@dataclasses.dataclass(frozen=True, eq=False)
class CKernel(Kernel):
    """A kernel that a library of users' C functions holds (runtime/custom/c_library.py)."""

    bound: BoundOperator = dataclasses.field(kw_only=True)

    @property
    def element_types(self) -> list[str]:
        """Of the tensors, the output last."""
        return [*(each.dtype for each in self.bound.inputs), output_type(self.bound.declared)]


@functools.cache
def c_kernel(bound: BoundOperator) -> CKernel:
    """The row; its ints are the items, the elements of each tensor (0: absent), then the user's."""
    assert bound.c
    names = [*(each.name for each in bound.inputs), OUTPUT]
    return CKernel(
        name=bound.c.name,
        source=bound.c.declared.source,
        operator=bound.declared.name,
        memory=MemoryType.BUFFER,
        tensors=tuple((name, ArgumentForm.FLAT) for name in names),
        ints=("items", *(f"{name} elements" for name in names), *bound.c.declared.ints.split()),
        floats=tuple(bound.c.declared.floats.split()),
        work_items=lambda dims, variant: (1,),
        bound=bound,
    )
