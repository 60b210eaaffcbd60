"""A float model in eight bits without samples, as keys of a deployment file ask for it."""

from __future__ import annotations

from pathlib import Path

import onnx

from farm.model.reference_process import ReferenceProcess
from farm.quantization import qdq, range_file
from farm.quantization.layers import WEIGHTED, activations, float_model, layers_of


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
