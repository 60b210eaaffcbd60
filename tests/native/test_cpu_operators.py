"""farmrt's CPU operators against NumPy: the launches that test the OpenCL kernels, between the same guards."""

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from runtime.families.recurrent.buffer_lowering import weight_blocks
from runtime.kernels.codes import OPTIONS
from runtime.kernels.spec import INT_RANGE, SIZE, ArgumentForm, Variant, variant
from runtime.layout.buffer import pack_rows
from runtime.layout.integer_rows import integer_rows
from runtime.lowering.launcher import HALF_WEIGHTS
from runtime.plan.encode import cpu_kernel
from runtime.plan.plan import Step
from runtime.plan.records import ArgKind, PoolKind, SectionId, StepKind
from runtime.semantics.unary import Unary
from runtime.types import Precision, Role
from tests.native.farmrt import Farmrt
from tests.native.plans import Arg, PlanBuilder, integer, number, packed, pool
from tests.native.test_workers import COMPILER, FLAGS, SOURCES
from tests.runtime.buffer_launch import SENTINEL, Case, Memory, dense_arrays, element_type, guard, output_places
from tests.runtime.families import CASES, ORACLES
from tests.runtime.families.convolution import conv1x1, conv2d
from tests.runtime.families.matrix import fully_connected
from tests.runtime.families.resize import resize_nearest
from tests.runtime.kernel_cases import SAME, in_integers, window

_OPENCL_ONLY = {"BYTES", "GATED", "ROW_EPSILON"}  # of the options that change what is computed
CPU_CASES = {name: case for name, case in CASES.items() if case.kernel.cpu and _OPENCL_ONLY.isdisjoint(case.defines)}
# As constants lie: a GPU's kernels read weights as the graph has them, and so does the CPU those that are computed.
RECURRENT_CASES = {
    name: dataclasses.replace(case, defines={**case.defines, "BLOCK": 16})
    for name, case in CPU_CASES.items()
    if case.kernel.name == "recurrent_sequence"
}
OFFSET, INTEGERS_OFFSET = 37, 40
HALF_BITS = HALF_WEIGHTS["WEIGHT_BITS"]
ISAS = ("generic", "avx2", "avx512")


# Rows that end within a block of rows, columns that end within a step, groups of columns, several taps and groups.
INTEGER_CASES = {
    "row": in_integers(fully_connected(1, 67, 43), 8),
    "row, 4 bits": in_integers(fully_connected(1, 67, 43), 4),
    "row, 4 bits in groups": in_integers(fully_connected(2, 96, 43, Unary.TANH), 4, 32),
    "row, 8 bits in groups": in_integers(fully_connected(3, 128, 20), 8, 64),
    "pixels": in_integers(conv1x1(19, 70, 40, residual=1), 8),
    "pixels, 4 bits in groups": in_integers(conv1x1(7, 64, 40), 4, 16),
    "windows": in_integers(conv2d(11, 21, 1, window((7, 6), (3, 3), pad=SAME)), 8),
    "windows, 4 bits": in_integers(conv2d(31, 21, 2, window((3, 3), (3, 3))), 4),
    "few windows, 4 bits": in_integers(conv2d(31, 21, 1, window((4, 5), (3, 3))), 4),
    "few pixels": in_integers(conv1x1(5, 70, 40), 8),
    "windows of one pixel, 4 bits in groups": in_integers(conv2d(32, 21, 1, window((1, 1), (3, 3), pad=SAME)), 4, 32),
}


# The same of halves, of which some are subnormal: in registers, and of many pixels as floats.
HALF_CASES = {
    "row": in_integers(fully_connected(1, 67, 43), HALF_BITS),
    "rows": in_integers(fully_connected(5, 66, 43, Unary.TANH), HALF_BITS),
    "pixels": in_integers(conv1x1(19, 70, 40, residual=1), HALF_BITS),
    "many pixels": in_integers(conv1x1(131, 33, 40), HALF_BITS),
    "windows": in_integers(conv2d(11, 21, 2, window((7, 6), (3, 3), pad=SAME)), HALF_BITS),
}


def kernel_string(case: Case, chosen: Variant) -> str:
    """What the plan writer makes of the case."""
    nothing = (0, 0, 0)
    dims, defines = case.dims, case.defines
    step = Step("s", "o", case.kernel, StepKind.CPU, chosen, defines, dims, (), 1, nothing, nothing, "", 0)
    return cpu_kernel(step)


def chosen_variant(case: Case, block: int) -> Variant:
    return variant(BLOCK=block, PIXELS=4) if case.kernel.block else case.kernel.variants[0]


def narrow_weights(case: Case, weights: np.ndarray) -> np.ndarray:
    """The bytes of integer weights, or halves, behind others."""
    if case.defines["WEIGHT_BITS"] == HALF_BITS:
        return np.concatenate([np.full(INTEGERS_OFFSET, np.nan, np.float16), pack_rows(weights, 16).astype(np.float16)])
    found = integer_rows(weights.astype(np.float32))
    assert found is not None
    assert (found.bits, found.group) == (case.defines["WEIGHT_BITS"], case.defines["WEIGHT_GROUP"])
    return np.concatenate([np.full(INTEGERS_OFFSET, 85, np.int8), found.packed(16)])


def plan_of(case: Case, block: int) -> tuple[PlanBuilder, dict[str, np.ndarray], Memory]:
    """The plan of one CPU step, what its scratch pools hold at first, and the output's place."""
    plan = PlanBuilder()
    dense = dense_arrays(case, Precision.FP32)
    output_name = case.kernel.tensors[-1][0]
    expected = ORACLES[case.kernel.name](dense, case.dims, case.defines, case.floats)
    if output_name not in dense:
        dense[output_name] = expected
    args: list[Arg] = []
    contents: dict[str, np.ndarray] = {}
    packing: list[tuple[int, tuple[int, ...]]] = []
    for name, form in case.kernel.tensors:
        values = dense[name]
        if name == "r" and case.defines.get("BLOCK"):
            dims = case.dims
            values = weight_blocks(values.reshape(dims["directions"], dims["hidden"], dims["gates"] * dims["hidden"]))
        shape = values.shape
        if name == "w" and "WEIGHT_BITS" in case.defines:
            args += [pool(plan.weights(narrow_weights(case, values), tail=0)), integer(INTEGERS_OFFSET)]
            continue
        if form == ArgumentForm.WEIGHTS and values.ndim == 3:
            packing.append((len(args), shape))
            values = packed(values.astype(np.float32), block)
            shape = (values.size,)
        dtype = element_type(case, name, Precision.FP32)
        memory = Memory(form, shape, guard(form, name == output_name), dtype)
        if name != output_name:
            memory.host[memory.index] = values.reshape(memory.index.shape)
        if form in (ArgumentForm.WEIGHTS, ArgumentForm.TABLE):
            place = plan.weights(memory.host, tail=0)
        else:
            place = plan.scratch(memory.host.size)
            contents[name] = memory.host
            plan.tensor(name, Role.INPUT, place, [memory.host.size])
        args += [pool(place), integer(OFFSET)] + [integer(memory.stride)] * (form == ArgumentForm.VIEW)
        output = memory
    plan.tensor("output", Role.OUTPUT, place, [output.host.size], step=0)
    args += [integer(case.dims[name]) for name in case.kernel.ints] + [number(value) for value in case.scalars]
    step = plan.step(kernel_string(case, chosen_variant(case, block)), args)
    for arg, (groups, rows, cols) in packing:
        plan.pack(step, arg, groups, rows, cols, block)
    return plan, contents, output


def check(farmrt: Farmrt, case: Case, block: int = 16, isa: str | None = None) -> None:
    plan, contents, output = plan_of(case, block)
    answer = farmrt.load(plan, threads=2, isa=isa)
    farmrt.run_loaded(answer, contents)
    expected = ORACLES[case.kernel.name](dense_arrays(case, Precision.FP32), case.dims, case.defines, case.floats)
    written = farmrt.output("output").copy()
    places = output_places(case, output, expected.shape)
    actual = written[places].astype(np.float64)
    written[places] = SENTINEL
    assert (written == SENTINEL).all(), "elements that are not the output's were written"
    scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)))
    np.testing.assert_allclose(actual, expected.reshape(places.shape), atol=2e-5 * scale, rtol=2e-5)


@pytest.mark.parametrize("name", CPU_CASES)
def test_operator(farmrt: Farmrt, name: str) -> None:
    check(farmrt, CPU_CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, case in CPU_CASES.items()
        if case.kernel.block
        or case.kernel.name in ("attention", "normalization", "softmax")
        or "depthwise" in name
        or case.kernel.name == "recurrent_sequence"
    ],
)
def test_instruction_sets(farmrt: Farmrt, name: str, isa: str) -> None:
    check(farmrt, CPU_CASES[name], isa=isa)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", RECURRENT_CASES)
def test_recurrent_weights_in_blocks(farmrt: Farmrt, name: str, isa: str) -> None:
    check(farmrt, RECURRENT_CASES[name], isa=isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", INTEGER_CASES)
def test_integer_weights(farmrt: Farmrt, name: str, isa: str) -> None:
    check(farmrt, INTEGER_CASES[name], isa=isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", HALF_CASES)
def test_weights_in_half(farmrt: Farmrt, name: str, isa: str) -> None:
    check(farmrt, HALF_CASES[name], isa=isa)


@pytest.mark.parametrize("isa", ISAS)
def test_every_half_is_the_float_of_its_value(farmrt: Farmrt, isa: str) -> None:
    check_every_half(farmrt, isa)


def check_every_half(farmrt: Farmrt, isa: str | None = None) -> None:
    """Subnormal ones, too, with which a CPU may deal otherwise."""
    bits = np.arange(2**16, dtype=np.uint16).view(np.float16)
    values = bits[np.isfinite(bits)]
    weights, zeros = values.reshape(1, -1, 2), np.zeros(values.size // 2, np.float32)
    case = in_integers(fully_connected(1, 2, weights.shape[1]), HALF_BITS)
    for column in (0, 1):
        plan = PlanBuilder()
        x = np.zeros(2 + 64, np.float32)
        x[column] = 2.0**10
        args = []
        for content in (x, pack_rows(weights, 16), zeros, zeros):
            args += [pool(plan.weights(content)), integer(0)]
        place = plan.scratch(weights.shape[1])
        args += [pool(place), integer(0), *(integer(case.dims[name]) for name in case.kernel.ints)]
        args += [number(-np.inf), number(np.inf)]
        string = f"fully_connected ACTIVATION={int(Unary.CLAMP)} BLOCK=16 WEIGHT_BITS={HALF_BITS}"
        plan.tensor("output", Role.OUTPUT, place, [weights.shape[1]], step=plan.step(string, args))
        answer = farmrt.load(plan, isa=isa)
        farmrt.run_loaded(answer, {})
        np.testing.assert_array_equal(farmrt.output("output"), weights[0, :, column].astype(np.float32) * 2**10)


@pytest.mark.parametrize(
    ("name", "bits", "problem"),
    [
        ("deconv2d 2x2 stride 2", HALF_BITS, "its weights are of a form that it does not read"),
        ("deconv2d 2x2 stride 2", 8, "its weights are of a form that it does not read"),
        ("fully_connected 1 row", 5, "its weights are of a form that it does not read"),
        ("fully_connected 1 row", 8, "the weights exceed their pool"),  # their offset is no float's
    ],
)
def test_integer_weights_that_cannot_be_read_are_refused(farmrt: Farmrt, name: str, bits: int, problem: str) -> None:
    plan, _, _ = plan_of(CASES[name], 16)
    kernel = kernel_string(CASES[name], chosen_variant(CASES[name], 16))
    plan.rows[SectionId.STEP][0]["kernel"] = plan.strings.add(f"{kernel} WEIGHT_BITS={bits}")
    answer = farmrt.load(plan)
    assert not answer["ok"]
    assert problem in answer["message"]


def test_integer_weights_end_within_their_pool(farmrt: Farmrt) -> None:
    for name, case in [*INTEGER_CASES.items(), *HALF_CASES.items()]:
        plan, _, _ = plan_of(case, 16)
        pools = [row for row in plan.rows[SectionId.POOL] if row["kind"] == PoolKind.WEIGHTS]
        constants = [argument for argument, form in case.kernel.tensors if form == ArgumentForm.WEIGHTS]
        weights = pools[constants.index("w")]
        weights["size"] -= 1
        assert "the weights exceed their pool" in farmrt.load(plan)["message"], name


@pytest.mark.parametrize("block", [4, 8, 32])
@pytest.mark.parametrize("name", [n for n, case in CPU_CASES.items() if case.kernel.block][:6])
def test_other_packings(farmrt: Farmrt, name: str, block: int) -> None:
    check(farmrt, CPU_CASES[name], block)


def test_an_index_outside_the_image_is_drawn_in(farmrt: Farmrt) -> None:
    """The table is the file's: a hostile one reads the edge, and nothing outside the tensor."""
    far = 2**31 - 1
    check(farmrt, resize_nearest((3, 4), (-far, -1, 1, 3, far), (far, 4, 2, -1), 5))


def test_a_table_that_exceeds_its_pool_is_refused(farmrt: Farmrt) -> None:
    case = resize_nearest((3, 4), (0, 1, 2), (0, 1, 2, 3), 5)
    longer = dataclasses.replace(case, dims=dict(case.dims) | {"out_h": 1, "out_w": OFFSET + 9})
    answer = farmrt.load(plan_of(longer, 16)[0])
    assert not answer["ok"]
    assert "a table exceeds its pool" in answer["message"]


def test_steps_that_strides_and_dilations_do_not_make_are_refused(farmrt: Farmrt) -> None:
    case = CASES["deconv2d 2x2 stride 2"]
    answer = farmrt.load(plan_of(dataclasses.replace(case, dims=dict(case.dims) | {"step_h": 1}), 16)[0])
    assert not answer["ok"]
    assert "its steps are not those of strides and dilations" in answer["message"]


def test_gates_of_another_operator_are_refused(farmrt: Farmrt) -> None:
    plan, _, _ = plan_of(CASES["recurrent LSTM one value"], 16)
    gates = next(row for row in plan.rows[SectionId.ARG] if row["kind"] == ArgKind.INT and row["value"] == 4)
    gates["value"] = 3
    answer = farmrt.load(plan)
    assert not answer["ok"]
    assert "its gates are not those of the operator" in answer["message"]


@pytest.mark.parametrize("key", OPTIONS)
def test_an_option_is_below_its_bound(farmrt: Farmrt, key: str) -> None:
    """The greatest code of each enumeration is taken, and the one behind it is not."""
    codes = OPTIONS[key]
    bound = codes if isinstance(codes, int) else max(codes) + 1
    case = HALF_CASES["row"] if key == "WEIGHT_BITS" else CASES["unary view"]
    for value, problem in ((bound - 1, ""), (bound, "an option is out of range")):
        plan, _, _ = plan_of(case, 16)
        kernel = f"{kernel_string(case, chosen_variant(case, 16))} {key}={value}"
        plan.rows[SectionId.STEP][0]["kernel"] = plan.strings.add(kernel)
        answer = farmrt.load(plan)
        assert answer["ok"] == (not problem), answer
        assert problem in answer.get("message", "")


@pytest.mark.parametrize("name", {case.kernel.name: name for name, case in CPU_CASES.items()}.values())
def test_an_argument_lies_within_its_range(farmrt: Farmrt, name: str) -> None:
    """Each int of a row may be what the row says, and nothing beside it."""
    kernel, (plan, _, _) = CPU_CASES[name].kernel, plan_of(CPU_CASES[name], 16)
    rows = plan.rows[SectionId.ARG][-len(kernel.ints) - len(kernel.floats) :]
    for argument, row in zip(kernel.ints, rows, strict=False):
        given, (least, most) = row["value"], kernel.ranges.get(argument, SIZE)
        for value in (least - 1, most + 1):
            if INT_RANGE[0] <= value <= INT_RANGE[1]:
                row["value"] = value & 0xFFFFFFFF
                assert "an argument is out of range" in farmrt.load(plan)["message"], f"{argument}: {value}"
        row["value"] = given
    assert farmrt.load(plan)["ok"]


def test_every_cpu_kernel_has_an_operator() -> None:
    assert {case.kernel.name for case in CPU_CASES.values()} == {
        *("deconv2d", "deconv_depthwise", "recurrent_sequence"),
        *("conv2d", "conv1x1", "depthwise", "fully_connected", "pool", "scale_shift", "lrn"),
        *("resize_nearest", "resize_bilinear", "reduce", "softmax", "copy", "unary", "binary", "pad", "matmul"),
        *("normalization", "attention", "rotary"),
    }


# matrices, pixels, the most and the least of a turn, blocks, a pass, a turn's start, the weight of a pixel
LAYERS = {
    "a MobileNet's 14x14 image to 96 channels": (1, 196, 227, 6, 6, 4, 0, 1),
    "to 576": (1, 196, 384, 6, 36, 4, 0, 1),
    "its 7x7 image to 160": (1, 49, 136, 6, 10, 4, 0, 1),
    "a ResNet's 14x14 image of 1024 channels": (1, 196, 128, 6, 16, 4, 0, 1),
    "Winograd's tiles of a 56x56 image": (1, 196, 48, 6, 4, 4, 3, 1),
    "a transformer's 128 rows": (1, 128, 96, 6, 16, 4, 0, 8),
    "and 197": (1, 197, 108, 6, 36, 4, 0, 8),
    "to 80": (1, 196, 273, 6, 5, 4, 0, 1),
    "three images": (3, 49, 384, 6, 8, 4, 0, 1),
}
ODD = [(1, 1, 12, 6, 1, 4, 0, 1), (2, 5, 12, 6, 3, 4, 3, 1), (1, 1000, 12, 6, 1, 2, 0, 1), (7, 13, 2, 2, 5, 1, 0, 1)]
LARGEST_SHARE = 1.12  # of a worker, over an even one

Ranges = list[tuple[int, ...]]
Divide = Callable[..., Ranges]


@pytest.fixture(scope="module")
def divide(tmp_path_factory: pytest.TempPathFactory) -> Divide:
    program = tmp_path_factory.mktemp("division") / "division"
    files = [str(Path(__file__).with_name("division.c")), str(SOURCES / "cpu" / "cpu_division.c")]
    subprocess.run([*COMPILER, *FLAGS, *files, "-o", str(program)], check=True)

    def run(*values: int) -> Ranges:
        done = subprocess.run([str(program), *map(str, values)], capture_output=True, text=True, check=True)
        return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]

    return run


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("work", [*ODD, *LAYERS.values()])
def test_each_part_is_computed_once(divide: Divide, work: tuple[int, ...], workers: int) -> None:
    matrices, pixels, most, _, blocks, *_ = work
    ranges = divide(*work, workers)
    assert all(first < end <= first + most for _, first, end, _, _ in ranges)
    parts = [
        (matrix, pixel, block)
        for matrix, first, end, first_block, end_block in ranges
        for pixel in range(first, end)
        for block in range(first_block, end_block)
    ]
    assert sorted(parts) == [(m, p, b) for m in range(matrices) for p in range(pixels) for b in range(blocks)]


@pytest.mark.parametrize("name", LAYERS)
def test_two_workers_have_as_much_to_do(divide: Divide, name: str) -> None:
    """Each runs half of the turns, as workers.c deals them."""
    ranges = divide(*LAYERS[name], 2)
    works = [(end - first) * (end_block - first_block) for _, first, end, first_block, end_block in ranges]
    half = len(works) // 2
    assert len(works) >= 4
    assert max(sum(works[:half]), sum(works[half:])) <= LARGEST_SHARE * sum(works) / 2


def test_workers_keep_their_part_of_a_large_image_and_share_that_of_a_small_one(divide: Divide) -> None:
    large, small = divide(1, 784, 384, 6, 4, 4, 0, 1, 2), divide(1, 49, 136, 6, 20, 4, 0, 1, 2)
    assert all(end <= 392 for _, _, end, _, _ in large[: len(large) // 2])
    assert {(first, end) for _, first, end, _, _ in small} == {(0, 49)}


def test_one_worker_takes_as_many_pixels_as_its_cache_holds(divide: Divide) -> None:
    assert divide(1, 100, 48, 6, 9, 4, 0, 1, 1) == [(0, 0, 33, 0, 9), (0, 33, 66, 0, 9), (0, 66, 100, 0, 9)]
