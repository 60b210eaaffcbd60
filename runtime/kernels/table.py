"""The kernel table: every OpenCL kernel and CPU operator, by name and memory type."""

from runtime.kernels.blocked import QUANTIZED_REORDER, REORDER
from runtime.kernels.buffer.peak import PEAK_MACS
from runtime.kernels.buffer.spec import BufferKernel
from runtime.kernels.image import conversion
from runtime.kernels.image.spec import ImageKernel
from runtime.kernels.spec import Kernel, MemoryType
from runtime.registry import collect_rows

BUFFER_KERNELS: tuple[BufferKernel, ...] = collect_rows("BUFFER_KERNELS")
IMAGE_KERNELS: tuple[ImageKernel, ...] = (*conversion.KERNELS, *collect_rows("IMAGE_KERNELS"))
KERNELS: tuple[Kernel, ...] = (*BUFFER_KERNELS, *IMAGE_KERNELS)
PROBES: tuple[BufferKernel, ...] = (PEAK_MACS,)  # of no operator: they show what a device can do
_CPU_ALONE: tuple[Kernel, ...] = (
    *collect_rows("BLOCK_KERNELS"),
    REORDER,
    QUANTIZED_REORDER,
    *collect_rows("STRIDED_KERNELS"),
)
CPU_OPERATORS = (*(kernel for kernel in BUFFER_KERNELS if kernel.cpu), *_CPU_ALONE)
_BY_NAME = {(kernel.name, kernel.memory): kernel for kernel in (*KERNELS, *PROBES, *_CPU_ALONE)}


def find_kernel(name: str, memory: MemoryType) -> Kernel:
    """The row of a kernel in a memory type. Raises KeyError where the table has none."""
    return _BY_NAME[name, memory]
