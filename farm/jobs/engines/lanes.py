"""An engine of any kind with a model on a unit, and what its rounds follow from."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager

from farm.config.deployment import FARMRT, Runtime
from farm.engines.base import EngineRun
from farm.engines.registry import NamedEngine
from farm.jobs.engines.farmrt import ready_farmrt
from farm.jobs.engines.ready import EngineModels, ReadyEngine, ready_engine
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import LoadOptions
from farm.jobs.models.prepare import Prepared, TestData


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
