"""farmrt's operators on blocked tensors against NumPy, between guards, with every instruction set of this CPU."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from runtime.kernels.codes import Order, Pooling
from runtime.native.build import build_farmrt
from runtime.types import Role
from tests.native import blocked_oracle
from tests.native.blocked_cases import (
    CONVOLUTIONS,
    HALVES,
    HARD_SWISH,
    RELU6,
    SEPARABLES,
    WINOGRADS,
    Activated,
    Convolution,
    Launch,
    Separable,
    global_pool,
    normalization,
    pool,
    reorder,
)
from tests.native.farmrt import Farmrt
from tests.native.plans import Floats, PlanBuilder, integer, number
from tests.native.plans import pool as pool_arg

OFFSET, SENTINEL = 37, 77.0
BLOCKS = (8, 16)
ISAS = ("generic", "avx2", "avx512")
CASES = CONVOLUTIONS | WINOGRADS


def launches() -> Iterator[Launch]:
    """One of each case and operator, in blocks of 8."""
    yield from (case.launch(8) for case in (*CASES.values(), *SEPARABLES.values()))
    yield from (
        pool(Pooling.MAX, 21, (9, 12), 0, 8),
        pool(Pooling.AVERAGE, 21, (9, 12), 1, 8),
        global_pool(21, (7, 9), 8),
    )
    yield from (reorder(source, target, 21, 8) for source in Order for target in Order)


def guarded(values: Floats) -> Floats:
    """The values flat, with NaN before them."""
    kept = np.float16 if values.dtype == np.float16 else np.float32
    return np.concatenate([np.full(OFFSET, np.nan, kept), values.reshape(-1).astype(kept)])


def plan_of(launch: Launch) -> tuple[PlanBuilder, dict[str, Floats], int]:
    """The plan, what its inputs hold, and the elements of the output's pool."""
    plan, contents = PlanBuilder(), {}
    args = []
    for index, values in enumerate(launch.tensors):
        memory = guarded(values)
        if index in launch.weights:
            place = plan.weights(memory, tail=0)
        else:
            place = plan.scratch(memory.size)
            contents[f"t{index}"] = memory
            plan.tensor(f"t{index}", Role.INPUT, place, [memory.size])
        args += [pool_arg(place), integer(OFFSET)]
    size = OFFSET + int(np.prod(launch.shape)) + OFFSET
    place = plan.scratch(size)
    plan.tensor("y", Role.INPUT, place, [size])
    args += [pool_arg(place), integer(OFFSET)]
    args += [*map(integer, launch.ints), *map(number, launch.floats)]
    plan.tensor("output", Role.OUTPUT, place, [size], step=plan.step(launch.kernel, args))
    return plan, contents | {"y": np.full(size, SENTINEL, np.float32)}, size


def result(farmrt: Farmrt, launch: Launch, isa: str | None = None, threads: int = 2) -> Floats:
    """What farmrt writes, as NCHW where it is blocked; nothing outside of it is written."""
    plan, contents, _ = plan_of(launch)
    answer = farmrt.load(plan, threads=threads, isa=isa)
    farmrt.run_loaded(answer, contents)
    written = farmrt.output("output")
    assert (written[:OFFSET] == SENTINEL).all()
    assert (written[-OFFSET:] == SENTINEL).all()
    made = written[OFFSET:-OFFSET].reshape(launch.shape)
    assert np.isfinite(made).all()
    return made if launch.channels is None else blocked_oracle.unblocked(made, launch.channels)


def check(farmrt: Farmrt, launch: Launch, isa: str | None = None, threads: int = 2, tolerance: float = 2e-5) -> None:
    actual = result(farmrt, launch, isa, threads)
    scale = max(1.0, float(np.abs(launch.expected).max()))
    np.testing.assert_allclose(actual, launch.expected, atol=tolerance * scale, rtol=tolerance)


def tolerance_of(case: Convolution) -> float:
    """The transforms of larger tiles cancel more."""
    return 2e-4 if case.winograd == 4 else 2e-5


@pytest.mark.parametrize("isa", [ISAS[0], *(pytest.param(isa, marks=pytest.mark.slow) for isa in ISAS[1:])])
@pytest.mark.parametrize(("name", "block"), list(itertools.product(CASES, BLOCKS)))
def test_convolution(farmrt: Farmrt, name: str, block: int, isa: str) -> None:
    check(farmrt, CASES[name].launch(block), isa, tolerance=tolerance_of(CASES[name]))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("name", "block"), list(itertools.product(HALVES, BLOCKS)))
def test_weights_in_half_are_the_floats_of_their_values(farmrt: Farmrt, name: str, block: int, isa: str) -> None:
    check_halves(farmrt, name, block, isa)


def check_halves(farmrt: Farmrt, name: str, block: int, isa: str | None = None) -> None:
    halves = HALVES[name].launch(block)
    floats = dataclasses.replace(halves, kernel=halves.kernel.replace(" WEIGHT_BITS=16", ""))
    floats = dataclasses.replace(floats, tensors=tuple(each.astype(np.float32) for each in halves.tensors))
    np.testing.assert_array_equal(result(farmrt, halves, isa), result(farmrt, floats, isa))


def check_half_sums(farmrt: Farmrt, name: str, block: int) -> None:
    """Multiplied in half: as exact as that, and other sums than floats of the very weights have."""
    halves = HALVES[name].launch(block)
    in_half = dataclasses.replace(halves, kernel=f"{halves.kernel} HALF_SUMS=1")
    check(farmrt, in_half, "fp16", tolerance=5e-2)
    floats = result(farmrt, in_half, "generic")
    np.testing.assert_array_equal(floats, result(farmrt, halves, "generic"))
    assert (result(farmrt, in_half, "fp16") != floats).any()


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("3x3", "HALF_SUMS=1", "it multiplies in half, and its weights are floats"),
        ("few outputs", "WEIGHT_BITS=16", "weights of few outputs are floats of blocks"),
        ("first 7x7", "FEW=1", "it has more outputs than few"),
        ("first 7x7", "WEIGHT_BITS=16", "a first layer's weights are floats"),
        ("3x3", "WEIGHT_BITS=8", "its weights are of a form that it does not read"),
        ("winograd 4 ", "WEIGHT_BITS=4", "its weights are of a form that it does not read"),
        ("depthwise", "WEIGHT_BITS=16", "its weights are of a form that it does not read"),
    ],
)
def test_weights_of_other_forms_are_refused(farmrt: Farmrt, name: str, options: str, problem: str) -> None:
    launch = CASES[name].launch(8)
    assert problem in refusal(farmrt, dataclasses.replace(launch, kernel=f"{launch.kernel} {options}"))


def test_halves_that_exceed_their_pool_are_refused(farmrt: Farmrt) -> None:
    for case in HALVES.values():
        launch = case.launch(16)
        short = tuple(each.reshape(-1)[:-1] if at == 1 else each for at, each in enumerate(launch.tensors))
        assert "weights exceed their" in refusal(farmrt, dataclasses.replace(launch, tensors=short))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "threads"), list(itertools.product(CASES, (1, 5))))
def test_convolution_on_other_numbers_of_threads(farmrt: Farmrt, name: str, threads: int) -> None:
    check(farmrt, CASES[name].launch(8), threads=threads, tolerance=tolerance_of(CASES[name]))


@pytest.mark.parametrize("isa", [ISAS[0], *(pytest.param(isa, marks=pytest.mark.slow) for isa in ISAS[1:])])
@pytest.mark.parametrize(("name", "block"), list(itertools.product(SEPARABLES, BLOCKS)))
def test_separable_convolution(farmrt: Farmrt, name: str, block: int, isa: str) -> None:
    check(farmrt, SEPARABLES[name].launch(block), isa)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "threads"), list(itertools.product(SEPARABLES, (1, 3, 4))))
def test_separable_convolution_on_other_numbers_of_threads(farmrt: Farmrt, name: str, threads: int) -> None:
    check(farmrt, SEPARABLES[name].launch(8), threads=threads)


def test_a_separable_convolution_whose_channels_differ_is_refused(farmrt: Farmrt) -> None:
    launch = SEPARABLES["inverted residual"].launch(8)
    launch = dataclasses.replace(launch, kernel=launch.kernel.replace("EXPAND=1", "EXPAND=0"))
    assert "its channels are not those of its input" in refusal(farmrt, launch)


@pytest.mark.parametrize(("pooling", "count_pad"), [(Pooling.MAX, 0), (Pooling.AVERAGE, 0), (Pooling.AVERAGE, 1)])
@pytest.mark.parametrize(("block", "isa"), list(itertools.product(BLOCKS, ISAS)))
def test_pool(farmrt: Farmrt, pooling: int, count_pad: int, block: int, isa: str) -> None:
    check(farmrt, pool(pooling, 21, (9, 12), count_pad, block), isa)


@pytest.mark.parametrize(("block", "isa"), list(itertools.product(BLOCKS, ISAS)))
def test_global_pool(farmrt: Farmrt, block: int, isa: str) -> None:
    check(farmrt, global_pool(21, (7, 9), block), isa)


@pytest.mark.parametrize(("block", "isa"), list(itertools.product(BLOCKS, ISAS)))
@pytest.mark.parametrize("activation", [RELU6, HARD_SWISH])
@pytest.mark.parametrize(
    ("channels", "groups", "size"), [(21, 21, (7, 9)), (48, 2, (30, 37)), (20, 10, (1, 1)), (6, 1, (40, 40))]
)
def test_normalization(
    farmrt: Farmrt, channels: int, groups: int, size: tuple[int, int], activation: Activated, block: int, isa: str
) -> None:
    check(farmrt, normalization(channels, groups, size, activation, block), isa)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(Order, Order)))
@pytest.mark.parametrize(("channels", "block"), [(3, 8), (32, 16), (21, 8), (21, 16)])
def test_reorder(farmrt: Farmrt, source: Order, target: Order, channels: int, block: int) -> None:
    launch = reorder(source, target, channels, block)
    np.testing.assert_array_equal(result(farmrt, launch), launch.expected)


@pytest.mark.slow
def test_no_access_is_outside_of_memory(tmp_path: Path) -> None:
    """Every case under the sanitizers, which end the process at the first error."""
    with Farmrt(build_farmrt(sanitize=True), tmp_path) as sanitized:
        for launch in launches():
            check(sanitized, launch, threads=3, tolerance=2e-4)
        for case in HALVES.values():
            result(sanitized, case.launch(8), threads=3)


def refusal(farmrt: Farmrt, launch: Launch) -> str:
    answer = farmrt.load(plan_of(launch)[0])
    assert not answer["ok"]
    assert answer["error"] == "bad_file"
    return str(answer["message"])


@pytest.mark.parametrize(
    "case",
    [
        *(
            CASES[name]
            for name in ("3x3", "few outputs", "first 7x7", "groups", "depthwise", "winograd 2 ", "winograd 4 deep")
        ),
        *(SEPARABLES[name] for name in ("stride 2", "no expansion")),
    ],
)
def test_tensors_that_exceed_their_pools_are_refused(farmrt: Farmrt, case: Convolution | Separable) -> None:
    launch = dataclasses.replace(case, residual=True).launch(16)
    for index, what in enumerate(
        ("input exceeds its", "weights exceed their", "bias exceeds its", "residual exceeds its")
    ):
        tensors = [values.reshape(-1)[: values.size - (i == index)] for i, values in enumerate(launch.tensors)]
        assert f"the {what} pool" in refusal(farmrt, dataclasses.replace(launch, tensors=tuple(tensors)))
    shorter = dataclasses.replace(launch, shape=(int(np.prod(launch.shape)) - OFFSET - 1,))
    assert "the output exceeds its pool" in refusal(farmrt, shorter)


@pytest.mark.parametrize(
    "launch", [pool(0, 21, (9, 12), 0, 16), global_pool(21, (7, 9), 8), reorder(Order.NCHW, Order.BLOCKED, 21, 8)]
)
def test_other_tensors_that_exceed_their_pools_are_refused(farmrt: Farmrt, launch: Launch) -> None:
    shorter = dataclasses.replace(launch, tensors=(launch.tensors[0].reshape(-1)[:-1], *launch.tensors[1:]))
    assert "the input exceeds its pool" in refusal(farmrt, shorter)
    shorter = dataclasses.replace(launch, shape=(int(np.prod(launch.shape)) - OFFSET - 1,))
    assert "the output exceeds its pool" in refusal(farmrt, shorter)


@pytest.mark.parametrize(
    "launch",
    [*(case.launch(8) for case in (CASES["3x3"], CASES["depthwise"], SEPARABLES["5x5"])), pool(0, 21, (9, 12), 0, 8)],
)
def test_sizes_out_of_range_are_refused(farmrt: Farmrt, launch: Launch) -> None:
    for index, value in itertools.product(range(len(launch.ints)), (-1, -(2**31), 2**31 - 1)):
        ints = (*launch.ints[:index], value, *launch.ints[index + 1 :])
        answer = farmrt.load(plan_of(dataclasses.replace(launch, ints=ints))[0])
        if value < 0:
            assert "an argument is out of range" in answer["message"]
        else:
            assert answer["ok"] or any(
                word in answer["message"] for word in ("exceed", "too many", "whole blocks", "out of range")
            )


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("3x3", ("BLOCK=8", "BLOCK=4"), "its block is neither 8 nor 16"),
        ("depthwise", ("BLOCK=8", "BLOCK=32"), "its block is neither 8 nor 16"),
        ("winograd 2 ", ("WINO=2", "WINO=3"), "its tile is neither 2 nor 4"),
        ("winograd 2 ", ("WINO=2", "WINO=5"), "an option is out of range"),
        ("first 7x7", ("FIRST=1", "FIRST=3"), "an option is out of range"),
    ],
)
def test_options_out_of_range_are_refused(farmrt: Farmrt, name: str, change: tuple[str, str], problem: str) -> None:
    launch = CASES[name].launch(8)
    assert problem in refusal(farmrt, dataclasses.replace(launch, kernel=launch.kernel.replace(*change)))


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        (Convolution((24, 24), (5, 5), groups=3), "its groups are no whole blocks"),
        (Convolution((32, 24), (5, 5), groups=2), "its groups are no whole blocks"),
    ],
)
def test_groups_that_share_a_block_are_refused(farmrt: Farmrt, case: Convolution, problem: str) -> None:
    assert problem in refusal(farmrt, case.launch(16))


@pytest.mark.parametrize("group", [2, 3, 12, 16])
def test_groups_that_divide_no_block_are_refused(farmrt: Farmrt, group: int) -> None:
    launch = CASES["groups of 4"].launch(8)
    launch = dataclasses.replace(launch, ints=(*launch.ints[:-1], group))
    assert "its group is out of range" in refusal(farmrt, launch)


def test_a_depthwise_window_that_needs_too_much_memory_is_refused(farmrt: Farmrt) -> None:
    launch = CASES["depthwise dilated"].launch(8)
    launch = dataclasses.replace(launch, ints=(*launch.ints[:-2], 2**31 - 1, 1))  # dil_w, group
    assert "its window is out of range" in refusal(farmrt, launch)


@pytest.mark.parametrize("index", [8, 10, 11, 14, 15, 16])
def test_winograd_of_other_windows_is_refused(farmrt: Farmrt, index: int) -> None:
    launch = CASES["winograd 2 "].launch(8)
    ints = list(launch.ints)
    ints[index - 1] += 1
    message = refusal(farmrt, dataclasses.replace(launch, ints=tuple(ints)))
    assert "its window is not 3x3" in message or "it has a stride, a dilation or groups" in message
