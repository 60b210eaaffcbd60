"""The proof of a tuning on equals: how often its intervals cover 1, and how often chance alone publishes a table."""

from __future__ import annotations

import numpy as np
import pytest

from farm.jobs.compare.interleaved import Effort
from farm.jobs.tune.proof import tuning_outcome
from farm.rows.row import Ending, Throttling
from farm.rows.status import Status
from farm.rows.tune import TuneOutcome
from tuner.statistics import Ratio, ratio_of_pairs

TRIES = 1000
PROCESSES = Effort().processes
WELL, COOL = Ending(status=Status.OK), Throttling()


def three_ways(kind: str, size: float, gain: float = 0.0) -> list[tuple[Ratio, Ratio]]:
    """New over default and over the table in force, which take turns: processes differ by their size, minutes drift."""
    random = np.random.default_rng(int(1000 * size))
    drift = random.normal(0, 0.05, (TRIES, 1, PROCESSES))
    shape = (TRIES, 3, PROCESSES)
    effects = random.normal(0, 1, shape) if kind == "normal" else random.standard_t(3, shape) / 3**0.5
    times = np.exp(drift + size * effects + random.normal(0, 0.002, shape))
    times[:, 2] *= 1 - gain
    found = [(ratio_of_pairs(new, default), ratio_of_pairs(new, in_force)) for default, in_force, new in times.tolist()]
    return [(one, other) for one, other in found if one and other]


@pytest.mark.parametrize("kind", ["normal", "heavy tails"])
@pytest.mark.parametrize("size", [0.0, 0.005, 0.01, 0.02])
def test_equals_are_hardly_ever_published_and_intervals_are_honest(kind: str, size: float) -> None:
    tries = three_ways(kind, size)
    assert len(tries) == TRIES
    for which in range(2):
        covered = sum(each[which].low <= 1.0 <= each[which].high for each in tries)
        assert 0.93 <= covered / TRIES <= 0.975
    published = [tuning_outcome(True, WELL, COOL, *each)[0] == TuneOutcome.NEW for each in tries]
    assert sum(published) / TRIES < 0.02
    alone = [tuning_outcome(True, WELL, COOL, gain, None)[0] == TuneOutcome.NEW for gain, _ in tries]
    assert sum(alone) / TRIES < 0.04, "against the default alone: one end of a 95 % interval"


def test_a_gain_of_three_percent_among_processes_that_differ_by_one_is_published() -> None:
    published = [
        tuning_outcome(True, WELL, COOL, *each)[0] == TuneOutcome.NEW for each in three_ways("normal", 0.01, 0.03)
    ]
    assert sum(published) / TRIES > 0.9
