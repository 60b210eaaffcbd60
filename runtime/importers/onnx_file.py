"""Reads an ONNX file, with the tensors that it keeps in files beside it."""

import os
from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from runtime.errors import ModelError
from runtime.host.regular_file import open_regular
from runtime.importers.external_data import ExternalData, with_data
from runtime.importers.scopes import bodies

MAX_NAME = 4096  # characters; exporters write a few hundred
FEW_BYTES = 1 << 16  # are put into the model at once


def load_onnx(path: Path, external: bool = True) -> onnx.ModelProto:
    """The model of a file; what it keeps in files beside it is found, unless `external` is False, and read when needed.

    ModelError where it is no ONNX model, or a tensor's file is missing, short or elsewhere.
    """
    try:
        with open_regular(path) as file:
            model = onnx.load_model_from_string(file.read())
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    except DecodeError:
        raise ModelError(f"{path}: not an ONNX model, or truncated; get the file again") from None
    if not model.graph.node or not model.opset_import:
        raise ModelError(f"{path}: not an ONNX model, or truncated: it has no nodes or names no opset")
    if any(isinstance(text, bytes) or not text.isprintable() for text in _texts(model)):
        raise ModelError(f"{path}: not an ONNX model, or damaged: it holds a name that cannot be printed")
    longest = max(map(len, _texts(model)))
    if longest > MAX_NAME:
        raise ModelError(f"{path}: it holds a name of {longest} characters; supported: up to {MAX_NAME}")
    for tensor in tensors_of(model) if external else ():
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _find_external(tensor, path)
    return model


def _scopes(model: onnx.ModelProto) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    """The graph, the model's functions, and the bodies within their nodes."""
    pending: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    while pending:
        scope = pending.pop()
        yield scope
        pending += [body for node in scope.node for body in bodies(node)]


def _graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    return (scope for scope in _scopes(model) if isinstance(scope, onnx.GraphProto))


def _texts(model: onnx.ModelProto) -> Iterator[str | bytes]:
    """The names that an import reads; protobuf gives one that is no UTF-8 as bytes."""
    yield from (opset.domain for opset in model.opset_import)
    for graph in _graphs(model):
        for named in (*graph.initializer, *graph.input, *graph.output):
            yield named.name
        for value in graph.input:
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    for function in model.functions:
        yield from (function.domain, *function.input, *function.output)
    for scope in _scopes(model):
        yield scope.name
        for node in scope.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            yield from (attribute.name for attribute in node.attribute)


def tensors_of(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every constant of a model, those of functions and bodies included."""
    for graph in _graphs(model):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for scope in _scopes(model):
        for node in scope.node:
            yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


def _find_external(tensor: onnx.TensorProto, path: Path) -> None:
    """Notes where the tensor's bytes lie on this machine; they are read when they are needed.

    Their file must lie in the model's folder, links followed, and be long enough.
    """
    where = f"{path}: tensor '{tensor.name}'"
    fields = {entry.key: entry.value for entry in tensor.external_data}
    folder = path.parent.resolve()
    location = (folder / fields.get("location", "")).resolve()
    if not location.is_relative_to(folder) or location == folder:
        raise ModelError(f"{where}: its file '{fields.get('location', '')}' is not in the model's folder")
    try:
        offset, length = int(fields.get("offset", 0)), int(fields.get("length", -1))
        with open_regular(location) as file:
            left = os.fstat(file.fileno()).st_size - offset
        if offset < 0 or length < -1:
            raise ValueError
    except ValueError:
        raise ModelError(f"{where}: offset and length of its data are not numbers of bytes") from None
    except OSError as error:
        raise ModelError(f"{where}: its file '{location.name}' cannot be read: {error.strerror}") from None
    if length > left or left < 0:
        raise ModelError(f"{where}: its file '{location.name}' ends {max(length, 0) - left} bytes early")
    found = ExternalData(location, offset, left if length == -1 else length)
    del tensor.external_data[:]
    for key, value in found.entries.items():
        tensor.external_data.add(key=key, value=value)
    if found.length <= FEW_BYTES:
        tensor.CopyFrom(with_data(tensor, tensor.name))


def whole(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all bytes of its tensors, for whoever reads no files beside it; itself if it has them."""
    if all(tensor.data_location != onnx.TensorProto.EXTERNAL for tensor in tensors_of(model)):
        return model
    filled = onnx.ModelProto()
    filled.CopyFrom(model)
    for tensor in tensors_of(filled):
        tensor.CopyFrom(with_data(tensor, tensor.name))
    return filled
