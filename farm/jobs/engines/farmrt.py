"""farmrt as one engine among others: the same rounds in a fresh process, told in the same words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from farm.config.deployment import Runtime
from farm.engines.base import EngineRun
from farm.farmrt.answers import waited_share
from farm.jobs.engines.ready import ReadyEngine
from farm.jobs.fleet.placement import placement_of
from farm.jobs.fleet.round_limit import rounds_deadline_s
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import LoadOptions, provenance_of, ready_model
from farm.jobs.models.prepare import Prepared, TestData
from farm.workspace import data_file
from runtime.native.build import build_farmrt
from runtime.version import RUNTIME_VERSION

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
