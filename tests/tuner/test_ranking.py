"""Measurements of one launch or local size predict those of other launches and local sizes of the kernel."""

import itertools
import math

import numpy as np
import pytest

from runtime.kernels.spec import Variant, variant
from tuner.ranking import Ranking, expected_gap, is_far_behind
from tuner.trial import DRIVERS_CHOICE, Candidate

SLOW, FAST, OTHER = variant(TILE=1), variant(TILE=2), variant(TILE=3)


def at(chosen: object, *size: int) -> Candidate:
    return Candidate(chosen, size or (8, 1, 1))  # type: ignore[arg-type]


def test_best_and_gap() -> None:
    ranking = Ranking()
    ranking.observe("a", at(SLOW), 200.0)
    ranking.observe("a", at(FAST), 100.0)
    ranking.observe("a", at(OTHER), math.inf)
    assert ranking.best("a", 5) == [at(FAST), at(SLOW)]
    assert ranking.gap("a", at(SLOW)) == pytest.approx(math.log(2))
    assert ranking.gap("a", at(OTHER)) == math.inf
    assert ranking.tried("a", at(OTHER)) and not ranking.tried("b", at(OTHER))
    assert ranking.best_over_default("a", at(SLOW)) == pytest.approx(0.5)
    assert ranking.best_over_default("b", at(SLOW)) == 1.0
    assert ranking.best_ns("b") == math.inf


def test_a_later_time_replaces_an_earlier_one_and_a_failure_both() -> None:
    ranking = Ranking()
    for candidate, ns in ((at(SLOW), 200.0), (at(FAST), 100.0), (at(FAST, 4), 150.0), (at(FAST), 180.0)):
        ranking.observe("a", candidate, ns)
    assert ranking.best("a", 3) == [at(FAST, 4), at(FAST), at(SLOW)]
    assert ranking.variant_penalty("a", SLOW) == pytest.approx(math.log(200 / 150))
    ranking.observe("a", at(FAST, 4), math.inf)
    ranking.observe("a", at(FAST), math.inf)
    assert ranking.best("a", 3) == [at(SLOW)] and ranking.tried_count("a") == 3
    assert (ranking.variant_penalty("a", FAST) or 0.0) > math.log(10)


def test_a_variants_penalty_comes_from_other_launches_until_it_is_measured() -> None:
    ranking = Ranking()
    for key in ("a", "b"):
        ranking.observe(key, at(SLOW), 300.0)
        ranking.observe(key, at(FAST), 100.0)
    assert ranking.variant_penalty("new", FAST) == 0.0
    assert ranking.variant_penalty("new", SLOW) == pytest.approx(math.log(3))
    assert ranking.variant_penalty("new", OTHER) is None


def test_a_launch_that_tried_only_variants_slow_elsewhere_adds_their_gap() -> None:
    ranking = Ranking()
    ranking.observe("a", at(SLOW), 300.0)
    ranking.observe("a", at(FAST), 100.0)
    ranking.observe("new", at(SLOW), 30.0)
    assert ranking.variant_penalty("new", SLOW) == pytest.approx(math.log(3))
    assert ranking.variant_penalty("new", FAST) == 0.0


def test_failing_variants_come_last() -> None:
    ranking = Ranking()
    ranking.observe("a", at(FAST), 100.0)
    ranking.observe("a", at(SLOW), math.inf)
    assert (ranking.variant_penalty("b", SLOW) or 0.0) > math.log(10)


def improvement(ranking: Ranking, *sizes: tuple[int, int, int], key: str = "a") -> np.ndarray:
    return ranking.expected_improvement(key, sizes, [0.0] * len(sizes))


def test_neighbours_of_a_good_local_size_have_more_expected_improvement() -> None:
    ranking = Ranking()
    ranking.observe("a", at(FAST, 8, 1, 1), 100.0)
    ranking.observe("a", at(FAST, 64, 1, 1), 200.0)
    near, far = improvement(ranking, (16, 1, 1), (128, 1, 1))
    assert near > far
    near, far = improvement(ranking, (16, 1, 1), (128, 1, 1), key="another launch")
    assert near > far


def test_measured_local_sizes_have_less_expected_improvement_than_unmeasured_ones() -> None:
    ranking = Ranking()
    ranking.observe("a", at(FAST, 8, 1, 1), 100.0)
    known, unknown = improvement(ranking, (8, 1, 1), (8, 16, 1))
    assert unknown > known


def test_guessed_costs_order_local_sizes_without_measurements() -> None:
    good, bad = Ranking().expected_improvement("a", [(8, 1, 1), (8, 2, 1)], [0.0, 1.0])
    assert good > bad


def test_the_drivers_choice_is_evidence_for_itself_only() -> None:
    ranking = Ranking()
    ranking.observe("a", at(FAST, 1, 1, 1), 100.0)
    ranking.observe("a", at(FAST, *DRIVERS_CHOICE), 400.0)
    with_choice = improvement(ranking, (2, 1, 1))
    without = Ranking()
    without.observe("a", at(FAST, 1, 1, 1), 100.0)
    assert with_choice == pytest.approx(improvement(without, (2, 1, 1)))


def test_no_sizes_give_an_empty_array() -> None:
    assert improvement(Ranking()).size == 0


WIDTHS, TILES = (4, 8, 16), (1, 4, 8)
EFFECT = {4: 1.2, 8: 0.6, 16: 0.0}


def gap(chosen: Variant) -> float:
    return EFFECT[chosen["WIDTH"]] + (0.3 if chosen["TILE"] == 1 else 0.0)


def tried(without: Variant) -> dict[Variant, float]:
    every = (variant(WIDTH=width, TILE=tile) for width, tile in itertools.product(WIDTHS, TILES))
    return {each: gap(each) for each in every if each != without}


def test_a_variant_of_slow_options_is_spared_and_one_of_fast_options_is_not() -> None:
    slow, fast = variant(WIDTH=4, TILE=8), variant(WIDTH=16, TILE=4)
    assert gap(slow) > math.log(1.6)
    assert is_far_behind(slow, tried(without=slow))
    assert not is_far_behind(fast, tried(without=fast))


def test_what_no_variant_has_shown_is_tried() -> None:
    known = tried(without=Variant())
    assert not is_far_behind(variant(WIDTH=32, TILE=4), known)
    assert not is_far_behind(variant(FMA=1), known)


def test_a_few_variants_say_nothing() -> None:
    slow = variant(WIDTH=4, TILE=8)
    assert not is_far_behind(slow, dict(itertools.islice(tried(without=slow).items(), 5)))


def test_options_say_which_variant_is_tried_next() -> None:
    """Those of which nothing is known come before those that were slow."""
    known = {variant(WIDTH=4, TILE=1): 1.5, variant(WIDTH=16, TILE=1): 0.3, variant(WIDTH=16, TILE=8): 0.0}
    waiting = [variant(WIDTH=4, TILE=8), variant(WIDTH=16, TILE=4)]
    assert sorted(waiting, key=lambda each: expected_gap(each, known)[0])[0] == variant(WIDTH=16, TILE=4)
    assert expected_gap(waiting[0], {}) == (0.0, 0.0)
