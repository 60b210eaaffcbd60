"""Runs trials: answers from the journal where it can, else measures, checks, counts, and stops at the budget."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from runtime.kernels.spec import Kernel, Variant
from runtime.lowering.trials import TrialLaunch
from tuner.budget import NO_LIMIT, Budget
from tuner.build_ahead import AheadBuilds, BuildAhead, BuildAheadUse, TrialProgram
from tuner.device_pool import DevicePool
from tuner.journal import Journal
from tuner.space import default_candidate
from tuner.speed_states import SpeedStates, speed_states
from tuner.surroundings import Surroundings
from tuner.trial import FATAL_STATUSES, Candidate, Trial, TrialStatus, validated


class BudgetSpent(Exception):
    """The device time granted for this part of the search is used up."""


_ENOUGH = 4  # trials of both kinds, until it is known whether a local size costs a build
_FAST_SHARE = 10  # one in so many of the default's times is as fast as the usual one: other work only makes it slower
_CHEAP = 0.3  # of a trial with new options: what one with a new local size alone takes where it costs none

Option = tuple[str, int]


class TrialRunner:
    """Runs trials within a budget.

    Args:
        pool: the units that time candidates.
        journal: trials of earlier runs, and where new ones go.
        budget: the device time of all trials, and when the last one must have begun.
        surroundings: what the units run before each launch that they time.
        build_ahead: whether units build programs while they measure others.

    Attributes:
        limit_s: device time at which `trial` raises BudgetSpent; at most the budget.
        device_s, trials: device time and number of new trials of each launch, by tuning key.
        statuses: number of trials of each status, remembered ones included.
        programs: (build options, local size) of every program measured: PoCL builds one for each.
    """

    def __init__(
        self,
        pool: DevicePool,
        journal: Journal,
        budget: Budget = NO_LIMIT,
        surroundings: Surroundings | None = None,
        build_ahead: BuildAhead = BuildAhead.OFF,
    ) -> None:
        self.pool = pool
        self._surroundings = surroundings or Surroundings()
        self._ahead = AheadBuilds(build_ahead)
        self._journal = journal
        self._budget = budget
        self.limit_s = budget.device_s
        self.device_s: dict[str, float] = defaultdict(float)
        self.trials: Counter[str] = Counter()
        self.statuses: Counter[TrialStatus] = Counter()
        self.programs: set[tuple[str, tuple[int, ...]]] = set()
        self._first_s: dict[bool, list[float]] = {True: [], False: []}  # trials of new sizes: are the options new too
        self._timing_s: list[float] = []
        self._group_limit: dict[tuple[str, Variant], int] = {}
        self._default_ns: dict[str, float] = {}
        self._beside_ns: dict[str, list[float]] = defaultdict(list)  # the default's median in each trial in pairs
        self._slowness: list[float] = []
        self._noise: list[float] = []
        self._good_options: dict[str, set[Option]] = defaultdict(set)
        self._fatal_options: set[Option] = set()

    @property
    def spent_s(self) -> float:
        """Device time of all new trials."""
        return sum(self.device_s.values())

    @property
    def budget_s(self) -> float:
        """The budget's device time; infinite for no limit."""
        return self._budget.device_s

    def cover(self, needed_s: float) -> None:
        """Makes a budget that may grow at least so long."""
        before_s, self._budget = self.budget_s, self._budget.covering(needed_s)
        if self.budget_s > before_s:
            self.limit_s += self.budget_s - before_s

    def trial(
        self,
        launch: TrialLaunch,
        candidate: Candidate,
        reps: int,
        fresh: bool = False,
        upcoming: Iterable[TrialProgram] = (),
        again: bool = False,
    ) -> Trial:
        """Returns the journal's trial if there is one and no `fresh` one is asked for; else measures on a unit.

        `again` asks for a second trial, of those that the journal has as re-tests.
        `upcoming` are programs that later trials are likely to need, the next first; the unit may build one meanwhile.
        Raises BudgetSpent instead of measuring beyond `limit_s`.
        """
        trial = None if fresh else self._journal.find(launch.kernel.name, launch.key, candidate, retest=again)
        if trial is None and self._journal.is_fatal(launch.kernel.name, candidate):
            trial = Trial(TrialStatus.CRASH, reason="took the runtime down before")
        if trial is None:
            trial = self._new_trial(launch, candidate, reps, fresh or again, upcoming)
        self._learn(launch, candidate, trial)
        return trial

    @property
    def has_company(self) -> bool:
        """Returns whether other tuners search at the same time and add their trials to the journal."""
        return self._journal.has_company

    def journaled_trials(self, kernel: Kernel) -> Iterator[tuple[str, Candidate, Trial]]:
        """Trials of a kernel that the journal holds: tuning key, candidate, trial."""
        variants = {variant.name: variant for variant in kernel.variants}
        for key, name, (x, y, z), trial in self._journal.of_kernel(kernel.name):
            if name in variants:
                yield key, Candidate(variants[name], (x, y, z)), trial

    def is_legal(self, launch: TrialLaunch, candidate: Candidate) -> bool:
        """Whether the local size is within the kernel's own limit, as far as a trial of the variant reported one."""
        limit = self._group_limit.get((launch.kernel.name, candidate.variant), 0)
        return not limit or math.prod(candidate.local_size) <= limit

    def is_suspect(self, kernel: str, variant: Variant) -> bool:
        """Whether a variant shares an option with one that took the runtime down, but with no good one of the kernel.

        A compiler that chokes on vectors of 16, say, does so for every tile, and for every kernel.
        """
        return bool(set(variant.defines) & self._fatal_options - self._good_options[kernel])

    def is_built(self, launch: TrialLaunch, candidate: Candidate) -> bool:
        """Whether this run measured the same program before: then a trial costs no build."""
        return (launch.options(candidate.variant), candidate.local_size) in self.programs

    def repetitions(self, launch: TrialLaunch, ns: float, aim_ns: float, least: int, most: int) -> int:
        """Repetitions of a launch of `ns` that take about `aim_ns`, with what runs before each; least where unknown."""
        if not math.isfinite(ns):
            return least
        before = (self._default_ns.get(other.key, 0.0) for other in self._surroundings.before(launch.key))
        return min(max(int(aim_ns / (ns + sum(before))), least), most)

    @property
    def timing_s(self) -> float:
        """Median seconds of a trial that builds nothing; 0 as long as there was none."""
        return statistics.median(self._timing_s or [0.0])

    @property
    def build_s(self) -> float:
        """What a trial takes that builds a program with new options now; 0 as long as there was none."""
        return statistics.median(self._first_s[True] or [0.0])

    @property
    def knows_builds(self) -> bool:
        """Whether enough trials have shown what a new local size costs."""
        return min(map(len, self._first_s.values())) >= _ENOUGH

    @property
    def builds_each_size(self) -> bool:
        """Whether the driver builds a program anew for each local size; believed until trials show otherwise."""
        if not self.knows_builds:
            return True
        return statistics.median(self._first_s[False]) > _CHEAP * self.build_s

    def is_compiled(self, launch: TrialLaunch, variant: Variant) -> bool:
        """Whether this run measured a variant with the launch's options, in whatever local size."""
        options = launch.options(variant)
        return any(known == options for known, _ in self.programs)

    @property
    def built_ahead(self) -> BuildAheadUse | None:
        """What came of building programs while others were measured; None where none was."""
        return self._ahead.use

    def _new_trial(
        self, launch: TrialLaunch, candidate: Candidate, reps: int, fresh: bool, upcoming: Iterable[TrialProgram]
    ) -> Trial:
        if self.spent_s >= self.limit_s or self._budget.deadline.is_over:
            raise BudgetSpent
        expected = self._expected(launch, candidate, upcoming)
        measured = validated(self.pool.measure(launch, candidate, reps, expected), launch.tolerance)
        self._ahead.note(measured.beside)
        trial = self._in_one_state(launch, measured)
        is_new = not self.is_compiled(launch, candidate.variant)
        if not self.is_built(launch, candidate) and (trial.build_s > 0 or not is_new):
            # New options without a build are those of the trial plan.
            self._first_s[is_new].append(trial.device_s + trial.beside.hidden_s)
        if self.is_built(launch, candidate):
            self._timing_s.append(trial.device_s)
        self.device_s[launch.key] += trial.device_s
        self.trials[launch.key] += 1
        self.programs.add((launch.options(candidate.variant), candidate.local_size))
        self._journal.add(launch.kernel.name, launch.key, candidate, trial, retest=fresh)
        return trial

    def _expected(
        self, launch: TrialLaunch, candidate: Candidate, upcoming: Iterable[TrialProgram]
    ) -> TrialProgram | None:
        """The program to build beside a trial: of those that are likely to come, the first that is not there."""
        own = TrialProgram(launch, candidate.variant).key

        def is_there(program: TrialProgram) -> bool:
            return program.key == own or self.is_compiled(program.launch, program.variant)

        return self._ahead.choose(upcoming, is_there)

    def _in_one_state(self, launch: TrialLaunch, trial: Trial) -> Trial:
        """The trial in the state in which the default was first timed, so that all trials can be compared."""
        default_ns = self._default_ns.get(launch.key)
        if not default_ns or not trial.own_ns or trial.status != TrialStatus.OK:
            return trial
        self._noise.append(trial.noise)
        slowness = statistics.median(trial.own_ns) / default_ns
        self._ahead.compare(slowness, trial.beside)
        if not trial.beside.was_on:  # what a build does to launches is no state of the unit
            self._slowness.append(slowness)
        return trial.relative_to(default_ns)

    @property
    def noise(self) -> float:
        """By what share the time of a trial is off, in the median of all; 0 as long as none was made in turns."""
        return statistics.median(self._noise or [0.0])

    def default_ns(self, launch: TrialLaunch) -> float:
        """The default's time, to which trials in pairs are relative; NaN where it is not known."""
        return self._default_ns.get(launch.key, math.nan)

    def usual_ns(self, launch: TrialLaunch) -> float:
        """The default's time where nothing disturbs the unit, by all trials in pairs so far; NaN where it is not known.

        When it was first timed, other work may have had a core for as long as all defaults took.
        """
        times_ns = sorted([self.default_ns(launch), *self._beside_ns[launch.key]])
        return times_ns[(len(times_ns) - 1) // _FAST_SHARE]

    @property
    def states(self) -> SpeedStates | None:
        """The unit's two speeds during this search, by what the defaults took beside the candidates; None for one."""
        return speed_states(self._slowness)

    def _learn(self, launch: TrialLaunch, candidate: Candidate, trial: Trial) -> None:
        self.statuses[trial.status] += 1
        if trial.status == TrialStatus.OK and candidate == default_candidate(launch):
            self._default_ns.setdefault(launch.key, trial.typical_ns)
        if trial.status == TrialStatus.OK and trial.own_ns:
            self._beside_ns[launch.key].append(statistics.median(trial.own_ns))
        if trial.max_work_group_size:
            self._group_limit[launch.kernel.name, candidate.variant] = trial.max_work_group_size
        if trial.status == TrialStatus.OK:
            self._good_options[launch.kernel.name].update(candidate.variant.defines)
        elif trial.status in FATAL_STATUSES:
            self._fatal_options.update(candidate.variant.defines)
