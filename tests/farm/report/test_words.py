"""The sentence that comes first, and the order in which things are told."""

from __future__ import annotations

import dataclasses

from farm.decision.judgement import Judgement, Verdict
from farm.nightly.night import Night, SeriesReport
from farm.report.words import headline, worst_first
from tests.farm.report import nights


def one_verdict(verdict: Verdict, count: int = 1) -> Night:
    """A night whose first series have this verdict, all others are unchanged."""
    made = nights.night(8, nights.PHONES[:1])
    left = count

    def judged(each: SeriesReport) -> SeriesReport:
        nonlocal left
        left -= 1
        judgement = Judgement(verdict, "9.8 % higher") if left >= 0 else Judgement(Verdict.UNCHANGED, "as before")
        return dataclasses.replace(each, judgement=judgement)

    device = made.devices[0]
    cases = [dataclasses.replace(case, series=[judged(each) for each in case.series]) for case in device.cases]
    return dataclasses.replace(made, devices=[dataclasses.replace(device, cases=cases)])


def test_one_regression_is_told_in_full() -> None:
    told = headline(one_verdict(Verdict.REGRESSION))
    assert told == "1 regression: latency of mobilenet_v1 (gpu) on pixel: 9.8 % higher"


def test_of_several_the_worst_is_told() -> None:
    told = headline(one_verdict(Verdict.REGRESSION, 2))
    assert told.startswith("2 regressions. Worst: ")


def test_suspicions_do_not_make_a_night_bad_but_are_told() -> None:
    told = headline(one_verdict(Verdict.PROVISIONAL_REGRESSION))
    assert told == "Nothing worse: 1 maybe worse, 59 unchanged, of 60 series"


def test_a_missing_unit_is_never_no_change() -> None:
    assert headline(one_verdict(Verdict.MISSING)).startswith("1 missing: ")


def test_a_night_without_a_good_measurement_says_so() -> None:
    assert headline(one_verdict(Verdict.SPOILED, 60)).startswith("Nothing can be said")
    assert headline(dataclasses.replace(nights.night(8), devices=[])).startswith("Nothing was measured")


def test_worst_first() -> None:
    ordered = worst_first(nights.night(12).series)
    assert [each.judgement.verdict for each in ordered[:4]] == [*[Verdict.WRONG_RESULT] * 3, Verdict.REGRESSION]
    assert ordered[-1].judgement.verdict == Verdict.UNCHANGED
