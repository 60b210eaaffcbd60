"""Caffe network -> ONNX model, which the ONNX importer and the oracle then take like any other.

A blob keeps its name. Where layers compute in place, the name is that of the last version, as after a run of Caffe;
an earlier version is `<blob>/<layer that wrote it>`. Nodes are named after their layers.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from runtime.errors import ModelError, UnsupportedError
from runtime.frameworks.model_tensors import ModelTensor, ModelTensors, Sizes
from runtime.graph import Array
from runtime.importers.caffe import (
    activation,
    arithmetic,
    convolution,
    detection,
    movement,
    normalization,
    pooling,
    resizing,
)
from runtime.importers.caffe.caffemodel import Weights, load_caffemodel
from runtime.importers.caffe.layer_import import Handler, LayerImport
from runtime.importers.caffe.layers import CaffeLayer
from runtime.importers.caffe.network import LinkedLayer, LinkedNetwork, link
from runtime.importers.caffe.onnx_writer import OnnxWriter, Shape
from runtime.importers.caffe.prototxt import load_prototxt

_FAMILIES = (activation, arithmetic, convolution, detection, movement, normalization, pooling, resizing)
LAYERS: Mapping[str, Handler] = {kind: handler for family in _FAMILIES for kind, handler in family.LAYERS.items()}
SHOWN_NAMES = 5


@dataclasses.dataclass(frozen=True)
class CaffeModel:
    """An imported network, and what a user should know of the import, a line each."""

    model: onnx.ModelProto
    notes: tuple[str, ...]


def load_caffe(
    prototxt: Path,
    caffemodel: Path | None,
    input_shapes: Mapping[str, Shape] | None = None,
    outputs: Sequence[str] | None = None,
) -> CaffeModel:
    """The model of a network and its weights.

    `input_shapes` (NCHW) replace those of the file; an intermediate blob among them becomes an input. `outputs`
    (default: the blobs that no layer reads) may name any blob; what they do not need is not looked at. ModelError for
    damaged or inconsistent files, UnsupportedError naming every type of layer that this importer lacks.
    """
    text = load_prototxt(prototxt)
    network = link(text, input_shapes or {}, outputs)
    layers, inputs = network.needed()
    _check_layers(prototxt, [linked.layer for linked in layers])
    weights = load_caffemodel(caffemodel) if caffemodel else None
    writer = OnnxWriter(text.head.name or "model", _tensors(network))
    for name in inputs:
        writer.add_input(name, _input_shape(prototxt, name, network.inputs[name]))
    with np.errstate(all="ignore"):  # weights that overflow are refused by the ONNX importer, where they are used
        for linked in layers:
            _import_layer(linked, weights, writer)
    return CaffeModel(writer.model(network.outputs), (*network.notes, *_unused(network, weights)))


def caffe_tensors(prototxt: Path) -> ModelTensors:
    """The inputs that a network needs, with the shapes that its file says, and the blobs that no layer reads."""
    network = link(load_prototxt(prototxt), {}, None)
    _, inputs = network.needed()
    return ModelTensors(
        tuple(ModelTensor(name, _sizes(network.inputs[name]), "float32") for name in inputs),
        tuple(ModelTensor(name, None, "float32") for name in network.outputs),
    )


def _sizes(shape: Shape | None) -> Sizes | None:
    return None if shape is None else tuple(size if size > 0 else "" for size in shape)


def _tensors(network: LinkedNetwork) -> set[str]:
    return {*network.inputs, *(name for linked in network.layers for name in linked.outputs)}


def _check_layers(path: Path, layers: Sequence[CaffeLayer]) -> None:
    """Refuses what is not known: first all types of layers at once, then fields."""
    unknown = [layer for layer in layers if layer.type not in LAYERS]
    if unknown:
        counts = Counter(layer.type for layer in unknown)
        first = {layer.type: layer.name for layer in reversed(unknown)}
        listed = ", ".join(f"{kind} ({count}, first '{first[kind]}')" for kind, count in counts.items())
        raise UnsupportedError(f"{path}: unsupported layers: {listed}; supported are: {', '.join(sorted(LAYERS))}")
    for layer in layers:
        if layer.unknown_field:
            raise UnsupportedError(layer.unknown_field)


def _input_shape(path: Path, name: str, shape: Shape | None) -> Shape:
    if shape is None:
        raise ModelError(f"{path}: the network reads the input {name!r}, which has no shape; name it in input_tensors")
    return shape


def _import_layer(linked: LinkedLayer, weights: Weights | None, writer: OnnxWriter) -> None:
    layer = linked.layer
    blobs = None if weights is None else _blobs(layer, weights)
    LAYERS[layer.type](LayerImport(layer, linked.inputs, linked.outputs, blobs, writer))


def _blobs(layer: CaffeLayer, weights: Weights) -> Sequence[Array]:
    return weights.get(layer.name, ())


def _unused(network: LinkedNetwork, weights: Weights | None) -> list[str]:
    """A note on the layers of the weights file that the network lacks."""
    known = {linked.layer.name for linked in network.layers}
    names = [name for name in weights or {} if name not in known]
    if not names:
        return []
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return [f"weights of layers that the network lacks: {', '.join(names[:SHOWN_NAMES])}{more}"]
