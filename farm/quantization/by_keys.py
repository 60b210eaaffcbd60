"""A float model in eight bits, as keys of a deployment file ask for it."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from farm import atomic_file
from farm.model.fetch import content_key
from farm.model.reference_process import ReferenceProcess
from farm.quantization import qdq, range_file
from farm.quantization.cheapest import kept_times
from farm.quantization.judge import LossBudget
from farm.quantization.layers import WEIGHTED, activations, float_model, layers_of
from farm.quantization.quantizer import FloatModel, QuantizeOptions, Quantizer, Tell
from farm.rows.quantize import QuantizeFigures
from runtime.errors import JobError


def quantized_by_file(source: onnx.ModelProto, file: Path) -> onnx.ModelProto:
    """`quantize: 1`: every layer by a file of ranges, its weights with one scale each, as MACE does.

    Raises:
        ConfigError: the file is none of ranges, or lacks some.
        ModelError: the model is quantised already.
    """
    model = float_model(source, ReferenceProcess())
    layers = layers_of(model)
    names = activations(model, layers)
    ranges = range_file.read(file)
    range_file.require_all(file, ranges, names)
    return qdq.quantized(model, layers, {name: ranges[name] for name in names}, per_channel=False)


def quantized_weights(source: onnx.ModelProto) -> onnx.ModelProto:
    """`quantize_large_weights: 1`: the weights of each layer, with a scale for each channel; what it computes is float.

    Raises ModelError where the model is quantised already.
    """
    model = float_model(source, ReferenceProcess())
    return qdq.weights_only(model, layers_of(model, WEIGHTED), "int8")


KEY, SAID = "farm.key", "farm.said"  # metadata of what is kept
NONE, ALL = 0.0, math.inf  # limits with no layer in eight bits, and with all


def quantized_within(
    source: FloatModel, samples: Path, limit: float, tell: Tell = lambda text: None
) -> tuple[onnx.ModelProto, list[str]]:
    """`quantize_within`: the noise of the worst output is at most this share of its norm; and lines on what is left.

    Where `farm tune` has timed the layers, it is the fastest such model, else the one of most layers in eight bits. It
    is kept below build/ until the model, the samples, the limit or the times change.

    `tell` gets how far it is. Raises ConfigError and ModelError as `farm quantize` does.
    """
    if limit == NONE:
        return float_model(source.model, ReferenceProcess()), []
    times = None if limit == ALL else kept_times(times_file(source.file))
    given = content_key(samples) if samples.is_dir() else ""
    told = repr((source.model.SerializeToString(deterministic=True), given, limit, times))
    key = hashlib.sha256(told.encode()).hexdigest()
    file = source.file.with_suffix(".all.onnx" if limit == ALL else ".within.onnx")
    kept = _kept(file)
    known = {each.key: each.value for each in kept.metadata_props}
    if known.get(KEY) == key:
        return kept, known[SAID].splitlines()
    budget = LossBudget(-math.inf if limit == ALL else -20 * math.log10(limit))
    options = QuantizeOptions(samples, per_channel=True, budget=budget, output=file)
    try:
        figures = Quantizer(source, options, tell, times).figures()
        made, said = onnx.load(file), [_said(figures, limit), *figures.notes]
    except JobError as error:
        made, said = float_model(source.model, ReferenceProcess()), [f"no layer is in eight bits: {error}"]
    onnx.helper.set_model_props(made, {KEY: key, SAID: "\n".join(said)})
    atomic_file.write(file, made.SerializeToString(deterministic=True))
    return made, said


def _kept(file: Path) -> onnx.ModelProto:
    """What a call before has left; empty where there is none, or it is damaged."""
    try:
        return onnx.load(file)
    except (OSError, DecodeError):
        return onnx.ModelProto()


def times_file(file: Path) -> Path:
    """Where the times of layers lie."""
    return file.with_suffix(".times.json")


def _said(figures: QuantizeFigures, limit: float) -> str:
    floats = sum(bool(layer.in_float) for layer in figures.layers)
    noise = 10 ** (-(figures.after_db or 0.0) / 20)
    return (
        f"{len(figures.layers) - floats} of {len(figures.layers)} layers in eight bits; the worst output's noise is "
        f"{100 * noise:.3g} % of its norm over {figures.judged} samples, {100 * limit:g} % are allowed"
    )
