"""Builds while it measures: which program a unit builds next, and whether that is worth it.

On a GPU the compiler runs on a core that would idle while the GPU measures. On a driver for CPUs both want the same
cores. What the default takes beside a build, over what it takes without one, tells.
"""

import dataclasses
import enum
import statistics
from collections.abc import Callable, Iterable

from runtime.kernels.spec import Variant
from runtime.lowering.trials import TrialLaunch

_ENOUGH = 8  # trials beside a build, and as many without, until they are compared
_SLOWED = 1.1  # a default that takes so many times as long beside a build


class BuildAhead(enum.StrEnum):
    """Whether programs are built while others are measured: AUTO where measurements show no harm, ON whatever they
    show, OFF never.
    """

    AUTO = "auto"
    ON = "on"
    OFF = "off"


ProgramKey = tuple[str, str]
"""What tells a program from others: kernel and build options."""


@dataclasses.dataclass(frozen=True)
class TrialProgram:
    """A program to build: that of a launch with a variant."""

    launch: TrialLaunch
    variant: Variant

    @property
    def options(self) -> str:
        """Its build options."""
        return self.launch.options(self.variant)

    @property
    def key(self) -> ProgramKey:
        """The key that tells the program from others."""
        return self.launch.kernel.name, self.options


@dataclasses.dataclass(frozen=True)
class BuildBeside:
    """What a trial tells of programs that were built ahead.

    Attributes:
        hidden_s: how much of its own program's build was over before the trial began.
        was_on: whether another program was being built when the timed launches began.
        built: the program of which the unit has learned in this trial that its build ahead is over, if any.
    """

    hidden_s: float = 0.0
    was_on: bool = False
    built: ProgramKey | None = None


NO_BUILD = BuildBeside()


@dataclasses.dataclass(frozen=True)
class BuildAheadUse:
    """How much a search gained by building programs ahead.

    Attributes:
        hidden_s: build time that no trial waited for.
        slowdown: how many times as long defaults took beside a build; None where too few trials tell.
        is_given_up: whether it was turned off because of that.
    """

    hidden_s: float
    slowdown: float | None
    is_given_up: bool

    def __str__(self) -> str:
        if self.is_given_up:
            return f"launches take {self.slowdown:.2f} times as long beside a build: nothing is built ahead any more"
        beside = "" if self.slowdown is None else f"; beside a build launches take {self.slowdown:.2f} times as long"
        return f"{self.hidden_s:.1f} s of builds were hidden behind measurements{beside}"


class AheadBuilds:
    """Chooses the program that is built during the next trial, and stops where measurements suffer from it.

    Until both are known, trials beside a build and trials without one take turns.
    """

    def __init__(self, mode: BuildAhead) -> None:
        self._mode = mode
        self._slowness: dict[bool, list[float]] = {True: [], False: []}  # beside a build, and without one
        self._built: set[ProgramKey] = set()
        self._hidden_s = 0.0
        self._is_given_up = False

    def choose(
        self, upcoming: Iterable[TrialProgram], is_compiled: Callable[[TrialProgram], bool]
    ) -> TrialProgram | None:
        """The first program of those that are likely to come which nobody has built; None where none is to be built.

        `upcoming` is not asked for more than that.
        """
        if self._mode == BuildAhead.OFF or self._is_given_up or self._needs_a_trial_without:
            return None
        return next((each for each in upcoming if each.key not in self._built and not is_compiled(each)), None)

    def note(self, beside: BuildBeside) -> None:
        """Takes what a trial tells."""
        self._hidden_s += beside.hidden_s
        if beside.built:
            self._built.add(beside.built)

    def compare(self, slowness: float, beside: BuildBeside) -> None:
        """Takes a default's time in a trial, over its time at the beginning."""
        self._slowness[beside.was_on].append(slowness)
        slowdown = self.slowdown
        if self._mode == BuildAhead.AUTO and slowdown is not None and slowdown > _SLOWED:
            self._is_given_up = True

    @property
    def slowdown(self) -> float | None:
        """How many times as long defaults take beside a build; None as long as too few trials tell."""
        if not self._knows:
            return None
        return statistics.median(self._slowness[True]) / statistics.median(self._slowness[False])

    @property
    def use(self) -> BuildAheadUse | None:
        """Returns how much building ahead gained; None where nothing was built ahead."""
        was_used = self._built or self._slowness[True]
        return BuildAheadUse(self._hidden_s, self.slowdown, self._is_given_up) if was_used else None

    @property
    def _knows(self) -> bool:
        return min(map(len, self._slowness.values())) >= _ENOUGH

    @property
    def _needs_a_trial_without(self) -> bool:
        return not self._knows and len(self._slowness[True]) > len(self._slowness[False])
