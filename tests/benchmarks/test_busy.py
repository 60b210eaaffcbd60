"""The benchmark beside busy processes stops those that it does not want, and divides by the right times."""

from __future__ import annotations

import pytest

from benchmarks.busy import Beside, BusyProcesses, slowdowns
from benchmarks.interleaving import measure_interleaved
from runtime.statistics.ratios import MINIMUM_ROUNDS


class Processes(BusyProcesses):
    """No processes, but how many are to go on."""

    def __init__(self) -> None:
        self.going_on = 0

    def go_on(self, count: int) -> None:
        self.going_on = count


class Slowed:
    """An engine whose rounds take so many milliseconds more for each busy process."""

    def __init__(self, name: str, more_ms: float, processes: Processes) -> None:
        self.name, self._more_ms, self._processes = name, more_ms, processes

    def turn(self, rounds: int, warmup: int) -> list[float]:
        return [10.0 + self._more_ms * self._processes.going_on] * rounds


def test_slow_downs_are_over_the_same_engine_and_beside_the_references() -> None:
    processes = Processes()
    engines = [Slowed("reference", 10.0, processes), Slowed("cpu", 20.0, processes)]
    lanes = [Beside(engine, processes, busy) for engine in engines for busy in (0, 1, 2)]
    measured = measure_interleaved(lanes, MINIMUM_ROUNDS, 1e9)
    keys = [(lane.name, lane.busy) for lane in lanes]
    *_, none, one, two = slowdowns("net", 2, dict(zip(keys, measured, strict=True)))
    assert (none.mean_ms, none.slowdown) == (10.0, None)
    assert one.slowdown and one.slowdown.value == pytest.approx(3.0)
    assert two.beside_onnxruntime and two.beside_onnxruntime.value == pytest.approx(5.0 / 3.0)
    assert processes.going_on == 0
