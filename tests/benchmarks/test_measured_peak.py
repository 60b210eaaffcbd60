"""The probe of a device's peak computes what it counts, and launches are told by how near they come to it."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.measured_peak import ACCUMULATORS, ITEMS, LOOP, PEAK_MACS, LaunchRate, peak_plan, row_of
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from tests.opencl import default_device


@pytest.mark.slow
@pytest.mark.opencl
def test_the_probe_adds_as_often_as_it_says() -> None:
    device = default_device()
    plan = peak_plan(target_of_device(device))
    (step,) = plan.steps
    lanes, (items,) = step.variant["VECTOR"], step.kernel.work_items(step.dims, step.variant)
    inputs = {"x": np.array([[1.0, 0.5] + [0.0] * (ACCUMULATORS - 2)], np.float32)}
    found = Executor(encode_plan(plan), plan.data, device).run(inputs)["y"]
    first = np.arange(items)[:, None] * ACCUMULATORS + sum(range(ACCUMULATORS)) + ACCUMULATORS * LOOP * 0.5
    assert step.variant == PEAK_MACS.variants[0] and items % ITEMS == 0
    np.testing.assert_array_equal(found.reshape(items, -1)[:, :lanes], np.broadcast_to(first, (items, lanes)))


def test_launches_are_told_by_how_near_they_come_to_the_peak() -> None:
    launches = [LaunchRate(60.0, 96.0), LaunchRate(30.0, 81.0), LaunchRate(10.0, 0.0)]
    assert row_of("net", launches, 90.0, 100.0) == "| net | 90, 100 | 2 | 90 % | 96 % | 1 | 1 | 2 | 2 |"
