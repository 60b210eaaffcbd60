import dataclasses
import math

import pytest

from runtime.lowering.trials import TrialLaunch
from runtime.types import Precision
from tests.tuner.simulated_device import CONV, launch
from tuner.surroundings import MOST_LAUNCHES, SWEEP_BYTES, launches_before
from tuner.trial import Trial, TrialStatus, validated

GOOD = Trial(TrialStatus.OK, (10.0, 11.0), 0.1, max_abs_error=1e-6, max_abs_expected=1.0)


def changed(**values: object) -> Trial:
    return Trial(
        **{**{"status": TrialStatus.OK, "ns": (10.0,), "max_abs_error": 0.0, "max_abs_expected": 1.0}, **values}
    )  # type: ignore[arg-type]


def test_a_valid_trial_is_unchanged() -> None:
    assert validated(GOOD, Precision.FP32) == GOOD


@pytest.mark.parametrize(
    ("trial", "status"),
    [
        (changed(max_abs_error=0.1), TrialStatus.WRONG),
        (changed(max_abs_error=math.nan), TrialStatus.WRONG),
        (changed(max_abs_error=math.inf), TrialStatus.WRONG),
        (changed(nan_count=1), TrialStatus.WRONG),
        (changed(max_abs_expected=math.nan, max_abs_error=1.0), TrialStatus.WRONG),
        (changed(max_abs_error=None), TrialStatus.FAILED),
        (changed(ns=()), TrialStatus.FAILED),
        (changed(ns=(5.0, math.nan)), TrialStatus.FAILED),
        (changed(ns=(5.0, 0.0)), TrialStatus.FAILED),
        (changed(ns=(5.0, -3.0)), TrialStatus.FAILED),
        (changed(status=TrialStatus.HANG, max_abs_error=None), TrialStatus.HANG),
        (changed(status=TrialStatus.CRASH), TrialStatus.CRASH),
    ],
)
def test_wrong_outputs_and_impossible_times_lose_the_status_ok(trial: Trial, status: TrialStatus) -> None:
    result = validated(trial, Precision.FP32)
    assert result.status == status
    assert result.typical_ns == math.inf


def test_half_precision_allows_larger_errors() -> None:
    trial = changed(max_abs_error=5e-3)
    assert validated(trial, Precision.FP32).status == TrialStatus.WRONG
    assert validated(trial, Precision.FP16_STORAGE).status == TrialStatus.OK


def test_zero_expectation_has_a_tolerance() -> None:
    assert validated(changed(max_abs_expected=0.0, max_abs_error=1e-7), Precision.FP32).status == TrialStatus.OK


@pytest.mark.parametrize("device_s", [-1.0, math.nan, math.inf])
def test_a_clock_that_goes_backwards_costs_nothing(device_s: float) -> None:
    assert validated(changed(device_s=device_s), Precision.FP32).device_s == 0.0


def test_a_trials_time_is_the_lower_quartile_of_its_repetitions() -> None:
    assert changed(ns=(9.0, 1.0, 5.0, 3.0, 100.0)).typical_ns == 3.0


def test_two_trials_of_a_candidate_are_one_unless_the_later_one_fails() -> None:
    later = changed(ns=(9.0,), device_s=0.3)
    assert GOOD.followed_by(later) == dataclasses.replace(GOOD, ns=(10.0, 11.0, 9.0), device_s=pytest.approx(0.4))
    failed = Trial(TrialStatus.HANG, reason="hangs")
    assert GOOD.followed_by(failed) == failed


def test_times_in_pairs_are_relative_to_the_default_beside_them() -> None:
    paired = changed(ns=(8.0, 16.0, 9.0), own_ns=(10.0, 20.0, 10.0)).relative_to(100.0)
    assert paired.ns == (80.0, 80.0, 90.0)
    assert paired.typical_ns == 80.0, "the median, since a pair errs to both sides"
    assert changed(ns=(8.0, 16.0)).relative_to(100.0).ns == (8.0, 16.0), "no default was timed"


@pytest.mark.parametrize("own_ns", [(1.0,), (1.0, 0.0, 1.0), (1.0, math.inf, 1.0)])
def test_a_default_without_a_time_beside_each_repetition_is_no_comparison(own_ns: tuple[float, ...]) -> None:
    assert validated(changed(ns=(1.0, 2.0, 3.0), own_ns=own_ns), Precision.FP32).status == TrialStatus.FAILED


def touching(index: int, size: int, macs: int, poison: int | None = 0) -> TrialLaunch:
    return dataclasses.replace(launch(CONV, index, 1, 1), step=index, bytes=size, macs=macs, poison=poison)


def test_the_cheapest_bytes_come_first_until_the_caches_are_swept() -> None:
    dense = touching(1, 1_000_000, 10**9)
    weights = touching(2, SWEEP_BYTES - 1, 10**6)
    copy = touching(3, 1_000_000, 0)
    assert launches_before(dense, [dense, weights, copy]) == [copy, weights]
    assert launches_before(weights, [dense, weights, copy]) == [copy, dense], "never the launch itself"


def test_a_launch_that_changes_its_input_is_left_out() -> None:
    in_place = touching(4, SWEEP_BYTES, 0, poison=None)
    assert launches_before(touching(5, 1, 1), [in_place]) == []


def test_no_more_than_a_few_launches() -> None:
    small = [touching(index, 8, 0) for index in range(20)]
    assert len(launches_before(small[0], small)) == MOST_LAUNCHES
