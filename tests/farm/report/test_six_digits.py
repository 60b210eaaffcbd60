"""Figures of charts have six digits, rounded as decimal arithmetic rounds them."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from farm.report.charts import _figures
from farm.report.figures import all_six_digits, six_digits
from farm.rows.series import trimmed_mean

drawn = random.Random(1)
LONG = [drawn.uniform(1, 10) * 10.0 ** drawn.randint(-12, 12) for _ in range(3000)]
HALVES = [round(drawn.uniform(0.1, 1), 6) * 10.0**exponent + 5 * 10.0 ** (exponent - 7) for exponent in range(-5, 9)]
EDGES = [0.0, -0.0, 1.0, 1e-30, 1e30, 5e-324, 1.7e308, 999999.5, 1e6, 1234565.0, 12.34565, 0.1234565, 9.9999995, -2.5]


@pytest.mark.parametrize("values", [LONG, HALVES * 50, EDGES, [round(value, 3) for value in LONG if value < 1e6]])
def test_many_figures_are_rounded_as_each_alone(values: list[float]) -> None:
    singly, together = list(map(six_digits, values)), all_six_digits(np.array(values))
    assert together == singly
    assert [math.copysign(1, value or 0.0) for value in together] == [
        math.copysign(1, value or 0.0) for value in singly
    ]


def test_what_is_no_number_has_no_figure() -> None:
    assert all_six_digits(np.array([math.nan, 1.23456789, math.inf, -math.inf])) == [None, 1.23457, None, None]
    assert six_digits(None) is six_digits(math.nan) is None and all_six_digits(np.empty(0)) == []


@pytest.mark.parametrize("odd", [(), (math.nan, 1.0), (math.inf,), (2.0, -math.inf, 3.0)])
def test_a_nights_figure_is_its_trimmed_mean_between_its_ends(odd: tuple[float, ...]) -> None:
    nights = [(3.0,), tuple(LONG[:2]), tuple(LONG[:3]), tuple(LONG[:11]), odd, ()]
    value, low, high = (each.tolist() for each in _figures(nights))
    known = nights[:4]
    assert value[:4] == pytest.approx(list(map(trimmed_mean, known)), rel=1e-14)
    assert (low[:4], high[:4]) == (list(map(min, known)), list(map(max, known)))
    assert all(math.isnan(each[-1]) for each in (value, low, high))
    assert [each.tolist() for each in _figures([])] == [[], [], []]
