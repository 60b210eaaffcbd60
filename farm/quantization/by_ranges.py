"""A float model in eight bits, by ranges that are known: what `quantize: 1` of a deployment file asks for."""

from __future__ import annotations

from pathlib import Path

import onnx

from farm.model.reference_process import ReferenceProcess
from farm.quantization import qdq, range_file
from farm.quantization.layers import activations, float_model, layers_of


def quantized_by_file(source: onnx.ModelProto, file: Path) -> onnx.ModelProto:
    """The model with every layer quantised, its weights with one scale each, as MACE does.

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
