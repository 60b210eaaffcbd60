"""Takes the operator of `example_family` through everything, in a copy of `runtime` that has the family."""

from pathlib import Path

import numpy as np
from onnx import helper

from farm.jobs.opbench_cases import CASES as SIZES
from runtime.convert import convert
from runtime.kernels.table import BUFFER_KERNELS
from runtime.lowering.lower import lower
from runtime.native.build import build_farmrt
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.target import Target
from tests.native.example_family.cases import CASES, ORACLES
from tests.native.farmrt import Farmrt
from tests.native.test_agreement import assert_close, run_on
from tests.opencl import default_device
from tests.runtime import buffer_launch
from tests.runtime.onnx_models import onnx_model, random_array

SHAPE = (2, 9, 31, 33)  # more than a turn of the CPU's operator


def main() -> None:
    """Raises AssertionError where anything computes other than the definition, written here anew."""
    made = onnx_model([helper.make_node("Cube", ["x"], ["y"], domain="farm", scale=0.5)], {"x": SHAPE}, ("y",))
    made.opset_import.append(helper.make_opsetid("farm", 1))
    graph, _ = convert(made)
    x = random_array(SHAPE, 1, -2.0, 2.0)
    wanted = 0.5 * x.astype(np.float64) ** 3
    assert_close(evaluate(graph, {"x": x})["y"], wanted, 1e-6)
    plan = lower(graph, target_of_device(default_device(), memory="buffer"))
    assert_close(Executor(encode_plan(plan), plan.data, default_device()).run({"x": x})["y"], wanted, 1e-6)
    with Farmrt(build_farmrt(), Path.cwd()) as farmrt:
        found = run_on(farmrt, lower(graph, Target("host", "host", memory="cpu")), {"x": x})
    assert_close(found["y"], wanted, 1e-6)
    buffer_launch.ORACLES.update(ORACLES)
    kernel = next(kernel for kernel in BUFFER_KERNELS if kernel.name == "cube")
    for case in CASES.values():
        for variant in kernel.variants:
            buffer_launch.check(case, default_device(), variant)
    assert any(case.op == "Cube" for case in SIZES)


if __name__ == "__main__":
    main()
