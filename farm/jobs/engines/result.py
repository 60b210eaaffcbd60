"""What an engine did, as the result of a row."""

from __future__ import annotations

from farm.config.deployment import Runtime
from farm.engines.base import EngineRun
from farm.jobs.models.prepare import Prepared, TestData
from farm.jobs.validate import Validation, compare_with_reference, thresholds_of
from farm.rows.execution import PeakMemory
from farm.rows.latency import Latency
from farm.rows.row import Provenance, Throttling, versions
from farm.rows.run import RunFigures, RunResult
from runtime.errors import DeviceError
from runtime.types import Precision


def engine_result(
    engine: str, run: EngineRun, device_model: str, throttling: Throttling, validation: Validation
) -> RunResult:
    """The result of rounds in an engine."""
    memory = PeakMemory(resident_bytes=run.peak_bytes, resident_since=run.peak_since) if run.peak_bytes else None
    return RunResult(
        ending=validation.ending,
        device_model=device_model,
        provenance=Provenance(
            versions={**versions(), engine: run.version}, hashes=dict(run.hashes), settings=dict(run.settings)
        ),
        throttling=throttling,
        figures=RunFigures(
            init_ms=run.init_ms,
            first_ms=run.first_ms,
            latency_ms=Latency.of(run.samples_ms),
            peak_memory=memory,
            file_bytes=dict(run.size_bytes),
        ),
        comparison=validation.comparison,
    )


def engine_validation(engine: str, prepared: Prepared, runtime: Runtime, data: TestData, run: EngineRun) -> Validation:
    """An engine's outputs against the reference; DeviceError where they have another shape than the model's."""
    for name, value in run.outputs.items():
        shape = prepared.graph.shape(name)
        if value.shape != shape:
            raise DeviceError(f"{engine}: output {name} has the shape {value.shape}, not {shape}", "bad_answer")
    thresholds = thresholds_of(prepared, runtime, Precision.FP32)
    return compare_with_reference(prepared, thresholds, lambda: data.expected, run.outputs)
