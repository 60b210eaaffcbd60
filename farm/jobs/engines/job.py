"""`farm engines`: every engine that takes a model, in turns on each unit, and which of them is the fastest there.

Each engine runs alone first, and what fails or answers wrongly there is a row with its reason, out of the turns. A turn
then has a block of every other engine, in random order: a fresh process that loads the model and runs some rounds. What
a process got by chance (places in memory, clocks) is drawn anew with every block, so a block's median is one replicate.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.config.deployment import FARMRT, Deployment, Runtime
from farm.config.inventory import Unit
from farm.decision.fastest import standings
from farm.engines.base import EngineRun
from farm.engines.registry import at_version, engines, named_engines
from farm.jobs.engines.farmrt import ready_farmrt
from farm.jobs.engines.ready import EngineModels, ReadyEngine, ready_engine, runtimes_of
from farm.jobs.engines.result import engine_figures, engine_provenance, engine_validation
from farm.jobs.fleet.dispatch import FLEET, FleetOptions, Job, run_jobs
from farm.jobs.fleet.job_rows import identity_of, is_beyond_row, is_ok, unit_groups
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import LoadOptions
from farm.jobs.models.prepare import Failed, Prepared, TestData, prepare_all, validation_data
from farm.jobs.validate import Validation
from farm.rows.engines import EnginesResult, EnginesRow, EngineTurns, Standing
from farm.rows.result import Conditions, make_row
from farm.rows.row import Failure, Throttling, UnitStates
from farm.rows.status import Status
from runtime.errors import ConfigError, FarmError


@dataclasses.dataclass(frozen=True)
class EnginesOptions:
    """What `farm engines` was asked for; no engines: farmrt and all that are installed here.

    `against`: a version that the only engine is compared with.
    """

    engines: tuple[str, ...] = ()
    against: str = ""
    turns: int = 8
    rounds: int = 10
    warmup: int = 1
    load: LoadOptions = dataclasses.field(default_factory=LoadOptions)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The engines that take part; ConfigError for a name that is none."""
        if self.against:
            return named_engines((*self.engines, self._other_version))
        installed = (name for name, engine in engines().items() if not engine.missing())
        return named_engines(self.engines or (FARMRT, *installed))

    @property
    def _other_version(self) -> str:
        if len(self.engines) != 1:
            raise ConfigError(f"--against {self.against} is a version of one engine: name it once, with --engine")
        return at_version(self.engines[0], self.against)


def engines_job(
    deployment: Deployment,
    units: Sequence[Unit],
    options: EnginesOptions,
    fleet: FleetOptions = FLEET,
    progress: ProgressView = SILENT,
) -> Iterator[EnginesRow]:
    """A row for each unit, model, engine and runtime of it."""
    wanted = options.wanted
    with TemporaryDirectory() as scratch:
        engine_models = EngineModels(Path(scratch))
        matches = [_Match(model, wanted, options, engine_models) for model in prepare_all(deployment, check=True)]
        groups = unit_groups(units, fleet.spread)
        jobs: list[Job[list[EnginesRow], OpenUnit]] = []
        for match, group in itertools.product(matches, groups):
            if isinstance(match.model, Failed):
                yield from match.failed(group[0], match.model.error)
            else:
                jobs.append(Job(group, match.run, _all_ok, match.failed))
        for rows in run_jobs(jobs, fleet, progress):
            yield from rows


def _all_ok(rows: Sequence[EnginesRow]) -> bool:
    return all(map(is_ok, rows))


@dataclasses.dataclass(frozen=True)
class _Lane:
    """An engine and one of the runtimes that it has."""

    engine: str
    runtime: Runtime

    def __str__(self) -> str:
        return f"{self.engine}, {self.runtime}"


@dataclasses.dataclass
class _Measured:
    """What is known of a lane: its first run alone, the samples of its blocks, or the error that ended it."""

    first: EngineRun | None = None
    validation: Validation = dataclasses.field(default_factory=Validation)
    throttling: Throttling = dataclasses.field(default_factory=Throttling)
    blocks: list[tuple[float, ...]] = dataclasses.field(default_factory=list)
    error: FarmError | None = None

    @property
    def medians(self) -> tuple[float, ...]:
        return tuple(map(statistics.median, self.blocks))


@dataclasses.dataclass(frozen=True)
class _Match:
    """A model, to be run by all engines on some unit."""

    model: Prepared | Failed
    engines: tuple[str, ...]
    options: EnginesOptions
    engine_models: EngineModels

    @property
    def lanes(self) -> list[_Lane]:
        settings, is_named = self.model.settings, bool(self.options.engines)
        return [
            _Lane(engine, runtime) for engine in self.engines for runtime in runtimes_of(engine, settings, is_named)
        ]

    def failed(self, unit: Unit, error: FarmError) -> list[EnginesRow]:
        """The rows of a unit that could not even begin."""
        return [self._row(unit, lane, UnitStates(), Failure.of(error)) for lane in self.lanes]

    def run(self, opened: OpenUnit) -> Iterator[list[EnginesRow]]:
        """All rows of a unit. Raises what tells that the unit itself is gone."""
        assert isinstance(self.model, Prepared)
        data = validation_data(self.model)
        before = opened.state()
        found = {lane: _Measured() for lane in self.lanes}
        with contextlib.ExitStack() as stack:
            ready: dict[_Lane, ReadyEngine] = {}
            for lane in found:
                opened.progress.stage(f"{self.model.name} ({lane}): alone")
                with _kept(opened, found[lane]):
                    ready[lane] = stack.enter_context(self._ready(opened, self.model, lane, data))
                    self._rehearse(opened, self.model, lane, ready[lane], data, found[lane])
            self._turns(opened, ready, found)
        after = opened.state()
        states = UnitStates(state_before=before, state_after=after)
        places = standings({lane: each.medians for lane, each in found.items() if _is_in(each) and each.blocks})
        yield [self._lane_row(opened, lane, each, states, places.get(lane)) for lane, each in found.items()]

    def _ready(
        self, opened: OpenUnit, model: Prepared, lane: _Lane, data: TestData
    ) -> contextlib.AbstractContextManager[ReadyEngine]:
        load = self.options.load
        if lane.engine == FARMRT:
            return ready_farmrt(opened, model, lane.runtime, data, load)
        form = self.engine_models.of(model)
        return ready_engine(opened, lane.engine, model, form, lane.runtime, data, load.execution)

    def _rehearse(
        self, opened: OpenUnit, model: Prepared, lane: _Lane, ready: ReadyEngine, data: TestData, found: _Measured
    ) -> None:
        first = ready.run(1, 0)
        found.validation = engine_validation(lane.engine, model, lane.runtime, ready.precision, data, first)
        found.first = first

    def _turns(self, opened: OpenUnit, ready: Mapping[_Lane, ReadyEngine], found: Mapping[_Lane, _Measured]) -> None:
        order = random.Random(f"{opened.unit.name}/{self.model.name}")  # its order is no secret
        for turn in range(self.options.turns):
            opened.progress.stage(f"{self.model.name}: turn {turn + 1} of {self.options.turns}")
            lanes = [lane for lane in found if _is_in(found[lane])]
            for lane in order.sample(lanes, len(lanes)):
                self._block(opened, ready[lane], found[lane])

    def _block(self, opened: OpenUnit, ready: ReadyEngine, found: _Measured) -> None:
        with _kept(opened, found):
            run, throttling = opened.cool(lambda: ready.run(self.options.rounds, self.options.warmup))
            found.blocks.append(run.samples_ms)
            found.throttling = throttling if throttling.throttled else found.throttling

    def _lane_row(
        self, opened: OpenUnit, lane: _Lane, found: _Measured, states: UnitStates, standing: Standing | None
    ) -> EnginesRow:
        if found.error or not found.first:
            outcome: EnginesResult | Failure = Failure.of(found.error or FarmError("it did not run"))
            return self._row(opened.unit, lane, states, outcome)
        samples_ms = [sample for block in found.blocks for sample in block] or found.first.samples_ms
        outcome = EnginesResult(
            ending=found.validation.ending,
            device_model=opened.device_model,
            provenance=engine_provenance(lane.engine, found.first),
            throttling=found.throttling,
            figures=engine_figures(found.first, samples_ms),
            comparison=found.validation.comparison,
            turns=EngineTurns(blocks_ms=found.medians, standing=standing),
        )
        return self._row(opened.unit, lane, states, outcome)

    def _row(self, unit: Unit, lane: _Lane, states: UnitStates, outcome: EnginesResult | Failure) -> EnginesRow:
        options = self.options
        settings = {
            "turns": options.turns,
            "rounds": options.rounds,
            "warmup": options.warmup,
            **options.load.execution.over(self.model.settings.execution).given,
        }
        identity = identity_of(unit, self.model, lane.runtime, lane.engine)
        return make_row(EnginesRow, identity, Conditions(settings, states), outcome)


def _is_in(found: _Measured) -> bool:
    """Whether a lane takes part in the turns: it tells its rounds' times, and answers rightly as far as is known."""
    is_right = found.validation.ending.status in (Status.OK, Status.NO_REFERENCE)
    return found.error is None and is_right and found.first is not None and bool(found.first.samples_ms)


@contextlib.contextmanager
def _kept(opened: OpenUnit, found: _Measured) -> Iterator[None]:
    """Keeps an error as the end of one lane, except one that is more: the user's, or of a unit that is gone."""
    try:
        yield
    except FarmError as error:
        if is_beyond_row(error, opened):
            raise
        found.error = error
