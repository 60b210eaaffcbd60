"""The quick search on played GPUs, whose best candidate of every launch is known (benchmarks/played_optimum.py)."""

import statistics

import pytest

from benchmarks.played_optimum import CLOSE, FULL_SIZE, NETWORKS, SMALL_SIZE, drawn, found
from farm.emulation.played_gpu import profile_names
from tests import opencl


@pytest.mark.slow
def test_the_quick_search_is_near_the_best_there_is() -> None:
    """In the median over GPUs and networks, and nowhere is what it chose slower than the default."""
    shipped = [profile for number in range(3) for profile in opencl.turn(number, profile_names()[number::3])]
    profiles = [*shipped, *(drawn(seed) for seed in (range(10) if opencl.EXHAUSTIVE else [opencl.TURN % 100]))]
    size = FULL_SIZE if opencl.EXHAUSTIVE else SMALL_SIZE
    results = [found(profile, network, size) for profile in profiles for network in NETWORKS]
    assert statistics.median(each.share for each in results) <= CLOSE
    assert all(each.chosen_ns <= 1.005 * each.default_ns for each in results)
