"""Bisects: duets of commits against the good end on one unit, until one commit, or few, are left."""

import dataclasses
import secrets
import statistics
from collections.abc import Callable, Iterator, Sequence

from farm.config.deployment import Runtime
from farm.config.inventory import Unit
from farm.decision.bisection import Bisection, Change, Finding, finding
from farm.decision.comparison import spoiled, turns_of
from farm.jobs.bisect import state as states
from farm.jobs.bisect.commits import Commits
from farm.jobs.bisect.state import BisectState, CommitTimes
from farm.jobs.compare.builds import CompareOptions, compare_job
from farm.jobs.compare.contender import Contender
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.rows.compare import CompareRow
from farm.rows.status import Status
from runtime.errors import BuildError, ConfigError, DeviceLostError, FarmError, JobError
from runtime.statistics.ratios import MINIMUM_ROUNDS, ratio_of_pairs

PROFILED_TURNS = 6
_AWAY = (Status.DEVICE_LOST,)


@dataclasses.dataclass(frozen=True)
class BisectOptions:
    """What `farm bisect` was asked for.

    A commit gets `turns` pairs of fresh processes, and as many again while nothing can be told, `most_turns` in all.
    A change of no more than `margin_percent` between the two ends is none.
    """

    model: str
    runtime: Runtime
    turns: int = 10
    most_turns: int = 40
    margin_percent: float = 1.0
    memory: str | None = None


@dataclasses.dataclass(frozen=True)
class BisectStep:
    """A commit that was measured: its row if there is one, its change so far, what was found, and how many are left."""

    commit: str
    row: CompareRow | None
    change: Change | None
    found: Finding | None
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class BisectionResult:
    """The commits that may have made the change; none where the two ends do not differ.

    `duet` compares the newest suspect, as B, with the commit before the oldest, as A, operators included.
    """

    whole: Change
    suspects: Sequence[str]
    skipped: Sequence[str]
    duet: CompareRow | None


Compare = Callable[
    [tuple[Contender, Contender], Sequence[Unit], CompareOptions, FleetOptions, ProgressView], Iterator[CompareRow]
]


class Bisector:
    """One bisection on one unit. `steps` does the work; `result` is there when it has ended.

    `compare` measures two commits; None: from this process.
    """

    def __init__(
        self,
        repository: Commits,
        commits: Sequence[str],
        unit: Unit,
        options: BisectOptions,
        fleet: FleetOptions = FLEET,
        progress: ProgressView = SILENT,
        compare: Compare | None = None,
    ) -> None:
        self.result: BisectionResult | None = None
        self._compare = compare or compare_job
        self._repository, self._commits, self._unit = repository, commits, unit
        self._options, self._fleet, self._progress = options, fleet, progress
        self._state = states.read(self._about).without_passing()
        self._fresh = False

    @property
    def _about(self) -> tuple[str, ...]:
        """Returns what tells this bisection from another one: ends, model, settings."""
        ends = (self._commits[0], self._commits[-1])
        chosen = (self._options.model, self._options.runtime, self._options.memory or "")
        return (str(self._repository.root), *self._repository.settings, *ends, self._unit.name, *chosen)

    def forget(self) -> None:
        """Begins anew."""
        states.forget(self._about)
        self._fresh = True
        self._state = BisectState(about=self._about)

    def steps(self) -> Iterator[BisectStep]:
        """Measures both ends, then one commit after the other; each is yielded, and kept in the state's file.

        Raises ConfigError where an end cannot be measured, JobError where heat or other work on the unit kept it from
        that, DeviceLostError where the unit went away: what was measured until then is kept.
        """
        good = self._repository.at(self._commits[0])
        bad = self._commits[-1]
        yield from self._until_known(good, bad, None)
        whole = self._change(bad)
        if whole is None:
            raise _unmeasured(self._state.trials[bad])
        bisection = Bisection(self._commits)
        if not whole.is_beyond(self._options.margin_percent / 100):
            self.result = BisectionResult(whole, [], [], None)
            return
        while commit := bisection.next:
            yield from self._until_known(good, commit, whole)
            bisection = bisection.having(commit, self._finding(commit, whole) or Finding.SKIPPED)
        yield from self._confirmed(bisection, whole)

    def _until_known(self, good: Contender, commit: str, whole: Change | None) -> Iterator[BisectStep]:
        """Measures a commit until it is known what it is, or it has had all its turns."""
        while not self._is_known(commit, whole):
            row, trial = self._measured(good, commit)
            self._state = self._state.having(trial)
            states.write(self._state)
            found = self._finding(commit, whole) if whole else self._finding_of_bad(commit)
            if self._is_known(commit, whole) and whole:
                found = found or Finding.SKIPPED
            yield BisectStep(commit, row, self._change(commit), found, trial.problem)

    def _finding_of_bad(self, commit: str) -> Finding | None:
        """Judges whether the bad end differs from the good end; None while that is not known."""
        change = self._change(commit)
        if change is None or not self._is_known(commit, None):
            return None
        return Finding.BAD if change.is_beyond(self._options.margin_percent / 100) else Finding.GOOD

    def _is_known(self, commit: str, whole: Change | None) -> bool:
        trial = self._state.trials.get(commit)
        if trial is None:
            return False
        if trial.problem or len(trial.good_ms) >= self._options.most_turns:
            return True
        change = self._change(commit)
        if change is None:
            return False
        return change.is_beyond(self._options.margin_percent / 100) if whole is None else bool(finding(change, whole))

    def _finding(self, commit: str, whole: Change) -> Finding | None:
        change = self._change(commit)
        return finding(change, whole) if change else None

    def _change(self, commit: str) -> Change | None:
        """A commit's change against the good end; None before it is measured, and where it could not be."""
        trial = self._state.trials.get(commit)
        ratio = ratio_of_pairs(trial.commit_ms, trial.good_ms) if trial and not trial.problem else None
        return Change(ratio.value, ratio.low, ratio.high) if ratio else None

    def _measured(self, good: Contender, commit: str) -> tuple[CompareRow | None, CommitTimes]:
        try:
            row = self._duet(good, self._repository.at(commit), self._options.turns)
        except (ConfigError, BuildError) as error:
            return None, CommitTimes(commit=commit, problem=str(error))
        pairs = _pairs(row)
        if row.status == Status.OK or row.blocks:
            problem = "" if len(pairs) >= MINIMUM_ROUNDS else _spoiled_text(row, len(pairs))
            good_ms, commit_ms = zip(*pairs, strict=True) if pairs else ((), ())
            return row, CommitTimes(
                commit=commit, good_ms=good_ms, commit_ms=commit_ms, problem=problem, is_passing=bool(problem)
            )
        if row.reason.startswith("A: "):
            raise ConfigError(f"GOOD {self._commits[0][:12]} cannot be measured: {row.reason.removeprefix('A: ')}")
        return row, CommitTimes(commit=commit, problem=f"{row.status}: {row.reason.removeprefix('B: ')}")

    def _duet(self, a: Contender, b: Contender, turns: int, profiled_turns: int = 0) -> CompareRow:
        options = CompareOptions(
            turns=turns,
            margin_percent=self._options.margin_percent,
            runtimes=(self._options.runtime,),
            memory=self._options.memory,
            seed=secrets.randbelow(2**32),
            models=(self._options.model,),
            profiled_turns=profiled_turns,
            fresh=self._fresh,
        )
        (row,) = self._compare((a, b), [self._unit], options, self._fleet, self._progress)
        if row.status in _AWAY:
            raise DeviceLostError(f"{row.reason}; the same command goes on from here")
        return row

    def _confirmed(self, bisection: Bisection, whole: Change) -> Iterator[BisectStep]:
        """The duet of what is left: the newest suspect against the commit before the oldest."""
        suspects = bisection.suspects
        before, after = self._commits[bisection.last_good], suspects[-1]
        row: CompareRow | None = None
        try:
            ends = self._repository.at(before), self._repository.at(after)
            row = self._duet(*ends, 2 * self._options.turns, PROFILED_TURNS)
        except DeviceLostError:
            raise
        except FarmError as error:
            yield BisectStep(after, None, None, None, str(error))
        skipped = [commit for commit, found in bisection.findings.items() if found == Finding.SKIPPED]
        self.result = BisectionResult(whole, suspects, skipped, row)


def _unmeasured(bad: CommitTimes) -> FarmError:
    """Says why the bad end cannot be measured, and what to do where that may pass."""
    text = f"BAD {bad.commit[:12]} cannot be measured: {bad.problem}"
    return JobError(text) if bad.is_passing else ConfigError(text)


def _pairs(row: CompareRow) -> list[tuple[float, float]]:
    """Medians of A's and B's blocks of each turn that neither heat nor other work on the unit spoiled."""
    good = [turn for turn in turns_of(row.blocks) if not spoiled(turn)]
    return [(statistics.median(a.samples), statistics.median(b.samples)) for a, b in good]


def _spoiled_text(row: CompareRow, good: int) -> str:
    """Why too few turns are left."""
    causes = dict.fromkeys(cause for turn in turns_of(row.blocks) if (cause := spoiled(turn)))
    cause = next(iter(causes), "too few were measured")
    return f"all turns but {good} were spoiled: {cause}; the same command measures it again"
