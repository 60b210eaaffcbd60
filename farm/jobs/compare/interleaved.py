"""Default against tuned: two farmrt on one unit run a model in turns, so that what disturbs one disturbs the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from farm.condition.throttling import RetryPolicy
from farm.farmrt.session import Answer
from farm.jobs.fleet.unit import FIRST_ROUND_DEADLINE_S, OpenUnit, rounds_deadline_s
from farm.jobs.models.prepare import TestData
from farm.rows.row import Latency
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
class Comparison:
    """Wall time of a model's rounds by default and tuned, and what the tuned one wrote.

    `ratio` is tuned over default; `heat` tells whether the unit was throttled. `answer` is farmrt's to loading both
    files, `default_answer` to loading none.
    """

    default_ms: Latency
    tuned_ms: Latency
    ratio: Ratio
    first_ms: float
    answer: Answer
    default_answer: Answer
    outputs: Mapping[str, Array]
    heat: Mapping[str, Any]


def compare(
    opened: OpenUnit, files: TunedFiles, data: TestData, effort: Effort | None = None, rest: RetryPolicy | None = None
) -> Comparison:
    """Loads a model twice, without and with its artifacts, and runs both in turns."""
    effort = effort or Effort()
    with opened.twin() as other:
        default_answer = opened.load(files.plan_file, limit_kernel_time=files.limit_kernel_time)
        answer = other.load(files.plan_file, files.tuned_file, files.kernels_file, files.limit_kernel_time)
        _, default_ms = first_rounds(opened, data.inputs)
        first_ms, tuned_ms = first_rounds(other, data.inputs)
        slower_ms = max(default_ms, tuned_ms)
        rounds = effort.rounds(slower_ms)
        samples, heat = opened.cool(lambda: in_turns(opened, other, effort.turns, rounds, slower_ms), rest)
        outputs = other.read_outputs(files.plan)
    ratio = ratio_of_medians(samples[1], samples[0], _CONFIDENCE)
    assert ratio is not None, "there are enough turns"
    default, tuned = (Latency.of([ms for turn in each for ms in turn]) for each in samples)
    return Comparison(default, tuned, ratio, first_ms, answer, default_answer, outputs, heat)


def first_rounds(opened: OpenUnit, inputs: Mapping[str, Array]) -> tuple[float, float]:
    """Brings the inputs; time of the very first round, and of one after it, in ms."""
    opened.write_inputs(inputs)
    first = opened.session.command("run", rounds=1, deadline_s=FIRST_ROUND_DEADLINE_S)
    second = opened.session.command("run", rounds=1, deadline_s=FIRST_ROUND_DEADLINE_S)
    return first["first_ms"], second["wall_ns"][0] / NS_PER_MS


def in_turns(one: OpenUnit, other: OpenUnit, turns: int, rounds: int, round_ms: float, first: int = 0) -> Turns:
    """Rounds in ms of each of the two, turn by turn; who goes first alternates, beginning with `first` (0 or 1)."""
    samples: Turns = ([], [])
    deadline_s = rounds_deadline_s(rounds + 1, round_ms)
    both = list(zip((one, other), samples, strict=True))
    for turn in range(first, first + turns):
        for opened, found in both if turn % 2 == 0 else both[::-1]:
            answer = opened.session.command("run", rounds=rounds, warmup=1, deadline_s=deadline_s)
            found.append([ns / NS_PER_MS for ns in answer["wall_ns"]])
    return samples
