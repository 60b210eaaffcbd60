"""Scheduling is values in, values out: tested with simulated units."""

import heapq
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.jobs.fleet.schedule import Schedule, UnitTask


def makespan(costs: list[float], units: int) -> float:
    """When the last task ends, on units that are always there."""
    names = [str(index) for index in range(units)]
    schedule = Schedule([UnitTask(index, names, cost) for index, cost in enumerate(costs)])
    free = [(0.0, name) for name in names]
    ends = [0.0]
    while free:
        now, name = heapq.heappop(free)
        task = schedule.take(name)
        if task:
            schedule.done(task)
            ends.append(now + task.cost)
            heapq.heappush(free, (now + task.cost, name))
    return max(ends)


def best_makespan(costs: list[float], units: int) -> float:
    """By trying everything."""
    assignments = itertools.product(range(units), repeat=len(costs))
    return min(
        max(sum(c for c, u in zip(costs, one, strict=True) if u == unit) for unit in range(units))
        for one in assignments
    )


@pytest.mark.slow
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=7), st.integers(1, 3))
def test_the_last_task_ends_as_graham_promised(costs: list[float], units: int) -> None:
    assert makespan(costs, units) <= (4 / 3) * best_makespan(costs, units) + 1e-9


def test_tasks_of_equal_cost_keep_their_order() -> None:
    schedule = Schedule([UnitTask(name, ["a"]) for name in "xyz"])
    assert [task.work for _ in "xyz" if (task := schedule.take("a"))] == ["x", "y", "z"]


def test_what_only_one_unit_can_do_goes_first() -> None:
    schedule = Schedule([UnitTask("any", ["a", "b"], 9), UnitTask("mine", ["a"], 1)])
    task = schedule.take("a")
    assert task and task.work == "mine"


def test_a_task_that_comes_back_is_the_next_and_another_unit_may_take_it() -> None:
    schedule = Schedule([UnitTask("first", ["a", "b"]), UnitTask("second", ["a", "b"])])
    task = schedule.take("a")
    assert task
    schedule.put_back(task)
    schedule.drop("a")
    again = schedule.take("b")
    assert again is task
    assert schedule.may_have("b")
    assert not schedule.may_have("a")


def test_a_unit_that_goes_leaves_its_own_tasks_to_nobody() -> None:
    schedule = Schedule([UnitTask("own", ["a"]), UnitTask("shared", ["a", "b"])])
    assert [task.work for task in schedule.drop("a")] == ["own"]
    assert [task.work for task in schedule.drop("b")] == ["shared"]


def test_a_running_task_may_come_back_so_that_its_units_wait() -> None:
    schedule = Schedule([UnitTask("one", ["a", "b"])])
    task = schedule.take("a")
    assert task
    assert schedule.take("b") is None
    assert schedule.may_have("b")
    schedule.done(task)
    assert not schedule.may_have("b")


def test_nothing_begins_after_a_stop() -> None:
    schedule = Schedule([UnitTask("one", ["a"]), UnitTask("two", ["a"])])
    schedule.take("a")
    assert [task.work for task in schedule.stop()] == ["two"]
    assert schedule.take("a") is None
