"""Every buffer kernel computes what NumPy computes, in every case, variant, local size and precision.

The first case of each kernel runs on each driver as users run it. All other launches of a kernel are those of one
program, on one driver: kernels take turns at drivers, and launches at the precisions of their driver. Variants that
only half arithmetic has run where a driver has it. FARM_EXHAUSTIVE=1 runs every launch on every driver in every
precision.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.farmrt.drivers import Driver
from runtime.kernels import table
from runtime.kernels.buffer import tile
from runtime.kernels.buffer.spec import BufferKernel, local_size_of
from runtime.kernels.source import program_source
from runtime.kernels.spec import ArgumentForm, Variant
from runtime.target import Target
from runtime.types import Precision
from tests import opencl
from tests.runtime.buffer_launch import Case, Launch, check, check_all, precisions, target
from tests.runtime.families import CASES

pytestmark = pytest.mark.opencl
KERNELS = (*table.BUFFER_KERNELS, *table.PROBES)
LOCAL = ((1, 1, 1), (3, 2, 1), (2, 1, 3))
FIRST = {case.kernel.name: name for name, case in reversed(CASES.items())}  # of each kernel
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


def on_each_driver() -> list[Any]:
    """(case, device): the first case of each kernel, quick on one driver: a program takes a quarter of a second."""
    return [
        pytest.param(name, opencl.open_once(driver.path), id=f"{name}-{opencl.label(driver)}", marks=marks)
        for name in FIRST.values()
        for index, driver in enumerate(opencl.THOROUGH)
        for marks in [[pytest.mark.slow] * (index > 0)]
    ]


@pytest.mark.parametrize(("name", "device"), on_each_driver())
def test_the_default_variant_computes_what_numpy_computes(name: str, device: Any) -> None:
    check(CASES[name], device)


def by_turns() -> list[Any]:
    """(kernel, driver)."""
    return [
        pytest.param(kernel, driver, id=f"{kernel.name}-{opencl.label(driver)}")
        for number, kernel in enumerate(KERNELS)
        for driver in opencl.of_turn(number, opencl.is_exhaustive(kernel))
    ]


def cases_of(kernel: BufferKernel) -> list[tuple[str, Case]]:
    return [(name, case) for name, case in CASES.items() if case.kernel is kernel]


def able(case: Case, turns: list[Precision]) -> list[Precision]:
    """The precisions that a case has: tensors of bytes are not read and written in half arithmetic."""
    return [precision for precision in turns if "BYTES" not in case.defines or not precision.computes_in_half]


def default_variant(case: Case, wanted: Target) -> Variant:
    chosen = case.kernel.default_variant(case.dims, wanted)
    assert chosen
    return chosen


def case_launches(kernel: BufferKernel, device: Any) -> Iterator[Launch]:
    """Each case with its default variant, the first one with any local size too."""
    turns = precisions(device)
    for number, (name, case) in enumerate(cases_of(kernel)):
        for precision in opencl.turn(number, able(case, turns), opencl.is_exhaustive(kernel)):
            yield Launch(name, case, default_variant(case, target(device, precision)), precision)
    name, case = cases_of(kernel)[0]
    chosen = default_variant(case, target(device, Precision.FP32))
    rank = len(kernel.work_items(case.dims, chosen))
    yield from (Launch(name, case, chosen, Precision.FP32, local[:rank]) for local in LOCAL)


def variant_launches(kernel: BufferKernel, device: Any) -> Iterator[Launch]:
    """Each variant that the device can run, on one of the cases that it fits; cases take turns too."""
    turns = precisions(device)
    for number, variant in enumerate(kernel.variants):
        fitting = {precision: fitting_cases(kernel, variant, device, precision) for precision in turns}
        fitted = [precision for precision in turns if fitting[precision]]
        for precision in opencl.turn(number, fitted, opencl.is_exhaustive(kernel)):
            cases = fitting[precision]
            yield Launch(*cases[(number + precision) % len(cases)], variant, precision)


def fitting_cases(kernel: BufferKernel, variant: Variant, device: Any, precision: Precision) -> list[tuple[str, Case]]:
    wanted = target(device, precision)
    return [
        (name, case)
        for name, case in cases_of(kernel)
        if not kernel.fits(case.dims, variant, wanted) and precision in able(case, [precision])
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "driver"), by_turns())
def test_every_case_and_variant_computes_what_numpy_computes(kernel: BufferKernel, driver: Driver) -> None:
    device = opencl.open_once(driver.path)
    check_all(kernel, [*case_launches(kernel, device), *variant_launches(kernel, device)], device)


@pytest.mark.slow
@each_kernel
def test_half_arithmetic_stays_within_its_tolerance(kernel: BufferKernel) -> None:
    """The first case, and each variant of runs, where a driver has such arithmetic."""
    devices = [
        device for driver in opencl.THOROUGH if Precision.FP16 in precisions(device := opencl.open_once(driver.path))
    ]
    if not devices:
        pytest.skip("no driver has half arithmetic")
    device, wanted = devices[0], target(devices[0], Precision.FP16)
    name, case = cases_of(kernel)[0]
    launches = [Launch(name, case, default_variant(case, wanted), Precision.FP16)]
    launches += [
        Launch(*fitting_cases(kernel, variant, device, Precision.FP16)[0], variant, Precision.FP16)
        for variant in kernel.variants
        if variant.get("RUN")
    ]
    check_all(kernel, launches, device)


@each_kernel
def test_every_variant_has_a_case(kernel: BufferKernel) -> None:
    wide = Target(soc="host", abi="x86_64", gpu_family="pocl-3.1", precision=Precision.FP16, subgroups=True)
    dims = [case.dims for case in CASES.values() if case.kernel is kernel]
    assert all(any(not kernel.fits(each, variant, wide) for each in dims) for variant in kernel.variants)


@each_kernel
def test_defaults_are_variants(kernel: BufferKernel) -> None:
    families = (*kernel.defaults.values(), *kernel.integer_defaults.values())
    assert {chosen for family in families for chosen in family} <= set(kernel.variants)
    assert "" in kernel.defaults
    assert len(set(kernel.variants)) == len(kernel.variants)
    tried = [chosen for chosen in kernel.variants if not chosen.get("RUN") and chosen not in tile.FEW_ROWS]
    assert len(tried) <= 24, "what a search has to try in one precision; FEW_ROWS are for what most are too large for"


@pytest.mark.parametrize(
    ("family", "of_integers"),
    [("pocl-3.1-avx512", 64), ("cpu-avx512", 64), ("pocl-3.1", 32), ("pocl-3.0", 32), ("cpu", 32)],
)
def test_a_row_reads_floats_a_cache_line_at_a_time_and_integers_in_wide_blocks(family: str, of_integers: int) -> None:
    kernel = next(each for each in table.BUFFER_KERNELS if each.name == "fully_connected")
    wanted, dims = Target(soc="host", abi="x86_64", gpu_family=family), {"rows": 1, "in_c": 512, "out_c": 512}
    chosen = [kernel.default_variant(dims, wanted, in_integers) for in_integers in (False, True)]
    assert [variant and variant["BLOCK"] for variant in chosen] == [16, of_integers]


@each_kernel
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
        ("cpu", 784, 2, (8, 8)),
        ("cpu-avx512", 784, 2, (7, 2)),  # 16 groups of 7 tiles, in both blocks of channels
        ("pocl-3.1", 784, 2, (16, 1)),  # 131 tiles in each of 8 blocks
        ("pocl-3.1", 49, 1, (16, 1)),
        ("pocl-3.1", 49, 2, (2, 1)),
        ("pocl-3.1", 784, 64, (2, 1)),  # of one work item PoCL makes code that spills where it has 16 registers
        ("pocl-3.1-avx512", 784, 64, (1, 1)),
        ("cpu-avx512", 49, 2, (1, 2)),  # 7 tiles in each of 2 blocks of channels
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


@pytest.mark.parametrize("name", ["winograd_input", "winograd_output", "pool"])
def test_layers_of_any_shape_share_what_pocl_builds(name: str) -> None:
    (kernel,) = (kernel for kernel in KERNELS if kernel.name == name)
    assert kernel.local_size
    chosen, sides = kernel.variants[-1], [7, 14, 28, 56, 112]
    sizes: dict[str, set[tuple[int, ...]]] = {"pocl-3.1": set(), "cpu": set()}
    for channels, side in itertools.product([32, 64, 128, 512], sides):
        dims = dict.fromkeys(kernel.ints, 1)
        dims |= dict.fromkeys(("in_c", "out_c", "channels"), channels)
        dims |= dict.fromkeys(("tiles_h", "tiles_w", "out_h", "out_w"), side)
        for family, seen in sizes.items():
            seen.add(kernel.local_size(dims, chosen, Target("host", "host", gpu_family=family, compute_units=2)))
    assert len(sizes["pocl-3.1"]) <= 2 < len(sizes["cpu"])


@pytest.mark.parametrize(
    ("grid", "cores", "size"),
    [
        ((30, 2, 14), 2, (30, 2, 1)),  # 7 rows for each of two cores
        ((30, 2, 7), 2, (1, 2, 7)),  # of 7 rows one core had 4: 15 vectors of channels for each
        ((30, 2, 112), 2, (30, 2, 7)),
        ((30, 2, 112), 64, (4, 1, 4)),  # too few rows for shares of them
        ((300, 9, 112), 2, (256, 1, 7)),  # as many as a group may have
    ],
)
def test_launches_that_follow_each_other_give_a_core_the_same_rows(
    grid: tuple[int, ...], cores: int, size: tuple[int, ...]
) -> None:
    unit = Target("host", "host", gpu_family="cpu", compute_units=cores, max_work_group_size=2048)
    assert local_size_of(grid, (4, 1, 4), unit, 2) == size


@pytest.mark.parametrize(
    ("family", "cores", "size"),
    [("pocl-3.1", 2, (2, 1)), ("cpu", 1, (4, 1)), ("pocl-3.1", 64, (1, 1)), ("", 64, (8, 1))],
)
def test_the_few_work_items_of_a_small_launch_are_shared_among_a_cpus_cores(
    family: str, cores: int, size: tuple[int, ...]
) -> None:
    (kernel,) = (kernel for kernel in KERNELS if kernel.name == "reduce")
    unit = Target("host", "host", gpu_family=family, compute_units=cores)
    dims = {"outer": 1, "reduced": 784, "inner": 8 * 16}
    chosen = next(each for each in kernel.variants if each["VECTOR"] == 16)
    assert kernel.local_size and kernel.local_size(dims, chosen, unit) == size
