"""`farm quantize`: ranges of a model's tensors over samples, what each layer loses, and the model in eight bits."""

import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from farm.config.deployment import Deployment
from farm.config.given_model import GivenModel
from farm.config.inventory import Unit
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.models.prepare import prepare
from farm.jobs.run import RunOptions, run_job
from farm.model import deployments
from farm.model.fetch import Fetcher
from farm.quantization.quantizer import QuantizeOptions, Quantizer, Tell
from farm.rows.quantize import QuantizeResult, QuantizeRow, UnitSpeed
from farm.rows.result import Conditions, make_row
from farm.rows.row import Failure, Identity
from farm.rows.run import RunRow
from farm.rows.status import Status
from runtime.errors import ConfigError, JobError

TURNS, ROUNDS, WARMUP = 5, 20, 3
QUANTIZED = "quantized"
OF_THE_FILE = (
    *("platform", "model_file_path", "model_sha256_checksum", "weight_file_path", "weight_sha256_checksum"),
    "subgraphs",
)
IN_FLOAT = {"quantize": False, "quantize_large_weights": False, "quantize_within": None}


def quantize_job(
    deployment: Deployment,
    options: QuantizeOptions,
    tell: Tell = lambda line: None,
    units: Sequence[Unit] = (),
    progress: ProgressView = SILENT,
) -> Iterator[QuantizeRow]:
    """Quantises every model of a deployment file; a row for each. What is wrong with the input raises its error.

    `tell` gets how far it is. On each of the units both models are timed.
    """
    if options.output and len(deployment.models) > 1:
        raise ConfigError(f"{deployment.path}: -o is one file, there are {', '.join(deployment.models)}")
    floats = _in_float(deployment)
    fetcher = Fetcher(floats)
    for name in floats.models:
        prepared = prepare(floats, name, fetcher)
        wanted = options if options.data or options.ranges else _with_own_ranges(options, fetcher.range_file(name))
        wanted.check()
        identity = Identity(
            unit="", soc="", device_model="", library=deployment.library_name, model=name, runtime="onnxruntime"
        )
        try:
            figures = Quantizer(prepared.floats("--data"), wanted, tell).figures()
            speeds = tuple(_speeds(floats, name, Path(figures.file), units, progress)) if units else ()
            outcome: QuantizeResult | Failure = QuantizeResult(figures=figures.model_copy(update={"speeds": speeds}))
        except JobError as error:
            outcome = Failure.of(error)
        yield make_row(QuantizeRow, identity, Conditions(_settings(wanted)), outcome)


def _in_float(deployment: Deployment) -> Deployment:
    """The deployment file, as if it had not asked for eight bits itself."""
    models = {name: model.model_copy(update=IN_FLOAT) for name, model in deployment.models.items()}
    return deployment.model_copy(update={"models": models})


def _speeds(
    floats: Deployment, name: str, file: Path, units: Sequence[Unit], progress: ProgressView
) -> Iterator[UnitSpeed]:
    """The times of a model and of its quantised file, in turns, on each unit and runtime of the model."""
    (made,) = deployments.load(GivenModel(file.resolve())).models.values()
    quantized = floats.models[name].model_copy(update={key: getattr(made, key) for key in OF_THE_FILE})
    pair = floats.model_copy(update={"models": {name: floats.models[name], QUANTIZED: quantized}})
    lanes: dict[tuple[str, str], tuple[list[RunRow], list[RunRow]]] = {}
    for _ in range(TURNS):
        for row in run_job(pair, units, RunOptions(ROUNDS, WARMUP), progress=progress):
            lanes.setdefault((row.unit, row.runtime), ([], []))[row.model == QUANTIZED].append(row)
    for lane, (float_rows, rows) in lanes.items():
        yield _speed(*lane, float_rows, rows)


def _speed(unit: str, runtime: str, float_rows: Sequence[RunRow], rows: Sequence[RunRow]) -> UnitSpeed:
    reason = next((row.reason for row in (*float_rows, *rows) if row.status != Status.OK), "")
    pairs = [
        (a.latency_ms.median, b.latency_ms.median)
        for a, b in zip(float_rows, rows, strict=not reason)
        if a.latency_ms and b.latency_ms
    ]
    if reason or not pairs:
        return UnitSpeed(unit=unit, runtime=runtime, reason=reason)
    float_ms, ms = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    return UnitSpeed(unit=unit, runtime=runtime, float_ms=float_ms, ms=ms, over_float=ratio)


def _with_own_ranges(options: QuantizeOptions, ranges: Path | None) -> QuantizeOptions:
    """The options with the ranges that the deployment file names, where activations are quantised."""
    return options if options.weights_only else dataclasses.replace(options, ranges=ranges)


def _settings(options: QuantizeOptions) -> dict[str, Any]:
    given = dataclasses.asdict(options)
    return {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
