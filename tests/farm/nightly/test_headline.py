"""The sentence that comes first, and the order in which things are told."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from farm.decision.judgement import NOT_SOFTWARE, SOFTWARE, Judgement, Verdict
from farm.nightly.headline import headline
from farm.nightly.night import CaseReport, DeviceReport, Night, SeriesReport
from farm.nightly.words import by_cause, has_worsened, word_of, worst_first
from farm.rows.series import Metric
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


def with_latency(night: Night, units: Sequence[str], judgement: Judgement) -> Night:
    """The night with this judgement of all latencies on some units."""
    devices = [
        dataclasses.replace(device, cases=[_judged_case(case, judgement) for case in device.cases])
        if device.unit in units
        else device
        for device in night.devices
    ]
    return dataclasses.replace(night, devices=devices)


def _judged_case(case: CaseReport, judgement: Judgement) -> CaseReport:
    series = [
        dataclasses.replace(each, judgement=judgement) if each.key.metric == Metric.LATENCY else each
        for each in case.series
    ]
    return dataclasses.replace(case, series=series)


def slower(ratio: float, **members: Any) -> Judgement:
    return Judgement(Verdict.REGRESSION, "confirmed", ratio=ratio, **members)


def test_one_regression_is_told_with_its_size_and_its_software() -> None:
    night = one_verdict(Verdict.REGRESSION)
    night = dataclasses.replace(night, devices=[with_ratio(night.devices[0], 1.098)])
    assert headline(night) == "mobilenet_v1 (gpu) 9.8 % slower on pixel: the software"


def with_ratio(device: DeviceReport, ratio: float) -> DeviceReport:
    """The device with this ratio, and the software to blame, wherever there is a regression."""

    def changed(report: SeriesReport) -> SeriesReport:
        if report.judgement.verdict != Verdict.REGRESSION:
            return report
        return dataclasses.replace(report, judgement=dataclasses.replace(report.judgement, ratio=ratio, cause=SOFTWARE))

    cases = [dataclasses.replace(case, series=[changed(each) for each in case.series]) for case in device.cases]
    return dataclasses.replace(device, cases=cases)


def test_what_all_units_have_in_common_is_told_once_with_latency_first() -> None:
    night = nights.slow_night()
    assert headline(night) == "Both phones 2.1 times slower; not the software"
    (environment,) = [group for group in by_cause(night.series) if group[1][0].judgement.cause]
    assert environment[0] == "not the software: no fact of the unit tells why (heat, clocks, hardware)"
    metrics = [report.key.metric for report in environment[1]]
    assert metrics == [*[Metric.LATENCY] * 2, *[Metric.FIRST] * 2, *[Metric.INIT] * 2]
    assert all(has_worsened(report) and word_of(report).tone == "bad" for report in environment[1])


def test_a_fact_of_the_unit_is_named() -> None:
    judgement = Judgement(
        Verdict.ENVIRONMENT_CHANGED,
        "slower",
        ratio=1.2,
        cause=NOT_SOFTWARE,
        facts=("driver: 1.0 in run 7, now 2.0",),
    )
    told = headline(with_latency(nights.night(8, nights.PHONES[:1]), ["pixel"], judgement))
    assert told == "pixel 20.0 % slower; not the software; driver: 1.0 in run 7, now 2.0"


def test_units_with_one_cause_are_told_together_whatever_facts_each_has() -> None:
    night = calm(nights.night(8))
    for unit, waited in (("pixel", "31 %"), ("mi8", "34 %")):
        facts = ("driver: 1.0 in run 7, now 2.0", f"rounds waited {waited} of their time for a core")
        moved = Judgement(Verdict.ENVIRONMENT_CHANGED, "slower", ratio=1.2, cause=NOT_SOFTWARE, facts=facts)
        night = with_latency(night, [unit], moved)
    assert headline(night) == "mi8 and pixel 20.0 % slower; not the software; driver: 1.0 in run 7, now 2.0"


def test_an_environment_that_became_faster_is_nothing_worse() -> None:
    faster = Judgement(Verdict.ENVIRONMENT_CHANGED, "faster", ratio=0.5, cause=NOT_SOFTWARE)
    night = with_latency(nights.night(8, nights.PHONES[:1]), ["pixel"], faster)
    assert headline(night) == "pixel 2.0 times faster; not the software. Nothing worse of 60 series"
    assert word_of(night.series[0]).tone == "maybe"


@pytest.mark.parametrize(
    ("units", "ratios", "told"),
    [
        (4, (2.0, 2.1, 2.05, 2.1), "All 4 units 2.1 times slower"),
        (4, (1.05, 1.3, 1.05, 1.1), "All 4 units 5.0 to 30.0 % slower"),
        (4, (1.4, 3.0, 2.0, 2.0), "All 4 units 40.0 to 200.0 % slower"),
        (3, (2.0, 2.0, 2.0), "3 of 4 units 2.0 times slower"),
        (2, (1.1, 1.1), "mi8 and pixel 10.0 % slower"),
        (1, (1.25,), "pixel 25.0 % slower"),
    ],
)
def test_units_are_named_or_counted(units: int, ratios: Sequence[float], told: str) -> None:
    night = calm(nights.night(8))
    for unit, ratio in zip(("pixel", "mi8", "rock", "pixel-twin")[:units], ratios, strict=True):
        night = with_latency(night, [unit], slower(ratio))
    assert headline(night) == told


def calm(night: Night) -> Night:
    """The night with nothing to tell."""
    unchanged = Judgement(Verdict.UNCHANGED, "as before", ratio=1.0)

    def all_of(case: CaseReport) -> CaseReport:
        return dataclasses.replace(
            case, series=[dataclasses.replace(each, judgement=unchanged) for each in case.series]
        )

    devices = [dataclasses.replace(device, cases=list(map(all_of, device.cases))) for device in night.devices]
    return dataclasses.replace(night, devices=devices)


def test_different_things_are_told_worst_first() -> None:
    assert headline(nights.night(12)) == (
        "resnet50 (gpu) wrong on rock. "
        "mobilenet_v1 (gpu) 10.0 % slower on pixel and pixel-twin. "
        "squeezenet (gpu) failed on mi8. 1 more"
    )


def test_a_failure_alone_says_why() -> None:
    failed = Judgement(Verdict.FAILED, "device_lost: adb: device offline")
    told = headline(with_latency(calm(nights.night(8)), ["mi8"], failed))
    assert told == "mi8 failed: device_lost: adb: device offline"


def test_figures_without_a_ratio_are_told_by_their_names() -> None:
    night = calm(nights.night(8, nights.PHONES[:1]))
    (case, *others) = night.devices[0].cases
    said = {
        Metric.SQNR: Judgement(Verdict.REGRESSION, "", value=41.0, baseline=46.0),
        Metric.MEMORY: Judgement(Verdict.REGRESSION, "", value=1.2e6, baseline=1e6),
        Metric.NAN: Judgement(Verdict.REGRESSION, "", value=5.0, baseline=0.0),
    }
    for metric, told in (
        (Metric.SQNR, "Accuracy of mobilenet_v1 (gpu) worse on pixel"),
        (Metric.NAN, "Accuracy of mobilenet_v1 (gpu) worse on pixel"),
        (Metric.MEMORY, "Memory of mobilenet_v1 (gpu) 20.0 % larger on pixel"),
    ):
        series = [
            dataclasses.replace(each, judgement=said[metric]) if each.key.metric == metric else each
            for each in case.series
        ]
        device = dataclasses.replace(night.devices[0], cases=[dataclasses.replace(case, series=series), *others])
        assert headline(dataclasses.replace(night, devices=[device])) == told


def test_suspicions_do_not_make_a_night_bad_but_are_told() -> None:
    told = headline(one_verdict(Verdict.PROVISIONAL_REGRESSION))
    assert told == "Nothing worse: 1 maybe worse, 59 unchanged, of 60 series"


def test_a_missing_unit_is_never_no_change() -> None:
    assert headline(one_verdict(Verdict.MISSING)) == "mobilenet_v1 (gpu) not measured on pixel"


def test_a_night_without_a_good_measurement_says_so() -> None:
    assert headline(one_verdict(Verdict.SPOILED, 60)).startswith("Nothing can be said")
    assert headline(dataclasses.replace(nights.night(8), devices=[])).startswith("Nothing was measured")


def test_worst_first() -> None:
    ordered = worst_first(nights.night(12).series)
    assert [each.judgement.verdict for each in ordered[:4]] == [*[Verdict.WRONG_RESULT] * 3, Verdict.REGRESSION]
    assert ordered[-1].judgement.verdict == Verdict.UNCHANGED
