"""Ways to load one model, such as with tuned files and without: fresh processes of each run in turns on one unit.

What disturbs one disturbs the others too, since they take turns. What a process got by chance (places in memory,
clocks) is drawn anew with every process: its median is one replicate, and a ratio's interval comes from replicates.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.condition.throttling import RetryPolicy
from farm.config.execution import DEFAULT, Execution
from farm.farmrt.answers import LoadAnswer, RunAnswer
from farm.jobs.fleet.round_limit import rounds_deadline_s
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import TestData
from farm.rows.latency import Latency
from farm.rows.row import Throttling
from runtime.graph import Array
from runtime.plan.plan import Plan
from runtime.statistics.ratios import Ratio, ratio_of_pairs
from tuner.budget import NO_DEADLINE, Deadline

NS_PER_MS, MS_PER_S = 1e6, 1e3
PROCESS_MS, LEAST_TURNS = 250.0, 2
LONG_ROUND_MS = 100.0  # the others' traces in the caches do not matter to such a round: no warm-up
LITTLE_S = 0.5  # a first process that takes no longer is worth it, however late it is
LEAST_LOOK = 6  # processes of each: with fewer no interval of 95 % says anything

Pairs = Sequence[float]  # one way's time over another's, in processes that ran in turns


@dataclasses.dataclass(frozen=True)
class PlanFile:
    """A model's plan, as it lies in its file, whether long launches are split, and how it is executed."""

    plan: Plan
    path: Path
    limit_kernel_time: bool = False
    execution: Execution = DEFAULT


@dataclasses.dataclass(frozen=True)
class TunedFiles:
    """The artifacts that a plan is loaded with; none stand for the default of every launch.

    `plan`: the plan itself, where that is another one than most ways have. `built`: compiled programs that the first
    process may load, where there are no `kernels`; what it lacks is built.
    """

    tuned: Path | None = None
    kernels: Path | None = None
    plan: PlanFile | None = None
    built: Path | None = None


DEFAULTS = TunedFiles()


@dataclasses.dataclass(frozen=True)
class Effort:
    """How many processes each way gets, and how many turns each of these, at most.

    The rounds of a turn aim at `turn_ms`, at most `most_rounds` of them. A process has as many turns as fit into
    PROCESS_MS, at least LEAST_TURNS: short rounds need many, since a unit's speed changes within tenths of a second.
    After the deadline no further process of each is started, nor where it would end later than that; a first one that
    takes LITTLE_S always is. Nor is one after `least` of each where the pairs so far, the last way's time over that of
    each other one, leave nothing to find out (`is_settled`).
    """

    processes: int = 12
    least: int = LEAST_LOOK
    turns: int = 8
    turn_ms: float = 20.0
    most_rounds: int = 10
    deadline: Deadline = NO_DEADLINE
    is_settled: Callable[[Sequence[Pairs]], bool] = lambda _: False

    def numbers(self, first_s: float = 0.0) -> Iterator[int]:
        """Counts the processes for which there is time.

        The first of each way together is expected to take `first_s`, every other one as long as the one before.
        """
        expected_s = first_s
        for number in range(self.processes):
            begin_s = self.deadline.clock()
            is_little = number == 0 and first_s <= LITTLE_S
            if not is_little and begin_s + expected_s > self.deadline.at_s:
                return
            yield number
            expected_s = self.deadline.clock() - begin_s

    def process_s(self, round_ms: float) -> float:
        """What the rounds of a process take, where one takes so long."""
        warmup = warmup_rounds(round_ms)
        return (1 + warmup + self.turns_of(round_ms) * (warmup + self.rounds(round_ms))) * round_ms / MS_PER_S

    def rounds(self, round_ms: float) -> int:
        """Rounds of a turn, where one takes so long."""
        return min(max(int(self.turn_ms / max(round_ms, 1e-6)), 1), self.most_rounds)

    def turns_of(self, round_ms: float) -> int:
        """Turns of a process, where a round takes so long."""
        turn_ms = (self.rounds(round_ms) + warmup_rounds(round_ms)) * max(round_ms, 1e-6)
        return min(max(int(PROCESS_MS / turn_ms), LEAST_TURNS), self.turns)


@dataclasses.dataclass(frozen=True)
class PlanMeasurement:
    """One way to load a model: farmrt's answer, the very first round, all rounds of each process, the outputs."""

    load: LoadAnswer
    first_ms: float
    outputs: Mapping[str, Array]
    processes_ms: tuple[tuple[float, ...], ...]

    @property
    def latency_ms(self) -> Latency:
        """Statistics of the latency over all rounds, in ms."""
        return Latency.of(list(itertools.chain.from_iterable(self.processes_ms)))

    def over(self, other: PlanMeasurement) -> Ratio | None:
        """Its time over the other's, with the 95 % interval; None where too few processes ran."""
        return ratio_of(self.pairs_over(other))

    def pairs_over(self, other: PlanMeasurement) -> Pairs:
        """Its time over the other's in each pair of processes."""
        return _pairs(self.processes_ms, other.processes_ms)


def ratio_of(pairs: Pairs) -> Ratio | None:
    """What pairs say together, with the 95 % interval; None where there are too few."""
    return ratio_of_pairs(pairs, [1.0] * len(pairs))


def _pairs(own: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> Pairs:
    """A pair counts by the median ratio of rounds of the same turn: whatever state the unit was in, both were in it."""
    return [_ratio_in_turns(*pair) for pair in zip(own, others, strict=True)]


def _ratio_in_turns(own_ms: Sequence[float], others_ms: Sequence[float]) -> float:
    return math.exp(statistics.median(math.log(own / other) for own, other in zip(own_ms, others_ms, strict=True)))


@dataclasses.dataclass(frozen=True)
class _Start:
    """The start of a process of one way: what loading answered, the very first round, what it computed."""

    load: LoadAnswer
    first_ms: float
    outputs: Mapping[str, Array]


@dataclasses.dataclass(frozen=True)
class _Rehearsal:
    """A first process of one way, alone: its start, and its files with the kernels that it compiled."""

    files: TunedFiles
    start: _Start
    round_ms: float


class Rehearsed:
    """Ways to load a plan, of which each has run alone once: kernels are compiled, and how long rounds take is known.

    Made by `rehearsed`. Each measurement has processes of its own. `ways` are with the kernels that each compiled.
    """

    def __init__(
        self, opened: OpenUnit, plan_file: PlanFile, ways: Sequence[TunedFiles], data: TestData, folder: Path
    ) -> None:
        self._opened, self._plan_file, self._data = opened, plan_file, data
        self._rehearsals = [self._rehearse(files, folder / f"kernels{number}.bin") for number, files in enumerate(ways)]
        self.ways = [rehearsal.files for rehearsal in self._rehearsals]
        self._slowest_ms = max(rehearsal.round_ms for rehearsal in self._rehearsals)

    def measure(
        self, effort: Effort | None = None, rest: RetryPolicy | None = None
    ) -> tuple[list[PlanMeasurement], Throttling]:
        """Fresh processes of each way in turns; where there is no time for any, the rehearsal is all that is known."""
        effort = effort or Effort()
        starts = [rehearsal.start for rehearsal in self._rehearsals]
        first_s = len(starts) * effort.process_s(self._slowest_ms)

        def all_processes() -> list[list[tuple[float, ...]]]:
            processes: list[list[tuple[float, ...]]] = []
            for number in effort.numbers(first_s):
                processes.append(self._one_process_each(effort, number, starts))
                if len(processes) >= effort.least and effort.is_settled(_last_over_others(processes)):
                    break
            return processes or [[(rehearsal.round_ms,) for rehearsal in self._rehearsals]]

        processes, throttling = self._opened.cool(all_processes, rest)
        of_ways = zip(starts, zip(*processes, strict=True), strict=True)
        measured = [PlanMeasurement(start.load, start.first_ms, start.outputs, times) for start, times in of_ways]
        return measured, throttling

    def _rehearse(self, files: TunedFiles, kernels: Path) -> _Rehearsal:
        given = dataclasses.replace(files, kernels=files.kernels or files.built)
        with _loading(self._opened, self._plan_file, given) as (own, loaded):
            load = loaded()
            first_ms, round_ms = first_rounds(own, self._data.inputs)
            plan = (files.plan or self._plan_file).plan
            if not files.kernels:
                own.save_kernels(kernels)
                files = dataclasses.replace(files, kernels=kernels)
            start = _Start(load, first_ms, own.read_outputs(plan))
        return _Rehearsal(files, start, round_ms)

    def _one_process_each(self, effort: Effort, number: int, starts: list[_Start]) -> list[tuple[float, ...]]:
        """The rounds of a fresh process of each way, loaded and run in an order that changes with `number`.

        They load at the same time, but for the first ones: what their starts take is told, in place of the rehearsals',
        which had no compiled kernels yet.
        """
        count, round_ms = len(self.ways), self._slowest_ms
        order = _rotated(count, number)
        with contextlib.ExitStack() as stack:
            runners: dict[int, OpenUnit] = {}
            for together in [[index] for index in order] if number == 0 else [order]:
                ways = [(self._opened, self._plan_file, self.ways[index]) for index in together]
                loading = [stack.enter_context(_loading(*way)) for way in ways]
                for index, (own, loaded) in zip(together, loading, strict=True):
                    load, runners[index] = loaded(), own
                    first_ms = self._first_ms(own, warmup_rounds(round_ms))
                    if number == 0:
                        plan = (self.ways[index].plan or self._plan_file).plan
                        starts[index] = _Start(load, first_ms, own.read_outputs(plan))
            in_order = [runners[index] for index in range(count)]
            answers = in_turns(in_order, effort.turns_of(round_ms), effort.rounds(round_ms), round_ms, number)
        return [samples_ms(of_way) for of_way in answers]

    def _first_ms(self, own: OpenUnit, warmup: int) -> float:
        """Brings the inputs and runs the first rounds; the time of the very first."""
        own.write_inputs(self._data.inputs)
        first = own.first_round()
        for _ in range(warmup):
            own.first_round()
        return first.very_first_ms


@contextlib.contextmanager
def rehearsed(opened: OpenUnit, plan_file: PlanFile, ways: Sequence[TunedFiles], data: TestData) -> Iterator[Rehearsed]:
    """Lets each way to load a plan run alone: kernels that come from no file are compiled once, not by each process."""
    with TemporaryDirectory() as folder:
        yield Rehearsed(opened, plan_file, ways, data, Path(folder))


def measure_in_turns(
    opened: OpenUnit,
    plan_file: PlanFile,
    ways: Sequence[TunedFiles],
    data: TestData,
    effort: Effort | None = None,
    rest: RetryPolicy | None = None,
) -> tuple[list[PlanMeasurement], Throttling]:
    """Measures each way to load a plan once."""
    with rehearsed(opened, plan_file, ways, data) as each:
        return each.measure(effort, rest)


def _last_over_others(processes: Sequence[Sequence[tuple[float, ...]]]) -> list[Pairs]:
    *others, last = zip(*processes, strict=True)
    return [_pairs(last, other) for other in others]


@contextlib.contextmanager
def _loading(
    opened: OpenUnit, plan_file: PlanFile, files: TunedFiles
) -> Iterator[tuple[OpenUnit, Callable[[], LoadAnswer]]]:
    """A process of its own that loads a plan, and what waits until it has."""
    with opened.twin() as own:
        plan_file = files.plan or plan_file
        artifacts, limited = (files.tuned, files.kernels), plan_file.limit_kernel_time
        yield own, own.loading(plan_file.path, *artifacts, limited, execution=plan_file.execution)


def first_rounds(opened: OpenUnit, inputs: Mapping[str, Array]) -> tuple[float, float]:
    """Brings the inputs; time of the very first round, and of one after it, in ms: of short ones the fastest of three.

    One alone may have waited for a core, and the processes that follow get as few rounds as it was long.
    """
    opened.write_inputs(inputs)
    very_first_ms = opened.first_round().very_first_ms
    rounds_ms = [opened.first_round().wall_ns[0] / NS_PER_MS]
    if warmup_rounds(rounds_ms[0]):
        rounds_ms += [opened.first_round().wall_ns[0] / NS_PER_MS for _ in range(2)]
    return very_first_ms, min(rounds_ms)


def warmup_rounds(round_ms: float) -> int:
    """Rounds that bring caches and cores into the state in which the model itself leaves them; none for long rounds."""
    return int(round_ms < LONG_ROUND_MS)


def in_turns(
    units: Sequence[OpenUnit],
    turns: int,
    rounds: int,
    round_ms: float,
    first: int = 0,
    around: Callable[[int], AbstractContextManager[None]] = lambda _: contextlib.nullcontext(),
) -> list[list[RunAnswer]]:
    """Rounds of each, an answer a turn; `first` begins, and every other turn goes the other way round.

    `around` is entered for the rounds of one of them, such as to name it in errors.
    """
    answers: list[list[RunAnswer]] = [[] for _ in units]
    warmup = warmup_rounds(round_ms)
    deadline_s = rounds_deadline_s(rounds + warmup, round_ms)
    order = _rotated(len(units), first)
    for turn in range(turns):
        for index in order if turn % 2 == 0 else reversed(order):
            with around(index):
                answers[index].append(units[index].session.run(rounds, deadline_s, warmup))
    return answers


def samples_ms(answers: Iterable[RunAnswer]) -> tuple[float, ...]:
    """The time of each round, in order."""
    return tuple(ns / NS_PER_MS for answer in answers for ns in answer.wall_ns)


def _rotated(count: int, first: int) -> list[int]:
    return [(first + index) % count for index in range(count)]
