"""The kernel table: every OpenCL kernel, by name and memory type."""

from __future__ import annotations

from runtime.kernels import buffer, image
from runtime.kernels.spec import Kernel, MemoryType

KERNELS: tuple[Kernel, ...] = (*buffer.KERNELS, *image.KERNELS)
PROBES: tuple[Kernel, ...] = buffer.PROBES  # of no operator: they show what a device can do
_BY_NAME = {(kernel.name, kernel.memory): kernel for kernel in (*KERNELS, *PROBES)}


def find_kernel(name: str, memory: MemoryType) -> Kernel:
    """The row of a kernel in a memory type. Raises KeyError where the table has none."""
    return _BY_NAME[name, memory]
