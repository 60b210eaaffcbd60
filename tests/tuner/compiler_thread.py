"""A compiler beside the device, for units that are made of formulas or records: builds ahead take their time there."""

import dataclasses
from collections.abc import Callable

from runtime.lowering.trials import TrialLaunch
from tuner.build_ahead import BuildBeside, ProgramKey, TrialProgram
from tuner.trial import Candidate, Measure, Trial


class CompilerThread:
    """Wraps a `measure` that builds before it measures; hides what is built while it measures.

    Args:
        measure: times candidates, with the build in their device time and in `build_s`.
        build_s: how long a program's build takes.
        slowdown: how many times as long launches take beside a build.

    Attributes:
        programs: how many were built, ahead or when they were needed.
    """

    def __init__(self, measure: Measure, build_s: Callable[[TrialProgram], float], slowdown: float = 1.0) -> None:
        self._measure, self._build_s, self._slowdown = measure, build_s, slowdown
        self._expected: TrialProgram | None = None
        self._running: tuple[ProgramKey, float] | None = None  # seconds left
        self._finished: set[ProgramKey] = set()
        self.programs = 0

    def expect(self, program: TrialProgram) -> None:
        """Names the program to build during the next trial."""
        self._expected = program

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        """See tuner.trial.Measure."""
        trial = self._measure(launch, candidate, reps)
        measuring_s = trial.device_s - trial.build_s
        waited_s = self._wait(TrialProgram(launch, candidate.variant).key, trial.build_s) if trial.build_s else 0.0
        self._start()
        was_on = self._running is not None
        if was_on:
            measuring_s *= self._slowdown
            trial = dataclasses.replace(trial, ns=self._slowed(trial.ns), own_ns=self._slowed(trial.own_ns))
        beside = BuildBeside(max(trial.build_s - waited_s, 0.0), was_on, self._pass(measuring_s))
        return dataclasses.replace(trial, device_s=waited_s + measuring_s, beside=beside)

    def _wait(self, own: ProgramKey, build_s: float) -> float:
        """Seconds until a program is there: one is built at a time."""
        left_s = 0.0
        if self._running:
            key, left_s = self._running
            self._finished.add(key)
            self._running = None
        if own in self._finished:
            self._finished.discard(own)
            return left_s
        self.programs += 1
        return left_s + build_s

    def _start(self) -> None:
        program, self._expected = self._expected, None
        if program and not self._running and program.key not in self._finished:
            self._running = (program.key, self._build_s(program))
            self.programs += 1

    def _pass(self, seconds: float) -> ProgramKey | None:
        """Lets the compiler work; the program that it has finished."""
        if not self._running:
            return None
        key, left_s = self._running
        self._running = (key, left_s - seconds) if left_s > seconds else None
        if self._running:
            return None
        self._finished.add(key)
        return key

    def _slowed(self, times_ns: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(ns * self._slowdown for ns in times_ns)
