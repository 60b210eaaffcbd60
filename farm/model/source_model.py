"""Reads the model of a deployment file as an ONNX model, and what it declares: for each platform that farm reads by
itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx

from farm.config.deployment import Input, Output
from farm.model.boundary import own_shape
from runtime.frameworks.model_tensors import ModelTensors
from runtime.importers.onnx_file import load_onnx
from runtime.importers.onnx_tensors import onnx_tensors


@dataclasses.dataclass(frozen=True)
class SourceModel:
    """A model as its reader brings it, and what `farm convert --explain` says of the reading, a line each."""

    model: onnx.ModelProto
    notes: tuple[str, ...] = ()


Reader = Callable[[Path, Path | None, Sequence[Input], Sequence[Output]], SourceModel]


def _read_onnx(path: Path, weights: Path | None, inputs: Sequence[Input], outputs: Sequence[Output]) -> SourceModel:
    return SourceModel(load_onnx(path))


def _read_caffe(path: Path, weights: Path | None, inputs: Sequence[Input], outputs: Sequence[Output]) -> SourceModel:
    """The deployment file's shapes replace the network's own: Caffe reshapes a network to its inputs."""
    from runtime.importers.caffe.caffe_importer import load_caffe

    shapes = {tensor.name: own_shape(tensor, "NCHW") for tensor in inputs}
    read = load_caffe(path, weights, shapes, [tensor.name for tensor in outputs])
    return SourceModel(read.model, read.notes)


def _caffe_tensors(path: Path) -> ModelTensors:
    from runtime.importers.caffe.caffe_importer import caffe_tensors

    return caffe_tensors(path)


READERS: Mapping[str, Reader] = {"onnx": _read_onnx, "caffe": _read_caffe}
DECLARATIONS: Mapping[str, Callable[[Path], ModelTensors]] = {
    "onnx": lambda path: onnx_tensors(load_onnx(path, external=False)),
    "caffe": _caffe_tensors,
}


def read_source_model(
    platform: str, path: Path, weights: Path | None, inputs: Sequence[Input], outputs: Sequence[Output]
) -> SourceModel:
    """Reads the files of a model; of a framework that `READERS` lacks, the file that framework_model.py has made.

    Raises ModelError where they are damaged or not supported.
    """
    return READERS.get(platform, _read_onnx)(path, weights, inputs, outputs)
