"""Default against tuned: two farmrt on one unit run a model in turns, so that what disturbs one disturbs the other."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from farm.condition.throttling import RetryPolicy
from farm.config.execution import DEFAULT, Execution
from farm.farmrt.answers import LoadAnswer
from farm.jobs.fleet.unit import OpenUnit, rounds_deadline_s
from farm.jobs.models.prepare import TestData
from farm.rows.latency import Latency
from farm.rows.row import Throttling
from runtime.plan.plan import Plan
from tuner.statistics import Ratio, ratio_of_medians

_CONFIDENCE = 0.95
NS_PER_MS = 1e6

Array = npt.NDArray[Any]
Turns = tuple[list[list[float]], list[list[float]]]


@dataclasses.dataclass(frozen=True)
class TunedFiles:
    """A model's plan, as it lies in its file, and the artifacts that shall be better than none."""

    plan: Plan
    plan_file: Path
    tuned_file: Path
    kernels_file: Path | None
    limit_kernel_time: bool = False
    execution: Execution = DEFAULT


@dataclasses.dataclass(frozen=True)
class Effort:
    """How many turns each of the two gets; rounds of a turn aim at `turn_ms`, at most `most_rounds` of them."""

    turns: int = 16
    turn_ms: float = 60.0
    most_rounds: int = 10

    def rounds(self, round_ms: float) -> int:
        """Rounds of a turn, where one takes so long."""
        return min(max(int(self.turn_ms / max(round_ms, 1e-6)), 1), self.most_rounds)


@dataclasses.dataclass(frozen=True)
class TunedComparison:
    """Wall time of a model's rounds by default and tuned, and what the tuned one wrote.

    `ratio` is tuned over default. `tuned_load` is farmrt's answer to loading both files, `default_load` to none.
    """

    default_ms: Latency
    tuned_ms: Latency
    ratio: Ratio
    first_ms: float
    tuned_load: LoadAnswer
    default_load: LoadAnswer
    outputs: Mapping[str, Array]
    throttling: Throttling


def compare(
    opened: OpenUnit, files: TunedFiles, data: TestData, effort: Effort | None = None, rest: RetryPolicy | None = None
) -> TunedComparison:
    """Loads a model twice, without and with its artifacts, and runs both in turns."""
    effort = effort or Effort()
    with opened.twin() as other:
        limited, execution = files.limit_kernel_time, files.execution
        default_load = opened.load(files.plan_file, limit_kernel_time=limited, execution=execution)
        artifacts = files.tuned_file, files.kernels_file
        tuned_load = other.load(files.plan_file, *artifacts, limited, execution=execution)
        _, default_ms = first_rounds(opened, data.inputs)
        first_ms, tuned_ms = first_rounds(other, data.inputs)
        slower_ms = max(default_ms, tuned_ms)
        rounds = effort.rounds(slower_ms)
        samples, throttling = opened.cool(lambda: in_turns(opened, other, effort.turns, rounds, slower_ms), rest)
        outputs = other.read_outputs(files.plan)
    ratio = ratio_of_medians(samples[1], samples[0], _CONFIDENCE)
    assert ratio is not None, "there are enough turns"
    default, tuned = (Latency.of(list(itertools.chain.from_iterable(turns))) for turns in samples)
    return TunedComparison(default, tuned, ratio, first_ms, tuned_load, default_load, outputs, throttling)


def first_rounds(opened: OpenUnit, inputs: Mapping[str, Array]) -> tuple[float, float]:
    """Brings the inputs; time of the very first round, and of one after it, in ms."""
    opened.write_inputs(inputs)
    first = opened.first_round()
    second = opened.first_round()
    return first.very_first_ms, second.wall_ns[0] / NS_PER_MS


def in_turns(one: OpenUnit, other: OpenUnit, turns: int, rounds: int, round_ms: float, first: int = 0) -> Turns:
    """Rounds in ms of each of the two, turn by turn; who goes first alternates, beginning with `first` (0 or 1)."""
    samples: Turns = ([], [])
    deadline_s = rounds_deadline_s(rounds + 1, round_ms)
    both = list(zip((one, other), samples, strict=True))
    for turn in range(first, first + turns):
        for opened, turns_of_unit in both if turn % 2 == 0 else both[::-1]:
            answer = opened.session.run(rounds, deadline_s, warmup=1)
            turns_of_unit.append([ns / NS_PER_MS for ns in answer.wall_ns])
    return samples
