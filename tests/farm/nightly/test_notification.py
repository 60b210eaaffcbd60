"""The verdict for machines, and the command that is told of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from farm.decision.judgement import Judgement, Verdict
from farm.nightly.night import CaseReport, DeviceReport, Night, NightOutcome, SeriesReport
from farm.nightly.notification import notify, verdict_members
from farm.rows.run_info import RunInfo
from farm.rows.series import Case, Metric, SeriesKey
from runtime.errors import FarmError

CASE = Case("pixel", "mobilenet", "mobilenet_v1", "gpu", "default")
WORSE = Judgement(Verdict.REGRESSION, "9.8 % slower", value=11.0, baseline=10.0, ratio=1.098, low=1.08, high=1.12)


def night(*judgements: Judgement) -> Night:
    metrics = list(Metric)
    series = [SeriesReport(SeriesKey(CASE, metrics[at]), (), judgement) for at, judgement in enumerate(judgements)]
    device = DeviceReport("pixel", "sdm845", "Pixel", {}, [CaseReport(CASE, None, None, series)])
    return Night(
        RunInfo(7, "lab", "farm nightly lab.yml", "2026-01-01T00:00:00+00:00", commit="abc"), "series", [device]
    )


def test_the_json_lists_only_series_that_changed() -> None:
    found = verdict_members(night(WORSE, Judgement(Verdict.UNCHANGED, "as before")), "reports/lab/index.html")
    assert (found["outcome"], found["run"], found["commit"]) == ("worse", 7, "abc")
    assert found["counts"] == {"unchanged": 1, "regression": 1}
    (told,) = found["series"]
    assert (told["unit"], told["metric"], told["interval"]) == ("pixel", "latency_ms", [1.08, 1.12])


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_outcome_is_worse_for_every_bad_verdict(verdict: Verdict) -> None:
    bad = verdict in (Verdict.REGRESSION, Verdict.WRONG_RESULT, Verdict.FAILED, Verdict.MISSING)
    assert night(Judgement(verdict, "")).outcome == (NightOutcome.WORSE if bad else NightOutcome.GOOD)


def test_the_command_gets_the_verdict_on_standard_input_without_a_shell(tmp_path: Path) -> None:
    script = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    target = tmp_path / "a file; rm $(x)"
    verdict = verdict_members(night(WORSE))
    notify([sys.executable, "-c", script, str(target)], verdict)
    assert json.loads(target.read_text()) == {"schema_version": 1, **verdict}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/nowhere/notify"], "cannot be run: No such file"),
        ([sys.executable, "-c", "import sys; sys.exit('no \x1b[31m mail')"], "ended with status 1: no"),
    ],
)
def test_a_command_that_fails_is_an_error_with_its_message(command: list[str], said: str) -> None:
    with pytest.raises(FarmError, match=said):
        notify(command, {})


@pytest.mark.slow
def test_a_command_that_hangs_is_ended_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.nightly.notification.NOTIFY_S", 0.2)
    with pytest.raises(FarmError, match="did not end within"):
        notify([sys.executable, "-c", "import time; time.sleep(60)"], {})
