"""Keras models, .keras and .h5: checked for code before Keras reads them, then frozen between layers."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import tensorflow as tf

from runtime.errors import ModelError
from runtime.frameworks.model_tensors import ModelTensors
from runtime.frameworks.names import find_tensor
from runtime.frameworks.programs import frozen_graph
from runtime.frameworks.programs.frozen_graph import FrozenGraph, model_tensor
from runtime.frameworks.programs.keras_config import check_code
from runtime.frameworks.request import FrameworkRequest

HDF5 = b"\x89HDF\r\n\x1a\n"
MAX_CONFIG_BYTES = 64 * 1024**2


def load(request: FrameworkRequest, folder: Path) -> FrozenGraph:
    """The part of the model between the request's layers, as a graph; the names are those of layers."""
    model = _model(request, folder)
    layers = _tensors(model)
    named_inputs = {tensor.name: tensor for tensor in model.inputs}
    inputs = [
        find_tensor("input", name, {**layers, **named_inputs}, list(named_inputs)) for name in request.input_names
    ]
    outputs = [find_tensor("output", name, layers, _output_names(model)) for name in request.outputs]
    part = tf.keras.Model(inputs, outputs)
    specs = [tf.TensorSpec(shape, tensor.dtype) for (_, shape), tensor in zip(request.inputs, inputs, strict=True)]
    _check_shapes(request, inputs)
    function = tf.function(lambda *values: part(list(values), training=False)).get_concrete_function(*specs)
    frozen = frozen_graph.frozen(function)
    names = {
        **dict(zip(request.input_names, (tensor.name for tensor in frozen.inputs), strict=True)),
        **dict(zip(request.outputs, (tensor.name for tensor in frozen.outputs), strict=True)),
    }
    return FrozenGraph(frozen.graph.as_graph_def(), request.input_names, request.outputs, names)


def describe(request: FrameworkRequest, folder: Path) -> ModelTensors:
    """The model's own inputs, and the layers that write its outputs."""
    model = _model(request, folder)
    return ModelTensors(
        tuple(model_tensor(tensor.name, tensor) for tensor in model.inputs),
        tuple(map(model_tensor, _output_names(model), model.outputs)),
    )


def _output_names(model: Any) -> list[str]:
    return [tensor._keras_history.operation.name for tensor in model.outputs]


def _config(path: Path) -> Any:
    """The description of the model's layers; ModelError where the file has none."""
    with path.open("rb") as file:
        is_hdf5 = file.read(len(HDF5)) == HDF5
    try:
        text = _hdf5_config(path) if is_hdf5 else _zip_config(path)
        return json.loads(text)
    except (OSError, ValueError, KeyError, RuntimeError, RecursionError, zipfile.BadZipFile, NotImplementedError):
        raise ModelError(f"{path}: no Keras model (.keras or .h5), or truncated; get the file again") from None


def _hdf5_config(path: Path) -> str:
    with h5py.File(path, "r") as file:
        text = file.attrs.get("model_config")
    if text is None:
        raise ModelError(f"{path}: holds weights only, no layers; save the whole model with model.save(...)")
    return text.decode() if isinstance(text, bytes) else str(text)


def _zip_config(path: Path) -> str:
    with zipfile.ZipFile(path) as archive, archive.open("config.json") as file:
        return file.read(MAX_CONFIG_BYTES).decode()


def _model(request: FrameworkRequest, folder: Path) -> Any:
    """The model, under a name whose ending Keras knows; ModelError for one with code that the user does not trust."""
    config = _config(request.path)
    if not request.trusted:
        check_code(config, request)
    with request.path.open("rb") as file:
        suffix = ".h5" if file.read(len(HDF5)) == HDF5 else ".keras"
    link = folder / f"model{suffix}"
    link.symlink_to(request.path)
    model = tf.keras.models.load_model(link, compile=False, safe_mode=not request.trusted)
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise ModelError(f"{request.model}: its inputs are not known; call the model once before it is saved")
    return model


def _tensors(model: Any) -> dict[str, Any]:
    """The output of each layer by the layer's name; a model within it has none in this one's graph."""
    tensors: dict[str, Any] = {}
    for layer in model.layers:
        if isinstance(layer, tf.keras.Model):
            continue
        values = layer.output if isinstance(layer.output, (list, tuple)) else [layer.output]
        tensors |= {f"{layer.name}:{index}": value for index, value in enumerate(values)}
    for tensor in model.outputs:
        tensors.setdefault(f"{tensor._keras_history.operation.name}:0", tensor)
    return tensors


def _check_shapes(request: FrameworkRequest, inputs: list[Any]) -> None:
    for (name, shape), tensor in zip(request.inputs, inputs, strict=True):
        if not tf.TensorShape(tensor.shape).is_compatible_with(shape):
            declared = ",".join("?" if size is None else str(size) for size in tensor.shape)
            raise ModelError(f"input {name!r}: shape {','.join(map(str, shape))}, but the model reads {declared}")
