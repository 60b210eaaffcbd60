"""Tunings from scratch are compared: winners, and the model's time with the table of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from farm import cli
from farm.jobs.compare.interleaved import PlanMeasurement, Rehearsed
from farm.jobs.tune import repeatability
from farm.jobs.tune.proof import TOO_FEW
from farm.jobs.tune.search import ModelTuning
from farm.rows.row import Throttling
from farm.rows.tune import TuneRow, TuningAgreement
from farm.tables.tune import agreement_lines
from runtime.statistics.ratios import Ratio
from tests.farm.jobs.tune.test_publication import LITTLE, Planted
from tests.farm.model.tiny_model import write_deployment
from tests.farm.played_tuning import PlayedTuning
from tests.tuner.simulated_device import CONV, launch
from tuner.space import default_candidate
from tuner.trial import Candidate
from tuner.verdict import LaunchVerdict

pytestmark = [pytest.mark.slow, pytest.mark.opencl]


def tuned(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    command = ["tune", "--soc", "host", "tiny.yml", "--fresh", "--json", "--store", "none", *more]
    assert cli.call(command) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    return row  # type: ignore[no-any-return]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_deployment(tmp_path)
    return tmp_path


class TwoWinners(Planted):
    """Every further search chooses another local size for one launch, and writes over the plan that the first chose.

    Its table takes 3 % longer.
    """

    searches = 0

    def search(self, *arguments: Any) -> Any:
        self.searches += 1
        self.seen = 0
        found = super().search(*arguments)
        if self.searches > 1:
            found[0].plan_file.write_bytes(b"the plan of a further search")
        return found

    def verdict(self, default: LaunchVerdict) -> LaunchVerdict:
        self.seen += 1
        self.local_size = (2, 1, 1) if (self.searches, self.seen) == (2, 1) else (1, 1, 1)
        return super().verdict(default)

    def measure(self, each: Rehearsed) -> tuple[list[PlanMeasurement], Throttling]:
        *others, first = each.ways
        if not (first.tuned and others and others[0].tuned):
            return super().measure(each)
        (second,) = others
        assert second.tuned and first.tuned.read_bytes() != second.tuned.read_bytes()
        measured, throttling = self.measured(each, LITTLE)
        return [self.planted(*planted) for planted in zip(measured, (10.3, 10.0), strict=True)], throttling


def test_tables_that_differ_run_in_turns(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = TwoWinners(monkeypatch)
    (agreement,) = tuned(capsys, "--repeat", "2", "--budget", "0")["agreements"]
    assert (agreement["launches"] - agreement["same_winners"], planted.searches) == (1, 2)
    assert agreement["time_ratio"] == pytest.approx(1.03)
    low, high = agreement["time_ratio_ci"]
    assert low <= 1.03 <= high


def test_defaults_agree_with_themselves(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = tuned(capsys, "--repeat", "3", "--budget", "0")
    same = {"launches": row["launches"], "same_winners": row["launches"], "time_ratio": 1.0}
    assert len(row["agreements"]) == 2 and row["launches"] >= 2
    assert all(same.items() <= agreement.items() for agreement in row["agreements"])


def test_a_fresh_search_tries_anew_and_keeps_the_journal(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Path("build/tuning/host.jsonl")
    PlayedTuning(monkeypatch)
    first, before = tuned(capsys, "--budget", "8"), journal.read_bytes()
    again = tuned(capsys, "--budget", "8")
    assert journal.read_bytes().startswith(before)
    assert min(first["trials"], again["trials"]) >= first["launches"], "a search that knows the defaults needs none"


def test_a_budget_is_wall_time_with_everything_in_it(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Choice, trial plans, trials and proof: on a unit that needs a third of a second to load a plan."""
    clock, budget_s = PlayedTuning(monkeypatch, load_s=0.3), 12.0
    begun_s = clock()
    assert tuned(capsys, "--budget", str(budget_s))["trials"] > 0
    assert budget_s / 3 < clock() - begun_s <= budget_s + 1.0


def test_a_proof_has_time_for_the_processes_that_it_needs(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a unit that needs a second to load a plan, and where every launch has a winner."""
    played = PlayedTuning(monkeypatch, load_s=1.0)
    monkeypatch.setattr(ModelTuning, "has_news", True)
    row = tuned(capsys, "--budget", "60", "--no-selection")
    assert row["trials"] > 0 and TOO_FEW not in row["outcome_reason"] and row["gain_percent"] is not None
    played.trial_s = 0.1
    assert f"{TOO_FEW}; --budget " in tuned(capsys, "--budget", "10", "--no-selection")["outcome_reason"]


def test_further_searches_need_a_journal_that_is_not_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["tune", "--soc", "host", "tiny.yml", "--repeat", "2"]) == 2
    assert "give --fresh too" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("noise", "ratios", "tells"),
    [
        (0.01, (1.0, 1.005), True),
        (0.01, (1.0, 1.05), True),
        (0.01, (1.005, 1.02), False),  # on the border
        (0.1, (1.0, 1.0), False),
    ],
)
def test_tables_run_until_it_is_told_whether_tunings_agree(noise: float, ratios: Sequence[float], tells: bool) -> None:
    random = np.random.default_rng(3)
    of_others = [ratio * np.exp(noise * random.normal(size=24)) for ratio in ratios]
    assert repeatability.PROCESSES.is_settled(of_others) == tells
    assert not repeatability.PROCESSES.is_settled([of_others[0], of_others[1][:4]])


def test_the_agreement_in_words() -> None:
    agreements = (
        TuningAgreement(launches=6, same_winners=6, time_ratio=1.0),
        TuningAgreement(launches=6, same_winners=4, time_ratio=1.012, time_ratio_ci=(1.001, 1.019)),
        TuningAgreement(launches=6, same_winners=1, time_ratio=0.95, time_ratio_ci=(0.9, 0.97), throttled="45 degrees"),
        TuningAgreement(launches=6, same_winners=1),
        TuningAgreement(launches=6, same_winners=1, tied_winners=3, time_ratio=0.99, time_ratio_ci=(0.95, 1.03)),
    )
    row = TuneRow.model_construct(model="m", unit="u", agreements=agreements)
    lines = agreement_lines([row])
    assert lines[0].startswith("m on u: tuning 2 chose the same for 6 of 6 launches; ")
    assert "+1.2 % (+0.1 to +1.9)" in lines[1] and lines[1].endswith(": within 2 %")
    assert "-5.0 %" in lines[2] and "NOT within 2 %; heat spoiled the comparison: 45 degrees" in lines[2]
    assert lines[3].endswith("the times could not be compared")
    assert "for 1 of 6 launches, for 3 others one as fast within the noise; " in lines[4]
    assert lines[4].endswith("-1.0 % (-5.0 to +3.0) of the time more: too noisy to tell whether within 2 %")


def tuning_of(*verdicts: LaunchVerdict) -> ModelTuning:
    return cast(ModelTuning, SimpleNamespace(verdicts=verdicts))


def test_winners_whose_gains_overlap_are_as_fast_as_each_other() -> None:
    """Of four launches one has the same winner, one a tie, one another gain, one a winner against the default."""
    launches = [launch(CONV, pixels, 64, 64) for pixels in (49, 196, 784, 3136)]
    default = [default_candidate(each) for each in launches]
    one, two = (Candidate(launches[0].variant, (size, 1, 1)) for size in (2, 4))
    near, far = Ratio(0.9, 0.87, 0.93), Ratio(0.7, 0.68, 0.72)

    def verdict(number: int, chosen: Candidate, ratio: Ratio | None) -> LaunchVerdict:
        return LaunchVerdict(launches[number], chosen, 1e5, 1e5, "planted", ratio)

    first = tuning_of(*(verdict(number, one, near) for number in range(4)))
    other = tuning_of(
        verdict(0, one, far),
        verdict(1, two, Ratio(0.92, 0.89, 0.95)),
        verdict(2, two, far),
        verdict(3, default[3], Ratio(0.99, 0.9, 1.1)),
    )
    agreement = repeatability.agreed(first, other)
    assert (agreement.launches, agreement.same_winners, agreement.tied_winners) == (4, 1, 1)
    assert agreement.time_ratio is None
