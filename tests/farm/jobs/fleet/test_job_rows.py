"""Rows of failures: whatever happens on a unit, each model and runtime has its row."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from farm.config import deployment
from farm.config.inventory import HOST
from farm.jobs.fleet import dispatch
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.job_rows import rows_of_each
from farm.jobs.fleet.progress import UnitProgress
from farm.jobs.models.prepare import prepare_all
from farm.rows.device_state import DeviceState
from farm.rows.row import Provenance
from farm.rows.run import RunFigures, RunResult, RunRow
from farm.rows.status import Status
from runtime.errors import (
    BuildError,
    ConfigError,
    DeadlineError,
    DeviceError,
    DeviceLostError,
    ModelError,
    ProcessEndedError,
    UnsupportedError,
)
from tests.farm.model.tiny_model import tiny_model, write_deployment

NOTHING = RunResult(figures=RunFigures())


class FakeSession:
    def __init__(self) -> None:
        self.alive = True
        self.respawns = 0

    def respawn(self) -> None:
        self.alive = True
        self.respawns += 1

    def revive(self) -> None:
        if not self.alive:
            self.respawn()


class Bench:
    """Units that open or not, and a measurement that the test gives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.session = FakeSession()
        self.opened = 0
        self.noted: list[Status] = []
        self.open_error: Exception | None = None
        self.models = prepare_all(deployment.load(write_deployment(folder, runtime="cpu+gpu")))
        monkeypatch.setattr(dispatch, "open_unit", self._open)
        monkeypatch.setattr(dispatch, "POLL_S", 0.01)

    @contextlib.contextmanager
    def _open(self, unit: Any, *_: Any) -> Iterator[Any]:
        self.opened += 1
        if self.open_error:
            raise self.open_error
        yield SimpleNamespace(
            unit=unit,
            session=self.session,
            transport=SimpleNamespace(run=lambda *_: SimpleNamespace(stdout=b"")),
            progress=UnitProgress(unit.name),
            connection=SimpleNamespace(conditions={}),
            answers=lambda: True,
            state=lambda: DeviceState(load_average=1.0),
            note_job=lambda status, reason: self.noted.append(status),
        )

    def rows(self, measure: Callable[..., RunResult]) -> list[RunRow]:
        options = FleetOptions(return_s=0)
        return list(rows_of_each(RunRow, self.models, [HOST], measure, lambda *_: {"rounds": 3}, options))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return Bench(monkeypatch, tmp_path)


def test_a_good_row_has_identity_settings_and_states(bench: Bench) -> None:
    def measure(opened: Any, prepared: Any, runtime: str) -> RunResult:
        return RunResult(provenance=Provenance(settings={"memory": runtime}), figures=RunFigures(init_ms=2.0))

    cpu, gpu = bench.rows(measure)
    assert (cpu.model, cpu.unit, cpu.soc, cpu.library, cpu.runtime) == ("tiny", "host", "host", "tinylib", "cpu")
    assert (gpu.status, gpu.init_ms, gpu.settings) == (Status.OK, 2.0, {"rounds": 3, "memory": "gpu"})
    assert gpu.state_before is not None and gpu.state_after is not None and gpu.state_after.load_average == 1.0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnsupportedError("no kernel"), Status.UNSUPPORTED),
        (DeviceError("clBuildProgram", "build_failed"), Status.BUILD_FAILED),
        (DeadlineError("too slow"), Status.TIMEOUT),
        (ProcessEndedError("gone"), Status.DEVICE_LOST),
    ],
)
def test_an_error_is_a_row_and_the_next_model_runs(bench: Bench, error: Exception, status: Status) -> None:
    def measure(opened: Any, prepared: Any, runtime: str) -> RunResult:
        if runtime == "cpu":
            bench.session.alive = not isinstance(error, DeviceLostError)
            raise error
        return NOTHING

    failed, good = bench.rows(measure)
    assert (failed.status, failed.reason, failed.settings) == (status, str(error), {"rounds": 3})
    assert failed.state_before is not None and failed.state_after is None
    assert good.status == Status.OK
    assert bench.session.respawns == int(isinstance(error, DeviceLostError))


def test_a_unit_that_does_not_open_fails_every_row(bench: Bench) -> None:
    bench.open_error = BuildError("farmrt: no compiler")
    rows = bench.rows(lambda *_: NOTHING)
    assert [(row.runtime, row.status) for row in rows] == [("cpu", Status.BUILD_FAILED), ("gpu", Status.BUILD_FAILED)]


def test_a_unit_that_is_lost_between_models_keeps_the_rows_so_far(bench: Bench) -> None:
    def measure(opened: Any, prepared: Any, runtime: str) -> RunResult:
        bench.session.alive = False
        return NOTHING

    def respawn() -> None:
        raise DeviceLostError("no such device")

    bench.session.respawn = respawn  # type: ignore[method-assign]
    rows = bench.rows(measure)
    assert [row.status for row in rows] == [Status.OK, Status.DEVICE_LOST]


def test_a_users_mistake_ends_the_command(bench: Bench) -> None:
    def measure(*_: Any) -> RunResult:
        raise ConfigError("--tuned x: no such file")

    with pytest.raises(ConfigError, match="--tuned x"):
        bench.rows(measure)


def test_models_that_cannot_run_anywhere_open_no_unit(bench: Bench, tmp_path: Path) -> None:
    bench.models = prepare_all(deployment.load(write_deployment(tmp_path, tiny_model(op="Det"), runtime="cpu+gpu")))
    rows = bench.rows(lambda *_: NOTHING)
    assert [row.status for row in rows] == [Status.UNSUPPORTED] * 2
    assert "'act'" in rows[0].reason
    assert bench.opened == 0


def test_a_damaged_model_is_a_row_among_good_ones_and_alone_the_users_mistake(bench: Bench, tmp_path: Path) -> None:
    damaged = prepare_all(deployment.load(write_deployment(tmp_path, b"not a model")))
    bench.models = [*bench.models, *damaged]
    assert [row.status for row in bench.rows(lambda *_: NOTHING)].count(Status.FAILED) == 1
    bench.models = damaged
    with pytest.raises(ModelError, match="not an ONNX model"):
        bench.rows(lambda *_: NOTHING)


def test_spread_gives_each_model_once_a_soc(bench: Bench) -> None:
    units = [dataclasses.replace(HOST, name=name, soc=soc) for name, soc in (("a", "x1"), ("b", "x1"), ("c", "y2"))]
    options = FleetOptions(return_s=0, spread=True)
    rows = list(rows_of_each(RunRow, bench.models, units, lambda *_: NOTHING, lambda *_: {}, options))
    assert sorted(f"{row.soc} {row.runtime}" for row in rows) == ["x1 cpu", "x1 gpu", "y2 cpu", "y2 gpu"]
