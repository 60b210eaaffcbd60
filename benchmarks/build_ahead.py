"""Whether it pays to build programs while others are measured: quick searches with and without, in turns.

    python -m benchmarks.build_ahead [--model squeezenet_v11] [--opencl intel] [--budget 15] [--turns 2]
    python -m benchmarks.build_ahead --replay tests/tuner/data/squeezenet_v11_intel.json.gz

On a driver of this machine: first what a build beside them does to trials of a launch that is built, and they to the
build, as ratios of medians; then a line for each search, with the programs and trials that came into the device time,
the build time that was hidden, and how many times as long the defaults took beside a build.

Replayed on a recorded search: a unit whose compiler works beside the device without slowing it down, as on a phone's
GPU, whose trials take so much longer than the recorded ones. `behind` is the model's time with what was found, over its
time with the fastest that was recorded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from benchmarks.compiler_thread import CompilerThread
from benchmarks.recording import Recording
from benchmarks.scratch import scratch
from farm.config import deployment, inventory, samples
from farm.jobs.fleet.unit import OpenUnit, open_unit
from farm.jobs.models.prepare import Prepared, prepare
from farm.jobs.tune.trials import trials_on
from farm.model import fetch
from runtime.lowering.trials import TrialLaunch
from tuner import space
from tuner.build_ahead import BuildAhead, TrialProgram
from tuner.device_pool import DevicePool, PoolMember
from tuner.journal import Journal
from tuner.search import LEVELS, SearchResult, search
from tuner.trial import DRIVERS_CHOICE, Candidate, Trial
from tuner.trial_runner import TrialRunner

QUICK = LEVELS["quick"]
MODES = (BuildAhead.OFF, BuildAhead.ON)
REPS, TRIALS_BESIDE, BUILDS = 10, 4, 12
LONGER_S = (0.0, 0.05, 0.1, 0.2)  # a phone's launches, its cable and its answers


@click.command()
@click.option("--model", default="squeezenet_v11", show_default=True)
@click.option("--opencl", default="intel", show_default=True, help="A library, intel, pypi or system.")
@click.option("--budget", "budget_s", type=click.FloatRange(1.0), default=15.0, show_default=True)
@click.option("--turns", type=click.IntRange(1), default=2, show_default=True)
@click.option("--replay", type=click.Path(path_type=Path, exists=True), help="A recorded search in place of a driver.")
def main(model: str, opencl: str, budget_s: float, turns: int, replay: Path | None) -> None:
    """Quick searches with and without builds ahead."""
    if replay:
        for longer_s in LONGER_S:
            for mode in MODES:
                click.echo(f"trials {1e3 * longer_s:.0f} ms longer, {mode}: {replayed(replay, longer_s, mode)}")
        return
    source = deployment.load(samples.find(model))
    prepared = prepare(source, model, fetch.Fetcher(source))
    with _opened(opencl) as opened:
        click.echo(f"{model} on {opencl}, beside builds: {beside_builds(opened, prepared)}")
    for _ in range(turns):
        for mode in MODES:
            with _opened(opencl) as opened:
                click.echo(f"{model} on {opencl}, {mode}: {_searched_on(opened, prepared, budget_s, mode)}")


@contextlib.contextmanager
def _opened(opencl: str) -> Iterator[OpenUnit]:
    """A driver that sees its programs for the first time."""
    with scratch(), open_unit(inventory.HOST, opencl) as opened:
        yield opened


def beside_builds(opened: OpenUnit, prepared: Prepared) -> str:
    """Trials of the launch that takes most, beside builds of its kernel's other variants and without, in turns."""
    trials = trials_on(opened, [prepared], opened.target(prepared, "gpu"), prepared.options(), "build_ahead")
    launch = max(trials.launches, key=lambda each: each.macs)
    built, *others = [each for each in launch.kernel.variants if each != launch.variant]
    tried = Candidate(built, DRIVERS_CHOICE)
    trials(launch, tried, REPS)
    default_ns: dict[bool, list[float]] = {True: [], False: []}
    wall_s: dict[bool, list[float]] = {True: [], False: []}
    build_s: dict[bool, list[float]] = {True: [], False: []}
    for number, variant in enumerate(others[: 2 * BUILDS]):
        is_ahead = number % 2 == 0
        if is_ahead:
            trials.expect(TrialProgram(launch, variant))
        for _ in range(TRIALS_BESIDE):
            trial = trials(launch, tried, REPS)
            default_ns[trial.beside.was_on].extend(trial.own_ns)
            wall_s[trial.beside.was_on].append(trial.device_s)
        build_s[is_ahead].append(trials(launch, Candidate(variant, DRIVERS_CHOICE), REPS).build_s)
    trials.end()
    return (
        f"the default takes {_ratio(default_ns):.2f} times as long, a trial {_ratio(wall_s):.2f} times "
        f"({len(wall_s[True])} of {len(wall_s[False])}), a build {_ratio(build_s):.2f} times"
    )


def _ratio(samples: Mapping[bool, Sequence[float]]) -> float:
    return statistics.median(samples[True]) / statistics.median(samples[False])


def _searched_on(opened: OpenUnit, prepared: Prepared, budget_s: float, mode: BuildAhead) -> str:
    target = opened.target(prepared, "gpu")
    trials = trials_on(opened, [prepared], target, prepared.options(), "build_ahead")
    pool = DevicePool([PoolMember("", trials, trials.expect)])
    runner = TrialRunner(pool, Journal(None, "f"), budget_s, surroundings=trials.surroundings, build_ahead=mode)
    search(trials.launches, lambda launch, multiple: space.candidate_costs(launch, target, multiple), runner, QUICK)
    trials.end()
    return told(runner)


class LongerTrials:
    """A recorded search whose trials take longer."""

    def __init__(self, recording: Recording, longer_s: float) -> None:
        self._recording, self._longer_s = recording, longer_s

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        """See tuner.trial.Measure."""
        trial = self._recording(launch, candidate, reps)
        return dataclasses.replace(trial, device_s=trial.device_s + self._longer_s)


def replayed(path: Path, longer_s: float, mode: BuildAhead) -> str:
    """A search of a recorded device with a compiler beside it."""
    recording = Recording(path)
    unit = CompilerThread(LongerTrials(recording, longer_s), recording.build_s)
    runner = TrialRunner(
        DevicePool([PoolMember("", unit, unit.expect)]), Journal(None, "f"), QUICK.budget_s, build_ahead=mode
    )
    outcome = search(recording.launches, recording.expand, runner, QUICK)
    return f"{told(runner)}; {behind(recording, outcome):.3f} behind"


def behind(recording: Recording, outcome: SearchResult) -> float:
    """The model's time with what a search has found, over its time with the fastest there is."""
    chosen = {each.launch.key: each.chosen for each in outcome.verdicts}
    return recording.model_ns(chosen) / recording.model_ns(recording.best)


def told(runner: TrialRunner) -> str:
    """What came into the device time, and what came of building ahead."""
    programs = len({options for options, _ in runner.programs})
    counts = f"{programs} programs, {runner.trials.total()} trials in {runner.spent_s:.1f} s"
    return f"{counts}; {runner.built_ahead}" if runner.built_ahead else counts


if __name__ == "__main__":
    main()
