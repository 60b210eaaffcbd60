import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tuner.simulated_device import CONV, TARGET, launch
from tuner import space
from tuner.trial import DRIVERS_CHOICE, Candidate


def test_default_is_always_a_candidate() -> None:
    odd = dataclasses.replace(launch(CONV, 49, 7, 10), local_size=(13, 1, 1))
    assert Candidate(odd.variant, (13, 1, 1)) in space.candidate_costs(odd, TARGET)


def test_every_fitting_variant_has_the_drivers_choice_and_others() -> None:
    found = space.candidate_costs(launch(CONV, 196, 64, 64), TARGET)
    for variant in CONV.variants:
        sizes = {each.local_size for each in found if each.variant == variant}
        assert DRIVERS_CHOICE in sizes
        assert len(sizes) > 5


def test_variant_that_does_not_fit_is_left_out() -> None:
    narrow = dataclasses.replace(CONV, fits=lambda dims, variant, target: "too wide" if variant["BLOCK"] > 8 else "")
    found = space.candidate_costs(launch(narrow, 196, 64, 64), TARGET)
    assert {each.variant["BLOCK"] for each in found} == {4, 8}


def test_default_local_size_of_each_variant_is_a_candidate() -> None:
    kernel = dataclasses.replace(CONV, local_size=lambda dims, variant, target: (variant["PIXELS"], 3))
    found = space.candidate_costs(launch(kernel, 196, 64, 64), TARGET)
    assert all(Candidate(variant, (variant["PIXELS"], 3, 1)) in found for variant in CONV.variants)


def test_where_a_driver_shares_one_axis_among_cores_it_stays_that_of_the_default() -> None:
    rows = dataclasses.replace(CONV, local_size=lambda dims, variant, target: (1, 64), variants=CONV.variants[:1])
    shared, free = (
        {each.local_size for each in space.candidate_costs(launch(rows, 196, 64, 64), target)}
        for target in (dataclasses.replace(TARGET, gpu_family="cpu-avx512"), TARGET)
    )
    assert {(1, 64, 1), (2, 8, 1)} <= shared and (64, 1, 1) in free - shared
    assert len(shared) < 0.8 * len(free)


def test_all_three_dimensions_vary() -> None:
    sizes = space.local_sizes((28, 28, 16), TARGET)
    for axis in range(3):
        assert len({size[axis] for size in sizes}) > 3


def test_local_sizes_include_divisors_and_preferred_multiples() -> None:
    sides = {size[0] for size in space.local_sizes((196, 1, 1), TARGET, preferred_multiple=24)}
    assert {1, 2, 64, 49, 98, 24, 48} <= sides
    assert 7 not in {size[0] for size in space.local_sizes((56, 1, 1), TARGET)}, "8 divides 56 as well"


@pytest.mark.parametrize("items", [(1,), (1, 1, 1), (2, 3)])
def test_even_tiny_launches_have_a_legal_local_size(items: tuple[int, ...]) -> None:
    assert space.local_sizes(items, TARGET)


counts = st.integers(1, 3000)


@pytest.mark.slow
@given(st.tuples(counts, counts, counts), st.sampled_from([1, 2, 16]), st.sampled_from([64, 256, 1000]))
def test_local_sizes_are_legal_and_worth_it(items: tuple[int, int, int], units: int, largest: int) -> None:
    limits = (largest, largest, 64)
    target = dataclasses.replace(TARGET, compute_units=units, max_work_group_size=largest, max_work_item_sizes=limits)
    sizes = space.local_sizes(items, target, 32)
    assert sizes
    assert len(sizes) == len(set(sizes))
    for size in sizes:
        assert math.prod(size) <= largest
        assert all(1 <= side <= limit for side, limit in zip(size, limits, strict=True))
        groups = math.prod(-(-count // side) for count, side in zip(items, size, strict=True))
        assert groups >= min(units, math.prod(items))
        assert groups * math.prod(size) <= 2 * math.prod(items)


def test_guessed_cost_is_lowest_without_waste_and_with_even_groups() -> None:
    def cost(size: tuple[int, int, int]) -> float:
        return space.local_cost((56, 16, 1), size, compute_units=2, preferred_multiple=0)

    assert cost((8, 4, 1)) < cost((9, 4, 1))
    assert space.local_cost((3, 1, 1), (1, 1, 1), 2, 0) > space.local_cost((4, 1, 1), (1, 1, 1), 2, 0)


def test_idle_lanes_raise_the_guessed_cost() -> None:
    assert space.local_cost((64, 64, 1), (8, 2, 1), 4, 32) > space.local_cost((64, 64, 1), (8, 4, 1), 4, 32)
