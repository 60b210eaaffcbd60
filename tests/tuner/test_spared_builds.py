"""Where builds take long, fewer are made; where a local size costs none, more sizes are tried."""

from __future__ import annotations

import pytest

from tests.tuner.simulated_device import LAUNCHES, SimulatedDevice
from tests.tuner.test_search import best_ns, expand, model_ns
from tuner.device_pool import pool_of_one
from tuner.journal import Journal
from tuner.search import LEVELS, SearchResult, search
from tuner.trial_runner import TrialRunner

CONVS = LAUNCHES[:6]


def quick(device: SimulatedDevice) -> tuple[SearchResult, TrialRunner]:
    runner = TrialRunner(pool_of_one(device), Journal(None, "f"))
    return search(CONVS, expand, runner, LEVELS["quick"]), runner


@pytest.mark.slow
@pytest.mark.parametrize("each_size", [True, False])
def test_trials_tell_whether_a_local_size_costs_a_build(each_size: bool) -> None:
    _, runner = quick(SimulatedDevice(builds_each_size=each_size))
    assert runner.builds_each_size == each_size


@pytest.mark.slow
def test_sizes_that_cost_no_build_are_tried_in_larger_numbers() -> None:
    (_, costly), (found, free) = quick(SimulatedDevice()), quick(SimulatedDevice(builds_each_size=False))
    assert len(free.programs) > 1.3 * len(costly.programs)
    assert model_ns(found) < 1.06 * best_ns(CONVS)


@pytest.mark.slow
def test_long_builds_are_spared_by_what_options_have_shown() -> None:
    (_, short), (found, long) = quick(SimulatedDevice(build_s=0.1)), quick(SimulatedDevice(build_s=0.5))
    options = [len({options for options, _ in runner.programs}) for runner in (short, long)]
    assert options[1] < options[0]
    assert model_ns(found) < 1.15 * best_ns(CONVS)
