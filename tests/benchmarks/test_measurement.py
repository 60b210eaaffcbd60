"""A small model is tuned and measured on a real driver; a driver that is missing becomes a reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.figures import ONNX_RUNTIME
from benchmarks.measurement import DEFAULT, TUNED, Options, measure
from benchmarks.networks import Network, zoo_networks
from farm.farmrt.drivers import Driver
from farm.rows.status import Status
from tests import opencl
from tuner.statistics import MINIMUM_ROUNDS


@pytest.fixture
def small() -> Iterator[Network]:
    with zoo_networks(["mobilenet_v1"]) as (network,):
        settings = network.content["models"]["mobilenet_v1"]
        settings["model_file_path"] = "zoo://mobilenet_v1?width=0.25&size=64"
        settings["subgraphs"][0]["input_shapes"] = ["1,3,64,64"]
        yield network


@pytest.mark.slow
@pytest.mark.opencl
def test_a_model_is_tuned_and_measured_in_turns(small: Network) -> None:
    said: list[str] = []
    run = measure(small, opencl.WORKING[0], Options(MINIMUM_ROUNDS, limit_s=60.0, budget_s=1.0), said.append)
    assert not run.failures
    assert [each.name for each in run.entrants] == [ONNX_RUNTIME, DEFAULT, TUNED]
    for each in run.entrants:
        assert each.status == Status.OK and each.latency_ms and each.to_onnxruntime
    assert run.tunings[0].status == Status.OK and run.tunings[0].launches > 0
    assert run.cold_start and run.cold_start.tuned.built > 0 and run.cold_start.compiled.built == 0
    assert said == ["tune", "in turns", "from cold"]


@pytest.mark.slow
def test_a_missing_driver_becomes_a_reason_beside_the_other_figures(small: Network) -> None:
    nowhere = Driver(Path("/nonexistent/libOpenCL.so"), "system", "none")
    run = measure(small, nowhere, Options(MINIMUM_ROUNDS, limit_s=1.0, level=None), lambda text: None)
    assert [each.name for each in run.entrants] == [ONNX_RUNTIME]
    assert len(run.failures) == 1 and run.failures[0].startswith("default: ")
    assert "/nonexistent/libOpenCL.so" in run.failures[0]
