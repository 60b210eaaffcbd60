"""The quick search on played GPUs, whose best candidate of every launch is known (benchmarks/played_optimum.py)."""

import statistics

import pytest

from benchmarks.played_choice import chosen
from benchmarks.played_idioms import dot8, played_gpu, subgroups
from benchmarks.played_optimum import CLOSE, FULL_SIZE, NETWORKS, SMALL_SIZE, drawn, found
from farm.emulation.played_gpu import profile_names
from farm.jobs.opbench_cases import CASES
from runtime.lowering.trials import trial_plan
from tests import opencl

LAYER = "Conv_1x256x28x28_K1x1S1x1D1x1G1_256_int8"


@pytest.mark.slow
def test_the_quick_search_is_near_the_best_there_is() -> None:
    """In the median over GPUs and networks, and nowhere is what it chose slower than the default."""
    shipped = [profile for number in range(3) for profile in opencl.turn(number, profile_names()[number::3])]
    profiles = [*shipped, *(drawn(seed) for seed in (range(10) if opencl.EXHAUSTIVE else [opencl.TURN % 100]))]
    size = FULL_SIZE if opencl.EXHAUSTIVE else SMALL_SIZE
    results = [found(profile, network, size) for profile in profiles for network in NETWORKS]
    assert statistics.median(each.share for each in results) <= CLOSE
    assert all(each.chosen_ns <= 1.005 * each.default_ns for each in results)


@pytest.mark.slow
def test_one_local_size_that_does_not_suit_condemns_no_variant() -> None:
    """The fastest depthwise variant there is slow in the first local size that is tried of it."""
    assert found(drawn(82003), "mobilenet_v1").share < 1.15


@pytest.mark.slow
@pytest.mark.parametrize("profile", profile_names())
def test_a_plan_by_what_is_typical_of_a_generation_is_near_the_best(profile: str) -> None:
    """By costs of a whole family one on an Adreno 505 took twice the best plan's time."""
    plan = chosen(profile, "squeezenet_v11")
    assert plan.all <= 1.35 * plan.best
    assert 0.5 <= plan.promised / plan.all <= 1.5


@pytest.mark.slow
def test_what_a_gpu_has_instructions_for_takes_less_time() -> None:
    """Products of bytes, a quarter of them, though no less is moved; sums of a wave, without a barrier."""
    assert 0.25 < (dot8(played_gpu("mali-g78")) or 1) < 0.9
    assert (subgroups(played_gpu("adreno640")) or 1) < 0.9
    assert dot8(played_gpu("mali-g72")) is subgroups(played_gpu("mali-g72")) is None


def test_what_lies_in_bytes_is_moved_as_such() -> None:
    gpu = played_gpu("mali-g52")
    graph = next(case for case in CASES if case.name == LAYER).graph()
    layer = next(each for each in trial_plan([graph], gpu.target).launches if "WEIGHT_BITS" in each.defines)
    ns = [
        gpu.best_ns(layer, lambda *_: True, further) for further in (" -DWEIGHT_BITS=0", "", " -DBYTES=4", " -DBYTES=5")
    ]
    assert ns == sorted(ns, reverse=True) and len(set(ns)) == len(ns)
