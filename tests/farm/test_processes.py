"""Very many values are worked on by several processes, few by this one; results are in order."""

import gc
import os
import threading
from collections.abc import Iterator

import pytest

from farm.processes import COLLECTED_AFTER, each_result


def squared_in(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def threshold(number: int) -> int:
    return gc.get_threshold()[0]


def failing(number: int) -> int:
    raise ValueError(f"no {number}")


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 1)


def results(count: int, least: int) -> tuple[list[int], set[int]]:
    found = list(each_result(squared_in, range(count), count, least))
    return [square for square, _ in found], {process for _, process in found}


@pytest.mark.slow
def test_many_are_shared_out_in_order(two_cores: None) -> None:
    squares, processes = results(200, 100)
    assert squares == [number * number for number in range(200)]
    assert os.getpid() not in processes


def test_few_are_done_here(two_cores: None) -> None:
    assert results(20, 100) == ([number * number for number in range(20)], {os.getpid()})


def test_nothing_is_forked_beside_other_threads(two_cores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert results(200, 100)[1] == {os.getpid()}


@pytest.mark.slow
def test_an_error_comes_through(two_cores: None) -> None:
    def each() -> Iterator[int]:
        yield from each_result(failing, range(200), 200, 100)

    with pytest.raises(ValueError, match="no 0"):
        list(each())


@pytest.mark.slow
def test_garbage_is_rarely_looked_for_meanwhile_and_as_before_afterwards(two_cores: None) -> None:
    before = gc.get_threshold()
    assert set(each_result(threshold, range(200), 200, 100)) == {COLLECTED_AFTER}
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0
    list(each_result(threshold, range(20), 20, 100))
    assert gc.get_threshold() == before
