"""Every buffer kernel computes what NumPy computes, in every case, variant, local size and precision.

Every case runs on each driver: in half storage precision, which differs in how elements are loaded and stored, on one
of them, in turns, and in single precision on the others; the first case of each kernel in single precision on all.
Variants take turns at precisions and drivers at variants, so that each driver runs some variants of a kernel that has
many in each precision. Any local size of a kernel runs on one of the drivers, each driver with one of the sizes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from farm.farmrt.drivers import Driver
from runtime.kernels import table
from runtime.kernels.buffer.spec import BufferKernel
from runtime.kernels.source import program_source
from runtime.kernels.spec import ArgumentForm
from runtime.target import Target
from runtime.types import Precision
from tests import opencl
from tests.runtime.buffer_cases import CASES
from tests.runtime.buffer_launch import check, precisions, target

pytestmark = pytest.mark.opencl
KERNELS = (*table.BUFFER_KERNELS, *table.PROBES)
LOCAL = ((1, 1, 1), (3, 2, 1), (2, 1, 3))
FIRST = {case.kernel.name: name for name, case in reversed(CASES.items())}  # of each kernel
IN_TURNS = [
    pytest.param(name, opencl.open_once(driver.path), id=f"{name}-{opencl.label(driver)}")
    for number, name in enumerate(CASES)
    for driver in opencl.of_turn(number)
]


def in_single_precision() -> list[Any]:
    """(case, device). The first case of each kernel is quick on one driver: a program takes a quarter of a second."""
    return [
        pytest.param(name, opencl.open_once(driver.path), id=f"{name}-{opencl.label(driver)}", marks=marks)
        for number, name in enumerate(CASES)
        for index, driver in enumerate(opencl.THOROUGH)
        if name in FIRST.values() or driver in opencl.others_than_of_turn(number)
        for marks in [[pytest.mark.slow] * (index > 0 or name not in FIRST.values())]
    ]


@pytest.mark.parametrize(("name", "device"), in_single_precision())
def test_the_default_variant_computes_what_numpy_computes(name: str, device: Any) -> None:
    check(CASES[name], device)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "device"), IN_TURNS)
def test_half_precision_storage_stays_within_its_tolerance(name: str, device: Any) -> None:
    for precision in precisions(device)[1:]:
        check(CASES[name], device, precision=precision)


@pytest.mark.slow
@pytest.mark.parametrize("driver", opencl.THOROUGH, ids=opencl.label)
@pytest.mark.parametrize(("number", "name"), list(enumerate(FIRST.values())))
def test_any_local_size_gives_the_right_result(number: int, name: str, driver: Driver) -> None:
    case = CASES[name]
    rank = len(case.kernel.work_items(case.dims, case.kernel.variants[0]))
    for turn, local in enumerate(LOCAL, number):
        if driver in opencl.of_turn(turn):
            check(case, opencl.open_once(driver.path), local=local[:rank])


@pytest.mark.slow
@pytest.mark.parametrize("driver", opencl.THOROUGH, ids=opencl.label)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_every_variant_computes_what_numpy_computes(kernel: BufferKernel, driver: Driver) -> None:
    """Runs each variant that the device can run on one of the cases that it fits; cases and precisions take turns."""
    cases = [case for case in CASES.values() if case.kernel is kernel]
    device = opencl.open_once(driver.path)
    for precision in precisions(device):
        for turn, variant in enumerate(kernel.variants):
            wanted = target(device, precision)
            fitting = [case for case in cases if not kernel.fits(case.dims, variant, wanted)]
            if fitting and opencl.is_built(turn, precision) and driver in opencl.of_turn(turn // 2 + precision):
                check(fitting[(turn + precision) % len(fitting)], device, variant, precision)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_every_variant_has_a_case(kernel: BufferKernel) -> None:
    wide = Target(soc="host", abi="x86_64", gpu_family="pocl-3.1", precision=Precision.FP16)
    dims = [case.dims for case in CASES.values() if case.kernel is kernel]
    assert all(any(not kernel.fits(each, variant, wide) for each in dims) for variant in kernel.variants)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_defaults_are_variants(kernel: BufferKernel) -> None:
    assert {chosen for family in kernel.defaults.values() for chosen in family} <= set(kernel.variants)
    assert "" in kernel.defaults
    assert len(set(kernel.variants)) == len(kernel.variants)
    assert sum(not chosen.get("RUN") for chosen in kernel.variants) <= 24, "what a search has to try in one precision"


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_the_arguments_of_the_row_are_those_of_the_source(kernel: BufferKernel) -> None:
    assert list(declared_arguments(kernel)) == list(table_arguments(kernel))


def declared_arguments(kernel: BufferKernel) -> Any:
    """(type, name) of each argument in the source."""
    found = re.search(rf"kernel void {kernel.name}\((.*?)\)\s*{{", program_source(kernel), re.DOTALL)
    assert found is not None
    for declaration in found[1].split(","):
        words = declaration.replace("*", " * ").split()
        yield ("pointer" if "*" in words else words[0]), words[-1]


def table_arguments(kernel: BufferKernel) -> Any:
    """(type, name) of each argument as the row says."""
    for name, form in kernel.tensors:
        yield "pointer", name
        yield "int", f"{name}_offset"
        if form == ArgumentForm.VIEW:
            yield "int", f"{name}_stride"
    yield from (("int", name) for name in kernel.ints)
    yield from (("float", name) for name in kernel.floats)


def test_every_source_has_a_row() -> None:
    sources = {path.name for path in (Path(__file__).parents[2] / "runtime").rglob("*.*.cl")}
    assert sources == {kernel.source for kernel in (*table.KERNELS, *table.PROBES)}


def test_every_kernel_has_cases() -> None:
    assert {case.kernel.name for case in CASES.values()} == {kernel.name for kernel in KERNELS}
    assert Precision.FP32 in precisions(opencl.default_device())


@pytest.mark.parametrize(
    ("family", "pixels", "cores", "size"),
    [
        ("cpu", 784, 2, (8, 1)),
        ("cpu-avx512", 784, 2, (8, 1)),
        ("pocl-3.1", 784, 2, (16, 1)),
        ("pocl-3.1", 784, 64, (8, 1)),  # 131 tiles in each of 8 blocks
        ("cpu-avx512", 49, 2, (4, 1)),  # 7 tiles in each of 2 blocks of channels
        ("cpu-avx512", 49, 64, (1, 1)),
    ],
)
def test_work_groups_are_small_where_that_costs_no_build_or_cores_had_none(
    family: str, pixels: int, cores: int, size: tuple[int, ...]
) -> None:
    (kernel,) = (kernel for kernel in KERNELS if kernel.name == "conv1x1")
    unit = Target("host", "host", gpu_family=family, compute_units=cores)
    dims = {"pixels": pixels, "in_c": 64, "out_c": 128}
    chosen = kernel.default_variant(dims, unit)
    assert chosen and kernel.local_size and kernel.local_size(dims, chosen, unit) == size
