"""Two engines, or two versions of one, in turns on one unit: fresh processes that load the model and run rounds."""

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.condition.throttling import RetryPolicy
from farm.config.deployment import Runtime
from farm.decision.comparison import compare_figures, decide_turns
from farm.engines.base import EngineRun
from farm.jobs.compare.contender import Contender
from farm.jobs.compare.duet import ARMS, Arm, Turn, errors_naming, run_turns
from farm.jobs.compare.outcome import agreement, ending_of, side_of, throttled_text
from farm.jobs.engines.lanes import engine_figures, engine_provenance, ready_in, run_key
from farm.jobs.engines.ready import EngineModels, ReadyEngine, measured_blocks
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import LoadOptions
from farm.jobs.models.prepare import Prepared, TestData, prepare, validation_data
from farm.jobs.turn_journal import TurnJournal
from farm.jobs.validate import Validation, compare_within, thresholds_of
from farm.model.fetch import Fetcher
from farm.rows.compare import CompareResult, Side
from farm.rows.nightly import Block
from farm.rows.row import Throttling

ROUNDS, WARMUP = 10, 1  # of a block


@dataclasses.dataclass(frozen=True)
class _Racer:
    """One of the two on a unit, after a first run alone."""

    arm: Arm
    contender: Contender
    engine: str
    prepared: Prepared
    data: TestData
    ready: ReadyEngine
    first: EngineRun

    def timed(self) -> EngineRun:
        """The rounds of a block."""
        with errors_naming(self.arm):
            return self.ready.timed(ROUNDS, WARMUP)

    def side(self, blocks: list[Block]) -> Side:
        provenance = engine_provenance(self.engine, self.first)
        return side_of(self.contender.side, self.arm, blocks, self.prepared.name, provenance, {})


def engine_turn(opened: OpenUnit, runs: Mapping[Arm, Callable[[], EngineRun]], rest: RetryPolicy | None = None) -> Turn:
    """The turn of two engines."""

    def turn(first: int) -> tuple[Block, Block]:
        order = (ARMS[first], ARMS[1 - first])
        blocks = measured_blocks(opened, {arm: runs[arm] for arm in order}, rest)
        return blocks[first], blocks[1 - first]

    return turn


@dataclasses.dataclass(frozen=True)
class EngineDuel:
    """A model in one runtime on one unit, in the engines of both contenders; `seed` decides who begins a turn."""

    opened: OpenUnit
    prepared: Prepared
    runtime: Runtime
    both: tuple[Contender, Contender]
    turns: int
    seed: int
    margin_percent: float
    load: LoadOptions

    def result(self, turns_file: Path) -> CompareResult:
        """Runs both in turns, and decides; turns that the file has are not run again."""
        with TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
            models = EngineModels(Path(scratch))
            a = self._racer(stack, "a", (self.prepared, validation_data(self.prepared)), models)
            b = self._racer(stack, "b", *self._of_b(a, models))
            journal = TurnJournal(turns_file, self._key(a, b), self.seed)
            turn = engine_turn(self.opened, {each.arm: each.timed for each in (a, b)})
            return self._decided(a, b, run_turns(self.opened, self._name, turn, self.turns, journal))

    def _of_b(self, a: _Racer, models: EngineModels) -> tuple[tuple[Prepared, TestData], EngineModels]:
        """B's model: that of A where they have one file, so that its form is made once."""
        source, name = self.both[1].source, self.both[1].model_name(self.prepared.name)
        if source is self.both[0].source:
            return (a.prepared, a.data), models
        prepared = prepare(source, name, Fetcher(source))
        return (prepared, validation_data(prepared)), models.beside("b")

    def _racer(
        self, stack: contextlib.ExitStack, arm: Arm, model: tuple[Prepared, TestData], models: EngineModels
    ) -> _Racer:
        contender = self.both[ARMS.index(arm)]
        engine, (prepared, data) = contender.engine_of(self.prepared.name), model
        self.opened.progress.stage(f"{self._name}: first run of {arm.upper()}, {contender.side.name}")
        with errors_naming(arm):
            ready = stack.enter_context(ready_in(engine, self.opened, prepared, self.runtime, data, models, self.load))
            return _Racer(arm, contender, engine, prepared, data, ready, ready.run(1, 0))

    def _key(self, a: _Racer, b: _Racer) -> str:
        """Names all that a turn follows from but the seed."""
        unit = self.opened.unit
        of_unit = (unit.name, unit.serial, self.opened.opencl_library, self.turns, self.load.execution)
        runs = [run_key(each.engine, self.runtime, each.first, each.data) for each in (a, b)]
        return hashlib.sha256(repr((of_unit, runs)).encode()).hexdigest()

    @property
    def _name(self) -> str:
        return f"{self.prepared.name} ({self.runtime})"

    def _decided(self, a: _Racer, b: _Racer, blocks: list[Block]) -> CompareResult:
        decision, outputs = decide_turns(blocks, self.margin_percent), self._outputs_compared(a, b)
        sides, provenance = (a.side(blocks), b.side(blocks)), engine_provenance(b.engine, b.first)
        return CompareResult(
            ending=ending_of(decision, blocks) if outputs.is_ok else outputs.ending,
            device_model=self.opened.device_model,
            provenance=provenance.with_settings({"seed": self.seed}),
            throttling=Throttling(throttled=throttled_text(blocks)),
            figures=engine_figures(b.first, [sample for block in blocks[1::2] for sample in block.samples]),
            comparison=outputs.comparison,
            compared=compare_figures(*sides, decision, self.margin_percent, (), blocks),
        )

    def _outputs_compared(self, a: _Racer, b: _Racer) -> Validation:
        """B's outputs against A's, where both tell them all."""
        if not all(name in run.outputs for name in self.prepared.data_formats for run in (a.first, b.first)):
            return Validation()
        precision = max(a.ready.precision, b.ready.precision)
        thresholds = thresholds_of(self.prepared, self.runtime, precision)
        validation = compare_within(thresholds, self.prepared, a.first.outputs, b.first.outputs)
        return agreement(validation, self.both[0].side.kind != "model")
