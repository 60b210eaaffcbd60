"""What is measured of one launch or size tells something of the others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from runtime.kernels.spec import variant
from tuner.ranking import Ranking
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
    assert ranking.share_left("a", at(SLOW)) == pytest.approx(0.5)
    assert ranking.share_left("b", at(SLOW)) == 1.0
    assert ranking.best_ns("b") == math.inf


def test_other_launches_tell_which_variants_are_good() -> None:
    ranking = Ranking()
    for key in ("a", "b"):
        ranking.observe(key, at(SLOW), 300.0)
        ranking.observe(key, at(FAST), 100.0)
    assert ranking.variant_penalty("new", FAST) == 0.0
    assert ranking.variant_penalty("new", SLOW) == pytest.approx(math.log(3))
    assert ranking.variant_penalty("new", OTHER) is None


def test_a_launch_that_tried_only_what_is_slow_elsewhere_expects_better() -> None:
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


def promise(ranking: Ranking, *sizes: tuple[int, int, int], key: str = "a") -> np.ndarray:
    return ranking.promise(key, sizes, [0.0] * len(sizes))


def test_neighbours_of_a_good_size_promise_more() -> None:
    ranking = Ranking()
    ranking.observe("a", at(FAST, 8, 1, 1), 100.0)
    ranking.observe("a", at(FAST, 64, 1, 1), 200.0)
    near, far = promise(ranking, (16, 1, 1), (128, 1, 1))
    assert near > far
    near, far = promise(ranking, (16, 1, 1), (128, 1, 1), key="another launch")
    assert near > far


def test_known_sizes_promise_less_than_unknown_ones() -> None:
    ranking = Ranking()
    ranking.observe("a", at(FAST, 8, 1, 1), 100.0)
    known, unknown = promise(ranking, (8, 1, 1), (8, 16, 1))
    assert unknown > known


def test_guesses_order_what_nothing_is_known_of() -> None:
    good, bad = Ranking().promise("a", [(8, 1, 1), (8, 2, 1)], [0.0, 1.0])
    assert good > bad


def test_the_drivers_choice_speaks_for_itself_only() -> None:
    ranking = Ranking()
    ranking.observe("a", at(FAST, 1, 1, 1), 100.0)
    ranking.observe("a", at(FAST, *DRIVERS_CHOICE), 400.0)
    with_choice = promise(ranking, (2, 1, 1))
    without = Ranking()
    without.observe("a", at(FAST, 1, 1, 1), 100.0)
    assert with_choice == pytest.approx(promise(without, (2, 1, 1)))


def test_nothing_to_promise() -> None:
    assert promise(Ranking()).size == 0
