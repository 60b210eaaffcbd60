"""One unit's night: all its cases in blocks, then more blocks of what looks changed, then a row of each case."""

import dataclasses
import functools
import itertools
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from farm.config.deployment import FARMRT
from farm.config.inventory import Unit
from farm.decision.regression import judge_series
from farm.jobs.engines.ready import EngineModels
from farm.jobs.fleet.job_rows import (
    Settings,
    again_in_fresh_farmrt,
    again_where_killed,
    identity_of,
    is_beyond_row,
    known_in_engine,
)
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Failed
from farm.jobs.nightly.bundles import NightBundles
from farm.jobs.nightly.case import Examination, Subject, examine, measure_block
from farm.jobs.nightly.duets import BundleTurns, DuetCase, DuetTurns, PairNotebook, UnitDuets
from farm.jobs.nightly.engines import NightEngines
from farm.jobs.run import rounds_settings
from farm.nightly.block_order import ARMS, PlannedBlock, block_order
from farm.nightly.configuration import NightlyConfiguration
from farm.rows.bundle import BundleManifest
from farm.rows.core_waits import mean_share
from farm.rows.device_state import DeviceState
from farm.rows.latency import Latency
from farm.rows.nightly import Block, NightlyFigures, NightlyResult, NightlyRow
from farm.rows.result import OK, Conditions, make_row
from farm.rows.row import Ending, Failure, Provenance, UnitStates
from farm.rows.run import OutputComparison, RunFigures
from farm.rows.series import Case, Metric, Point, SeriesKey, highest_temperature_c, points_of
from farm.rows.status import Status
from farm.units.identity import read_identity
from runtime.errors import DeadlineError, FarmError
from tuner.budget import Deadline

SECONDS_PER_MINUTE = 60.0


class Notebook(PairNotebook, Protocol):
    """Where blocks are kept as soon as they are measured, so that a run that is killed can go on."""

    def note(self, case: Case, block: Block) -> None:
        """Keeps a block."""

    def blocks(self, case: Case) -> Sequence[Block]:
        """The blocks of a case that are kept already, oldest first."""


@dataclasses.dataclass(frozen=True)
class NightSettings:
    """What the night of every unit is made with.

    Attributes:
        run: the run's number in the store.
        seed: of the order of all blocks.
        history: earlier nights.
        notebook: blocks of this run.
        done: cases that have their row already.
        retries: how often a block is measured again because farmrt was killed.
        bundles: of earlier nights; None: none are kept, and no duets are made.
    """

    nightly: NightlyConfiguration
    run: int
    seed: int
    history: Mapping[SeriesKey, Sequence[Point]]
    notebook: Notebook
    done: Collection[Case] = ()
    retries: int = 0
    bundles: NightBundles | None = None


@dataclasses.dataclass(frozen=True)
class _AboutUnit:
    """What a unit has told of itself; `passive`: it has no fan, since it has a battery."""

    identity: str = ""
    passive: bool = False
    conditions: Settings = dataclasses.field(default_factory=dict)


class UnitNight:
    """What is known so far of one unit's cases; it outlives the connection to the unit."""

    def __init__(self, unit: Unit, subjects: Sequence[Subject], settings: NightSettings, models: EngineModels) -> None:
        self.unit, self._settings = unit, settings
        self._engines = NightEngines(models)
        self._subjects = {subject.case: subject for subject in subjects}
        self._blocks = {case: list(settings.notebook.blocks(case)) for case in self._subjects}
        self._examined: dict[Case, Examination] = {}
        self._failed: dict[Case, FarmError] = {
            subject.case: subject.model.error for subject in subjects if isinstance(subject.model, Failed)
        }
        self._about = _AboutUnit()
        self._busy_s = dict.fromkeys(self._subjects, 0.0)
        self._duets = _unit_duets(settings)
        self._deadline = Deadline().within(settings.nightly.budget_minutes * SECONDS_PER_MINUTE)

    def run(self, opened: OpenUnit) -> Iterator[list[NightlyRow]]:
        """Measures what is missing; then the rows of all cases. Raises what tells that the unit is gone."""
        state = opened.state()
        self._about = _AboutUnit(
            identity=read_identity(opened.transport),
            passive=state.battery_percent is not None,
            conditions=opened.connection.conditions,
        )
        with self._engines:
            self._measure(opened, self._left())
            while wanted := self._suspected():
                self._measure(opened, self._reruns(wanted))
            self._make_duets(opened)
        yield self.rows(opened.state())

    def rows(self, state_after: DeviceState | None = None) -> list[NightlyRow]:
        """A row of each case, whatever became of it."""
        return [self._row(case, state_after) for case in self._subjects]

    def failed(self, unit: Unit, error: FarmError) -> list[NightlyRow]:
        """The rows when the unit is gone for good, with the blocks that it gave before."""
        for case in self._subjects:
            self._failed.setdefault(case, error)
        return self.rows()

    def _make_duets(self, opened: OpenUnit) -> None:
        """Asks the software of earlier nights what looks changed; a night that was killed late is examined first."""
        if self._duets is None:
            return
        for case in self._subjects:
            if case not in self._examined and case not in self._failed and not self._is_over():
                self._attempt(opened, case, functools.partial(self._examine, opened, case))
        cases = {case: about for case in self._subjects if (about := self._duet_case(case))}
        if cases:
            self._duets.make(opened, cases, sum(self._busy_s.values()), self._is_over)

    def _duet_case(self, case: Case) -> DuetCase | None:
        """What a duet needs of a case; None where there is nothing to compare."""
        good = [block for block in self._blocks[case] if block.samples and not block.throttled]
        tonight = self._duets.tonight(case) if self._duets else None
        if case in self._failed or not good or tonight is None:
            return None
        key = SeriesKey(case, Metric.LATENCY)
        point = points_of(self._row(case), self._settings.run)[key]
        judgement = judge_series(list(self._settings.history.get(key, ())), point, Metric.LATENCY, final=True)
        waited = mean_share(block.waited_share for block in good)
        tonight = tonight.model_copy(update={"temperature_c": highest_temperature_c(good), "waited_share": waited})
        return DuetCase(tonight, judgement, self._turns(case, tonight, good))

    def _turns(self, case: Case, tonight: BundleManifest, good: Sequence[Block]) -> DuetTurns:
        """What runs an earlier night's software of a case beside tonight's."""
        bundles, nightly, subject = self._settings.bundles, self._settings.nightly, self._subjects[case]
        assert bundles, "there are duets"
        if case.engine != FARMRT:
            return functools.partial(self._engines.turns, subject, nightly, bundles.archive)
        round_ms = statistics.median(itertools.chain.from_iterable(block.samples for block in good))
        return BundleTurns(bundles.archive, tonight, subject.ready[1].inputs, round_ms, nightly.rest)

    def _is_over(self) -> bool:
        return self._deadline.is_over

    def _left(self) -> Iterator[PlannedBlock]:
        """The turns that were not measured yet, in the order of the whole."""
        done = {case: sum(not block.rerun for block in blocks) for case, blocks in self._blocks.items()}
        planned = block_order(list(self._subjects), self._settings.nightly.repeats, self._settings.seed)
        return (turn for turn in planned if turn.repeat >= done[turn.case])

    def _suspected(self) -> dict[Case, int]:
        """How many blocks more each case needs until it is settled, within what it may cost."""
        if self._is_over():
            return {}
        most = self._settings.nightly.most_reruns
        left = {case: most - sum(block.rerun for block in self._blocks[case]) for case in self._subjects}
        wanted = {case: min(left[case], self._more(case)) for case in self._subjects if case not in self._failed}
        return {case: count for case, count in wanted.items() if count > 0}

    def _more(self, case: Case) -> int:
        points = points_of(self._row(case), self._settings.run)
        history = self._settings.history
        return max(
            (judge_series(list(history.get(key, ())), point, key.metric).more for key, point in points.items()),
            default=0,
        )

    def _reruns(self, wanted: Mapping[Case, int]) -> Iterator[PlannedBlock]:
        """Further turns, the cases one after another, their labels in turns too."""
        for number in range(max(wanted.values())):
            for case in (case for case, count in wanted.items() if count > number):
                yield PlannedBlock(case, len(self._blocks[case]), ARMS[len(self._blocks[case]) % 2])

    def _measure(self, opened: OpenUnit, planned: Iterable[PlannedBlock]) -> None:
        for turn in planned:
            if turn.case in self._failed:
                continue
            begun_s = time.monotonic()
            if self._deadline.is_over:
                self._end_of_budget()
                return
            self._attempt(opened, turn.case, functools.partial(self._measure_turn, opened, turn))
            self._busy_s[turn.case] += time.monotonic() - begun_s

    def _attempt(self, opened: OpenUnit, case: Case, measure: Callable[[], None]) -> None:
        """Does something for a case that fails with it; raises what is more than its row."""
        try:
            again_where_killed(opened, self._settings.retries, lambda: again_in_fresh_farmrt(opened, measure))
        except FarmError as error:
            if is_beyond_row(error, opened):
                raise
            self._failed[case] = error

    def _measure_turn(self, opened: OpenUnit, turn: PlannedBlock) -> None:
        subject, nightly = self._subjects[turn.case], self._settings.nightly
        rerun = turn.repeat >= nightly.repeats
        what = "again, to be sure" if rerun else f"{turn.repeat + 1} of {nightly.repeats}"
        opened.progress.stage(f"{turn.case.model} ({turn.case.runner}, {turn.case.setting}) {what}")
        opened.session.revive()
        if turn.case not in self._examined:
            self._examine(opened, turn.case)
        if "benchmark" in nightly.jobs:
            measure = measure_block if turn.case.engine == FARMRT else self._engines.block
            block = measure(opened, subject, nightly, turn.arm, rerun)
            self._blocks[turn.case].append(block)
            self._settings.notebook.note(turn.case, block)

    def _examine(self, opened: OpenUnit, case: Case) -> None:
        look = examine if case.engine == FARMRT else self._engines.examine
        examined = self._examined[case] = look(opened, self._subjects[case], self._settings.nightly)
        if self._duets:
            self._duets.leave(opened, case, examined.software)

    def _end_of_budget(self) -> None:
        minutes = self._settings.nightly.budget_minutes
        for case, blocks in self._blocks.items():
            if not blocks and case not in self._examined:
                self._failed[case] = DeadlineError(f"not begun: the {minutes:g} minutes of budget_minutes were over")

    def _row(self, case: Case, state_after: DeviceState | None = None) -> NightlyRow:
        """The row of a case, with all that was measured of it before it failed, if it did."""
        subject, examined = self._subjects[case], self._examined.get(case)
        result = NightlyResult(
            ending=self._ending(case),
            device_model=examined.device_model if examined else "",
            provenance=examined.provenance if examined else Provenance(),
            figures=self._run_figures(case),
            comparison=examined.validation.comparison if examined else OutputComparison(),
            night=self._night_figures(case),
        )
        known = self._known_settings(subject)
        states = UnitStates(state_before=examined.state if examined else None, state_after=state_after)
        conditions = Conditions({**known, **self._about.conditions}, states)
        named = dataclasses.replace(self.unit, name=case.unit)  # a host may call it otherwise than the cluster
        return make_row(NightlyRow, identity_of(named, subject.model, subject.runtime, case.engine), conditions, result)

    def _known_settings(self, subject: Subject) -> Settings:
        nightly, execution, model = self._settings.nightly, subject.load.execution, subject.model.settings
        known = rounds_settings(model, subject.runtime, nightly.rounds, nightly.warmup, execution)
        return known_in_engine(known, subject.case.engine)

    def _ending(self, case: Case) -> Ending:
        if case in self._failed:
            return Failure.of(self._failed[case])
        return self._examined[case].ending if case in self._examined else OK

    def _run_figures(self, case: Case) -> RunFigures:
        """The figures of a run: times of the blocks, else of the examination; what was said of loading the model."""
        blocks, examined = self._blocks[case], self._examined.get(case)
        known = examined.figures if examined else RunFigures()
        good = [block for block in blocks if not block.throttled]
        samples = list(itertools.chain.from_iterable(block.samples for block in good))
        times = {
            "init_ms": blocks[0].init_ms if blocks else known.init_ms,
            "first_ms": blocks[0].first_ms if blocks else None,
            "latency_ms": Latency.of(samples) if samples else None,
            "figures": tuple(
                each.of_blocks([block.figures[each.name] for block in good if each.name in block.figures])
                for each in known.figures
            ),
        }
        return known.model_copy(update=times)

    def _night_figures(self, case: Case) -> NightlyFigures:
        examined = self._examined.get(case)
        ratio = examined.tuned_check.ratio if examined else None
        return NightlyFigures(
            setting=case.setting,
            identity=self._about.identity,
            passive=self._about.passive,
            blocks=tuple(self._blocks[case]),
            ops=examined.ops if examined else (),
            file_bytes=dict(examined.file_bytes) if examined else {},
            tuned_ratio=ratio.value if ratio else None,
            tuned_ratio_ci=(ratio.low, ratio.high) if ratio else None,
            tuned_verdict=examined.tuned_check.verdict if examined else "",
            duet=self._duets.figures(case, self._busy_s[case]) if self._duets else None,
            busy_s=round(self._busy_s[case], 3),
        )


def _unit_duets(settings: NightSettings) -> UnitDuets | None:
    if settings.bundles is None or "benchmark" not in settings.nightly.jobs:
        return None
    return UnitDuets(settings.bundles, settings.notebook, settings.seed)


def is_good(rows: Sequence[NightlyRow]) -> bool:
    """Returns whether every case succeeded."""
    return all(row.status == Status.OK for row in rows)
