"""What an engine did, as the result of a row."""

from __future__ import annotations

from collections.abc import Sequence

from farm.config.deployment import Runtime
from farm.engines.base import EngineRun
from farm.engines.registry import base_name
from farm.jobs.models.prepare import Prepared, TestData
from farm.jobs.validate import Validation, compare_with_reference, thresholds_of
from farm.rows.execution import PeakMemory
from farm.rows.latency import Latency
from farm.rows.row import Provenance, versions
from farm.rows.run import RunFigures
from runtime.errors import DeviceError
from runtime.types import Precision


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
    thresholds = thresholds_of(prepared, runtime, precision)
    return compare_with_reference(prepared, thresholds, lambda: data.expected, run.outputs)
