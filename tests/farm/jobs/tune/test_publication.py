"""New tuned parameters are in force only after they won: against the default, and against what was in force."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from farm import artifacts, cli
from farm.farmrt.answers import LoadAnswer
from farm.jobs.compare.interleaved import Effort, PlanMeasurement, Rehearsed
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.tune import built_programs, job, proof
from farm.jobs.tune.search import ModelTuning, search_models
from farm.rows.row import Throttling
from runtime.errors import DeviceLostError, JobError
from tests.farm.model.tiny_model import write_deployment
from tuner.trial import Candidate
from tuner.verdict import LaunchVerdict

pytestmark = [pytest.mark.slow, pytest.mark.opencl]

LITTLE = Effort(processes=1, turns=1, turn_ms=1.0)
DEFAULT_MS = 10.0
OTHER_SIZE = (2, 2, 1)  # than that of any default of the network


class Planted:
    """What a search finds and what its proof measures, instead of chance; the rest is real, farmrt included."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.new_ms = self.in_force_ms = DEFAULT_MS
        self.promised_ns = 900.0  # of each launch, instead of 1000 by default
        self.second_ms = 0.0  # what the new takes in a second proof, if not the same
        self.jitter = 0.0  # by what share every other process of the new is slower, and the others faster
        self.throttled, self.wrong, self.error = "", False, None
        self.local_size = OTHER_SIZE
        self.ways: list[int] = []
        patch.setattr(job, "search_models", self.search)
        self.measured = Rehearsed.measure
        patch.setattr(Rehearsed, "measure", lambda each, *_: self.measure(each))

    error: JobError | None

    def search(self, *arguments: Any) -> list[ModelTuning]:
        return [
            dataclasses.replace(tuned, verdicts=tuple(map(self.verdict, tuned.verdicts)))
            for tuned in search_models(*arguments)
        ]

    def verdict(self, default: LaunchVerdict) -> LaunchVerdict:
        """Another local size than the default wins every launch, unless none shall."""
        chosen = Candidate(default.launch.variant, self.local_size) if any(self.local_size) else default.chosen
        return LaunchVerdict(default.launch, chosen, 1000.0, self.promised_ns, "planted")

    def measure(self, each: Rehearsed) -> tuple[list[PlanMeasurement], Throttling]:
        if self.error:
            raise self.error
        self.ways.append(len(each.ways))
        if len(self.ways) == 2 and self.second_ms:
            self.new_ms = self.second_ms
        measured, _ = self.measured(each, LITTLE)
        between = [self.in_force_ms] if len(measured) == 3 else []
        times = [DEFAULT_MS, *between, self.new_ms][-len(measured) :]
        assert not each.ways[0].tuned or len(measured) == 1
        jitters = [0.0] * (len(measured) - 1) + [self.jitter]
        planted = [self.planted(*each) for each in zip(measured, times, jitters, strict=True)]
        return planted, Throttling(throttled=self.throttled)

    def planted(self, measured: PlanMeasurement, time_ms: float, jitter: float = 0.0) -> PlanMeasurement:
        processes = tuple((time_ms * (1 + number / 1000 + jitter * (-1) ** number),) for number in range(12))
        outputs = {name: value + float(self.wrong) for name, value in measured.outputs.items()}
        return dataclasses.replace(measured, processes_ms=processes, outputs=outputs)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    monkeypatch.chdir(tmp_path)
    write_deployment(tmp_path)
    return Planted(monkeypatch)


def tune(capsys: pytest.CaptureFixture[str], status: int = 0) -> dict[str, Any]:
    assert cli.call(["tune", "--soc", "host", "tiny.yml", "--budget", "0", "--json", "--store", "none"]) == status
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    return row  # type: ignore[no-any-return]


def files() -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in Path("build").glob("tinylib/opencl/host/*.*")}


def local_sizes() -> set[tuple[int, ...]]:
    """Of the table in force."""
    (tuned_file,) = Path("build").rglob("*_tuned_*.bin")
    (one_set,) = artifacts.read(tuned_file).sets
    return {entry.local_size for entry in one_set.entries}  # type: ignore[union-attr]


def test_a_first_table_that_wins_is_in_force(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    planted.new_ms = 8.0
    row = tune(capsys)
    assert (row["outcome"], row["outcome_reason"]) == ("new", "")
    assert row["gain_percent"] == pytest.approx(20.0) and row["incumbent_ms"] is None
    assert local_sizes() == {OTHER_SIZE}


def test_programs_are_built_once_at_the_first_start_of_the_default(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the local sizes are others here. PoCL stands for a driver that remembers no programs."""
    monkeypatch.setattr(built_programs, "remembers_programs", lambda family: False)
    answers: list[LoadAnswer] = []

    def loading(opened: OpenUnit, *files: Any, **options: Any) -> Callable[[], LoadAnswer]:
        answer = on_unit(opened, *files, **options)()
        answers.append(answer)
        return lambda: answer

    on_unit = OpenUnit.loading
    monkeypatch.setattr(OpenUnit, "loading", loading)
    planted.new_ms = 8.0
    row = tune(capsys)
    assert row["outcome"] == "new" and artifacts.find()
    first, *others = answers
    assert first.kernels and first.kernels.built > 0 and row["default_init_ms"] == first.init_ms
    used = [each.kernels for each in others if each.kernels]
    assert len(used) > 4, "of the trials, the artifacts, and the processes of the proof"
    assert all(each.built == 0 for each in used) and sum(each.loaded > 0 for each in used) > 4


def test_a_first_table_that_gains_nothing_leaves_the_defaults(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    row = tune(capsys)
    assert (
        row["outcome"] == "kept" and "not faster than the default beyond the noise: gain 0.0 %" in row["outcome_reason"]
    )
    assert OTHER_SIZE not in local_sizes(), "applications load the defaults, known to be right, and their kernels"


def test_what_promises_next_to_nothing_runs_once(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    planted.promised_ns, planted.new_ms = 996.0, 8.0
    row = tune(capsys)
    assert (row["outcome"], row["outcome_reason"]) == ("kept", proof.TOO_LITTLE.format(0.004))
    assert planted.ways == [1] and OTHER_SIZE not in local_sizes()


def test_a_gain_that_a_second_proof_does_not_find_is_not_published(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    planted.new_ms, planted.second_ms, planted.jitter = 9.6, 9.99, 0.025
    row = tune(capsys)
    assert (planted.ways, row["outcome"]) == ([2, 2], "kept") and OTHER_SIZE not in local_sizes()
    assert row["outcome_reason"].startswith("a second proof did not confirm the gain: not faster than the default")
    assert row["gain_percent"] == pytest.approx(0.1, abs=0.1), "the gain that was not chosen for its size"


def test_a_table_must_beat_the_one_in_force(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    planted.new_ms = 8.0
    tune(capsys)
    before = files()
    planted.local_size, planted.in_force_ms, planted.new_ms = (2, 1, 1), 8.0, 9.0
    row = tune(capsys)
    assert row["outcome"] == "kept" and "not faster than what is in force" in row["outcome_reason"]
    assert row["incumbent_ms"] == pytest.approx(8.0, rel=0.01) and row["gain_percent"] == pytest.approx(10.0)
    assert row["gain_on_incumbent_percent"] == pytest.approx(-12.5)
    assert files() == before
    planted.new_ms = 7.0
    assert tune(capsys)["outcome"] == "new"
    assert local_sizes() == {(2, 1, 1)}
    assert planted.ways == [2, 3, 3], "what is plain is proved once"


def test_the_same_table_again_is_kept(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    planted.new_ms = 8.0
    tune(capsys)
    before = files()
    row = tune(capsys)
    assert (row["outcome"], row["outcome_reason"]) == ("kept", proof.THE_SAME)
    assert files() == before and planted.ways == [2, 2], "nothing is proved again"


def test_a_search_that_tunes_nothing_loses_nothing(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    """As with a budget of 0."""
    planted.new_ms = 8.0
    tune(capsys)
    before = files()
    planted.local_size = (0, 0, 0)
    row = tune(capsys)
    assert (row["outcome"], row["gain_percent"], row["gain_ci"]) == ("no change", None, None)
    assert files() == before


def test_parameters_with_a_wrong_result_are_not_published(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    planted.new_ms, planted.wrong = 8.0, True
    row = tune(capsys, status=1)
    assert (row["status"], row["outcome"]) == ("wrong_result", "kept")
    assert OTHER_SIZE not in local_sizes()


def test_heat_proves_nothing(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    planted.new_ms, planted.throttled = 8.0, "thermal status severe"
    row = tune(capsys)
    assert row["outcome"] == "kept" and row["outcome_reason"].endswith("thermal status severe")


def test_a_unit_that_is_lost_before_the_proof_publishes_nothing(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    planted.error = DeviceLostError("gone")
    assert tune(capsys, status=1)["status"] == "device_lost"
    assert not list(Path("build").rglob("*_tuned_*.bin"))


def test_a_model_that_cannot_be_measured_is_a_row_of_its_own(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library's other models are published none the less."""
    planted.error = JobError("farmrt: out of memory")
    row = tune(capsys, status=1)
    assert row["status"] == "failed" and "out of memory" in row["reason"]
    assert OTHER_SIZE not in local_sizes()


def test_proofs_are_measured_for_what_publishes(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    planted.new_ms = 8.0
    tune(capsys)
    manifest = artifacts.read_manifest(next(Path("build").rglob("manifest.json")).parent)
    assert [(model.model, round(model.gain_percent)) for model in manifest.sets[0].models] == [("tiny", 20)]
    assert all(launch.reason == "planted" for launch in manifest.sets[0].launches)
