"""What runs before a timed launch: much memory for little arithmetic, and nothing that spoils another trial."""

from __future__ import annotations

import dataclasses

from runtime.lowering.trials import TrialLaunch
from tests.tuner.simulated_device import CONV, launch
from tuner.surroundings import MOST_LAUNCHES, SWEEP_BYTES, launches_before


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
