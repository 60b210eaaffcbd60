"""A small model is tuned and measured on a real driver; a driver that is missing becomes a reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from benchmarks.figures import ONNX_RUNTIME
from benchmarks.measurement import DEFAULT, TUNED, Options, measure
from benchmarks.networks import Network, light_network
from farm.farmrt.drivers import Driver
from farm.rows.status import Status
from runtime.statistics.ratios import MINIMUM_ROUNDS
from tests import opencl
from tests.farm.model.tiny_model import tiny_model
from tests.farm.played_tuning import PlayedTuning


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Network]:
    onnx.save(tiny_model(1), tmp_path / "tiny.onnx")
    with light_network("tiny", tmp_path / "tiny.onnx") as network:
        yield network


@pytest.mark.slow
@pytest.mark.opencl
def test_a_model_is_tuned_and_measured_in_turns(small: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    PlayedTuning(monkeypatch, trial_s=5.0)
    said: list[str] = []
    run = measure(small, opencl.WORKING[0], Options(MINIMUM_ROUNDS, limit_s=1.0, budget_s=30.0), said.append)
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
