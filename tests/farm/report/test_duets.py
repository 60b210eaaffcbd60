"""Duets and environment changes in reports, on the terminal and in the verdict."""

import dataclasses
import json
from pathlib import Path

import pytest

from farm.decision.duet_verdict import with_duet
from farm.decision.judgement import Judgement, Verdict
from farm.nightly.night import CaseReport, Night
from farm.nightly.notification import verdict_members
from farm.report.write import write_reports
from farm.rows.duet import NO_EARLIER, DuetFigures, DuetPair, SoftwareVerdict
from farm.rows.series import Metric
from farm.tables.nightly import night_tables
from tests.farm.report.nights import night as made_night

SAME = {"against": 7, "suspected": True, "verdict": SoftwareVerdict.SAME, "ratio": 1.001, "ratio_ci": (0.995, 1.007)}
LOST = "bundle of run 7: plan 0f is damaged"
UPDATE = "driver: 1.0 in run 7, 2.0 tonight"


@pytest.fixture
def night() -> Night:
    """A night whose first case moved with an update of its driver, and whose second has lost its bundle."""
    made = made_night(nights=20)
    device = made.devices[0]
    cases = [*device.cases]
    row = cases[0].row
    assert row is not None
    pair = DuetPair(against=7, before=row.blocks[0], tonight=row.blocks[1])
    same = DuetFigures(**SAME, environment=(UPDATE,), pairs=(pair,) * 6, seconds=row.busy_s / 10 + 1)  # type: ignore[arg-type]
    cases[0] = with_figures(cases[0], same)
    cases[1] = with_figures(cases[1], DuetFigures(fallback=LOST))
    return dataclasses.replace(made, devices=[dataclasses.replace(device, cases=cases), *made.devices[1:]])


def with_figures(case: CaseReport, duet: DuetFigures) -> CaseReport:
    """The case with a duet in its row, and a latency that the nights before call provisionally worse."""
    assert case.row is not None
    changed = Judgement(Verdict.PROVISIONAL_REGRESSION, "+9.0 % against 20 nights", ratio=1.09, low=1.07, high=1.11)
    series = [
        dataclasses.replace(each, judgement=with_duet(changed, duet)) if each.key.metric == Metric.LATENCY else each
        for each in case.series
    ]
    return dataclasses.replace(case, row=case.row.model_copy(update={"duet": duet}), series=series)


@pytest.mark.slow
def test_the_report_lists_environment_changes_apart_and_shows_duets(night: Night, tmp_path: Path) -> None:
    write_reports(night, tmp_path / "report")
    summary = (tmp_path / "report/index.html").read_text()
    assert "The environment changed, not the software" in summary and UPDATE in summary
    (page,) = [path for path in (tmp_path / "report/devices").glob("*.html") if LOST in path.read_text()]
    assert "run 7" in page.read_text() and "-0.5 to +0.7 %" in page.read_text().replace("−", "-")
    documents = [json.loads(path.read_text()) for path in (tmp_path / "report").glob("*.json")]
    (document,) = [each for each in documents if "devices" in each]
    duet = document["devices"][0]["cases"][0]["row"]["duet"]
    assert duet["environment"] == [UPDATE] and "pairs" not in duet


def test_the_terminal_shows_duets_with_their_share(night: Night) -> None:
    tables = {table.title: table for table in night_tables(night)}
    (environment,) = tables["The environment changed, not the software"].rows
    assert UPDATE in environment[-1]
    (title,) = [title for title in tables if title.startswith("Duets, ")]
    assert title.endswith(" %") and title.startswith(f"Duets, {night.duet_s:.1f} s of the blocks' time: ")
    same, lost = tables[title].rows
    assert same[4:] == ["7", "6", "1.001", "0.995 to 1.007", "same"] and lost[-1] == f"not asked: {LOST}"


IDENTICAL = DuetFigures(against=7, suspected=True, verdict=SoftwareVerdict.SAME, identical=True)


@pytest.mark.parametrize("figures", [IDENTICAL, DuetFigures(fallback=NO_EARLIER)])
def test_the_same_bytes_and_a_first_night_need_no_pair_and_no_table(night: Night, figures: DuetFigures) -> None:
    cases = [with_figures(case, figures) for case in night.devices[0].cases]
    alike = dataclasses.replace(night, devices=[dataclasses.replace(night.devices[0], cases=cases)])
    assert [row.duet for row in alike.rows] == [figures] * len(cases)
    assert not any(table.title.startswith("Duets") for table in night_tables(alike))


def test_the_verdict_names_environment_changes_and_what_duets_took(night: Night) -> None:
    verdict = verdict_members(night)
    assert [each["metric"] for each in verdict["environment_changes"]] == ["latency_ms"]
    assert (verdict["duets"]["made"], verdict["duets"]["pairs"]) == (1, 6)
    assert verdict["duets"]["seconds"] == pytest.approx(night.duet_s, abs=0.001)
