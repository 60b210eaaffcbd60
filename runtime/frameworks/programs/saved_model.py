"""SavedModels: the signature that serves, frozen."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.protobuf import saved_model_pb2

from runtime.errors import ModelError
from runtime.frameworks.names import shown
from runtime.frameworks.programs import frozen_graph
from runtime.frameworks.programs.frozen_graph import FrozenGraph
from runtime.frameworks.programs.program import first_line
from runtime.frameworks.request import FrameworkRequest

SERVING = "serving_default"


def load(request: FrameworkRequest) -> FrozenGraph:
    """The graph of a folder; its tensors go by the signature's keys, or by the names that `saved_model_cli` shows."""
    signature = _signature_proto(request)
    loaded = _loaded(request)  # it owns the variables
    function = loaded.signatures[_signature_name(request, list(loaded.signatures))]
    frozen = frozen_graph.frozen(function)
    keys = sorted(function.structured_outputs)
    inputs = {tensor.name.partition(":")[0]: tensor.name for tensor in frozen.inputs}
    outputs = dict(zip(keys, (tensor.name for tensor in frozen.outputs), strict=True))
    shown_names = {
        info.name: names[key]
        for infos, names in ((signature.inputs, inputs), (signature.outputs, outputs))
        for key, info in infos.items()
        if key in names
    }
    return FrozenGraph(frozen.graph.as_graph_def(), list(inputs), keys, {**shown_names, **inputs, **outputs})


def _loaded(request: FrameworkRequest) -> Any:
    try:
        return tf.saved_model.load(request.model)
    except (tf.errors.OpError, FileNotFoundError) as error:  # which of them depends on what is missing
        raise ModelError(f"{request.model}: its weights are missing or damaged: {first_line(error)}") from None


def _signature_name(request: FrameworkRequest, names: list[str]) -> str:
    if SERVING in names:
        return SERVING
    if len(names) == 1:
        return names[0]
    raise ModelError(f"{request.model}: no signature {SERVING!r}, and not just one; it has {shown(names)}")


def _signature_proto(request: FrameworkRequest) -> Any:
    """The signature as the file describes it."""
    model = saved_model_pb2.SavedModel()
    try:
        model.ParseFromString((request.path / "saved_model.pb").read_bytes())
    except DecodeError:
        raise ModelError(f"{request.model}: saved_model.pb is damaged or truncated; get the folder again") from None
    if not model.meta_graphs:
        raise ModelError(f"{request.model}: saved_model.pb holds no graph; get the folder again")
    definitions = model.meta_graphs[0].signature_def
    named = [name for name in definitions if not name.startswith("__")]
    return definitions[_signature_name(request, named)]
