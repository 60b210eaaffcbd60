"""farmrt's strided steps against NumPy, for every generic operator and element type; and indices that make no sense."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from runtime.errors import UnsupportedError
from runtime.lowering.lower import lower
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Arg, Plan
from runtime.plan.records import ArgKind
from runtime.reference.device import target_of_device
from runtime.target import Target
from runtime.types import ELEMENT_NAMES, ElementType
from tests import opencl
from tests.native.farmrt import Farmrt
from tests.runtime.generic_cases import GENERIC_CASES, GenericCase
from tests.runtime.graphs import GraphMaker
from tests.time_limit import within

CPU = Target("host", "host", memory="cpu")
TOLERANCES = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 4e-6, "float64": 1e-12}
Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def run(farmrt: Farmrt, plan: Plan, inputs: dict[str, Array]) -> dict[str, Array]:
    assert farmrt.load_files(encode_plan(plan), plan.data)["ok"]
    for tensor in plan.inputs:
        path = farmrt.folder / "input"
        path.write_bytes(inputs[tensor.name].tobytes())
        farmrt.done("input", name=tensor.name, file=path)
    farmrt.done("run")
    return {tensor.name: output(farmrt, tensor.name, ELEMENT_NAMES[tensor.element_type]) for tensor in plan.outputs}


def output(farmrt: Farmrt, name: str, dtype: str) -> Array:
    path: Path = farmrt.folder / "output"
    farmrt.done("output", name=name, file=path)
    return np.frombuffer(path.read_bytes(), np.dtype(dtype))


@pytest.mark.parametrize("case", GENERIC_CASES, ids=str)
def test_strided_steps_agree_with_numpy(farmrt: Farmrt, case: GenericCase) -> None:
    make = case.graph()
    inputs = make.noise()
    expected = evaluate(make.graph, inputs)
    for name, found in run(farmrt, lower(make.graph, CPU), inputs).items():
        wanted = expected[name].reshape(-1)
        assert found.dtype == wanted.dtype
        tolerance = TOLERANCES.get(wanted.dtype.name, 0.0)
        wide = [value.astype(np.float64) if tolerance else value for value in (found, wanted)]
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


TURNS = 6
BY_TURNS = [(opencl.label(driver), turn) for turn in range(TURNS) for driver in opencl.of_turn(turn)]


@pytest.mark.slow
@pytest.mark.parametrize(("gpu", "turn"), BY_TURNS, indirect=["gpu"])
def test_steps_of_elements_on_a_gpu_agree_with_numpy(gpu: Farmrt, turn: int) -> None:
    """Those for which it has a kernel, between steps of the CPU."""
    target, launched = target_of_device(opencl.open_once(gpu.library), memory="buffer", allow_cpu=True), 0
    moving = {"Elementwise", "Strided", "Embedding", "Join"}
    for case in [case for case in GENERIC_CASES if not moving.isdisjoint(case.ops)][turn::TURNS]:
        make = case.graph()
        plan, inputs = lower(make.graph, target), make.noise()
        if all(step.kernel.name != "elements" for step in plan.steps):
            continue
        launched += 1
        expected = evaluate(make.graph, inputs)
        for name, found in run(gpu, plan, inputs).items():
            tolerance = TOLERANCES.get(found.dtype.name, 0.0)
            np.testing.assert_allclose(found, expected[name].reshape(-1), tolerance, tolerance, err_msg=case.name)
    assert launched


@pytest.mark.parametrize("case", [case for case in GENERIC_CASES if case.name.startswith("arg_")], ids=str)
def test_of_equal_extremes_the_first_or_the_last_is_told(farmrt: Farmrt, case: GenericCase) -> None:
    make = case.graph()
    inputs = {name: (values > values.mean()).astype(values.dtype) for name, values in make.noise().items()}
    expected = evaluate(make.graph, inputs)
    for name, found in run(farmrt, lower(make.graph, CPU), inputs).items():
        np.testing.assert_array_equal(found, expected[name].reshape(-1))


EXTREMES = [
    each for each in GENERIC_CASES if each.name in {"max-float32", "min-float32", "arg_max-float32", "arg_min-float32"}
]


@pytest.mark.parametrize("case", EXTREMES, ids=str)
def test_an_extreme_of_values_with_a_nan_is_the_nan(farmrt: Farmrt, case: GenericCase) -> None:
    """Wherever it stands among them; as NumPy has it."""
    make = case.graph()
    inputs = make.noise()
    for values in inputs.values():
        values.reshape(-1)[::7] = np.nan
    expected = evaluate(make.graph, inputs)
    for name, found in run(farmrt, lower(make.graph, CPU), inputs).items():
        np.testing.assert_array_equal(found, expected[name].reshape(-1))


def test_more_axes_than_a_kernel_has_loops(farmrt: Farmrt) -> None:
    """Five axes of which no two can be one: the generic form has loops for all of them."""
    make = GraphMaker()
    a, b = make.input(2, 3, 2, 3, 2), make.input(1, 3, 1, 3, 1)
    make.finish(make.add("Add", a, b))
    plan, inputs = lower(make.graph, CPU), make.noise()
    assert [step.kernel.name for step in plan.steps] == ["elements2"]
    (found,) = run(farmrt, plan, inputs).values()
    np.testing.assert_allclose(found, (inputs[a] + inputs[b]).reshape(-1), rtol=1e-6)


def lookup(table: str = "float32") -> GraphMaker:
    make = GraphMaker()
    elements, rows = make.input(6, 2, dtype=table), make.input(3, dtype="int32")
    places = {"shape": (3, 2), "strides": (0, 1), "index_strides": (1, 0), "component_stride": 0}
    make.finish(make.add("IndexedRead", elements, rows, **places, limits=(6,), limit_strides=(2,)))
    return make


@pytest.mark.parametrize("row", [6, -7, 2**31 - 1, -(2**31)])
def test_an_index_out_of_range_is_an_answer(farmrt: Farmrt, row: int) -> None:
    graph = lookup().graph
    plan = lower(graph, CPU)
    assert farmrt.load_files(encode_plan(plan), plan.data)["ok"]
    (farmrt.folder / "input").write_bytes(np.asarray([0, row, 1], np.int32).tobytes())
    farmrt.done("input", name="x1", file=farmrt.folder / "input")
    answer = farmrt.ask("run")
    assert (answer["ok"], answer["error"], answer["step"]) == (False, "cpu", 0)
    assert answer["message"].endswith("an index is out of range")
    (farmrt.folder / "input").write_bytes(np.asarray([0, -6, 5], np.int32).tobytes())
    farmrt.done("input", name="x1", file=farmrt.folder / "input")
    farmrt.done("run")


def test_a_gpu_reads_floats_by_indices_itself() -> None:
    """Also where the CPU is beside it; integers, which GPUs have no kernel for, are refused by name without."""
    target = Target("host", "host", gpu_family="pocl-3.1")
    for each in (target, dataclasses.replace(target, allow_cpu=True)):
        assert [step.kernel.name for step in lower(lookup().graph, each).steps] == ["gather"]
    with pytest.raises(UnsupportedError, match=r"has no kernel for a GPU; set runtime: cpu\+gpu"):
        lower(lookup(table="int32").graph, target)


@pytest.mark.parametrize("place", [6, 8, 14, 31])
def test_a_step_that_leaves_its_pool_is_refused(farmrt: Farmrt, place: int) -> None:
    """Extents and strides that are changed in the plan itself are seen at load."""
    plan = lower(lookup().graph, CPU)
    damaged = _with_argument(plan, place, 1 << 28)
    answer = farmrt.load_files(encode_plan(damaged), damaged.data)
    assert (answer["ok"], answer["error"]) == (False, "bad_file")


def _with_argument(plan: Plan, place: int, value: int) -> Plan:
    (step,) = plan.steps
    args = list(step.args)
    args[place] = Arg(ArgKind.INT, value)
    return dataclasses.replace(plan, steps=(dataclasses.replace(step, args=tuple(args)),))


def region_pooling(regions: list[list[float]], images: list[int], **form: object) -> GraphMaker:
    make = GraphMaker()
    x = make.input(2, 4, 5, 6)
    corners = make.graph.add_constant("corners", np.asarray(regions, np.float32))
    where = make.graph.add_constant("where", np.asarray(images))
    attributes = {"function": "max_samples", "bins": (2, 3), "samples": 0, "scale": 1.0, "shift": 0.5, "smallest": 0.0}
    make.finish(make.add("RegionPooling", x, corners, where, grouped=False, **attributes | form))
    return make


def test_a_region_as_large_as_the_earth_takes_no_longer_than_its_image(farmrt: Farmrt) -> None:
    make = region_pooling([[-9e8, -9e8, 9e8, 9e8], [3, 4, 3, 4]], [0, 1])
    with within(10):
        (found,) = run(farmrt, lower(make.graph, CPU), make.noise()).values()
    assert found.reshape(2, 4, 6)[1].max() == 0, "no sample"
    assert (found.reshape(2, 4, 6)[0] >= 0).all(), "most samples lie beyond the image"


@pytest.mark.parametrize("image", [2, -1])
def test_a_region_of_no_image_is_an_answer(farmrt: Farmrt, image: int) -> None:
    graph = region_pooling([[0, 0, 3, 3]], [image]).graph
    plan = lower(graph, CPU)
    assert farmrt.load_files(encode_plan(plan), plan.data)["ok"]
    (farmrt.folder / "input").write_bytes(bytes(2 * 4 * 5 * 6 * 4))
    farmrt.done("input", name="x0", file=farmrt.folder / "input")
    answer = farmrt.ask("run")
    assert (answer["ok"], answer["error"]) == (False, "cpu")
    assert answer["message"].endswith("a region is of an image that there is not")


@pytest.mark.parametrize(("place", "value"), [(8, 5), (9, 65), (10, 3), (11, 1 << 28), (13, 1 << 28), (16, 0)])
def test_a_region_pooling_that_makes_no_sense_is_refused(farmrt: Farmrt, place: int, value: int) -> None:
    """Function, samples, images, rows, a stride, and an extent that a damaged plan tells."""
    plan = lower(region_pooling([[0, 0, 3, 3]], [0]).graph, CPU)
    damaged = _with_argument(plan, place, value)
    answer = farmrt.load_files(encode_plan(damaged), damaged.data)
    assert (answer["ok"], answer["error"]) == (False, "bad_file")


@pytest.mark.parametrize("scale", [np.nan, np.inf, 1e30])
def test_a_scale_that_makes_no_sense_is_refused(farmrt: Farmrt, scale: float) -> None:
    plan = lower(region_pooling([[0, 0, 3, 3]], [0], scale=scale).graph, CPU)
    answer = farmrt.load_files(encode_plan(plan), plan.data)
    assert (answer["ok"], answer["error"]) == (False, "bad_file")


@pytest.mark.parametrize(("place", "value"), [(10, 4), (10, 1 << 28), (23, 18), (23, 0), (24, ElementType.I64)])
def test_a_suppression_that_makes_no_sense_is_refused(farmrt: Farmrt, place: int, value: int) -> None:
    """Boxes of a row, boxes of its result, and the type of the boxes that a damaged plan tells."""
    make = GraphMaker()
    limits = [make.graph.add_constant("limit", np.zeros(1, np.float32)) for _ in range(2)]
    boxes, scores = make.input(1, 9, 4), make.input(1, 1, 9)
    make.finish(make.add("Suppression", boxes, scores, *limits, count=5, centred=False, dtype="int64"))
    damaged = _with_argument(lower(make.graph, CPU), place, value)
    answer = farmrt.load_files(encode_plan(damaged), damaged.data)
    assert (answer["ok"], answer["error"]) == (False, "bad_file")
