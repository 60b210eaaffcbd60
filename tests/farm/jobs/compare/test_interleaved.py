"""Fresh processes in turns: how many turns each has, and what their ratio says of a unit that changes its speed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from farm.farmrt.answers import LoadAnswer
from farm.jobs.compare import interleaved
from farm.jobs.compare.interleaved import DEFAULTS, LEAST_LOOK, Effort, PlanMeasurement, Rehearsed, measure_in_turns
from farm.rows.row import Throttling

TURNS = 8


def measured(processes_ms: np.ndarray) -> PlanMeasurement:
    return PlanMeasurement(
        cast(LoadAnswer, None), 1.0, {}, tuple(tuple(map(float, process)) for process in processes_ms)
    )


@pytest.mark.parametrize(
    ("round_ms", "turns", "rounds"), [(0.0, 8, 10), (1.0, 8, 10), (7.0, 8, 2), (25.0, 5, 1), (70.0, 2, 1), (9e3, 2, 1)]
)
def test_short_rounds_take_more_turns(round_ms: float, turns: int, rounds: int) -> None:
    effort = Effort()
    assert (effort.turns_of(round_ms), effort.rounds(round_ms)) == (turns, rounds)


@pytest.mark.parametrize(("round_ms", "seconds"), [(10.0, (2 + 8 * (1 + 2)) * 0.01), (9e3, (1 + 2) * 9.0)])
def test_a_process_is_known_to_take_its_rounds_and_those_that_warm_up(round_ms: float, seconds: float) -> None:
    assert Effort().process_s(round_ms) == pytest.approx(seconds)


def test_no_process_has_more_turns_than_asked_for() -> None:
    assert Effort(turns=1).turns_of(1.0) == 1


def test_a_process_is_compared_turn_by_turn() -> None:
    """The unit is 2.5 times slower in some turns, for both of a pair: that is no part of their ratio."""
    random = np.random.default_rng(3)
    states = random.choice([1.0, 2.5], (12, TURNS))
    own = 10.3 * states * np.exp(0.02 * random.normal(size=states.shape))
    other = 10.0 * states * np.exp(0.02 * random.normal(size=states.shape))
    ratio = measured(own).over(measured(other))
    assert ratio and ratio.low <= 1.03 <= ratio.high
    assert ratio.high - ratio.low < 0.03


def test_too_few_processes_have_no_ratio() -> None:
    few = measured(np.full((4, TURNS), 10.0))
    assert few.over(few) is None


@pytest.mark.parametrize("number", [0, 1])
def test_processes_load_together_after_the_first_ones(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a start takes is told of the first ones, which load one after the other."""
    log: list[str] = []

    @contextlib.contextmanager
    def loading(_: Any, __: Any, way: Any) -> Iterator[Any]:
        log.append(f"begin {way.name}")
        yield SimpleNamespace(name=way.name, read_outputs=lambda _: {}), lambda: log.append(f"loaded {way.name}")

    def in_turns(units: Any, *_: Any) -> list[list[Any]]:
        log.extend(each.name for each in units)
        return [[], []]

    monkeypatch.setattr(interleaved, "_loading", loading)
    monkeypatch.setattr(interleaved, "in_turns", in_turns)
    ways = [SimpleNamespace(name=name, plan=SimpleNamespace(plan=None)) for name in "ab"]
    rehearsed = cast(Any, SimpleNamespace(_opened=None, _plan_file=None, ways=ways, _slowest_ms=1.0))
    rehearsed._first_ms = lambda *_: 1.0
    Rehearsed._one_process_each(rehearsed, Effort(), number, cast(Any, [None, None]))
    one_by_one, together = (
        ["begin a", "loaded a", "begin b", "loaded b"],
        ["begin b", "begin a", "loaded b", "loaded a"],
    )
    assert log == [*(together if number else one_by_one), "a", "b"]


@pytest.mark.parametrize(("settled_from", "count"), [(1, LEAST_LOOK), (LEAST_LOOK + 2, LEAST_LOOK + 2), (99, 12)])
def test_no_process_is_started_after_the_ratios_have_settled_it(
    settled_from: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[float]] = []

    def is_settled(ways: Any) -> bool:
        seen.append([round(pairs[0], 6) for pairs in ways])
        return LEAST_LOOK + len(seen) > settled_from

    def cool(processes: Callable[[], Any], rest: None) -> tuple[Any, Throttling]:
        return processes(), Throttling()

    start = SimpleNamespace(load=None, first_ms=1.0, outputs={})
    rehearsal = SimpleNamespace(files=DEFAULTS, start=start, round_ms=1.0)
    monkeypatch.setattr(Rehearsed, "_rehearse", lambda *_: rehearsal)
    monkeypatch.setattr(Rehearsed, "_one_process_each", lambda *_: [(2.0,), (4.0,), (1.0,)])
    opened, effort = cast(Any, SimpleNamespace(cool=cool)), Effort(is_settled=is_settled)
    (first, *_), _ = measure_in_turns(opened, cast(Any, None), [DEFAULTS] * 3, cast(Any, None), effort)
    assert len(first.processes_ms) == count
    assert all(each == [0.5, 0.25] for each in seen), "of the last to each other one"
