"""Two farmrt, each with its own plan, run in turns on one unit.

A turn starts a fresh process of each, loads the model into both, and lets them run alternately, A B B A A B B A or
B A A B B A A B at random. Its two medians are one replicate each: what a process got by chance (places in memory,
clocks) is drawn anew with every turn, and does not pass for a difference between the two.
"""

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import random
import statistics
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from farm.condition.throttling import RetryPolicy
from farm.decision.comparison import count_of_waiting
from farm.decision.operator_changes import Times, summed_times
from farm.farmrt.answers import LoadAnswer, waited_share
from farm.jobs.benchmark import profile
from farm.jobs.compare.bundle import FARMRT_FILE, PLAN_FILE, Bundle
from farm.jobs.compare.interleaved import NS_PER_MS, Effort, first_rounds, in_turns, samples_ms
from farm.jobs.fleet.round_limit import rounds_deadline_s
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.turn_journal import TurnJournal
from farm.rows.nightly import Block
from farm.transport.file_digest import sha256
from farm.units.acceptance import Trust
from farm.workspace import data_file
from runtime.errors import FarmError
from runtime.graph import Array

Arm = Literal["a", "b"]
ARMS: tuple[Arm, Arm] = ("a", "b")
Turn = Callable[[int], tuple[Block, Block]]
"""Runs both in fresh processes: a block of A and one of B. Its argument, 0 or 1, says which of them begins."""
PROFILED_ROUNDS = 5
TURN = Effort(processes=1, turns=4, turn_ms=50.0, most_rounds=20)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One of the two on a unit: what was made of it, the inputs, its kernels once they are compiled, its tuning."""

    arm: Arm
    bundle: Bundle
    folder: Path
    inputs: Mapping[str, Array]
    kernels: Path | None = None
    tuned: Path | None = None

    @property
    def key(self) -> str:
        """Names what runs by its content: plan, weights, farmrt, inputs, and how it is executed."""
        plan, bundle = self.folder / PLAN_FILE, self.bundle
        hashes = [sha256(path) for path in (plan, data_file(plan), self.folder / FARMRT_FILE)]
        hashes += [
            f"{name} {hashlib.sha256(array.tobytes()).hexdigest()}" for name, array in sorted(self.inputs.items())
        ]
        return repr((hashes, sorted(bundle.fingerprint.items()), bundle.limit_kernel_time, bundle.execution))


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """A first run of one of the two: its entry with kernels, farmrt's answer to loading it, its outputs."""

    entry: Entry
    answer: LoadAnswer
    outputs: Mapping[str, Array]
    round_ms: float


@dataclasses.dataclass(frozen=True)
class _TurnTimes:
    """The times of one of the two in a turn, in ms, and the share of them that its rounds waited for a core."""

    init_ms: float
    first_ms: float
    samples: tuple[float, ...]
    waited_share: float | None


def rehearse(opened: OpenUnit, entry: Entry, kernels: Path) -> Rehearsal:
    """Runs one of the two alone. Its kernels go to the file `kernels`, so that turns do not compile them again."""
    with _loaded(opened, entry) as (own, answer), errors_naming(entry.arm):
        _, round_ms = first_rounds(own, entry.inputs)
        outputs = own.read_tensors({each.name: (each.element_type, each.shape) for each in entry.bundle.outputs})
        if entry.bundle.runtime == "gpu":
            own.save_kernels(kernels)
            entry = dataclasses.replace(entry, kernels=kernels)
    return Rehearsal(entry, answer, outputs, round_ms)


def run_turns(opened: OpenUnit, name: str, turn: Turn, turns: int, journal: TurnJournal) -> list[Block]:
    """A block of each for every turn, marked where heat slowed the unit down even after a rest.

    For each turn whose rounds mostly waited for a core there is a further one, up to as many again. Turns that the
    journal has are not run again.
    """
    firsts = [*first_of_turns(turns, journal.seed), *first_of_turns(turns, journal.seed + 1)]
    while (number := len(journal)) < turns + min(count_of_waiting(journal.blocks), turns):
        opened.progress.stage(f"{name}: {_turn_text(number + 1, turns)}")
        journal.add(*turn(firsts[number]))
    return journal.blocks


def turn_of(opened: OpenUnit, a: Rehearsal, b: Rehearsal) -> Turn:
    """The turn of two farmrt."""
    return lambda first: run_turn(opened, (a.entry, b.entry), max(a.round_ms, b.round_ms), first)


def _turn_text(number: int, turns: int) -> str:
    further = "" if number <= turns else ", since the unit was busy with other work in others"
    return f"turn {number} of {max(number, turns)}{further}"


def profile_turns(opened: OpenUnit, a: Rehearsal, b: Rehearsal, turns: int) -> tuple[list[Times], list[Times]]:
    """The operators' times of each, once a turn, in fresh processes; none where a bundle does not name its steps."""
    profiles: tuple[list[Times], list[Times]] = ([], [])
    if not (a.entry.bundle.steps and b.entry.bundle.steps):
        return profiles
    for number in range(turns):
        opened.progress.stage(f"{a.entry.bundle.model} ({a.entry.bundle.runtime}): operators, {number + 1} of {turns}")
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            profiles[index].append(_profile(opened, (a, b)[index]))
    return profiles


def _profile(opened: OpenUnit, rehearsal: Rehearsal) -> Times:
    steps = rehearsal.entry.bundle.steps
    with _loaded(opened, rehearsal.entry) as (own, _), errors_naming(rehearsal.entry.arm):
        first_rounds(own, rehearsal.entry.inputs)
        deadline_s = rounds_deadline_s(PROFILED_ROUNDS, rehearsal.round_ms)
        times = profile(own.session, PROFILED_ROUNDS, len(steps), deadline_s).steps
    medians_ms = (statistics.median(time.ns) / NS_PER_MS for time in times)
    return summed_times((step.name, step.type, time_ms) for step, time_ms in zip(steps, medians_ms, strict=True))


def run_turn(
    opened: OpenUnit, entries: tuple[Entry, Entry], round_ms: float, first: int, rest: RetryPolicy | None = None
) -> tuple[Block, Block]:
    """A block of each of the two; `first` (0 or 1) is loaded and runs first."""
    begun = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    sample = opened.measured(functools.partial(_turn, opened, entries, round_ms, first), rest)
    a, b = (
        Block(
            time=begun,
            arm=entry.arm,
            init_ms=times.init_ms,
            first_ms=times.first_ms,
            samples=times.samples,
            throttled=sample.cause,
            waited_share=times.waited_share,
            state_before=sample.before,
            state_after=sample.after,
        )
        for entry, times in zip(entries, sample.value, strict=True)
    )
    return a, b


def first_of_turns(turns: int, seed: int) -> list[int]:
    """Which of the two (0 or 1) runs first in each turn, drawn so that both do equally often."""
    first = [turn % 2 for turn in range(turns)]
    random.Random(seed).shuffle(first)
    return first


def _turn(opened: OpenUnit, entries: tuple[Entry, Entry], round_ms: float, first: int) -> list[_TurnTimes]:
    """One turn; `first` (0 or 1) is loaded and runs first."""
    with contextlib.ExitStack() as stack:
        order = sorted(range(2), key=lambda index: index != first)
        loaded = {index: stack.enter_context(_loaded(opened, entries[index])) for index in order}
        firsts = {index: _first_ms(loaded[index][0], entries[index]) for index in order}
        runners = [loaded[index][0] for index in range(2)]
        named = [functools.partial(errors_naming, entry.arm) for entry in entries]
        answers = in_turns(runners, TURN.turns, TURN.rounds(round_ms), round_ms, first, lambda index: named[index]())
    return [
        _TurnTimes(loaded[index][1].init_ms, firsts[index], samples_ms(of_one), waited_share(of_one))
        for index, of_one in enumerate(answers)
    ]


def _first_ms(own: OpenUnit, entry: Entry) -> float:
    with errors_naming(entry.arm):
        return first_rounds(own, entry.inputs)[0]


@contextlib.contextmanager
def _loaded(opened: OpenUnit, entry: Entry) -> Iterator[tuple[OpenUnit, LoadAnswer]]:
    """A farmrt of its own with its model, and farmrt's answer to that. Errors of it say which of the two it was."""
    connection, farmrt = opened.connection, entry.folder / FARMRT_FILE
    with contextlib.ExitStack() as stack:
        with errors_naming(entry.arm):  # not of what follows, while the other one may be loaded too
            runner = OpenUnit(connection, stack.enter_context(connection.session(farmrt)))
            runner.trust = Trust()  # a farmrt of before may not know its words
            plan_file, limited = entry.folder / PLAN_FILE, entry.bundle.limit_kernel_time
            answer = runner.load(
                plan_file, entry.tuned, entry.kernels, limit_kernel_time=limited, execution=entry.bundle.execution
            )
        yield runner, answer


@contextlib.contextmanager
def errors_naming(arm: Arm) -> Iterator[None]:
    """Puts `A: ` or `B: ` before the text of an error that is raised within."""
    try:
        yield
    except FarmError as error:
        error.args = (f"{arm.upper()}: {error}",)
        raise
