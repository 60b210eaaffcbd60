"""What is kept of a unit is made once, for it alone, and goes with it."""

import gc
import weakref
from typing import Any, cast

import pytest

from farm.jobs.fleet.per_unit import PerUnit
from farm.jobs.fleet.unit import OpenUnit
from runtime.errors import DeviceLostError


class Closed:
    """Stands for a unit: only which one it is counts."""


def unit() -> OpenUnit:
    return cast(OpenUnit, Closed())


class Value:
    """What is kept."""


def test_each_unit_has_a_value_of_its_own_made_once() -> None:
    made: list[Any] = []
    kept = PerUnit(lambda opened: made.append(opened) or Value())
    one, other = unit(), unit()
    assert kept.of(one) is kept.of(one) is not kept.of(other)
    assert made == [one, other]


def test_a_value_goes_with_its_unit() -> None:
    kept = PerUnit(lambda opened: Value())
    opened = unit()
    value = weakref.ref(kept.of(opened))
    assert value() is not None
    del opened
    gc.collect()
    assert value() is None


def test_what_could_not_be_made_is_tried_again() -> None:
    answers = iter([DeviceLostError("gone"), Value()])

    def make(opened: OpenUnit) -> Value:
        answer = next(answers)
        if isinstance(answer, DeviceLostError):
            raise answer
        return answer

    kept, opened = PerUnit(make), unit()
    with pytest.raises(DeviceLostError):
        kept.of(opened)
    assert isinstance(kept.of(opened), Value)
