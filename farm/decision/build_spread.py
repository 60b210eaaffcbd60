"""Says whether software differs by more than builds of the same sources do. Pure functions.

Where code and data lie in memory is another place in each build, and loops run a few percent faster or slower for it
(T. Mytkowicz et al., "Producing wrong data without doing anything obviously wrong!", ASPLOS 2009). Pairs measure that
as surely as a regression, so pairs alone never tell one from the other: other builds do. What earlier duets found
between builds that were accepted is the measure of how much builds differ. A difference that is not beyond it is a
*claim*: the next nights ask again, each another accepted bundle, and their mean is judged, in which the luck of one
build and of one bundle counts less and less.
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

UNKNOWN_VARIANCE = 0.025**2  # of a build's logarithm, where no nights before tell what they vary by
LEAST_PRIOR = 0.012**2  # a short history has seen few builds
PRIOR_DUETS = 10  # so many duets weigh as much as what nights vary by
LEAST_VARIANCE = 0.003**2
BEYOND = 3.9  # standard errors: one equal build in 10,000


class ChangeByPairs(NamedTuple):
    """The logarithm of tonight's time over the earlier one, and its variance by the pairs."""

    change: float
    variance: float


class Difference(NamedTuple):
    """The same, with the names of both builds."""

    change: float
    variance: float
    build: str
    against: str


def measured_change(pairs: Sequence[tuple[float, float]]) -> ChangeByPairs | None:
    """What pairs of an earlier time and tonight's show; None where they are too few to have a spread."""
    logs = [math.log(tonight / before) for before, tonight in pairs]
    return ChangeByPairs(statistics.median(logs), statistics.variance(logs) / len(logs)) if len(logs) > 1 else None


def variance_of_builds(differences: Sequence[Difference], prior: float) -> float:
    """The variance of a build's logarithm, by duets between builds without a change.

    Args:
        differences: what these duets measured; those within one build tell nothing.
        prior: the variance that counts as much as PRIOR_DUETS of them. What nights vary by is all that builds can add.
    """
    known = [each for each in differences if each.build != each.against]
    excess = sum((each.change**2 - each.variance) / 2 for each in known)
    return max((PRIOR_DUETS * prior + excess) / (PRIOR_DUETS + len(known)), LEAST_VARIANCE)


def score(differences: Sequence[Difference], variance: float) -> float:
    """The mean of differences of one change in standard errors, with its sign.

    Args:
        differences: of one night each, at least one.
        variance: of a build's logarithm.
    """
    count = len(differences)
    builds = 1 / len({each.build for each in differences}) + 1 / len({each.against for each in differences})
    error = math.sqrt(variance * builds + sum(each.variance for each in differences) / count**2)
    return mean_change(differences) / error


def mean_change(differences: Sequence[Difference]) -> float:
    """The mean logarithm."""
    return statistics.fmean(each.change for each in differences)
