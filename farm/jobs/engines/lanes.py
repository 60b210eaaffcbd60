"""An engine of any kind with a model on a unit, farmrt among them; what its rounds follow from and result in."""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from farm.config.deployment import FARMRT, Runtime
from farm.engines.base import EngineRun
from farm.engines.registry import NamedEngine, base_name
from farm.farmrt.answers import waited_share
from farm.jobs.engines.ready import EngineModels, ReadyEngine, ready_engine
from farm.jobs.fleet.execution import placement_of
from farm.jobs.fleet.round_limit import rounds_deadline_s
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import LoadOptions, provenance_of, ready_model
from farm.jobs.models.prepare import Prepared, TestData
from farm.jobs.validate import Validation, compare_with_reference
from farm.rows.execution import PeakMemory
from farm.rows.latency import Latency
from farm.rows.row import Provenance, versions
from farm.rows.run import RunFigures
from farm.workspace import data_file
from runtime.errors import DeviceError
from runtime.native.build import build_farmrt
from runtime.types import Precision
from runtime.version import RUNTIME_VERSION


def ready_in(
    engine: str,
    opened: OpenUnit,
    prepared: Prepared,
    runtime: Runtime,
    data: TestData,
    models: EngineModels,
    load: LoadOptions,
) -> AbstractContextManager[ReadyEngine]:
    """Brings an engine, farmrt or another, to a unit."""
    if engine == FARMRT:
        return ready_farmrt(opened, prepared, runtime, data, load)
    named = NamedEngine.of(engine)
    return ready_engine(opened, named, prepared, models.of(prepared), runtime, data, load.execution)


def run_key(engine: str, runtime: Runtime, run: EngineRun, data: TestData) -> str:
    """Names what an engine runs by its content: its files, the model in its form, and the inputs."""
    inputs = [f"{name} {hashlib.sha256(value.tobytes()).hexdigest()}" for name, value in sorted(data.inputs.items())]
    return repr((engine, runtime, run.version, sorted(run.hashes.items()), inputs))


NS_PER_MS = 1e6


@contextlib.contextmanager
def ready_farmrt(
    opened: OpenUnit, prepared: Prepared, runtime: Runtime, data: TestData, options: LoadOptions
) -> Iterator[ReadyEngine]:
    """Lowers a model for a unit, with the files of tuning that fit."""
    target = opened.planner.target(prepared, runtime, options.memory)
    ready = ready_model(opened, prepared, runtime, target, options)
    model = ready.model
    sizes = {
        "engine": build_farmrt(opened.unit.abi).stat().st_size,
        "model": sum(path.stat().st_size for path in (model.plan_file, data_file(model.plan_file)) if path.exists()),
    }

    placement = placement_of(model.plan.steps)
    nodes = {place: count for place, count in (("gpu", placement.gpu), ("cpu", placement.cpu)) if count}

    def run(rounds: int, warmup: int) -> EngineRun:
        with opened.twin() as own:
            limit_s = prepared.settings.round_limit
            files = (model.plan_file, model.tuned, ready.chosen.file, model.limited)
            answer = own.load(*files, round_limit_s=limit_s, execution=ready.execution)
            own.write_inputs(data.inputs)
            first_ms = own.first_round().very_first_ms
            times = own.session.run(rounds, rounds_deadline_s(rounds + warmup, first_ms), warmup)
            memory = own.session.memory()
            provenance = provenance_of(own, ready.loaded(runtime, answer))
            return EngineRun(
                version=RUNTIME_VERSION,
                init_ms=answer.init_ms,
                first_ms=first_ms,
                samples_ms=tuple(sample / NS_PER_MS for sample in times.wall_ns),
                outputs=own.read_outputs(model.plan),
                peak_bytes=memory.peak_resident_bytes or None,
                peak_since="load" if memory.since_load else "start",
                hashes=provenance.hashes,
                size_bytes=sizes,
                settings={**provenance.settings, "nodes": nodes},
                fingerprint=provenance.fingerprint,
                waited_share=waited_share([times]),
            )

    yield ReadyEngine(run, model.plan.target.precision)


def engine_provenance(engine: str, run: EngineRun) -> Provenance:
    """What an engine worked with."""
    name = base_name(engine)
    return Provenance(
        versions={**versions(), **({name: run.version} if run.version else {})},
        hashes=dict(run.hashes),
        settings=dict(run.settings),
        fingerprint={
            "engine": f"{name} {run.version}".rstrip(),
            "files": run.hashes.get("engine", ""),
            **run.fingerprint,
        },
    )


def engine_figures(run: EngineRun, samples_ms: Sequence[float]) -> RunFigures:
    """The figures of a run, with the times of rounds, which may be those of several processes."""
    memory = PeakMemory(resident_bytes=run.peak_bytes, resident_since=run.peak_since) if run.peak_bytes else None
    return RunFigures(
        init_ms=run.init_ms,
        first_ms=run.first_ms,
        latency_ms=Latency.of(samples_ms) if samples_ms else None,
        peak_memory=memory,
        file_bytes=dict(run.size_bytes),
        figures=run.figures,
    )


def engine_validation(
    engine: str, prepared: Prepared, runtime: Runtime, precision: Precision, data: TestData, run: EngineRun
) -> Validation:
    """An engine's outputs, if it tells them, against the reference; DeviceError where one has another shape."""
    if not run.outputs:
        return Validation()
    for name, value in run.outputs.items():
        shape = prepared.graph.shape(name)
        if value.shape != shape:
            raise DeviceError(f"{engine}: output {name} has the shape {value.shape}, not {shape}", "bad_answer")
    return compare_with_reference(prepared, runtime, precision, lambda: data.expected, run.outputs)
