"""No kernel reads or writes outside its memory, races, or lets a part of a group miss a barrier, in any variant.

Oclgrind executes each launch and checks every access to memory. Real drivers let much of this pass. A turn takes half
of the kernels, and those that FARM_EXHAUSTIVE names, as those that changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.kernels import table
from runtime.kernels.spec import Kernel
from tests import opencl
from tests.oclgrind import launches
from tests.oclgrind.simulator import execute

NAMES = [pytest.param(kernel, id=f"{kernel.memory}-{kernel.name}") for kernel in (*table.KERNELS, *table.PROBES)]
OF_TURN = [
    param
    for number, param in enumerate(NAMES)
    for kernel in param.values
    if (number + opencl.TURN) % 2 == 0 or opencl.is_exhaustive(kernel)
]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", OF_TURN)
def test_nothing_is_found_in_any_variant(kernel: Kernel, tmp_path: Path) -> None:
    report = execute(tmp_path, kernel.memory, kernel.name)
    assert report["launches"] >= len(kernel.variants)
    assert not report["failures"], "\n".join(report["failures"][:20])


@pytest.mark.opencl
@pytest.mark.parametrize("kernel", NAMES)
def test_every_variant_is_executed(kernel: Kernel) -> None:
    assert not launches.uncovered(kernel)
