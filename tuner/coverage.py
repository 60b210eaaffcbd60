"""How much device time a search needs on a unit until each launch of weight has had a fair number of trials."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from runtime.lowering.trials import TrialLaunch, Use

LEAST_TRIALS = 10  # of each launch of weight
OF_WEIGHT = 0.05  # of a model's time: a launch that weighs less has what the others' programs show
TRIAL_LAUNCHES = 6  # of the default and the candidate, with what runs before each
RETEST_SHARE = 0.2  # of the time, kept back to confirm what seems faster


def model_weights(launches: Sequence[tuple[float, Sequence[Use]]]) -> list[float]:
    """What launches, each of a time and its uses, weigh: their time in all models, if those took as long as each other.

    Else a light model gets nothing beside a heavy one. Without a use a launch weighs as if used once. The sum is the
    time of all models; times that are not finite are left as they are.
    """
    models = [[use.model for use in uses] or [""] for _, uses in launches]
    totals = defaultdict[str, float](float)
    for (time, _), names in zip(launches, models, strict=True):
        for name in names if math.isfinite(time) else ():
            totals[name] += time
    mean = sum(totals.values()) / max(len(totals), 1)
    shares = [sum(mean / (totals[name] or mean or 1.0) for name in names) for names in models]
    return [time * share for (time, _), share in zip(launches, shares, strict=True)]


def of_weight(launches: Iterable[tuple[float, float]], models: int) -> list[float]:
    """Of launches of so many models, each as (seconds, weight), the seconds of those that weigh most in one."""
    known = list(launches)
    total = sum(weight for _, weight in known)
    return [seconds for seconds, weight in known if weight >= OF_WEIGHT * total / models]


def model_count(launches: Iterable[TrialLaunch]) -> int:
    """How many models use launches."""
    return max(len({use.model for launch in launches for use in launch.uses}), 1)


def covering_s(launches_s: Iterable[float], build_s: float) -> float:
    """Device seconds of LEAST_TRIALS of each launch and of the re-test, if a trial's program takes `build_s`."""
    return sum(LEAST_TRIALS * (build_s + TRIAL_LAUNCHES * each_s) for each_s in launches_s) / (1.0 - RETEST_SHARE)
