"""Every OpenCL driver that works here runs a network, in farmrt and in pyopencl, also those not tested thoroughly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farm.farmrt.drivers import Driver
from runtime.errors import DeviceError
from runtime.lowering.lower import lower
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.reference.device import open_device, target_of_device
from runtime.reference.executor import Executor
from tests import opencl
from tests.native.farmrt import Farmrt
from tests.native.test_agreement import assert_close, run_on
from tests.runtime.graphs import GraphMaker
from tests.runtime.networks import residual_block


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["buffer", "image"])
@pytest.mark.parametrize("driver", opencl.every_driver())
def test_a_network(driver: Driver, memory: str, farmrt_program: Path, tmp_path: Path) -> None:
    maker = GraphMaker()
    graph = residual_block(maker)
    device = opencl.open_once(driver.path)
    plan, inputs = lower(graph, target_of_device(device, memory=memory)), maker.noise()
    reference = Executor(encode_plan(plan), plan.data, device).run(inputs)
    with Farmrt(farmrt_program, tmp_path, library=str(driver.path)) as farmrt:
        actual = run_on(farmrt, plan, inputs)
    expected = evaluate(graph, inputs)
    assert set(expected) >= set(actual)
    for name, values in actual.items():
        assert_close(values, np.asarray(expected[name]), 2e-5)
        assert_close(values, reference[name], 1e-6)


@pytest.mark.parametrize("name", ["libz.so.1", "libnone.so"])
def test_a_library_that_is_no_driver(name: str) -> None:
    with pytest.raises(DeviceError, match=name):
        open_device(name)
