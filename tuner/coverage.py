"""How much device time a search needs on a unit until each launch of weight has had a fair number of trials."""

from collections.abc import Iterable

LEAST_TRIALS = 10  # of each launch of weight
OF_WEIGHT = 0.05  # of the models' time: a launch that takes less has what the others' programs show
TRIAL_LAUNCHES = 6  # of the default and the candidate, with what runs before each
RETEST_SHARE = 0.2  # of the time, kept back to confirm what seems faster


def of_weight(seconds: Iterable[tuple[float, int]]) -> list[float]:
    """Of launches, each as (seconds, uses in the models), the seconds of those that take most of the models' time."""
    known = list(seconds)
    total_s = sum(each_s * max(uses, 1) for each_s, uses in known)
    return [each_s for each_s, uses in known if each_s * max(uses, 1) >= OF_WEIGHT * total_s]


def covering_s(launches_s: Iterable[float], build_s: float) -> float:
    """Device seconds of LEAST_TRIALS of each launch and of the re-test, if a trial's program takes `build_s`."""
    return sum(LEAST_TRIALS * (build_s + TRIAL_LAUNCHES * each_s) for each_s in launches_s) / (1.0 - RETEST_SHARE)
