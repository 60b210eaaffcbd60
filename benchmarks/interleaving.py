"""Measures contenders in turns (round-robin, the first rotates), so that disturbances affect all; failures are told."""

import contextlib
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from farm.jobs.compare.interleaved import warmup_rounds
from runtime.errors import FarmError
from runtime.statistics.ratios import MINIMUM_ROUNDS, ratio_of_pairs

TURN_MS = 60.0  # rounds of a turn aim at so much time
MOST_ROUNDS = 10


class Contender(Protocol):
    """Something that can run a model many times."""

    name: str

    def turn(self, rounds: int, warmup: int) -> list[float]:
        """Wall time of each round in ms, those of the warm-up left out."""


class Late:
    """A contender that is made for its first turn: one that refuses the model fails alone."""

    def __init__(self, name: str, make: Callable[[], Contender]) -> None:
        self.name = name
        self._make = make
        self._made: Contender | None = None

    def turn(self, rounds: int, warmup: int) -> list[float]:
        """See Contender."""
        self._made = self._made or self._make()
        return self._made.turn(rounds, warmup)


class ContenderTimes:
    """A contender's times so far, in ms, turn by turn; `reason` says why they ended early, if they did."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self.turns: list[list[float]] = []
        self._failures = Failures()
        self._rounds, self._warmup = 1, 1
        with self._failures.recorded(contender.name):
            self._calibrate()

    @property
    def reason(self) -> str:
        return "; ".join(self._failures.lines)

    def take_turn(self) -> None:
        """Measures one turn; does nothing for a contender that failed."""
        if not self.reason:
            with self._failures.recorded(self.contender.name):
                self.turns.append(self.contender.turn(self._rounds, self._warmup))

    def _calibrate(self) -> None:
        round_ms = min(self.contender.turn(2, 1))
        self._rounds = min(max(int(TURN_MS / round_ms), 1), MOST_ROUNDS)
        self._warmup = warmup_rounds(round_ms)


def beside(own: ContenderTimes, other: ContenderTimes) -> str:
    """Medians in ms, and the first's time over the other's with the 95 % interval of the ratio in pairs of turns."""
    own_ms, other_ms = ([statistics.median(turn) for turn in lane.turns] for lane in (own, other))
    ratio = ratio_of_pairs(own_ms, other_ms)
    interval = f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})" if ratio else "-"
    name = other.contender.name
    return f"{statistics.median(own_ms):.2f} ms, {name} {statistics.median(other_ms):.2f} ms: {interval}"


def measure_interleaved(
    contenders: Sequence[Contender], turns: int, limit_s: float, clock: Callable[[], float] = time.monotonic
) -> list[ContenderTimes]:
    """Lets each contender take `turns` turns, fewer (but enough for an interval) once `limit_s` seconds have passed."""
    lanes = [ContenderTimes(contender) for contender in contenders]
    start_s = clock()
    for turn in range(turns):
        if turn >= MINIMUM_ROUNDS and clock() - start_s > limit_s:
            break
        first = turn % max(len(lanes), 1)
        for lane in [*lanes[first:], *lanes[:first]]:
            lane.take_turn()
    return lanes


class Failures:
    """The failures so far, a line each."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextlib.contextmanager
    def recorded(self, stage: str) -> Iterator[None]:
        """Ends the block at an error and keeps its reason. One that is no FarmError is a mistake of ours: it is kept as
        well, since the other figures of a long run are still good, and its traceback is printed.
        """
        try:
            yield
        except FarmError as error:
            self.lines.append(f"{stage}: {one_line(str(error))}")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self.lines.append(f"{stage}: {type(error).__name__}: {one_line(str(error))}")


def one_line(text: str) -> str:
    return " ".join(text.split())
