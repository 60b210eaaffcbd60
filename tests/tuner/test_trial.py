import math

import pytest

from runtime.types import Precision
from tuner.trial import Status, Trial, judged

GOOD = Trial(Status.OK, (10.0, 11.0), 0.1, max_abs_error=1e-6, max_abs_expected=1.0)


def changed(**values: object) -> Trial:
    return Trial(**{**{"status": Status.OK, "ns": (10.0,), "max_abs_error": 0.0, "max_abs_expected": 1.0}, **values})  # type: ignore[arg-type]


def test_good_trial_stays() -> None:
    assert judged(GOOD, Precision.FP32) == GOOD


@pytest.mark.parametrize(
    ("trial", "status"),
    [
        (changed(max_abs_error=0.1), Status.WRONG),
        (changed(max_abs_error=math.nan), Status.WRONG),
        (changed(max_abs_error=math.inf), Status.WRONG),
        (changed(nan_count=1), Status.WRONG),
        (changed(max_abs_expected=math.nan, max_abs_error=1.0), Status.WRONG),
        (changed(max_abs_error=None), Status.FAILED),
        (changed(ns=()), Status.FAILED),
        (changed(ns=(5.0, math.nan)), Status.FAILED),
        (changed(ns=(5.0, 0.0)), Status.FAILED),
        (changed(ns=(5.0, -3.0)), Status.FAILED),
        (changed(status=Status.HANG, max_abs_error=None), Status.HANG),
        (changed(status=Status.CRASH), Status.CRASH),
    ],
)
def test_what_never_counts_as_a_time(trial: Trial, status: Status) -> None:
    result = judged(trial, Precision.FP32)
    assert result.status == status
    assert result.typical_ns == math.inf


def test_tolerance_goes_by_precision() -> None:
    trial = changed(max_abs_error=5e-3)
    assert judged(trial, Precision.FP32).status == Status.WRONG
    assert judged(trial, Precision.FP16_STORAGE).status == Status.OK


def test_zero_expectation_has_a_tolerance() -> None:
    assert judged(changed(max_abs_expected=0.0, max_abs_error=1e-7), Precision.FP32).status == Status.OK


@pytest.mark.parametrize("device_s", [-1.0, math.nan, math.inf])
def test_a_clock_that_goes_backwards_costs_nothing(device_s: float) -> None:
    assert judged(changed(device_s=device_s), Precision.FP32).device_s == 0.0


def test_typical_time_is_the_lower_quartile() -> None:
    assert changed(ns=(9.0, 1.0, 5.0, 3.0, 100.0)).typical_ns == 3.0
