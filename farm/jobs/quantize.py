"""`farm quantize`: ranges of a model's tensors over samples, what each layer loses, and the model in eight bits."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farm.config.deployment import Deployment
from farm.jobs.models.prepare import prepare
from farm.model.fetch import Fetcher
from farm.quantization.quantizer import QuantizeOptions, Quantizer, Tell
from farm.rows.quantize import QuantizeResult, QuantizeRow
from farm.rows.result import Conditions, make_row
from farm.rows.row import Failure, Identity
from runtime.errors import ConfigError, JobError

IN_FLOAT = {"quantize": False, "quantize_large_weights": False, "quantize_within": None}


def quantize_job(
    deployment: Deployment, options: QuantizeOptions, tell: Tell = lambda line: None
) -> Iterator[QuantizeRow]:
    """Quantises every model of a deployment file; a row for each. What is wrong with the input raises its error.

    `tell` gets how far it is.
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
            outcome: QuantizeResult | Failure = QuantizeResult(figures=figures)
        except JobError as error:
            outcome = Failure.of(error)
        yield make_row(QuantizeRow, identity, Conditions(_settings(wanted)), outcome)


def _in_float(deployment: Deployment) -> Deployment:
    """The deployment file, as if it had not asked for eight bits itself."""
    models = {name: model.model_copy(update=IN_FLOAT) for name, model in deployment.models.items()}
    return deployment.model_copy(update={"models": models})


def _with_own_ranges(options: QuantizeOptions, ranges: Path | None) -> QuantizeOptions:
    """The options with the ranges that the deployment file names, where activations are quantised."""
    return options if options.weights_only else dataclasses.replace(options, ranges=ranges)


def _settings(options: QuantizeOptions) -> dict[str, Any]:
    given = dataclasses.asdict(options)
    return {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
