"""A model in another engine on a unit, ready for rounds in fresh processes."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from farm.condition.throttling import RetryPolicy
from farm.config.deployment import FARMRT, Input, Model, Output, Runtime
from farm.config.execution import Execution
from farm.config.platforms import PLATFORMS
from farm.engines.base import EngineModel, EngineRun, EngineTask, EngineUnit
from farm.engines.registry import NamedEngine
from farm.jobs.fleet import round_limit
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Prepared, TestData
from farm.lease.leftovers import ENGINE_MARK
from farm.model.boundary import is_turned
from farm.model.fetch import Fetcher
from farm.rows.nightly_block import Block
from runtime.errors import DeviceError, UnsupportedError
from runtime.importers.onnx_file import whole
from runtime.importers.onnx_importer import with_stand_ins
from runtime.types import Precision


@dataclasses.dataclass(frozen=True)
class ReadyEngine:
    """A model in an engine on a unit: `run` runs so many rounds, after so many that warm up, in a fresh process.

    `precision` is what its outputs are judged by.
    """

    run: Callable[[int, int], EngineRun]
    precision: Precision = Precision.FP32

    def timed(self, rounds: int, warmup: int, by_figures: bool = False) -> EngineRun:
        """The same; DeviceError where it tells no times, nor figures of a program that serve `by_figures`."""
        run = self.run(rounds, warmup)
        if not run.samples_ms and not (by_figures and run.figures):
            raise DeviceError("the engine does not tell the times of its rounds: name a figure latency_ms")
        return run


def measured_blocks(
    opened: OpenUnit, runs: Mapping[str, Callable[[], EngineRun]], rest: RetryPolicy | None = None
) -> tuple[Block, ...]:
    """A block of each run, by their arms, one after another; all again after a rest where heat slowed the unit down."""
    begun = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    sample = opened.measured(lambda: [run() for run in runs.values()], rest)
    return tuple(
        Block(
            time=begun,
            arm=arm,
            init_ms=run.init_ms,
            first_ms=run.first_ms,
            samples=run.samples_ms,
            figures={figure.name: figure.value for figure in run.figures},
            throttled=sample.cause,
            waited_share=run.waited_share,
            state_before=sample.before,
            state_after=sample.after,
        )
        for arm, run in zip(runs, sample.value, strict=True)
    )


class EngineModels:
    """Models as adapters get them, each made once; what adapters make of them lies in a folder of the job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models: dict[str, EngineModel] = {}
        self._lock = threading.Lock()

    def beside(self, name: str) -> EngineModels:
        """Those of another file, whose models may have the same names; in a folder within this one."""
        folder = self._folder / f"beside-{name}"
        folder.mkdir()
        return EngineModels(folder)

    def of(self, prepared: Prepared) -> EngineModel:
        """The model of a deployment file."""
        with self._lock:
            if prepared.name not in self._models:
                self._models[prepared.name] = _engine_model(prepared, self._folder / prepared.name)
            return self._models[prepared.name]


def _engine_model(prepared: Prepared, folder: Path) -> EngineModel:
    folder.mkdir()
    own = PLATFORMS[prepared.settings.platform].own_format
    tensors: list[Input | Output] = [*prepared.inputs, *prepared.outputs]
    model = whole(with_stand_ins(prepared.source, prepared.custom))
    return EngineModel(
        name=prepared.name,
        platform=prepared.settings.platform,
        source=Fetcher(prepared.deployment).model_file(prepared.name),
        onnx=model.SerializeToString(deterministic=True),
        inputs=tuple(tensor.name for tensor in prepared.inputs),
        outputs=tuple(tensor.name for tensor in prepared.outputs),
        folder=folder,
        is_turned=any(is_turned(tensor, own) for tensor in tensors),
    )


def runtimes_of(
    engine: str, model: Model, is_named: bool, among: Sequence[Runtime] | None = None
) -> tuple[Runtime, ...]:
    """Those of a model's runtimes on which an engine takes it, as far as that is known without trying.

    An engine that the user named, and that takes it on none, has the first one, which it refuses with a reason.
    """
    wanted = tuple(each for each in model.runtimes if among is None or each in among)
    if engine == FARMRT:
        return wanted
    adapter = NamedEngine.of(engine).engine
    takes = not adapter.platforms or model.platform in adapter.platforms
    taken = tuple(each for each in wanted if takes and each in adapter.runtimes)
    return taken or wanted[: int(is_named)]


@contextlib.contextmanager
def ready_engine(
    opened: OpenUnit,
    named: NamedEngine,
    prepared: Prepared,
    model: EngineModel,
    runtime: Runtime,
    data: TestData,
    execution: Execution,
) -> Iterator[ReadyEngine]:
    """Brings an engine other than farmrt to a unit."""
    unit = engine_unit(named.word, opened, prepared, execution)
    with started(named, prepared, runtime, unit) as start:
        yield ready_of(named, start, unit, prepared, model, runtime, data, execution)


@contextlib.contextmanager
def started(
    named: NamedEngine, prepared: Prepared, runtime: Runtime, unit: EngineUnit
) -> Iterator[Callable[[EngineTask], EngineRun]]:
    """An engine on a unit, once it is known to take the model; it serves all models of the same limit for rounds."""
    engine, adapter = named.word, named.engine
    if adapter.platforms and prepared.settings.platform not in adapter.platforms:
        taken = " and ".join(adapter.platforms)
        raise UnsupportedError(f"engine {engine} takes models of platform {taken}, not {prepared.settings.platform}")
    if runtime not in adapter.runtimes:
        raise UnsupportedError(f"engine {engine} runs models on {' and '.join(adapter.runtimes)}, not on {runtime}")
    with adapter.ready(unit) as start:
        yield start


def ready_of(
    named: NamedEngine,
    start: Callable[[EngineTask], EngineRun],
    unit: EngineUnit,
    prepared: Prepared,
    model: EngineModel,
    runtime: Runtime,
    data: TestData,
    execution: Execution,
) -> ReadyEngine:
    """A model in an engine that is on the unit."""
    threads = execution.over(prepared.settings.execution).num_threads

    def run(rounds: int, warmup: int) -> EngineRun:
        with round_limit.named(unit.round_limit_s) if named.engine.counts_rounds else contextlib.nullcontext():
            return start(EngineTask(model, runtime, data.inputs, rounds, warmup, threads, named.options))

    return ReadyEngine(run)


def _on_cpus(engine: str, wanted: Execution) -> list[str]:
    """The words before a command line that keep it on the CPUs of an affinity, as toybox and util-linux know them."""
    policy = wanted.cpu_affinity_policy or "none"
    if policy in ("big_only", "little_only"):
        raise UnsupportedError(f"engine {engine}: cpu_affinity_policy {policy} is for farmrt; name the CPUs: 4-7")
    if policy == "none":
        return []
    mask = 0
    for part in policy.split(","):
        first, _, last = part.partition("-")
        for cpu in range(int(first), int(last or first) + 1):
            mask |= 1 << cpu
    return ["taskset", f"{mask:x}"]


def engine_unit(engine: str, opened: OpenUnit, prepared: Prepared, execution: Execution) -> EngineUnit:
    """A unit as adapters see it, for a model."""
    on_cpus = _on_cpus(engine, execution.over(prepared.settings.execution))
    connection = opened.connection
    return EngineUnit(
        name=opened.unit.name,
        abi=opened.unit.abi,
        is_here=opened.unit.kind.is_local,
        transport=connection.transport,
        store=connection.store,
        wrap=lambda argv: connection.task_profile.wrap(["env", ENGINE_MARK, *on_cpus, *argv]),
        round_limit_s=connection.round_limit_s or prepared.settings.round_limit or round_limit.LEAST_S,
    )
