"""Every launch of a kernel that the simulator executes: each variant on each case of the kernel that it fits.

The cases are those that the tests of kernels use, so that a kernel of the table has some, or those tests fail.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from runtime.kernels import table
from runtime.kernels.buffer.spec import BufferKernel
from runtime.kernels.spec import Kernel, MemoryType, Variant, WorkItems
from runtime.types import Precision
from tests.opencl import default_device
from tests.runtime import buffer_launch, image_launch
from tests.runtime import test_kernels_image_table as image_cases
from tests.runtime.families import CASES, IMAGE_CASES

PRECISIONS = (Precision.FP32, Precision.FP16_STORAGE)
MOST_PRODUCTS = 1_000_000  # of a case: larger ones take minutes under the simulator
# Groups that end inside a row and behind the last work item, in each direction.
LOCAL_SIZES = ((3, 1, 1), (2, 3, 1), (1, 2, 3))


@dataclasses.dataclass(frozen=True)
class Launch:
    """One launch to execute; `label` tells its case, precision and local size."""

    variant: Variant
    label: str
    execute: Callable[[], Any]


def launches(kernel: Kernel) -> Iterator[Launch]:
    """All launches of a kernel, cheap enough for a simulator: the cases are small and odd."""
    yield from _on_buffers(kernel) if isinstance(kernel, BufferKernel) else _on_images(kernel)


def uncovered(kernel: Kernel) -> set[str]:
    """Names of the variants that no launch has; Oclgrind knows neither half arithmetic (RUN) nor subgroups."""
    wanted = {variant.name for variant in kernel.variants if not variant.get("RUN") and not variant.get("SUBGROUPS")}
    return wanted - {launch.variant.name for launch in launches(kernel)}


def find(memory: str, name: str) -> Kernel:
    """The kernel of a memory type and a name."""
    return table.find_kernel(name, MemoryType(memory))


def _on_buffers(kernel: BufferKernel) -> Iterator[Launch]:
    """With the default local size, and another one, which changes from case to case."""
    cases = [(name, case) for name, case in CASES.items() if case.kernel is kernel]
    cases = [(name, case) for name, case in cases if kernel.macs(case.dims) <= MOST_PRODUCTS]
    for precision, variant, number in itertools.product(PRECISIONS, kernel.variants, range(len(cases))):
        name, case = cases[number]
        if not kernel.fits(case.dims, variant, buffer_launch.target(default_device(), precision)):
            rank = len(kernel.work_items(case.dims, variant))
            for local in (None, LOCAL_SIZES[number % len(LOCAL_SIZES)][:rank]):
                check = functools.partial(buffer_launch.check, case, default_device(), variant, precision, local)
                yield Launch(variant, _label(name, precision, local), functools.partial(check, tail=0))


def _on_images(kernel: Kernel) -> Iterator[Launch]:
    dims = IMAGE_CASES[kernel.name][0]
    for precision, variant, local in itertools.product(PRECISIONS, kernel.variants, LOCAL_SIZES):
        if not kernel.fits(dims, variant, image_launch.TARGET):
            execute = functools.partial(image_cases.run, kernel.name, variant, local, precision)
            yield Launch(variant, _label("the table's case", precision, local), execute)


def _label(case: str, precision: Precision, local: WorkItems | None) -> str:
    return f"{case}, {precision.name}, local {'size by default' if local is None else local}"
