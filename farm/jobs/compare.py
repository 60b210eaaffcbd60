"""Default against tuned: two farmrt on one unit run a model in turns, so that what disturbs one disturbs the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from farm.jobs.collect import Published
from farm.jobs.prepare import TestData
from farm.jobs.tune_search import Tuned
from farm.jobs.unit import FIRST_ROUND_DEADLINE_S, OpenUnit, rounds_deadline_s
from farm.results import Latency
from farm.session import Answer
from tuner.statistics import Ratio, ratio_of_medians

_TURNS = 16
_TURN_MS = 60.0  # rounds of a turn aim at so much time
_MOST_ROUNDS = 10
_CONFIDENCE = 0.95
NS_PER_MS = 1e6

Array = npt.NDArray[Any]


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


def compare(opened: OpenUnit, found: Tuned, published: Published, data: TestData) -> Comparison:
    """Loads a model twice, without and with its artifacts, and runs both in turns."""
    limited = found.prepared.settings.limit_opencl_kernel_time
    with opened.twin() as other:
        default_answer = opened.load(found.plan_file, limit_kernel_time=limited)
        answer = other.load(found.plan_file, published.tuned_file, published.kernels_file, limited)
        _, default_ms = _first(opened, data)
        first_ms, tuned_ms = _first(other, data)
        rounds = min(max(int(_TURN_MS / max(default_ms, tuned_ms)), 1), _MOST_ROUNDS)
        deadline_s = rounds_deadline_s(rounds + 1, max(default_ms, tuned_ms))
        samples, heat = opened.cool(lambda: _turns(opened, other, rounds, deadline_s))
        outputs = other.read_outputs(found.plan)
    ratio = ratio_of_medians(samples[1], samples[0], _CONFIDENCE)
    assert ratio is not None, "there are enough turns"
    default, tuned = (Latency.of([ms for turn in each for ms in turn]) for each in samples)
    return Comparison(default, tuned, ratio, first_ms, answer, default_answer, outputs, heat)


def _first(opened: OpenUnit, data: TestData) -> tuple[float, float]:
    """Time of the very first round, and of one after it, in ms."""
    opened.write_inputs(data.inputs)
    first = opened.session.command("run", rounds=1, deadline_s=FIRST_ROUND_DEADLINE_S)
    second = opened.session.command("run", rounds=1, deadline_s=FIRST_ROUND_DEADLINE_S)
    return first["first_ms"], second["wall_ns"][0] / NS_PER_MS


def _turns(default: OpenUnit, tuned: OpenUnit, rounds: int, deadline_s: float) -> tuple[list[list[float]], ...]:
    """Rounds in ms, turn by turn; who goes first alternates."""
    samples: tuple[list[list[float]], ...] = ([], [])
    both = list(zip((default, tuned), samples, strict=True))
    for turn in range(_TURNS):
        for opened, found in both if turn % 2 == 0 else both[::-1]:
            answer = opened.session.command("run", rounds=rounds, warmup=1, deadline_s=deadline_s)
            found.append([ns / NS_PER_MS for ns in answer["wall_ns"]])
    return samples
