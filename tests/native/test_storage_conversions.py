"""What plans do between two storages is what NumPy does: every pair, on OpenCL and on the CPU, memory compared raw."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest

from runtime.graph import Array, Graph
from runtime.layout.storage import TensorStorage, from_storage, to_storage
from runtime.lowering.assembly import assemble_plan
from runtime.lowering.builder import Builder
from runtime.lowering.options import Options
from runtime.lowering.value import Value
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.reference.device import target_of_device
from runtime.target import Target
from runtime.types import ElementType, Precision, Role, Storage
from tests import opencl
from tests.native.farmrt import Farmrt

Shape = tuple[int, int, int, int]
SHAPES: list[Shape] = [(1, 3, 4, 5), (2, 9, 3, 2), (3, 8, 1, 1), (1, 17, 2, 7), (1, 1, 5, 3), (2, 20, 1, 4)]
PRECISIONS = {Precision.FP32: ElementType.F32, Precision.FP16_STORAGE: ElementType.F16}
DTYPES = {ElementType.F32: np.float32, ElementType.F16: np.float16}
JUNK = 77.0  # in the padding of what is read: no conversion may look at it


@dataclasses.dataclass(frozen=True)
class Kind:
    """A storage of plans; `block`: channels of a block."""

    storage: Storage
    block: int = 0

    def __str__(self) -> str:
        return self.storage.name.lower() + (str(self.block) if self.block else "")

    def value(self, name: str, shape: Shape, element: ElementType, base: Value | None = None) -> Value:
        stride = shape[1] if self.storage == Storage.NHWC else 0
        return Value(name, shape, self.storage, element, stride, base, block=self.block)


FLAT, NHWC, IMAGE = Kind(Storage.FLAT), Kind(Storage.NHWC), Kind(Storage.IMAGE)
BLOCKS = (Kind(Storage.BLOCKED, 8), Kind(Storage.BLOCKED, 16))
ROUTES = [(FLAT, NHWC), (NHWC, FLAT), *((a, IMAGE, b) for a in (FLAT, NHWC) for b in (FLAT, NHWC))]
CPU_ROUTES = [(FLAT, NHWC), (NHWC, FLAT)]
CPU_ROUTES += [pair for block in BLOCKS for other in (FLAT, NHWC) for pair in ((other, block), (block, other))]


def plan_of(route: tuple[Kind, ...], shape: Shape, target: Target) -> tuple[Plan, TensorStorage, TensorStorage]:
    """A plan that converts along a route; its input and output are the memory at both ends, with its padding."""
    builder = Builder(Graph("net", [], [], [], {}, {}), target, Options())
    builder.block = max(kind.block for kind in route) or builder.block
    element = PRECISIONS[target.precision]
    ends = [kind.value("end", shape, element).stored for kind in (route[0], route[-1])]
    given = Value("given", (math.prod(ends[0].shape),), Storage.FLAT, element, role=Role.INPUT)
    builder.inputs.append(given)
    values = [route[0].value("start", shape, element, given)]
    values += [kind.value(f"stop{index}", shape, element) for index, kind in enumerate(route[1:])]
    for source, value in itertools.pairwise(values):
        builder.convert(value.name, source, value, "")
    size = (math.prod(ends[1].shape),)
    builder.outputs.append(Value("found", size, Storage.FLAT, element, 0, values[-1], 0, Role.OUTPUT))
    return assemble_plan(builder), ends[0], ends[1]


def check(farmrt: Farmrt, route: tuple[Kind, ...], shape: Shape, target: Target) -> None:
    plan, source, end = plan_of(route, shape, target)
    dtype = DTYPES[PRECISIONS[target.precision]]
    tensor = np.random.default_rng(7).uniform(0.5, 2, shape).astype(dtype)
    memory = to_storage(tensor, source)
    found = run(farmrt, plan, np.where(memory == 0, dtype(JUNK), memory)).reshape(end.shape)
    np.testing.assert_array_equal(from_storage(found, end), tensor)
    expected = to_storage(from_storage(memory, source), end)
    np.testing.assert_array_equal(found[expected != 0], expected[expected != 0])
    assert np.isfinite(found).all()


def run(farmrt: Farmrt, plan: Plan, memory: Array) -> Array:
    assert farmrt.load_files(encode_plan(plan), plan.data)["ok"]
    (farmrt.folder / "memory").write_bytes(memory.tobytes())
    farmrt.done("input", name="given", file=farmrt.folder / "memory")
    farmrt.done("run", rounds=1)
    farmrt.done("output", name="found", file=farmrt.folder / "found")
    return np.frombuffer((farmrt.folder / "found").read_bytes(), memory.dtype)


def by_turns() -> list[Any]:
    """(route, precision, driver)."""
    return [
        pytest.param(route, precision, name, id=f"{'-'.join(map(str, route))}-{precision.name}-{name}")
        for number, (route, precision) in enumerate(itertools.product(ROUTES, PRECISIONS))
        for name in map(opencl.label, opencl.of_turn(number))
    ]


@pytest.mark.opencl
@pytest.mark.slow
@pytest.mark.parametrize(("route", "precision", "gpu"), by_turns(), indirect=["gpu"])
def test_a_devices_conversions_are_numpys(gpu: Farmrt, route: tuple[Kind, ...], precision: Precision) -> None:
    memory = "image" if IMAGE in route else "buffer"
    target = target_of_device(opencl.open_once(gpu.library), memory=memory, precision=precision)
    for shape in SHAPES:
        check(gpu, route, shape, target)


@pytest.mark.parametrize("route", CPU_ROUTES, ids=lambda route: "-".join(map(str, route)))
def test_the_cpus_conversions_are_numpys(cpu: Farmrt, route: tuple[Kind, ...]) -> None:
    for shape in SHAPES:
        check(cpu, route, shape, Target("host", "host", memory="cpu"))
