"""Variants that are predicted by their options: what is far behind is not built, what is unknown is tried."""

from __future__ import annotations

import itertools
import math

from runtime.kernels.spec import Variant, variant
from tuner.option_effects import is_far_behind

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
